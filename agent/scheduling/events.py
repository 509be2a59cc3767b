"""What happens to the schedulers (events) and what they want done (instructions)."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from agent.wire.base import Policy
from agent.wire.market import Service
from agent.wire.messages import (
    Answer,
    Hello,
    MasterMessage,
    NodeEvents,
    Query,
    SubtaskResult,
    Task,
    TaskResult,
)
from agent.wire.principals import Sender
from agent.wire.records import AnyRecord

# Where to send something back to: opaque to the schedulers, hashable, chosen by the shell.
Peer = Any


ANYONE = Sender("anyone", "")


class _Struct(Struct, frozen=True, gc=False):
    """Events and instructions are immutable and never part of a reference cycle."""


# --- events of the query scheduler ---------------------------------------------------------------


class QueryArrived(_Struct, frozen=True):
    """`client` is a peer, or a function that takes the answer: see the shell."""

    client: Peer
    query: Query
    sender: Sender = ANYONE


class TaskReturned(_Struct, frozen=True):
    iad: str
    result: TaskResult


class TaskUndeliverable(_Struct, frozen=True):
    """There is no link to the IAD: its task was not sent."""

    iad: str
    task_id: str


class ServiceChanged(_Struct, frozen=True):
    """A service is new, or its pool or terms changed. For both schedulers."""

    service: Service


class ServiceRemoved(_Struct, frozen=True):
    """This IAD serves it no more; for both schedulers."""

    service_id: str


class Tick(_Struct, frozen=True):
    """Time has passed: due timeouts are served. Both schedulers say when in `next_tick`."""


QueryEvent = (
    QueryArrived | TaskReturned | TaskUndeliverable | ServiceChanged | ServiceRemoved | Tick
)

# --- events of the task scheduler ----------------------------------------------------------------


class TaskArrived(_Struct, frozen=True):
    """`client` is who asks, where it is not the sender: of this IAD's own tasks."""

    origin: Peer
    task: Task
    sender: Sender = ANYONE
    client: Sender | None = None


class TaskCancelled(_Struct, frozen=True):
    """Whoever sent the task wants no result of it any more."""

    origin: Peer
    task_id: str


class NodeJoined(_Struct, frozen=True):
    """`address` is where the link comes from, for people; empty if unknown."""

    peer: Peer
    hello: Hello
    sender: Sender = ANYONE
    address: str = ""


class NodePods(_Struct, frozen=True):
    """The node says how many pods it has from now on."""

    peer: Peer
    incarnation: str
    count: int


class PodsWanted(_Struct, frozen=True):
    """The node of that name shall have so many pods: now, and whenever it joins again."""

    node: str
    count: int


class NodeAlive(_Struct, frozen=True):
    """`running` as in the hello; None if the node did not say."""

    peer: Peer
    incarnation: str
    running: tuple[int, ...] | None = None


class NodeLeft(_Struct, frozen=True):
    peer: Peer
    incarnation: str


class NodeRefused(_Struct, frozen=True):
    """The key of that link was taken from the allow-list: whoever is there says nothing more."""

    peer: Peer


class EventsArrived(_Struct, frozen=True):
    peer: Peer
    message: NodeEvents

    @property
    def incarnation(self) -> str:
        return self.message.incarnation


class SubtaskReturned(_Struct, frozen=True):
    """The subtask was sent at `sent_s` (None: when it was dispatched), and its result may have
    waited here for `late_s` before it was taken, since the shell was busy with other things."""

    peer: Peer
    result: SubtaskResult
    sent_s: float | None = None
    late_s: float = 0.0


class PolicyChanged(_Struct, frozen=True):
    policy: Policy


TaskEvent = (
    TaskArrived
    | TaskCancelled
    | NodeJoined
    | NodeAlive
    | NodeLeft
    | NodeRefused
    | NodePods
    | PodsWanted
    | EventsArrived
    | SubtaskReturned
    | PolicyChanged
    | ServiceChanged
    | ServiceRemoved
    | Tick
)

# --- instructions --------------------------------------------------------------------------------


class SendTask(_Struct, frozen=True):
    """`client` is who asks; no other IAD hears of it."""

    iad: str
    task: Task
    client: Sender = ANYONE


class SendCancel(_Struct, frozen=True):
    """The IAD need not go on with that task."""

    iad: str
    task_id: str


class SendAnswer(_Struct, frozen=True):
    client: Peer
    answer: Answer


class SendTaskResult(_Struct, frozen=True):
    origin: Peer
    result: TaskResult


class SendToNode(_Struct, frozen=True):
    peer: Peer
    message: MasterMessage


class TakeEvents(_Struct, frozen=True):
    """Put a node's events on stable storage and tell it so."""

    peer: Peer
    node: str
    message: NodeEvents


class KeepNode(_Struct, frozen=True):
    """A node is here, with these areas: to be known after the master's next start."""

    node: str
    areas: tuple[str, ...]


class ForgetNode(_Struct, frozen=True):
    """It is not here any more: the next start need not know it."""

    node: str


class WriteRecord(_Struct, frozen=True):
    record: AnyRecord


class TellOperator(_Struct, frozen=True):
    """One line; the schedulers limit the rate of such lines."""

    line: str


Instruction = (
    SendTask
    | SendCancel
    | SendAnswer
    | SendTaskResult
    | SendToNode
    | TakeEvents
    | KeepNode
    | ForgetNode
    | WriteRecord
    | TellOperator
)
