"""Task plane: tasks from query schedulers to the task scheduler, its subtasks to edge nodes,
results back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from agent.master.queries.query_plane import Here
from agent.master.requests.public_plane import PublicPlane
from agent.master.requests.request_plane import RequestOrigin
from agent.master.storage.state import State
from agent.net.router import REVOKED, Router
from agent.runtime.reactor import Reactor
from agent.scheduling.events import (
    ForgetNode,
    KeepNode,
    NodeAlive,
    NodeHeard,
    NodeJoined,
    NodeLeft,
    NodePods,
    NodeRefused,
    SendTaskResult,
    SendToNode,
    SubtaskReturned,
    TaskArrived,
    TaskCancelled,
    TaskReturned,
    Tick,
)
from agent.scheduling.queries.scheduler import QueryScheduler
from agent.scheduling.tasks.scheduler import TaskScheduler
from agent.wire.codec import (
    MAX_SUBTASK_RESULT_BYTES,
    MESSAGEPACK,
    Decoder,
    Frame,
    WireError,
    encode,
)
from agent.wire.derived import DerivedTaken
from agent.wire.messages import CancelTask, Task, TaskResult
from agent.wire.node_messages import (
    NODE_BULK,
    Goodbye,
    Heartbeat,
    Hello,
    NodeEvents,
    NodeMessage,
    PodsSet,
    Rejected,
    Subtask,
    SubtaskResult,
)
from agent.wire.principals import Sender

# Messages taken from one socket before the others are served.
TURN = 64
# After this time the others are served, too: a hello with many areas takes half a millisecond.
SLICE_S = 0.005
# Number of subtasks whose send time is kept; some never return.
MAX_SENT = 100_000


# Kind of the documents on disk, one per node: its areas.
KNOWN: Final = "node"
_encode: Final = msgspec.msgpack.encode


def nodes_before(state: State) -> dict[str, tuple[str, ...]]:
    """The nodes that this master's previous run knew, each with its areas."""
    return state.read(KNOWN, msgspec.msgpack.Decoder(tuple[str, ...]).decode)


class TaskPlane:
    """Moves messages between the public socket, the edge nodes and the task scheduler."""

    def __init__(
        self,
        reactor: Reactor,
        iad: str,
        scheduler: TaskScheduler,
        queries: QueryScheduler,
        public: PublicPlane,
        nodes: Router | None,
        state: State,
    ) -> None:
        self._reactor = reactor
        self._iad = iad
        self._scheduler = scheduler
        self._queries = queries
        self._public = public
        self._nodes = nodes
        self._decoder: Decoder[NodeMessage] = Decoder(
            NodeMessage, MAX_SUBTASK_RESULT_BYTES, bounded=True, bulk=NODE_BULK
        )
        self._sent_s: dict[int, float] = {}
        self.malformed = 0
        # The event plane's: it takes what a node sends of its events, and acknowledges it.
        self.take_events: Callable[[bytes, NodeEvents, Sender], None] = lambda *_: None
        # The derived plane's.
        self.derived_taken: Callable[[bytes, DerivedTaken], None] = lambda *_: None
        public.takes(Task, self._task, brief=True)
        public.takes(CancelTask, self._cancel, brief=True)
        reactor.performs(SendTaskResult, self._send_task_result, brief=True)
        reactor.performs(SendToNode, self._send_to_node, brief=True)
        reactor.performs(KeepNode, lambda kept: state.put(KNOWN, kept.node, _encode(kept.areas)))
        reactor.performs(ForgetNode, lambda kept: state.remove(KNOWN, kept.node))
        reactor.add_timer(self, often=True)
        if nodes is not None:
            nodes.refuse = self._refuse
            reactor.listen(nodes.socket, self._node_turn, brief=True)

    @property
    def dropped(self) -> int:
        """Messages that a node did not read."""
        return self._nodes.dropped if self._nodes else 0

    @property
    def next_due(self) -> float | None:
        """When the task scheduler is due."""
        return self._scheduler.next_tick

    def tick(self, now: float) -> None:
        """Handle time-outs."""
        self._reactor.perform(self._scheduler.handle(Tick(), now))

    def _task(self, origin: RequestOrigin, task: Task, now: float) -> None:
        event = TaskArrived(origin, task, origin.sender)
        self._reactor.perform(self._scheduler.handle(event, now))

    def _cancel(self, origin: RequestOrigin, cancel: CancelTask, now: float) -> None:
        self._reactor.perform(self._scheduler.handle(TaskCancelled(origin, cancel.id), now))

    def _send_task_result(self, instruction: SendTaskResult) -> None:
        origin: RequestOrigin | Here | Callable[[TaskResult], None] = instruction.origin
        if callable(origin):
            # A task of this master's own, such as a round of a clone.
            self._reactor.changed()
            origin(instruction.result)
        elif isinstance(origin, Here):
            event = TaskReturned(self._iad, instruction.result)
            self._reactor.perform(self._queries.handle(event, self._reactor.clock()))
        else:
            self._public.reply(origin, instruction.result)

    def _node_turn(self) -> None:
        assert self._nodes is not None
        receive, scheduler = self._nodes.receive, self._scheduler
        ends_s = self._reactor.clock() + SLICE_S
        for _ in range(TURN):
            received = receive()
            if received is None:
                self._reactor.drained(self._nodes.socket)
                return
            identity, frame = received
            now = self._reactor.clock()
            try:
                message, _codec = self._decoder.decode(frame)
            except WireError as error:
                self.malformed += 1
                self._nodes.send(identity, encode(Rejected(str(error)), error.codec))
                if now >= ends_s:
                    return
                continue
            event = self._node_event(identity, message, now)
            self._reactor.perform(scheduler.handle(event, now))
            if not scheduler.open_tasks or now >= ends_s:
                # No further result is due: polling the socket costs less than a failed receive.
                return

    def _refuse(self, identity: bytes, _frame: Frame) -> None:
        assert self._nodes is not None
        self._nodes.send(identity, encode(Rejected(REVOKED)))
        now = self._reactor.clock()
        self._reactor.perform(self._scheduler.handle(NodeRefused(identity), now))

    def _send_to_node(self, instruction: SendToNode) -> None:
        assert self._nodes is not None
        message = instruction.message
        self._nodes.send(instruction.peer, encode(message, MESSAGEPACK))
        if type(message) is Subtask:
            self._sent_s[message.id] = self._reactor.clock()
            if len(self._sent_s) > MAX_SENT:
                del self._sent_s[next(iter(self._sent_s))]

    def _node_event(
        self, identity: bytes, message: NodeMessage, now: float
    ) -> NodeJoined | NodeAlive | NodeLeft | NodePods | NodeHeard | SubtaskReturned:
        nodes = self._nodes
        assert nodes is not None
        if type(message) is not SubtaskResult:
            self._reactor.changed()
        match message:
            case SubtaskResult():
                late_s = self._reactor.late_s(nodes.socket, now)
                return SubtaskReturned(
                    identity, message, self._sent_s.pop(message.id, None), late_s
                )
            case Heartbeat():
                sender = nodes.sender(identity)
                return NodeAlive(identity, message.incarnation, message.running, sender)
            case Hello():
                return NodeJoined(identity, message, nodes.sender(identity), nodes.address)
            case Goodbye():
                sender = nodes.sender(identity)
                return NodeLeft(identity, message.incarnation, sender, message.node)
            case PodsSet():
                return NodePods(identity, message.incarnation, message.count)
            case DerivedTaken():
                self.derived_taken(identity, message)
                return NodeHeard(identity, message.incarnation)
            case NodeEvents():
                self.take_events(identity, message, nodes.sender(identity))
                return NodeHeard(identity, message.incarnation)
