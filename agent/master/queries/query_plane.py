"""Query plane: queries from clients to the query scheduler, its tasks to other masters, answers
back."""

from __future__ import annotations

from agent.master.requests.peers import Peers
from agent.master.requests.public_plane import PublicPlane
from agent.master.requests.request_plane import RequestOrigin
from agent.runtime.reactor import Reactor
from agent.scheduling.events import (
    QueryArrived,
    SendAnswer,
    SendCancel,
    SendTask,
    TaskArrived,
    TaskCancelled,
    TaskReturned,
    TaskUndeliverable,
    Tick,
)
from agent.scheduling.queries.scheduler import QueryScheduler
from agent.scheduling.tasks.scheduler import TaskScheduler
from agent.wire.messages import Answer, CancelTask, Query, TaskResult
from agent.wire.principals import Sender


class Here:
    """The origin of this IAD's own tasks: its query scheduler."""


HERE = Here()


class QueryPlane:
    """Moves messages between the public socket, other masters and the query scheduler."""

    def __init__(
        self,
        reactor: Reactor,
        iad: str,
        scheduler: QueryScheduler,
        tasks: TaskScheduler,
        public: PublicPlane,
        peers: Peers,
    ) -> None:
        self._reactor = reactor
        self._iad = iad
        self._scheduler = scheduler
        self._tasks = tasks
        self._public = public
        self._peers = peers
        self._own = Sender("iad", iad)
        public.takes(Query, self._query, brief=True)
        peers.takes(TaskResult, self._task_returned, brief=True)
        peers.expects = scheduler.expects
        scheduler.reaches = peers.connected
        peers.takes(Answer, self._task_refused, brief=True)
        reactor.performs(SendAnswer, self._send_answer, brief=True)
        reactor.performs(SendTask, self._send_task, brief=True)
        reactor.performs(SendCancel, self._send_cancel, brief=True)
        reactor.add_timer(self, often=True)

    @property
    def next_due(self) -> float | None:
        """When the query scheduler is due."""
        return self._scheduler.next_tick

    def tick(self, now: float) -> None:
        """Handle time-outs."""
        # After a stall a query and its local task may both be due: the task goes first, so that its
        # results are part of the answer.
        self._reactor.perform(self._tasks.handle(Tick(), now))
        self._reactor.perform(self._scheduler.handle(Tick(), now))

    def _query(self, origin: RequestOrigin, query: Query, now: float) -> None:
        event = QueryArrived(origin, query, origin.sender)
        self._reactor.perform(self._scheduler.handle(event, now))

    def _send_answer(self, instruction: SendAnswer) -> None:
        client = instruction.client
        if type(client) is RequestOrigin:
            self._public.reply(client, instruction.answer)
        else:
            # A query of this master's own, such as an evaluation of a watch: its client is a
            # function.
            self._reactor.changed()
            client(instruction.answer, self._reactor.clock())

    def _send_task(self, instruction: SendTask) -> None:
        now = self._reactor.clock()
        iad, task = instruction.iad, instruction.task
        if iad == self._iad:
            event = TaskArrived(HERE, task, self._own, instruction.client)
            self._reactor.perform(self._tasks.handle(event, now))
        elif not self._peers.send(iad, task):
            self._reactor.perform(self._scheduler.handle(TaskUndeliverable(iad, task.id), now))

    def _send_cancel(self, instruction: SendCancel) -> None:
        if instruction.iad == self._iad:
            event = TaskCancelled(HERE, instruction.task_id)
            self._reactor.perform(self._tasks.handle(event, self._reactor.clock()))
        else:
            self._peers.send(instruction.iad, CancelTask(instruction.task_id))

    def _task_returned(self, iad: str, result: TaskResult, now: float) -> None:
        self._reactor.perform(self._scheduler.handle(TaskReturned(iad, result), now))

    def _task_refused(self, iad: str, answer: Answer, now: float) -> None:
        """A master that cannot decode a task answers with a refusal."""
        result = TaskResult(
            answer.id, "refused", 0.0, reason=answer.reason or "malformed", message=answer.message
        )
        self._task_returned(iad, result, now)
