"""What happens to the schedulers (events) and what they want done (instructions)."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from agent.wire.messages import (
    Answer,
    Hello,
    MasterMessage,
    Policy,
    Query,
    SubtaskResult,
    Task,
    TaskResult,
)
from agent.wire.records import AnyRecord

# Where to send something back to: opaque to the schedulers, hashable, chosen by the shell.
Peer = Any


class _Struct(Struct, frozen=True, gc=False):
    """Events and instructions are immutable and never part of a reference cycle."""


# --- events of the query scheduler ---------------------------------------------------------------


class QueryArrived(_Struct, frozen=True):
    client: Peer
    query: Query


class TaskReturned(_Struct, frozen=True):
    iad: str
    result: TaskResult


class TaskUndeliverable(_Struct, frozen=True):
    """There is no link to the IAD: its task was not sent."""

    iad: str
    task_id: str


class Tick(_Struct, frozen=True):
    """Time has passed: due timeouts are served. Both schedulers say when in `next_tick`."""


QueryEvent = QueryArrived | TaskReturned | TaskUndeliverable | Tick

# --- events of the task scheduler ----------------------------------------------------------------


class TaskArrived(_Struct, frozen=True):
    origin: Peer
    task: Task


class NodeJoined(_Struct, frozen=True):
    peer: Peer
    hello: Hello


class NodeAlive(_Struct, frozen=True):
    """`running` as in the hello; None if the node did not say."""

    peer: Peer
    incarnation: str
    running: tuple[int, ...] | None = None


class NodeLeft(_Struct, frozen=True):
    peer: Peer
    incarnation: str


class SubtaskReturned(_Struct, frozen=True):
    peer: Peer
    result: SubtaskResult


class PolicyChanged(_Struct, frozen=True):
    policy: Policy


TaskEvent = TaskArrived | NodeJoined | NodeAlive | NodeLeft | SubtaskReturned | PolicyChanged | Tick

# --- instructions --------------------------------------------------------------------------------


class SendTask(_Struct, frozen=True):
    iad: str
    task: Task


class SendAnswer(_Struct, frozen=True):
    client: Peer
    answer: Answer


class SendTaskResult(_Struct, frozen=True):
    origin: Peer
    result: TaskResult


class SendToNode(_Struct, frozen=True):
    peer: Peer
    message: MasterMessage


class WriteRecord(_Struct, frozen=True):
    record: AnyRecord


Instruction = SendTask | SendAnswer | SendTaskResult | SendToNode | WriteRecord
