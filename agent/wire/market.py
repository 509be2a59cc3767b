"""Market messages between masters: negotiate a service and form its IAD pool (DSSP)."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import UNSET, Meta, UnsetType

from agent.wire.base import (
    MAX_TIMEOUT_MS,
    Address,
    Area,
    Areas,
    Channel,
    Count,
    Identifier,
    MaybeName,
    Message,
    Name,
    Percentile,
    PublicKeys,
    Text,
    WireStruct,
)

MAX_MEMBERS = 500

Rate = Annotated[float, Meta(gt=0.0, le=1e6)]


class Terms(WireStruct, frozen=True):
    """The load that an IAD agrees to: at most `rate_per_s` tasks (λ_t), each with the budget that
    the `percentile`-th percentile (p̄_t) takes at most `budget_ms` (x̄)."""

    rate_per_s: Rate
    percentile: Percentile
    budget_ms: Annotated[float, Meta(gt=0.0, le=MAX_TIMEOUT_MS)]


class Member(WireStruct, frozen=True):
    """An IAD of a pool; without areas it only schedules. `rate_per_s` is its share's λ_t."""

    iad: Name
    address: Address
    areas: Annotated[tuple[Area, ...], Meta(max_length=1_024)] = ()
    keys: PublicKeys = ()
    rate_per_s: Annotated[float, Meta(ge=0.0, le=1e6)] = 0.0


class Service(WireStruct, frozen=True):
    """One instance of a service. Every member has a copy; the higher `version` wins. Members are
    unique.

    `capability` is the one channel that it provides (empty: all). `redundant`: where two IADs cover
    an area, both are queried and the first answer wins.
    """

    id: Name
    owner: Name
    version: Count
    members: Annotated[tuple[Member, ...], Meta(max_length=MAX_MEMBERS)]
    capability: Annotated[str, Meta(pattern=r"^([a-z][a-z0-9_]{0,31})?$(?!\n)")] = ""
    terms: Terms | None = None
    redundant: bool = False

    def __post_init__(self) -> None:
        if len({member.iad for member in self.members}) < len(self.members):
            raise ValueError("the pool names an IAD twice")


# --- buyer → seller ----------------------------------------------------------------------------


class Propose(Message, frozen=True, tag="propose"):
    """Propose terms for serving a service. An acceptance holds the resources for a while."""

    id: Identifier
    service: Name
    capability: Channel
    areas: Areas
    terms: Terms


class Release(Message, frozen=True, tag="release"):
    """Release the resources held by an acceptance. No reply."""

    id: Identifier
    service: Name


class Join(Message, frozen=True, tag="join"):
    """The receiver is a member of the pool: provision, and serve the service from now on. Sent
    again with a higher version whenever the pool changes."""

    id: Identifier
    service: Service


class Leave(Message, frozen=True, tag="leave", omit_defaults=True):
    """The receiver is no longer a member (`version` is that of the pool without it) and finishes
    its open tasks. It stays a member of the service of that name of another `owner`; earlier
    versions do not say whose it is."""

    id: Identifier
    service: Name
    version: Count
    owner: MaybeName = ""


# --- seller → buyer ----------------------------------------------------------------------------


class Offer(Message, frozen=True, tag="offer"):
    """Accepted (held for `hold_s`), countered with terms that the seller would accept, or refused:
    for good, or, with `retry_s`, while its nodes are still joining; then the buyer may repeat the
    proposal after that many seconds."""

    id: Identifier
    verdict: Literal["accepted", "countered", "refused"]
    hold_s: float = 0.0
    counter: Terms | None = None
    message: Text = ""
    retry_s: float | UnsetType = UNSET


class Joined(Message, frozen=True, tag="joined"):
    """The member serves or has left; otherwise `ok` is false and `message` gives the reason."""

    id: Identifier
    ok: bool
    message: Text = ""


MarketRequest = Propose | Release | Join | Leave
MarketReply = Offer | Joined
