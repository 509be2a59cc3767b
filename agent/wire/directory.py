"""Messages of the registration service (DRS): registration, accounts, discovery, mirrors.

Times are relative: a lease lasts `lease_s` from the moment that the DRS processes the message.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from agent.wire.base import (
    Address,
    Area,
    Areas,
    Channel,
    Count,
    Identifier,
    Message,
    Name,
    PublicKeys,
    Text,
    WireStruct,
)

MAX_OFFERINGS = 64
MAX_AREAS = 4_096
MAX_CANDIDATES = 10_000

Lease = Annotated[float, Meta(ge=1.0, le=86_400.0)]
GivenLease = Annotated[float, Meta(ge=0.0, le=86_400.0)]
AccountKind = Literal["iad", "csp"]
DeniedReason = Literal[
    "unknown", "read_only", "not_authorised", "malformed", "overloaded", "not_ready"
]


class Offering(WireStruct, frozen=True):
    """A sensing capability, named like the channel that it provides, and its areas."""

    capability: Channel
    areas: Areas


Offerings = Annotated[tuple[Offering, ...], Meta(max_length=MAX_OFFERINGS)]


class Candidate(WireStruct, frozen=True):
    """A possible seller: an IAD's address, keys, and the areas that it offers of those asked.

    `areas` are the IAD's registered areas that overlap the asked ones; in the reply to `look_up`
    all its registered areas, none for a scheduling-only IAD.
    """

    iad: Name
    address: Address
    keys: PublicKeys
    areas: Annotated[tuple[Area, ...], Meta(max_length=MAX_AREAS)]


class Account(WireStruct, frozen=True):
    """A party of the market: an IAD (seller) or a CSP (buyer), and its keys. It remains until the
    party leaves, even after a lease has expired."""

    name: Name
    kind: AccountKind
    keys: PublicKeys


# --- party → DRS -------------------------------------------------------------------------------


class Register(Message, frozen=True, tag="register"):
    """An IAD's record, new or changed; it lasts `lease_s` unless renewed. No offerings: a
    scheduling-only IAD. At most 4,096 areas in all, and 16,384 with the different ones above."""

    id: Identifier
    iad: Name
    address: Address
    offerings: Offerings
    lease_s: Lease
    keys: PublicKeys = ()


class Renew(Message, frozen=True, tag="renew"):
    """Extend the IAD's record by another lease."""

    id: Identifier
    iad: Name


class Withdraw(Message, frozen=True, tag="withdraw"):
    """The IAD leaves the market."""

    id: Identifier
    iad: Name


class OpenAccount(Message, frozen=True, tag="open_account"):
    """A CSP joins the market, or changes its keys."""

    id: Identifier
    name: Name
    keys: PublicKeys = ()


class CloseAccount(Message, frozen=True, tag="close_account"):
    """A CSP leaves the market."""

    id: Identifier
    name: Name


class Discover(Message, frozen=True, tag="discover"):
    """Request all IADs that have the capability in these areas, for maximum coverage."""

    id: Identifier
    capability: Channel
    areas: Areas


class LookUp(Message, frozen=True, tag="look_up"):
    """Request the records of these IADs, scheduling-only ones included."""

    id: Identifier
    iads: Annotated[tuple[Name, ...], Meta(min_length=1, max_length=1_000)]


class ListAccounts(Message, frozen=True, tag="list_accounts"):
    """Request all parties and their keys, which a master may admit."""

    id: Identifier


class Follow(Message, frozen=True, tag="follow"):
    """A mirror requests the changes after `version` of the `epoch` that it knows."""

    id: Identifier
    epoch: Annotated[str, Meta(max_length=64)]
    version: Count


# --- DRS → party -------------------------------------------------------------------------------


class Registered(Message, frozen=True, tag="registered"):
    """The record or account is on disk. `lease_s` is the lease granted (0: none)."""

    id: Identifier
    lease_s: GivenLease


class Found(Message, frozen=True, tag="found"):
    """The matching IADs by name; `uncovered` are the asked areas that no IAD overlaps. `age_s` is
    the minimum age of a mirror's copy; 0 from the primary."""

    id: Identifier
    candidates: Annotated[tuple[Candidate, ...], Meta(max_length=MAX_CANDIDATES)]
    uncovered: Annotated[tuple[str, ...], Meta(max_length=1_024)] = ()
    age_s: float = 0.0


class Accounts(Message, frozen=True, tag="accounts"):
    """All parties."""

    id: Identifier
    accounts: tuple[Account, ...]
    age_s: float = 0.0


class DirectoryEntry(WireStruct, frozen=True):
    """A party's state after the change of that version: an IAD with its record, an account alone
    (no address), or removed. `lease_s` is the length of the record's leases; 0 without a record."""

    version: Count
    account: Account
    address: str = ""
    offerings: Offerings = ()
    lease_s: GivenLease = 0.0
    gone: bool = False


class Changes(Message, frozen=True, tag="changes"):
    """The changes that a mirror lacks. If `whole`, `entries` is everything: drop the rest."""

    id: Identifier
    epoch: Identifier
    version: Count
    whole: bool
    entries: tuple[DirectoryEntry, ...]


class Denied(Message, frozen=True, tag="denied"):
    """The DRS refused the request. `unknown`: no such record (register again); `read_only`: a
    mirror; `not_authorised`: the key or the name belongs to another party; `malformed`;
    `overloaded`: the directory is full, or too many requests or replies of this sender wait;
    `not_ready`: try later, for instance a mirror before its first copy."""

    id: Annotated[str, Meta(max_length=64)]
    reason: DeniedReason
    message: Text


DirectoryRequest = (
    Register
    | Renew
    | Withdraw
    | OpenAccount
    | CloseAccount
    | Discover
    | LookUp
    | ListAccounts
    | Follow
)
DirectoryReply = Registered | Found | Accounts | Changes | Denied
