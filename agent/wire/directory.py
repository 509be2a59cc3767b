"""Between masters and the registration service (DRS): registration, accounts, discovery, mirrors.

Times are relative: a lease lasts `lease_s` from the moment that the DRS takes the message.
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
    Part,
    PublicKeys,
    Text,
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


class Offering(Part, frozen=True):
    """A sensing capability, named like the channel that it gives, and the areas where it is."""

    capability: Channel
    areas: Areas


Offerings = Annotated[tuple[Offering, ...], Meta(max_length=MAX_OFFERINGS)]


class Candidate(Part, frozen=True):
    """An IAD that may sell: where its master is, its keys, and the areas it offers of those asked.

    `areas` are what the IAD registered, as far as they overlap the asked ones; all that it
    registered in the reply to `look_up`, so that a scheduling-only IAD has none.
    """

    iad: Name
    address: Address
    keys: PublicKeys
    areas: Annotated[tuple[Area, ...], Meta(max_length=MAX_AREAS)]


class Account(Part, frozen=True):
    """A party of the market: an IAD (seller) or a CSP (buyer), and its keys. It stays until the
    party leaves: that a lease ends does not close it."""

    name: Name
    kind: AccountKind
    keys: PublicKeys


# --- party → DRS -------------------------------------------------------------------------------


class Register(Message, frozen=True, tag="register"):
    """An IAD's record, new or changed; it lasts `lease_s` unless renewed. No offerings: a
    scheduling-only IAD. At most 4,096 areas in all."""

    id: Identifier
    iad: Name
    address: Address
    offerings: Offerings
    lease_s: Lease
    keys: PublicKeys = ()


class Renew(Message, frozen=True, tag="renew"):
    """The IAD's record stays for another lease."""

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
    """Which IADs have the capability in these areas? All of them: the maximum coverage."""

    id: Identifier
    capability: Channel
    areas: Areas


class LookUp(Message, frozen=True, tag="look_up"):
    """The records of these IADs, scheduling-only ones included."""

    id: Identifier
    iads: Annotated[tuple[Name, ...], Meta(min_length=1, max_length=1_000)]


class ListAccounts(Message, frozen=True, tag="list_accounts"):
    """All parties and their keys: whom a master may let in."""

    id: Identifier


class Follow(Message, frozen=True, tag="follow"):
    """A mirror asks for what changed after `version` of the `epoch` that it knows."""

    id: Identifier
    epoch: Annotated[str, Meta(max_length=64)]
    version: Count


# --- DRS → party -------------------------------------------------------------------------------


class Registered(Message, frozen=True, tag="registered"):
    """Done: the record or account is on disk. `lease_s` is the lease that was given (0: none)."""

    id: Identifier
    lease_s: GivenLease


class Found(Message, frozen=True, tag="found"):
    """The matching IADs by name; `uncovered` are the asked areas that nobody covers in part or
    whole. `age_s` is how old a mirror's copy is, at least; 0 from the primary."""

    id: Identifier
    candidates: Annotated[tuple[Candidate, ...], Meta(max_length=MAX_CANDIDATES)]
    uncovered: Annotated[tuple[str, ...], Meta(max_length=1_024)] = ()
    age_s: float = 0.0


class Accounts(Message, frozen=True, tag="accounts"):
    """All parties."""

    id: Identifier
    accounts: tuple[Account, ...]
    age_s: float = 0.0


class DirectoryEntry(Part, frozen=True):
    """A party as the change of that version left it: an IAD with its record, an account alone
    (no address), or gone. `lease_s` is what the record's leases last; 0 without a record."""

    version: Count
    account: Account
    address: str = ""
    offerings: Offerings = ()
    lease_s: GivenLease = 0.0
    gone: bool = False


class Changes(Message, frozen=True, tag="changes"):
    """What a mirror lacks. `whole` says that `entries` is everything: forget the rest."""

    id: Identifier
    epoch: Identifier
    version: Count
    whole: bool
    entries: tuple[DirectoryEntry, ...]


class Denied(Message, frozen=True, tag="denied"):
    """The DRS did not do it. `unknown`: no such record (register again); `read_only`: a mirror;
    `not_authorised`: the key or the name is another party's; `malformed`; `overloaded`: the
    directory is full; `not_ready`: it cannot now, such as a mirror before its first copy."""

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
