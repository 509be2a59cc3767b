"""Conversion of what is published, and of readings, to a processor's messages, and of its outputs
to notifications."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, TypeGuard

import msgspec
from msgspec.structs import replace

from agent.alerts.inbox_handover import MAX_REACHED
from agent.alerts.notifications import history_of
from agent.topics.events import Output, Progress
from agent.wire.base import MAX_TEXT
from agent.wire.messages import Answer
from agent.wire.overlay import Notification, Origin
from agent.wire.predicates import MAX_ATTRIBUTES, Filter, Predicate
from agent.wire.topics import STAYS, Clone, Topic

INPUT: Final = "input"
OUTPUT: Final = "output"
TROUBLE: Final = "trouble"
# Attributes that the master sets.
RESERVED: Final = ("iad", "kind", "topic")
MAX_OWN: Final = MAX_ATTRIBUTES - len(RESERVED)
# Of what a clone puts out: the topic whose output it made this of, or empty if of its device's
# readings. Its processor gets the same of a peer's message.
PEER: Final = "peer"
# Of a processor's message: when it was received, by this master's clock.
RECEIVED: Final = "received_ms"


def why_not(attributes: Collection[str]) -> str:
    """Why these cannot be the attributes of a topic's message; empty if they can."""
    if taken := [name for name in RESERVED if name in attributes]:
        verb = "is" if len(taken) == 1 else "are"
        return f"{' and '.join(taken)} {verb} set by the master; take another name"
    if len(attributes) > MAX_OWN:
        return f"{len(attributes)} attributes; a topic's message has at most {MAX_OWN}"
    return ""


def is_time(value: object) -> TypeGuard[int]:
    """Whether this is a time of the wire, in milliseconds since 1970 UTC."""
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**53


def inputs_of(name: str, clone: Clone | None = None) -> Filter:
    """The filter of the messages that are published to a topic. Of a clone, also what its peers
    made of their readings; not what they made of one another's, which would go round for ever."""
    own = (Predicate("topic", "=", (name,)), Predicate("kind", "=", (INPUT,)))
    if clone is None:
        return (own,)
    put_out = (Predicate("kind", "=", (OUTPUT,)), Predicate(PEER, "=", ("",)))
    wanted: list[tuple[Predicate, ...]] = [own]
    if clone.peers:
        wanted.append((Predicate("topic", "in", clone.peers), *put_out))
    other = Predicate("topic", "!=", (name,))
    wanted += [(*each, other, *put_out) for each in clone.peers_where or ()]
    return tuple(wanted)


def stays_here(notification: Notification) -> bool:
    """Whether it must not leave its IAD."""
    topic = notification.attributes.get("topic")
    return isinstance(topic, str) and topic.startswith(STAYS)


def peer_of(notification: Notification, clone: Clone | None) -> str:
    """The topic whose output a clone hears; empty if it was published to the clone's own."""
    attributes = notification.attributes
    return str(attributes["topic"]) if clone and attributes.get("kind") == OUTPUT else ""


def topics_of(iad: str) -> Filter:
    """The advertisement that covers every notification of topics from this IAD, and no alert: what
    overlaps with a subscription makes its cluster a target."""
    return (
        (
            Predicate("iad", "=", (iad,)),
            Predicate("kind", "in", (INPUT, OUTPUT, TROUBLE)),
            Predicate("topic", "present"),
        ),
    )


def input_of(iad: str, origin: Origin, time_ms: int, topic: str, own: Output) -> Notification:
    """The notification that carries a published message to its topic."""
    return Notification(origin, time_ms, {**own, "iad": iad, "topic": topic, "kind": INPUT})


def trouble_of(
    iad: str, origin: Origin, time_ms: int, topic: str, what: str, text: str
) -> Notification:
    """The notification that tells of a topic's processor."""
    told = {"iad": iad, "topic": topic, "kind": TROUBLE, "what": what, "text": text[:MAX_TEXT]}
    return Notification(origin, time_ms, {**told})


def published_part(notification: Notification) -> Output:
    """The attributes that the publisher chose."""
    return {key: value for key, value in notification.attributes.items() if key not in RESERVED}


def outputs_of(
    iad: str, topic: Topic, progress: Progress, made: list[tuple[int, Output]]
) -> tuple[Notification, ...]:
    """The notifications of outputs, each with its time, that follow those of `progress`."""
    history = history_of(f"topic/{topic.name}", progress.incarnation)
    told = {"iad": iad, "topic": topic.name, "kind": OUTPUT}
    return tuple(
        [
            Notification(Origin(iad, history, progress.put_out + n), time_ms, {**own, **told})
            for n, (time_ms, own) in enumerate(made)
        ]
    )


def after_a_start(progress: Progress, epoch: int) -> Progress:
    """The same with numbers that no output has: the disk may be an older copy, and whoever had
    outputs since would take the next ones for those. `epoch` is greater than at any earlier start,
    mostly the seconds since 1970; no topic makes so many outputs a second."""
    return replace(progress, put_out=max(progress.put_out, min(epoch << 16, MAX_REACHED >> 1)))


def published_body(time_ms: int, own: Output, received_ms: int) -> bytes:
    """A published message as its processor gets it."""
    return msgspec.msgpack.encode({**own, "time_ms": time_ms, RECEIVED: received_ms})


def heard_body(time_ms: int, own: Output, received_ms: int, peer: str, topic: str) -> bytes:
    """A message as the processor of a clone gets it. Nobody but a peer says to be one. Where it is
    about is the clone that it is of, unless it says so: the areas of devices do not travel."""
    own = {key: value for key, value in own.items() if key != PEER}
    told = {"area": peer or topic, **own}
    return published_body(time_ms, {**told, PEER: peer} if peer else told, received_ms)


def reading_bodies(time_ms: int, answer: Answer) -> list[bytes]:
    """The means of an area's channels as a processor gets them, a message for each area that has
    any."""
    bodies = []
    for result in answer.results:
        channels = result.aggregate.channels if result.aggregate is not None else {}
        means = {name: each.mean for name, each in channels.items() if each.mean is not None}
        if means:
            bodies.append(published_body(time_ms, {**means, "area": result.area}, time_ms))
    return bodies
