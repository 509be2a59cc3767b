"""Events that go into `Anchors`, and instructions that come out.

A *device* is named IAD/NODE. Its anchor's subscription to what the clone puts out has an id of its
own and positions 1, 2, 3, …: they stay the same whatever restarts, and wherever the clone lives.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from agent.topics.events import Output
from agent.wire.clones import CloneOf, CloneReport, CloneRequest
from agent.wire.messages import Task, TaskResult
from agent.wire.push import AcknowledgeNotifications, PushReply, Subscribe, Unsubscribe
from agent.wire.topics import Topic

Peer = Any


class _Struct(Struct, frozen=True, gc=False):
    """Immutable, and never part of a reference cycle."""


class Kept(_Struct, frozen=True, array_like=True):
    """A clone on disk. Its subscription has this `id`. The topic has been `made`; the clone is to
    end, wherever it lives."""

    clone: CloneOf
    topic: Topic
    id: str
    made: bool = False
    ending: bool = False


class Taken(_Struct, frozen=True, array_like=True):
    """Up to which position of the subscription `id` the device was given what its clone put out;
    the last output; counts since the clone was created, of rounds as they were at that output."""

    id: str
    position: int = 0
    time_ms: int | None = None
    output: Output = {}
    outputs: int = 0
    rounds: int = 0
    rounds_failed: int = 0


# --- events --------------------------------------------------------------------------------------


class CloneAsked(_Struct, frozen=True):
    """An operator's request."""

    peer: Peer
    request: CloneRequest


class PeersResolved(_Struct, frozen=True):
    """The topics of the clones of these devices, of one IAD, empty where one does not leave it;
    or why they are not known."""

    device: str
    iad: str
    topics: tuple[str, ...]
    why: str = ""


class TopicMade(_Struct, frozen=True):
    """The clone's topic is kept; or `message` says why not, and whether that may pass."""

    device: str
    ok: bool
    message: str = ""
    passes: bool = False


class TopicEnded(_Struct, frozen=True):
    """The clone's topic is no more; or `message` says why it still is."""

    device: str
    ok: bool
    message: str = ""


class InboxSaid(_Struct, frozen=True):
    """A message of the subscription; None: the last request was not taken."""

    device: str
    id: str
    message: PushReply | None


class ReadingsCame(_Struct, frozen=True):
    """The answer to `AskReadings`, at that wall time."""

    device: str
    number: int
    result: TaskResult
    time_ms: int


class OutputKept(_Struct, frozen=True):
    """What was given to the device up to that position need not be put out again."""

    device: str
    id: str
    position: int


class AnchorsDue(_Struct, frozen=True):
    """A timer has expired: `Anchors.next_tick` says when to send this."""


AnchorsEvent = (
    CloneAsked
    | PeersResolved
    | TopicMade
    | TopicEnded
    | InboxSaid
    | ReadingsCame
    | OutputKept
    | AnchorsDue
)

# --- instructions --------------------------------------------------------------------------------


class SaveClone(_Struct, frozen=True):
    """Write this, in place of the earlier one."""

    device: str
    kept: Kept


class SaveTaken(_Struct, frozen=True):
    """Write this, in one transaction with what `GiveOutput` writes."""

    device: str
    taken: Taken


class ForgetClone(_Struct, frozen=True):
    """Delete both."""

    device: str


class AskPeers(_Struct, frozen=True):
    """Ask the master of that IAD for the topics of these; `PeersResolved` follows, or never."""

    device: str
    iad: str
    devices: tuple[str, ...]


class MakeTopic(_Struct, frozen=True):
    """Have the topic kept here, unless it is anywhere: written in one transaction with `SaveClone`.
    `TopicMade` follows."""

    device: str
    topic: Topic


class EndTopic(_Struct, frozen=True):
    """End it, wherever it is, as soon as everything until now is on disk; `TopicEnded` follows, or
    never."""

    device: str
    topic: str


class AskInbox(_Struct, frozen=True):
    """Send this about the subscription; `InboxSaid` follows, to an acknowledgement only if
    something is wrong."""

    device: str
    message: Subscribe | AcknowledgeNotifications | Unsubscribe


class AskReadings(_Struct, frozen=True):
    """Have the nodes here do this task; `ReadingsCame` follows, with the same number."""

    device: str
    number: int
    task: Task


class PublishReading(_Struct, frozen=True):
    """Publish this to the clone's topic, durably."""

    device: str
    topic: str
    attributes: Output


class TellReading(_Struct, frozen=True):
    """The device read these values, for this area."""

    device: str
    area: str
    time_ms: int
    values: dict[str, float]


class KeepDevice(_Struct, frozen=True):
    """The device has a clone, and these areas."""

    device: str
    areas: tuple[str, ...]


class ForgetDevice(_Struct, frozen=True):
    """It has none any more."""

    device: str


class GiveOutput(_Struct, frozen=True):
    """Give this to the device: what it leads to is on disk with `SaveTaken`. `OutputKept`
    follows."""

    device: str
    id: str
    position: int
    time_ms: int
    values: Output


class PassOver(_Struct, frozen=True):
    """There is nothing to give at this position; `OutputKept` follows when that is on disk."""

    device: str
    id: str
    position: int


class SendReport(_Struct, frozen=True):
    """Answer an operator: when everything until now is on disk, or `at_once` what changes nothing:
    the disk may be full."""

    peer: Peer
    report: CloneReport
    at_once: bool = False


class TellOperator(_Struct, frozen=True):
    """A line for the operator."""

    line: str


AnchorsInstruction = (
    SaveClone
    | SaveTaken
    | ForgetClone
    | AskPeers
    | MakeTopic
    | EndTopic
    | AskInbox
    | AskReadings
    | PublishReading
    | TellReading
    | KeepDevice
    | ForgetDevice
    | GiveOutput
    | PassOver
    | SendReport
    | TellOperator
)
