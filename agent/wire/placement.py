"""Placement messages: masters tell each other what they have and measure; an operator pins units,
closes a master, and hands in plans."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from msgspec import Meta, field

from agent.wire.base import Count, Finite, Identifier, MaybeName, Message, Name, Text, WireStruct
from agent.wire.messages import Slo

# Facts fit a request, whatever the names are (`MAX_REQUEST_BYTES`).
MAX_PLACED: Final = 1_024  # moves of a plan, topics that are heard
MAX_TOLD_MASTERS: Final = 512
# More than fit a request at their longest: the sender leaves some out then.
MAX_TOPICS: Final = 1_280
MAX_HOMES: Final = 128
MAX_NAME: Final = 160
MAX_PINS: Final = 256
MAX_SOURCES: Final = 8  # of a topic: the largest
MAX_PEERS: Final = 32  # topics that a topic hears: the largest
MAX_CHOICES: Final = 16  # masters and topics of a home
MAX_TOLD_MOVES: Final = 128
MAX_COSTS: Final = 120
MAX_HELD: Final = 256  # units that stay while one moves

Kind = Literal["home", "processor", "clone"]
# A frozen master neither takes nor gives units; a draining one takes none, and gives all.
Mode = Literal["open", "frozen", "draining"]
GrantStep = Literal["ask", "keep", "end"]
MAX_AMOUNT: Final = 1e18
Amount = Annotated[float, Meta(ge=0.0, le=MAX_AMOUNT)]
# The name of a master, or none.
Named = Annotated[str, Meta(min_length=1, max_length=MAX_NAME)]


class UnitName(WireStruct, frozen=True, order=True):
    """A unit that lives on one master at a time: home of a client, processor of a topic, or the
    clone of a device."""

    kind: Kind
    name: Named


class Source(WireStruct, frozen=True):
    """Messages a second that come to a topic by way of this IAD."""

    iad: Name
    per_s: Amount


class PeerRate(WireStruct, frozen=True):
    """Messages a second that a topic takes of what another one puts out, by way of this IAD."""

    topic: Name
    per_s: Amount
    iad: MaybeName = ""


class TopicFacts(WireStruct, frozen=True, omit_defaults=True):
    """A topic of the master that tells: where its messages come from, the mean CPU time of one, the
    percentile of their latencies that its objective names, and the bytes of state and inbox.
    `per_s`: messages a second from all, where `sources` lacks some. What `peers` put out is in
    neither. It has a standby at `standby`; it was taken over from `taken_from`."""

    name: Name
    sources: Annotated[tuple[Source, ...], Meta(max_length=MAX_SOURCES)] = ()
    processor: Annotated[str, Meta(max_length=64)] = ""
    cpu_ms: Amount | None = None
    latency_ms: Amount | None = None
    state_bytes: Amount = 0.0
    slo: Slo | None = None
    per_s: Amount | None = None
    peers: Annotated[tuple[PeerRate, ...], Meta(max_length=MAX_PEERS)] = ()
    standby: MaybeName = ""
    taken_from: MaybeName = ""
    taken_ms: Count | None = None


class Listeners(WireStruct, frozen=True):
    """How many subscribers of the master that tells name this topic."""

    topic: Name
    count: Count


class Delay(WireStruct, frozen=True):
    """One way from the master that tells to another one: half a round trip, of those of the last
    minutes; the last was `age_s` ago."""

    iad: Name
    p50_ms: Amount
    p90_ms: Amount
    age_s: Amount = 0.0


class HomeFacts(WireStruct, frozen=True, omit_defaults=True):
    """A client that lives at the master that tells and may live at others: the delay to each, and
    the topics that it publishes to (messages a second) and hears. `exchanges`: messages a second
    that pass between it and this IAD's master besides, by way of its home."""

    name: Named
    delays_ms: Annotated[dict[Name, Amount], Meta(max_length=MAX_CHOICES)]
    age_s: Amount = 0.0
    publishes: Annotated[dict[Name, Amount], Meta(max_length=MAX_CHOICES)] = field(
        default_factory=dict
    )
    hears: Annotated[tuple[Name, ...], Meta(max_length=MAX_CHOICES)] = ()
    exchanges: Annotated[tuple[Source, ...], Meta(max_length=MAX_SOURCES)] = ()


class PinnedUnit(WireStruct, frozen=True):
    """An operator's word: the unit lives at this master; empty: its pin was taken away. The word of
    the master where a unit lives counts."""

    unit: UnitName
    iad: MaybeName


# --- master → master -----------------------------------------------------------------------------


class PlacementFacts(Message, frozen=True, tag="placement_facts", omit_defaults=True):
    """A master's state and measurements. `epoch` is greater than that of any earlier process of it,
    `number` counts its messages; the next one comes in `next_s`. Limits that are absent are
    none. `wants`: it has something to place, or somebody looks, and wants to hear the same.
    `delegate`: the master that takes what no other has room for."""

    iad: Name
    epoch: Count
    number: Count
    next_s: Annotated[float, Meta(gt=0.0, le=86_400.0)]
    cores: Annotated[int, Meta(ge=1, le=65_536)] = 1
    mode: Mode = "open"
    compute: Amount | None = None
    storage_bytes: Amount | None = None
    most_processors: Count | None = None
    opening_cost: Amount = 0.0
    topics: Annotated[tuple[TopicFacts, ...], Meta(max_length=MAX_TOPICS)] = ()
    listeners: Annotated[tuple[Listeners, ...], Meta(max_length=MAX_PLACED)] = ()
    homes: Annotated[tuple[HomeFacts, ...], Meta(max_length=MAX_HOMES)] = ()
    delays: Annotated[tuple[Delay, ...], Meta(max_length=MAX_TOLD_MASTERS)] = ()
    pins: Annotated[tuple[PinnedUnit, ...], Meta(max_length=MAX_PINS)] = ()
    wants: bool = False
    delegate: MaybeName = ""


class SameFacts(Message, frozen=True, tag="same_facts"):
    """This master's message number `same_as` stands, as good as unchanged; the rest is as
    in `PlacementFacts`. Who has not got those does not echo this, and is told all again."""

    iad: Name
    epoch: Count
    number: Count
    next_s: Annotated[float, Meta(gt=0.0, le=86_400.0)]
    same_as: Count


class PlacementEcho(Message, frozen=True, tag="placement_echo", omit_defaults=True):
    """The facts with this number have come: the sender measures the round trip. `short`: the
    receiver of the facts knows `SameFacts`."""

    epoch: Count
    number: Count
    short: bool = False


class AskGrant(Message, frozen=True, tag="ask_grant", omit_defaults=True):
    """The master `iad` wants to move a unit to `target` because that is cheaper, which is its
    `number`th such move: the target and the masters of the unit's peers are asked to grant it, and
    to keep `held` where they are (`ask`), are told that it begins or goes on (`keep`, with the
    `token` of the grant), and that it is over (`end`). Without a `keep` a grant ends by itself."""

    iad: Name
    epoch: Count
    number: Count
    unit: UnitName
    target: Name
    step: GrantStep
    held: Annotated[tuple[UnitName, ...], Meta(max_length=MAX_HELD)] = ()
    token: Count = 0


class GrantTold(Message, frozen=True, tag="grant_told", omit_defaults=True):
    """Answer to `ask_grant`, with its `epoch`, `number` and `step`: whether it is granted, or why
    not, and the newest facts of the master that answers."""

    iad: Name
    epoch: Count
    number: Count
    step: GrantStep
    granted: bool
    token: Count = 0
    message: Text = ""
    facts: PlacementFacts | None = None


# --- operator → master ---------------------------------------------------------------------------


class ShowPlacement(Message, frozen=True, tag="show_placement"):
    """Request what this master knows of itself and of the others."""

    id: Identifier


class PinUnit(Message, frozen=True, tag="pin_unit", omit_defaults=True):
    """Pin a unit that lives here to a master, which moves it there; without `iad` take the pin
    away."""

    id: Identifier
    unit: UnitName
    iad: MaybeName = ""


class SetPlacementMode(Message, frozen=True, tag="set_placement_mode"):
    """Open, freeze or drain the master that is asked, which `iad` names."""

    id: Identifier
    iad: Name
    mode: Mode


class PlannedMove(WireStruct, frozen=True, omit_defaults=True):
    """A move of a plan; `gain` is by how much it lowers the cost, in seconds of delay a second."""

    unit: UnitName
    source: Name
    target: Name
    gain: Finite = 0.0


class ApplyPlan(Message, frozen=True, tag="apply_plan"):
    """Check a plan against the placement as it is, and make those of its moves that begin at this
    master. All of it is refused if a move does not fit."""

    id: Identifier
    moves: Annotated[tuple[PlannedMove, ...], Meta(min_length=1, max_length=MAX_PLACED)]


class KnownFacts(WireStruct, frozen=True):
    """A master's message, `age_s` seconds old; one that is `silent` takes no units."""

    facts: PlacementFacts
    age_s: Amount
    silent: bool = False


class MoveTold(WireStruct, frozen=True, omit_defaults=True):
    """A move from the master that is asked: under way, waiting, or over. `gain`: by how much it
    lowers the cost, as the master saw it when it began."""

    unit: UnitName
    source: Name
    target: Name
    reason: Text
    state: Text
    pause_ms: Finite | None = None
    trouble: Text = ""
    gain: Finite | None = None


class CostAt(WireStruct, frozen=True):
    """Cost of the placement `age_s` ago, in seconds of delay a second; none if a limit or an
    objective was not kept."""

    age_s: Amount
    cost: Amount | None


class PlacementReport(Message, frozen=True, tag="placement_report", omit_defaults=True):
    """The result of a placement request, and what the master `iad` knows now, its own facts
    first. `move_cost` is what a move of drift has to gain more than, `costs` what the placement
    cost lately, the oldest first. If not `ok`, `message` says why."""

    id: Annotated[str, Meta(max_length=64)]
    ok: bool
    iad: Name
    known: Annotated[tuple[KnownFacts, ...], Meta(max_length=MAX_TOLD_MASTERS)] = ()
    moves: Annotated[tuple[MoveTold, ...], Meta(max_length=MAX_TOLD_MOVES)] = ()
    move_cost: Amount = 0.0
    message: Text = ""
    costs: Annotated[tuple[CostAt, ...], Meta(max_length=MAX_COSTS)] = ()


PlacementChange = PinUnit | SetPlacementMode | ApplyPlan
PlacementRequest = PlacementChange | ShowPlacement
