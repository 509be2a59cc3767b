"""Clone messages: an operator has clones of devices made at their home master; masters tell each
other under which topics clones go, and end those of devices of theirs that live elsewhere."""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta, field

from agent.wire.base import (
    MAX_AREAS,
    Area,
    Channel,
    Channels,
    Count,
    Finite,
    Identifier,
    MaybeName,
    Message,
    Name,
    Text,
    WallMs,
    WireStruct,
)
from agent.wire.messages import Slo
from agent.wire.predicates import Attribute, Value
from agent.wire.topics import (
    MAX_PARAMETERS,
    MAX_PEERS,
    Interval,
    Parameter,
)

MAX_CLONES: Final = 1_024
# IAD and node.
Device = Annotated[str, Meta(pattern=r"^[A-Za-z0-9_.-]{1,64}/[A-Za-z0-9_.-]{1,64}$(?!\n)")]
# SHA-256 of a device's name, in hexadecimal.
Digest = Annotated[str, Meta(pattern=r"^[0-9a-f]{64}$(?!\n)")]


class CloneOf(WireStruct, frozen=True, omit_defaults=True):
    """The clone of a device, as its owner wants it. Every `every_s` seconds its home master reads
    the device's `channels` (empty: all) of `service`. `peers` are devices whose clones it hears,
    `peers_where` is a filter of what clones put out. It `leaves` its IAD only if that says so. The
    rest is as for topics. `areas`: what the device covers; empty: as its master knows it.
    `standby`: it outlives the master where it lives."""

    device: Device
    processor: Name
    parameters: Annotated[dict[Channel, Parameter], Meta(max_length=MAX_PARAMETERS)] = field(
        default_factory=dict
    )
    every_s: Interval = 1.0
    channels: Channels = ()
    service: Name = "default"
    peers: Annotated[tuple[Device, ...], Meta(max_length=MAX_PEERS)] = ()
    peers_where: Text = ""
    leaves: bool = False
    slo: Slo | None = None
    limits: Annotated[dict[Channel, Finite], Meta(max_length=MAX_PARAMETERS)] = field(
        default_factory=dict
    )
    areas: Annotated[tuple[Area, ...], Meta(max_length=MAX_AREAS)] = ()
    standby: bool = False

    def __post_init__(self) -> None:
        if self.standby and not self.leaves:
            raise ValueError("a standby is at another IAD: only a clone that leaves has one")


class CloneStatus(WireStruct, frozen=True, omit_defaults=True):
    """A clone, its `topic`, the state of its anchor, and where it lives now, if that is known.
    `rounds` and `rounds_failed` count the readings taken for it since it was created, `outputs`
    what it put out; the last one stands in `output`, with its time. `trouble`: what is wrong, in
    words. `waiting`: sets of values that the device has not taken yet."""

    clone: CloneOf
    topic: Name
    state: Text
    iad: MaybeName = ""
    rounds: Count = 0
    rounds_failed: Count = 0
    outputs: Count = 0
    output: dict[Attribute, Value] = field(default_factory=dict)
    output_ms: WallMs | None = None
    trouble: Text = ""
    waiting: Count = 0


# --- operator → master ---------------------------------------------------------------------------


class CreateClone(Message, frozen=True, tag="create_clone"):
    """Have a clone of a device of this master from now on. The same again changes nothing; another
    one of that device is refused."""

    id: Identifier
    clone: CloneOf


class RemoveClone(Message, frozen=True, tag="remove_clone"):
    """End a clone, wherever it lives, with its state."""

    id: Identifier
    device: Device


class ListClones(Message, frozen=True, tag="list_clones"):
    """Request the clones of this master's devices."""

    id: Identifier


class CloneReport(Message, frozen=True, tag="clone_report", omit_defaults=True):
    """The result of a clone request: the clone created, or all of them. If not `ok`, `message` says
    why."""

    id: Annotated[str, Meta(max_length=64)]
    ok: bool
    clones: Annotated[tuple[CloneStatus, ...], Meta(max_length=MAX_CLONES)] = ()
    message: Text = ""


# --- master → master -----------------------------------------------------------------------------


class ResolveClones(Message, frozen=True, tag="resolve_clones"):
    """Request the topics under which the clones of these devices of the asked master go, or will.
    Names do not travel."""

    id: Identifier
    iad: Name
    devices: Annotated[tuple[Digest, ...], Meta(min_length=1, max_length=MAX_PEERS)]


class ClonesResolved(Message, frozen=True, tag="clones_resolved", omit_defaults=True):
    """These topics, in order; an empty one for a device whose clone does not leave its IAD."""

    id: Annotated[str, Meta(max_length=64)]
    topics: Annotated[tuple[MaybeName, ...], Meta(max_length=MAX_PEERS)] = ()


class EndClone(Message, frozen=True, tag="end_clone"):
    """End a clone that lives at the asked master; `iad` is its home."""

    id: Identifier
    iad: Name
    topic: Name


class CloneEnded(Message, frozen=True, tag="clone_ended", omit_defaults=True):
    """It is no more, on disk; or it lives at `moved`, or `message` says why it is still there."""

    id: Annotated[str, Meta(max_length=64)]
    topic: Name
    ok: bool
    moved: MaybeName = ""
    message: Text = ""


CloneChange = CreateClone | RemoveClone
CloneRequest = CloneChange | ListClones
CloneQuestion = ResolveClones | EndClone
CloneAnswer = ClonesResolved | CloneEnded
