"""The master: moves frames between sockets and schedulers, and decides nothing itself."""

from __future__ import annotations

import math
import secrets
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import zmq
from msgspec import Struct

from agent.master.record_log import RecordLog
from agent.master.sockets import dealer, router
from agent.process import StopSignal
from agent.scheduling.deadlines import DeadlineEstimator
from agent.scheduling.events import (
    Instruction,
    NodeAlive,
    NodeJoined,
    NodeLeft,
    PolicyChanged,
    QueryArrived,
    SendAnswer,
    SendTask,
    SendTaskResult,
    SendToNode,
    SubtaskReturned,
    TaskArrived,
    TaskReturned,
    TaskUndeliverable,
    Tick,
    WriteRecord,
)
from agent.scheduling.query import Member, QueryScheduler
from agent.scheduling.task import TaskScheduler
from agent.wire.codec import (
    MAX_RESULT_BYTES,
    MAX_SUBTASK_RESULT_BYTES,
    MESSAGEPACK,
    Decoder,
    WireError,
    encode,
)
from agent.wire.config import MasterConfig
from agent.wire.messages import (
    Answer,
    Coverage,
    Goodbye,
    Heartbeat,
    Hello,
    IadStatus,
    NodeMessage,
    OperatorError,
    OperatorRequest,
    PublicReply,
    PublicRequest,
    Query,
    Rejected,
    SetPolicy,
    SubtaskResult,
    TaskResult,
)

# Messages taken from one socket before the others get their turn.
TURN = 64
# More than 24 days overflow what poll takes.
LONGEST_POLL_MS = 60_000


class _Origin(Struct, frozen=True):
    """Who sent a request to the public socket, and in which codec the reply goes back."""

    identity: bytes
    codec: bytes


class _Here:
    """The origin of this IAD's own tasks: its query scheduler."""


_HERE = _Here()


class Master:
    """One IAD's master: query scheduler, task scheduler, records, and the sockets around them."""

    def __init__(
        self,
        config: MasterConfig,
        folder: Path,
        *,
        run: str,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock = clock
        self._iad = config.iad.name
        wall_offset_s = time.time() - clock()
        self._query_scheduler = QueryScheduler(
            self._iad,
            [Member(member.iad, member.areas) for member in config.pool],
            run=run,
            timeout_factor=config.scheduling.timeout_factor,
            wall_offset_s=wall_offset_s,
            stopwatch=clock,
        )
        self._task_scheduler = TaskScheduler(
            self._iad,
            DeadlineEstimator(
                window_samples=config.scheduling.window_samples,
                window_s=config.scheduling.window_s,
                cold_start_s=config.scheduling.cold_start_ms / 1e3,
            ),
            policy=config.scheduling.policy,
            heartbeat_s=config.liveness.heartbeat_s,
            lost_after=config.liveness.lost_after,
            wall_offset_s=wall_offset_s,
            stopwatch=clock,
            first_subtask_id=secrets.randbits(31) << 20,
        )
        self._records = (
            RecordLog(config.records, folder / config.records.directory)
            if config.records.directory
            else None
        )
        self._malformed = 0
        self._performers: dict[type, Callable[[Any], None]] = {
            SendTask: self._send_task,
            SendAnswer: self._send_answer,
            SendTaskResult: self._send_task_result,
            SendToNode: self._send_to_node,
            WriteRecord: self._write_record,
        }
        self._public_decoder: Decoder[PublicRequest] = Decoder(PublicRequest)
        self._node_decoder: Decoder[NodeMessage] = Decoder(NodeMessage, MAX_SUBTASK_RESULT_BYTES)
        self._operator_decoder: Decoder[OperatorRequest] = Decoder(OperatorRequest)
        self._peer_decoder: Decoder[PublicReply] = Decoder(PublicReply, MAX_RESULT_BYTES)

        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        try:
            self._public = router(self._context, config.sockets.public)
            self._nodes = router(self._context, config.sockets.nodes)
            self._operator = router(self._context, config.sockets.operator)
            self._peers = {
                member.iad: dealer(self._context, member.address, MAX_RESULT_BYTES)
                for member in config.pool
                if member.iad != self._iad
            }
        except OSError:
            self._context.destroy(linger=0)
            raise

    def close(self) -> None:
        """Write the records that wait and close the sockets."""
        if self._records:
            self._records.flush()
        self._context.destroy()

    # --- the loop ----------------------------------------------------------------------------

    def serve(self, stop: StopSignal) -> None:
        """Serve until told to stop."""
        poller = zmq.Poller()
        turns: dict[Any, Callable[[], None]] = {
            self._nodes.socket: self._node_turn,
            self._public.socket: self._public_turn,
            self._operator.socket: self._operator_turn,
        }
        for iad, socket in self._peers.items():
            turns[socket] = partial(self._peer_turn, iad, socket)
        for fileno in stop.filenos:
            turns[fileno] = partial(stop.woken, fileno)
        for source in turns:
            poller.register(source, zmq.POLLIN)
        while not stop.requested:
            due = self._next_due()
            for source, _ in poller.poll(self._milliseconds_until(due)):
                turns[source]()
            if (now := self._clock()) >= due:
                self._tick(now)

    def _next_due(self) -> float:
        due = self._task_scheduler.next_tick, self._query_scheduler.next_tick
        flush = self._records.next_flush if self._records else None
        return min([t for t in (*due, flush) if t is not None], default=math.inf)

    def _milliseconds_until(self, due: float) -> int | None:
        # Rounded up: a poll that returns a hair early would only turn round again.
        if due == math.inf:
            return None
        return min(LONGEST_POLL_MS, max(0, math.ceil((due - self._clock()) * 1e3)))

    def _tick(self, now: float) -> None:
        for scheduler in (self._query_scheduler, self._task_scheduler):
            due = scheduler.next_tick
            if due is not None and due <= now:
                self._perform(scheduler.handle(Tick(), now))
        if self._records and (due := self._records.next_flush) is not None and due <= now:
            self._records.flush()

    def _perform(self, instructions: list[Instruction]) -> None:
        performers = self._performers
        for instruction in instructions:
            performers[type(instruction)](instruction)

    # --- clients and other masters -------------------------------------------------------------

    def _public_turn(self) -> None:
        # One request a turn: polling again costs no more than finding the socket empty.
        received = self._public.receive()
        if received is None:
            return
        identity, frame = received
        now = self._clock()
        try:
            request, codec = self._public_decoder.decode(frame)
        except WireError as error:
            self._malformed += 1
            self._public.send(identity, _malformed_answer(error))
            return
        origin = _Origin(identity, codec)
        if isinstance(request, Query):
            self._perform(self._query_scheduler.handle(QueryArrived(origin, request), now))
        else:
            self._perform(self._task_scheduler.handle(TaskArrived(origin, request), now))

    def _send_answer(self, instruction: SendAnswer) -> None:
        origin: _Origin = instruction.client
        self._public.send(origin.identity, encode(instruction.answer, origin.codec))

    def _send_task(self, instruction: SendTask) -> None:
        now = self._clock()
        if instruction.iad == self._iad:
            self._perform(self._task_scheduler.handle(TaskArrived(_HERE, instruction.task), now))
            return
        try:
            self._peers[instruction.iad].send(encode(instruction.task), zmq.NOBLOCK)
        except zmq.Again:
            event = TaskUndeliverable(instruction.iad, instruction.task.id)
            self._perform(self._query_scheduler.handle(event, now))

    def _send_task_result(self, instruction: SendTaskResult) -> None:
        origin: _Origin | _Here = instruction.origin
        if isinstance(origin, _Here):
            event = TaskReturned(self._iad, instruction.result)
            self._perform(self._query_scheduler.handle(event, self._clock()))
        else:
            self._public.send(origin.identity, encode(instruction.result, origin.codec))

    def _peer_turn(self, iad: str, socket: zmq.Socket[bytes]) -> None:
        for _ in range(TURN):
            try:
                frame = socket.recv(zmq.NOBLOCK)
            except zmq.Again:
                return
            while socket.getsockopt(zmq.RCVMORE):
                socket.recv()
                frame = b""
            try:
                reply, _codec = self._peer_decoder.decode(frame)
            except WireError:
                self._malformed += 1
                continue
            result = reply if isinstance(reply, TaskResult) else _refused_task(reply)
            event = TaskReturned(iad, result)
            self._perform(self._query_scheduler.handle(event, self._clock()))

    # --- edge nodes ----------------------------------------------------------------------------

    def _node_turn(self) -> None:
        receive, scheduler = self._nodes.receive, self._task_scheduler
        for _ in range(TURN):
            received = receive()
            if received is None:
                return
            identity, frame = received
            now = self._clock()
            try:
                message, _codec = self._node_decoder.decode(frame)
            except WireError as error:
                self._malformed += 1
                self._nodes.send(identity, encode(Rejected(str(error)), error.codec))
                continue
            self._perform(scheduler.handle(_node_event(identity, message), now))
            if not scheduler.open_tasks:
                # No further result is due: the poll looks at the socket for less than a failed
                # receive would.
                return

    def _send_to_node(self, instruction: SendToNode) -> None:
        self._nodes.send(instruction.peer, encode(instruction.message, MESSAGEPACK))

    # --- operator ------------------------------------------------------------------------------

    def _operator_turn(self) -> None:
        received = self._operator.receive()
        if received is None:
            return
        identity, frame = received
        try:
            request, codec = self._operator_decoder.decode(frame)
        except WireError as error:
            self._operator.send(identity, encode(OperatorError(str(error)), error.codec))
            return
        if isinstance(request, SetPolicy):
            event = PolicyChanged(request.policy)
            self._perform(self._task_scheduler.handle(event, self._clock()))
        self._operator.send(identity, encode(self._status(), codec))

    def _status(self) -> IadStatus:
        return IadStatus(
            iad=self._iad,
            policy=self._task_scheduler.policy,
            nodes=self._task_scheduler.node_statuses(),
            unreachable_iads=tuple(
                iad for iad, socket in self._peers.items() if not socket.poll(0, zmq.POLLOUT)
            ),
            open_queries=self._query_scheduler.open_queries,
            open_tasks=self._task_scheduler.open_tasks,
            counters=self._query_scheduler.counters
            | self._task_scheduler.counters
            | {
                "malformed_frames": self._malformed,
                "messages_dropped": self._public.dropped + self._nodes.dropped,
                "records_lost": self._records.lost if self._records else 0,
            },
        )

    def _write_record(self, instruction: WriteRecord) -> None:
        if self._records:
            self._records.append(instruction.record, self._clock())


def _node_event(
    identity: bytes, message: NodeMessage
) -> NodeJoined | NodeAlive | NodeLeft | SubtaskReturned:
    match message:
        case SubtaskResult():
            return SubtaskReturned(identity, message)
        case Heartbeat():
            return NodeAlive(identity, message.incarnation, message.running)
        case Hello():
            return NodeJoined(identity, message)
        case Goodbye():
            return NodeLeft(identity, message.incarnation)


def _refused_task(answer: Answer) -> TaskResult:
    """What a master that could not read a task answers, as that task's result."""
    return TaskResult(
        answer.id, "refused", 0.0, reason=answer.reason or "malformed", message=answer.message
    )


def _malformed_answer(error: WireError) -> bytes:
    answer = Answer(
        id=error.sender_id,
        status="refused",
        elapsed_ms=0.0,
        slo_met=False,
        coverage=Coverage(0, 0),
        reason="malformed",
        message=str(error),
    )
    return encode(answer, error.codec)
