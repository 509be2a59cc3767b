"""Events that go into `Topics`, and instructions that come out.

Messages of a topic have *positions* 1, 2, 3, … in order of their arrival, published ones and
readings alike. An *epoch* is one life of a topic in this process: what comes for an older one does
not count.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from agent.wire.base import Count
from agent.wire.messages import Answer, Query
from agent.wire.overlay import Notification
from agent.wire.predicates import Value
from agent.wire.push import (
    AcknowledgeNotifications,
    PushReply,
    Subscribe,
)
from agent.wire.topics import Topic, TopicReport, TopicRequest

Peer = Any
Output = dict[str, Value]


class _Struct(Struct, frozen=True, gc=False):
    """Immutable, and never part of a reference cycle."""


class Progress(_Struct, frozen=True, array_like=True):
    """How far a topic is, written in one transaction with what it put out. `incarnation` is random
    for each creation, and names the inbox. The processor's `state` is after all messages up to
    `position`; what comes of the next ones has the numbers from `put_out` on. The inbox is taken up
    to `inbox`. A topic that came from another master has its `definition` here until it is where
    those of others are."""

    incarnation: str
    position: Count = 0
    put_out: Count = 0
    inbox: Count = 0
    state: bytes = b""
    definition: bytes = b""
    # In place of the state: what to change in the copy of it that the store has (`SaveCopy`).
    patch: bytes = b""


class SaveProgress(_Struct, frozen=True):
    """Write a topic's progress, in place of the earlier one."""

    name: str
    progress: Progress


class SaveCopy(_Struct, frozen=True):
    """Write the state of a topic's processor, as it was a moment before it moved here."""

    name: str
    state: bytes


class ForgetCopy(_Struct, frozen=True):
    name: str


class ForgetProgress(_Struct, frozen=True):
    name: str


TopicChange = SaveProgress | ForgetProgress | SaveCopy | ForgetCopy

# --- events --------------------------------------------------------------------------------------


class TopicAsked(_Struct, frozen=True):
    """An operator's request."""

    peer: Peer
    request: TopicRequest


class InboxSaid(_Struct, frozen=True):
    """A message of the topic's inbox, at that wall time, if it is known; None: the inboxes did not
    take the last request."""

    name: str
    incarnation: str
    message: PushReply | None
    wall_ms: int | None = None


class RoundAnswered(_Struct, frozen=True):
    """The answer to `AskReadings`, at that wall time."""

    name: str
    epoch: int
    answer: Answer
    time_ms: int


class Emitted(_Struct, frozen=True):
    """The processor's outputs for the message at `position`. Each position comes once."""

    name: str
    epoch: int
    position: int
    outputs: tuple[Output, ...]


class Checkpointed(_Struct, frozen=True):
    """The processor's state after all messages up to `position`."""

    name: str
    epoch: int
    position: int
    state: bytes


class Held(_Struct, frozen=True):
    """The processor's queue is full: neither this message was taken nor will be those after it."""

    name: str
    epoch: int


class Resumed(_Struct, frozen=True):
    """It has room again for the messages after this position."""

    name: str
    epoch: int
    after: int


class Released(_Struct, frozen=True):
    """The content of `Release` is on stable storage."""

    name: str
    epoch: int


class TopicKept(_Struct, frozen=True):
    """The content of `KeepTopic` is on stable storage."""

    name: str
    epoch: int


class TopicsDue(_Struct, frozen=True):
    """A timer has expired: `Topics.next_tick` says when to send this."""


TopicsEvent = (
    TopicAsked
    | InboxSaid
    | RoundAnswered
    | Emitted
    | Checkpointed
    | Held
    | Resumed
    | Released
    | TopicKept
    | TopicsDue
)

# --- instructions --------------------------------------------------------------------------------


class SaveTopic(_Struct, frozen=True):
    """Write the topic and its first progress; what follows waits until both are durable."""

    topic: Topic
    progress: Progress


class ForgetTopic(_Struct, frozen=True):
    """Delete the topic, then its progress and its inbox."""

    name: str
    incarnation: str


class SendReport(_Struct, frozen=True):
    """Answer an operator: when everything until now is on disk, or `at_once` what changes nothing:
    the disk may be full."""

    peer: Peer
    report: TopicReport
    at_once: bool = False


class AskInbox(_Struct, frozen=True):
    """Send this to the topic's inbox; `InboxSaid` follows, to an acknowledgement only if something
    is wrong."""

    name: str
    message: Subscribe | AcknowledgeNotifications


class AskReadings(_Struct, frozen=True):
    """Ask this query; `RoundAnswered` follows."""

    name: str
    epoch: int
    query: Query


class StartProcessor(_Struct, frozen=True):
    """Begin with this progress."""

    topic: Topic
    epoch: int
    progress: Progress


class StopProcessor(_Struct, frozen=True):
    name: str


class EnableProcessor(_Struct, frozen=True):
    """Start it again, whatever it did before."""

    name: str


class Feed(_Struct, frozen=True):
    """A message for the processor; `body` is MessagePack."""

    name: str
    position: int
    body: bytes


class TakeCheckpoint(_Struct, frozen=True):
    """Have the processor give its state: `Checkpointed` follows as soon as it can."""

    name: str


class Release(_Struct, frozen=True):
    """Write the progress and spool these notifications in one transaction, then publish them;
    `Released` follows."""

    name: str
    epoch: int
    progress: Progress
    notifications: tuple[Notification, ...]


class KeepTopic(_Struct, frozen=True):
    """Write a topic that came from another master; `TopicKept` follows."""

    topic: Topic
    epoch: int


class TopicHeld(_Struct, frozen=True):
    """Nothing of the topic that was to be held is on its way to the disk, nor will be."""

    name: str


class TopicPaused(_Struct, frozen=True):
    """The topic that was to be paused is."""

    name: str


class TellOperator(_Struct, frozen=True):
    """A line for the operator."""

    line: str


TopicsInstruction = (
    SaveTopic
    | ForgetTopic
    | SendReport
    | AskInbox
    | AskReadings
    | StartProcessor
    | StopProcessor
    | TopicHeld
    | EnableProcessor
    | Feed
    | TakeCheckpoint
    | Release
    | KeepTopic
    | TopicPaused
    | TellOperator
)
