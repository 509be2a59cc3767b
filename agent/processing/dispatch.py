"""Dispatch: which processor a worker serves next, and when a processor moves to another worker.

One queue, ordered by deadline, feeds all workers (EDF). A processor's messages are processed in
order and one at a time, so only its oldest one counts. A processor with state stays at the worker
that has it: the queue is kept in parts, one for the processors of each worker and one for those
that any worker may take. Where a processor waits for a busy worker while another is idle, it moves.
"""

from __future__ import annotations

import math
from typing import Final

from _core.queue.edf import EdfQueue
from agent.processing.events import (
    Instructions,
    Load,
    Resume,
    Run,
    StartWorker,
    TakeSnapshot,
    Unload,
)
from agent.processing.processor import Processor
from agent.processing.worker import Request, Worker

START_S: Final = 60.0  # a worker that is not ready by then is ended
# A processor that waited so long for a busy worker moves to an idle one: with its state as soon as
# that worker can give it, from its checkpoint if the worker is busy with one message for longer.
# One whose state is here anyway moves when it waited as long as it takes to be built.
MOVE_AFTER_S: Final = 0.05
LONG_S: Final = 0.25
AT_ONCE: Final = 0.0  # a key before all others


class Dispatch:
    """The workers, the queue, and what is due later. Instructions gather until they are taken."""

    def __init__(self) -> None:
        self._workers: dict[int, Worker] = {}
        self._by_incarnation: dict[int, Processor] = {}
        self._queues: dict[int | None, EdfQueue[Processor]] = {None: EdfQueue()}
        # None: a worker is to be started.
        self._timers: EdfQueue[Processor | Worker | None] = EdfQueue()
        self._move_due = math.inf
        self._numbers = 0
        self._incarnations = 0
        self._out: Instructions = []

    @property
    def next_due(self) -> float | None:
        """When to call `tick` next; None: not needed."""
        due = self._move_due
        if self._timers:
            due = min(due, self._timers.peek_key())
        return None if due == math.inf else due

    def _settle(self, processor: Processor, now: float) -> None:
        """Put the processor where it belongs in the queue."""
        if processor.queued is not None:
            self._queues[processor.worker].remove(processor.queued)
            processor.queued = None
        while (head := processor.head) is not None and head.skipped and processor.loaded:
            self._advance(processor, now)
        if not (work := self._work(processor)):
            return
        processor.ready_at_s = now
        if work == "snapshot" and processor.leaves_worker:
            key = AT_ONCE
        else:
            key = head.due_s if head is not None else now
        processor.queued = self._queues[processor.worker].push(key, processor)

    def _work(self, processor: Processor) -> Request:
        """The event that it waits for."""
        if processor.state == "loading":
            return "load" if processor.worker is None else ""
        if processor.state != "ready" or self._is_served(processor):
            return ""
        if processor.done and (
            processor.leaves_worker or processor.snapshot_wanted or processor.checkpoint_due
        ):
            return "snapshot"
        return "run" if processor.head is not None else ""

    def _dispatch(self, now: float) -> None:
        """Give idle workers the most urgent work."""
        self._move_due = math.inf
        while idle := [each for each in self._workers.values() if each.state == "idle"]:
            best: tuple[float, Worker, EdfQueue[Processor]] | None = None
            anyones = self._queues[None]
            if anyones:
                fewest = min(idle, key=lambda each: len(each.incarnations))
                best = (anyones.peek_key(), fewest, anyones)
            for worker in idle:
                queue = self._queues[worker.number]
                if queue and (best is None or queue.peek_key() < best[0]):
                    best = (queue.peek_key(), worker, queue)
            if best is not None:
                self._serve(best[2].pop(), best[1], now)
            elif not self._move(now):
                return

    def _serve(self, processor: Processor, worker: Worker, now: float) -> None:
        """Send the worker a request for this processor."""
        processor.queued = None
        request = self._work(processor)
        limits = processor.definition.limits
        number = worker.number
        if request == "load":
            self._incarnations += 1
            processor.worker, processor.incarnation = number, self._incarnations
            self._by_incarnation[processor.incarnation] = processor
            worker.incarnations[processor.incarnation] = processor.name
            state = processor.checkpoint.state
            self._out.append(Load(number, processor.incarnation, processor.definition, state))
        elif request == "run":
            processor.become("running")
            head = processor.head
            assert head is not None
            self._out.append(Run(number, processor.incarnation, head.body))
        else:
            self._out.append(TakeSnapshot(number, processor.incarnation))
        worker.begin(request, processor.incarnation, now)
        patience_s = limits.load_s if request == "load" else limits.wall_s
        worker.timer = self._timers.push(now + patience_s, worker)

    def _move(self, now: float) -> bool:
        """A worker is idle: let it take a processor that waits for a busy one. Whether it may."""
        for worker in self._workers.values():
            queue = self._queues[worker.number]
            if worker.state != "busy" or not queue:
                continue
            processor = queue.peek()
            due = processor.ready_at_s + _patience_s(processor)
            long = worker.since_s + LONG_S
            if now >= due and (now >= long or not processor.done) and not processor.handing_over:
                self._leave(processor)
                self._settle(processor, now)
                return True
            if now >= due and not processor.moving:
                processor.moving = True
                since_s = processor.ready_at_s
                self._settle(processor, now)
                processor.ready_at_s = since_s
            later = max(due, long) if now >= due else due
            if later > now:
                self._move_due = min(self._move_due, later)
        return False

    def _advance(self, processor: Processor, now: float) -> None:
        """Its head is done."""
        processor.advance()
        self._keep_later(processor, now)
        self._make_room(processor)

    def _keep_later(self, processor: Processor, now: float) -> None:
        """What its topic has no checkpoint of is not to wait for ever for one."""
        if processor.timer is None and (processor.done or processor.unsaved):
            keep_at = now + processor.definition.limits.checkpoint_s
            processor.timer = self._timers.push(keep_at, processor)

    def _make_room(self, processor: Processor) -> None:
        if processor.held and processor.has_room:
            processor.held = False
            self._out.append(Resume(processor.name, processor.accepted))

    def _leave(self, processor: Processor) -> None:
        """It begins again with its checkpoint, at any worker."""
        if processor.state != "loading":
            processor.become("loading")
        processor.measures.counters.moved += 1
        self._detach(processor)

    def _detach(self, processor: Processor) -> None:
        """Whatever its worker has of it no longer counts."""
        self._clear_timer(processor)
        if processor.queued is not None:
            self._queues[processor.worker].remove(processor.queued)
            processor.queued = None
        if processor.worker is not None:
            worker = self._workers.get(processor.worker)
            del self._by_incarnation[processor.incarnation]
            if worker is not None:
                del worker.incarnations[processor.incarnation]
                if worker.state in ("idle", "busy"):
                    self._out.append(Unload(worker.number, processor.incarnation))
        processor.left_worker()

    def _is_served(self, processor: Processor) -> bool:
        worker = self._workers.get(processor.worker) if processor.worker is not None else None
        return worker is not None and worker.serves == processor.incarnation

    def _since(self, worker: int) -> float:
        known = self._workers.get(worker)
        return known.since_s if known is not None else 0.0

    def _start_worker(self, now: float) -> None:
        self._numbers += 1
        worker = Worker(self._numbers)
        worker.become("starting")
        worker.timer = self._timers.push(now + START_S, worker)
        self._workers[worker.number] = worker
        self._queues[worker.number] = EdfQueue()
        self._out.append(StartWorker(worker.number))

    def _clear_timer(self, processor: Processor) -> None:
        if processor.timer is not None:
            self._timers.remove(processor.timer)
            processor.timer = None

    def _unset(self, worker: Worker) -> None:
        if worker.timer is not None:
            self._timers.remove(worker.timer)
            worker.timer = None

    def _taken(self) -> Instructions:
        out, self._out = self._out, []
        return out


def _patience_s(processor: Processor) -> float:
    """How long it waits for a busy worker while another is idle. What moves without work that is
    done again should wait as long as the move takes, so it never costs more than twice the best."""
    return MOVE_AFTER_S if processor.done else min(processor.load_s, MOVE_AFTER_S)
