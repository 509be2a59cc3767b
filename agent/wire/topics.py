"""Topic messages: an operator creates topics, clients publish to them.

What a topic puts out are notifications with the attributes `topic` and `kind` "output": clients
subscribe to them as to alerts (`agent.wire.push`).
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, field

from agent.wire.base import (
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
    WireStruct,
)
from agent.wire.messages import Slo
from agent.wire.predicates import (
    MAX_CONJUNCTIONS,
    MAX_OPERANDS,
    MAX_PREDICATES,
    Attribute,
    Filter,
    Value,
)

MAX_TOPIC_AREAS = 256
MAX_PARAMETERS = 32
# A notification has 32 attributes; three of them are the master's.
MAX_PUBLISHED = 29
Parameter = Value | Annotated[tuple[Value, ...], Meta(max_length=MAX_OPERANDS)]
Interval = Annotated[float, Meta(ge=0.1, le=86_400.0)]


# Of a clone, beside those that its master adds to the filter of its inbox.
MAX_PEERS = MAX_OPERANDS
MAX_WHERE = MAX_CONJUNCTIONS - 2
MAX_WHERE_PREDICATES = MAX_PREDICATES - 3
# What topics of such names put out stays at their IAD.
STAYS = "clone."


class Clone(WireStruct, frozen=True, omit_defaults=True):
    """Attributes that make a topic a clone of a device. The master of `home` gives it the device's
    readings, without the device's name or areas. Besides, it hears what the topics `peers` put out,
    and what matches `peers_where`: of clones, and of these only what they made of readings. One
    that does not leave lives at `home`, and what it puts out stays there."""

    home: Name
    leaves: bool = False
    peers: Annotated[tuple[Name, ...], Meta(max_length=MAX_PEERS)] = ()
    peers_where: Filter | None = None

    def __post_init__(self) -> None:
        where = self.peers_where or ()
        if len(where) > MAX_WHERE or any(len(each) > MAX_WHERE_PREDICATES for each in where):
            raise ValueError(
                "peers_where has too many parts; name the peers, or take a shorter one"
            )


class Topic(WireStruct, frozen=True, omit_defaults=True):
    """Inputs of a topic, and their processing. Every `every_s` seconds the master queries
    `areas` for `channels` (empty: all) of `service`; besides, clients publish to it. Each message
    goes through `processor`; without one, messages are put out as they are published. `slo`: in
    which time after its arrival the percentile of the messages is to be processed. `limits`: what
    the processor may take, where that is not the usual (docs/use/processors.md). `clone`: it is
    that of a device. `standby`: another master is to take it over if this one dies."""

    name: Name
    areas: Annotated[tuple[Area, ...], Meta(max_length=MAX_TOPIC_AREAS)] = ()
    channels: Channels = ()
    every_s: Interval | None = None
    processor: MaybeName = ""
    parameters: Annotated[dict[Channel, Parameter], Meta(max_length=MAX_PARAMETERS)] = field(
        default_factory=dict
    )
    slo: Slo | None = None
    service: Name = "default"
    limits: Annotated[dict[Channel, Finite], Meta(max_length=MAX_PARAMETERS)] = field(
        default_factory=dict
    )
    clone: Clone | None = None
    standby: bool = False

    def __post_init__(self) -> None:
        if self.standby and self.clone is not None and not self.clone.leaves:
            raise ValueError("a clone that does not leave its IAD has no standby elsewhere")
        if self.clone is not None and (self.areas or not self.processor):
            raise ValueError("a clone has a processor, and no areas: its home master reads them")
        if self.clone is not None and self.name.startswith(STAYS) == self.clone.leaves:
            raise ValueError(
                f"the name of a clone begins with {STAYS} if it does not leave its IAD"
            )
        if bool(self.areas) != (self.every_s is not None):
            raise ValueError("a topic has both areas and every_s, or neither")
        if not self.processor:
            if self.areas:
                raise ValueError("readings need a processor to make messages of them")
            if self.parameters or self.limits or self.slo is not None:
                raise ValueError("parameters and slo are a processor's, limits too; there is none")


class TopicStatus(WireStruct, frozen=True, omit_defaults=True):
    """A topic and how it does. `received`, `put_out` and `missed` count published messages taken
    in, notifications made, and messages that the overlay or a full inbox lost; `rounds` and
    `rounds_failed` its queries. Of the processor, all since it was started here: its `state`
    ("none" without one), messages `waiting`, processed, too late, failed and skipped; `latency_ms`
    is the percentile of the objective, `cpu_ms` the mean of a message. `trouble`: what is wrong,
    in words. Messages that `arrived` at the processor, and `cpu_s` that all of them took. Where its
    `standby` is, and how it does. It was taken over from `taken_from`, which was dead, at
    `taken_ms`. It is `delegated` to this master, and why. `last_failure`: what failed last of a
    processor that is well again, or the last message that it could not take."""

    topic: Topic
    state: Text
    received: Count = 0
    put_out: Count = 0
    missed: Count = 0
    rounds: Count = 0
    rounds_failed: Count = 0
    waiting: Count = 0
    processed: Count = 0
    late: Count = 0
    failed: Count = 0
    skipped: Count = 0
    latency_ms: Finite | None = None
    cpu_ms: Finite | None = None
    trouble: Text = ""
    arrived: Count = 0
    cpu_s: Finite = 0.0
    standby: Text = ""
    taken_from: Text = ""
    taken_ms: Count | None = None
    delegated: Text = ""
    last_failure: Text = ""


# --- operator → master ---------------------------------------------------------------------------


class CreateTopic(Message, frozen=True, tag="create_topic"):
    """Have this master keep a topic from now on. The same topic again changes nothing; another
    one of its name is refused."""

    id: Identifier
    topic: Topic


class RemoveTopic(Message, frozen=True, tag="remove_topic"):
    """End a topic, with its processor's state and everything that waits for it."""

    id: Identifier
    name: Name


class EnableTopic(Message, frozen=True, tag="enable_topic"):
    """Start the topic's processor again, which was disabled after too many failures or pauses."""

    id: Identifier
    name: Name


class ListTopics(Message, frozen=True, tag="list_topics"):
    """Request the topics that this master keeps."""

    id: Identifier


class TopicReport(Message, frozen=True, tag="topic_report", omit_defaults=True):
    """The result of a topic request: the topic created, or all of them, and by name the IADs to
    which others have moved from here. If not `ok`, `message` says why."""

    id: Annotated[str, Meta(max_length=64)]
    ok: bool
    topics: tuple[TopicStatus, ...] = ()
    message: Text = ""
    moved: dict[Name, Name] = field(default_factory=dict)


# --- client → master -----------------------------------------------------------------------------


class Publish(Message, frozen=True, tag="publish", omit_defaults=True):
    """Publish a message to a topic of any master. With a `sequence` it is taken once, however often
    it is sent: the number is the sender's, within the `id` that it chose for itself, and nothing
    below `oldest` is sent again. `topic`, `iad` and `kind` are no attributes of a client's."""

    id: Identifier
    topic: Name
    attributes: Annotated[dict[Attribute, Value], Meta(min_length=1, max_length=MAX_PUBLISHED)]
    sequence: Annotated[int, Meta(ge=0, lt=2**48)] | None = None
    oldest: Count = 0


class Published(Message, frozen=True, tag="published", omit_defaults=True):
    """`accepted`: the message is on stable storage and goes to its topic, wherever that is.
    `refused`: `message` says why. It may still go to its topic if the disk failed: the same
    sequence again is accepted, and is published once."""

    id: Annotated[str, Meta(max_length=64)]
    state: Literal["accepted", "refused"]
    sequence: Count | None = None
    message: Text = ""


TopicChange = CreateTopic | RemoveTopic | EnableTopic
TopicRequest = TopicChange | ListTopics
