"""Events and instructions of the schedulers."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from agent.wire.base import Policy
from agent.wire.market import Service
from agent.wire.messages import Answer, Query, Task, TaskResult
from agent.wire.node_messages import Hello, MasterMessage, SubtaskResult
from agent.wire.principals import Sender
from agent.wire.records import AnyRecord

# Return address: opaque to the schedulers, hashable, chosen by the shell.
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
    """This IAD no longer serves the service; for both schedulers."""

    service_id: str


class Tick(_Struct, frozen=True):
    """A timer has expired. Both schedulers say in `next_tick` when to send this."""


QueryEvent = (
    QueryArrived | TaskReturned | TaskUndeliverable | ServiceChanged | ServiceRemoved | Tick
)

# --- events of the task scheduler ----------------------------------------------------------------


class TaskArrived(_Struct, frozen=True):
    """`client` is the client behind the task if it is not the sender: for this IAD's own tasks."""

    origin: Peer
    task: Task
    sender: Sender = ANYONE
    client: Sender | None = None


class TaskCancelled(_Struct, frozen=True):
    """The sender of the task no longer wants its result."""

    origin: Peer
    task_id: str


class NodeJoined(_Struct, frozen=True):
    """`address` is the origin of the link, for the operator; empty if unknown."""

    peer: Peer
    hello: Hello
    sender: Sender = ANYONE
    address: str = ""


class NodePods(_Struct, frozen=True):
    """The node reports its number of pods."""

    peer: Peer
    incarnation: str
    count: int


class PodsWanted(_Struct, frozen=True):
    """The node of that name shall have this many pods: now, and whenever it joins again."""

    node: str
    count: int


class HomeChanged(_Struct, frozen=True):
    """The home of the node of that name is the master of IAD `home` from now on; None: it is
    here."""

    node: str
    home: str | None


class NodeAlive(_Struct, frozen=True):
    """`running` as in the hello; None if the node did not say."""

    peer: Peer
    incarnation: str
    running: tuple[int, ...] | None = None
    sender: Sender = ANYONE


class NodeLeft(_Struct, frozen=True):
    """`node` is the name that it gave; empty if it gave none."""

    peer: Peer
    incarnation: str
    sender: Sender = ANYONE
    node: str = ""


class NodeRefused(_Struct, frozen=True):
    """The key of that link was removed from the allow-list: nothing more will come from it."""

    peer: Peer


class NodeHeard(_Struct, frozen=True):
    """A message of the node that is for somebody else: it shows that the node is alive."""

    peer: Peer
    incarnation: str


class SubtaskReturned(_Struct, frozen=True):
    """The subtask was sent at `sent_s` (None: when it was dispatched), and its result may have
    waited here for `late_s` before it was read, because the shell was busy."""

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
    | HomeChanged
    | NodeHeard
    | SubtaskReturned
    | PolicyChanged
    | ServiceChanged
    | ServiceRemoved
    | Tick
)

# --- instructions --------------------------------------------------------------------------------


class SendTask(_Struct, frozen=True):
    """`client` is the client behind the task; it is not sent to other IADs."""

    iad: str
    task: Task
    client: Sender = ANYONE


class SendCancel(_Struct, frozen=True):
    """Tell the IAD that it may drop that task."""

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


class KeepNode(_Struct, frozen=True):
    """Remember a node with these areas for the master's next start."""

    node: str
    areas: tuple[str, ...]


class ForgetNode(_Struct, frozen=True):
    """The node has left: forget it for the next start."""

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
    | KeepNode
    | ForgetNode
    | WriteRecord
    | TellOperator
)
