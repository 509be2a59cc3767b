"""Messages between an edge node and its master; conventions as in `agent.wire.messages`."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from msgspec import Meta, field

from agent.wire.about import Units
from agent.wire.base import (
    MAX_EVENT_AREAS,
    MAX_EVENTS,
    MAX_MASTERS,
    Area,
    Areas,
    Channels,
    Count,
    Finite,
    Identifier,
    Message,
    Name,
    Running,
    SubtaskForm,
    SubtaskId,
    Text,
    WallMs,
    WireStruct,
)
from agent.wire.buckets import BucketMs, Buckets, check_buckets
from agent.wire.codec import JSON, MAX_BULK_VALUES
from agent.wire.derived import Derived, DerivedTaken
from agent.wire.messages import Aggregate, Series, Window

# --- edge node → master ------------------------------------------------------------------------


class Hello(Message, frozen=True, tag="hello", omit_defaults=True):
    """A node introduces itself; sent again after each cut of the link.

    `incarnation` is random per process start, `history` per history file. `running` names the
    subtasks that its pods are serving or whose results it still holds. `version` is that of the
    wire format, `release` that of the agent, empty when it runs from a checkout. `masters` are the
    IADs between which its home may move, this one included; empty: it has no choice. `followed`: it
    came on its own, since its home was silent for long. `takes_derived`: it supports `derived`.
    `units` are those of its channels, as their drivers name them. `makes_buckets`: it supports that
    form; others are asked for series in its place.
    """

    node: Name
    incarnation: Identifier
    history: Identifier
    areas: Areas
    channels: Channels
    pods: Annotated[int, Meta(ge=1, le=256)]
    version: Text
    emulates: Text = ""
    running: Running = ()
    release: Text = ""
    masters: Annotated[tuple[Name, ...], Meta(max_length=MAX_MASTERS)] = ()
    followed: bool = False
    takes_derived: bool = False
    units: Units = field(default_factory=dict)
    makes_buckets: bool = False


class Heartbeat(Message, frozen=True, tag="heartbeat", omit_defaults=True):
    """Both directions: the sender is alive; `incarnation` is the node's. From the node, `running`
    names, as in its hello, the subtasks that the master must not consider lost."""

    incarnation: Identifier
    running: Running | None = None


class Goodbye(Message, frozen=True, tag="goodbye", omit_defaults=True):
    """The node is stopping on purpose. `node` is its name, for a master that has just started and
    had no hello of it; empty from an agent of an earlier version."""

    incarnation: Identifier
    node: Annotated[str, Meta(max_length=64)] = ""


class PodsSet(Message, frozen=True, tag="pods_set"):
    """The number of pods that the node has from now on."""

    incarnation: Identifier
    count: Annotated[int, Meta(ge=1, le=256)]


class TooLarge(WireStruct, frozen=True):
    """A series of about this many bytes exceeds a frame; one over a window of `longest_s` seconds
    would fit."""

    bytes: Count
    longest_s: Finite


class SubtaskResult(Message, frozen=True, tag="subtask_result", omit_defaults=True):
    """The result of a subtask. `wait_ms` is from received to started, `execution_ms` from started
    to finished, both on the node's clock. `too_large` gives the reason of an `error`; a master of
    an earlier version reads only the `message`."""

    id: SubtaskId
    outcome: Literal["ok", "no_data", "error"]
    wait_ms: Finite
    execution_ms: Finite
    series: Series | None = None
    aggregate: Aggregate | None = None
    message: Text = ""
    too_large: TooLarge | None = None
    buckets: Buckets | None = None


class NodeEvent(WireStruct, frozen=True, omit_defaults=True):
    """Something that happened at a node, such as the start of a sensor's fault. It is identified by
    (node, history, `sequence`), also when sent again. Events and readings are numbered separately.
    Events of a `trigger` name it and the `areas` that they concern; `value` is that of the channel
    that caused it, if known."""

    sequence: SubtaskId
    kind: Name
    time_ms: WallMs
    synchronised: bool
    sensor: Annotated[str, Meta(max_length=64)] = ""
    channel: Annotated[str, Meta(max_length=32)] = ""
    text: Text = ""
    trigger: Annotated[str, Meta(max_length=64)] = ""
    value: Finite | None = None
    areas: Annotated[tuple[Area, ...], Meta(max_length=MAX_EVENT_AREAS)] = ()


class NodeEvents(Message, frozen=True, tag="node_events", omit_defaults=True):
    """Events that the master has not acknowledged yet, live ones before the backlog; answered with
    `events_taken`, or sent again. `backlog` is how many more wait; `dropped` counts those that the
    node has dropped for lack of room since its history began. No event below the sequence `oldest`
    waits or ever will, so the master can forget which of them it has."""

    incarnation: Identifier
    history: Identifier
    events: Annotated[tuple[NodeEvent, ...], Meta(min_length=1, max_length=MAX_EVENTS)]
    backlog: Count = 0
    dropped: Count = 0
    oldest: SubtaskId = 0


# --- master → edge node ------------------------------------------------------------------------


class Welcome(Message, frozen=True, tag="welcome", omit_defaults=True):
    """The master accepted the node and expects a heartbeat every `heartbeat_s` seconds.
    `takes_events`: it supports `node_events`. Of the history in the hello it knows events up to the
    sequence `events_to`, and expects none below `events_settled`: a node whose own end before, or
    still wait below, was put back from an older copy, and numbers what waits anew."""

    incarnation: Identifier
    heartbeat_s: Annotated[float, Meta(gt=0.0, le=3600.0)]
    takes_events: bool = False
    events_to: Count = 0
    events_settled: Count = 0


class EventsTaken(Message, frozen=True, tag="events_taken"):
    """The master has these events on stable storage: the node may delete them."""

    incarnation: Identifier
    history: Identifier
    sequences: Annotated[tuple[SubtaskId, ...], Meta(min_length=1, max_length=MAX_EVENTS)]


class HelloWanted(Message, frozen=True, tag="hello_wanted"):
    """The master does not know this link (it restarted, or the node timed out): send a hello."""


class Rejected(Message, frozen=True, tag="rejected"):
    """The master cannot accept the node's message; `message` gives the reason."""

    message: Text


class SetPods(Message, frozen=True, tag="set_pods"):
    """Run `count` pods from now on; answered with `pods_set`. A busy pod finishes first."""

    count: Annotated[int, Meta(ge=1, le=256)]


class HomeMoved(Message, frozen=True, tag="home_moved"):
    """The node's home is the master of IAD `master` from now on, one of `Hello.masters`: say
    goodbye and go there. Said again after each welcome. This master takes no events of it any
    more."""

    incarnation: Identifier
    master: Name


class Subtask(Message, frozen=True, tag="subtask", omit_defaults=True):
    """One node's share of a task, for one idle pod."""

    id: SubtaskId
    window: Window
    channels: Channels = ()
    form: SubtaskForm = "series"
    emulation_seed: Annotated[int, Meta(ge=0, lt=2**53)] | None = None
    bucket_ms: BucketMs = 0

    def __post_init__(self) -> None:
        check_buckets(self.form, self.window, self.bucket_ms)


# In MessagePack readings are packed, and no message has many values.
NODE_BULK: Final = {(JSON, "subtask_result"): MAX_BULK_VALUES}
NodeMessage = Hello | Heartbeat | Goodbye | PodsSet | SubtaskResult | NodeEvents | DerivedTaken
MasterMessage = (
    Welcome | Heartbeat | HelloWanted | Rejected | SetPods | Subtask | EventsTaken | HomeMoved
    | Derived
)  # fmt: skip
