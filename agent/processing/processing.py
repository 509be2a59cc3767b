"""All processors of a master: which message goes to which worker, and what happens to failures.

A worker does one thing at a time, so whatever happens to it is the doing of the processor that it
serves. The other processors of that worker begin again with their checkpoints and process the
messages since then once more; outputs that were given away before are not given away again.

Pure: events and the time in, instructions out.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, ClassVar, Final

from agent.processing.dispatch import Dispatch
from agent.processing.events import (
    Arrived,
    Babbled,
    Checkpoint,
    Create,
    Emit,
    Enable,
    Event,
    Failed,
    Finished,
    HandedOver,
    HandOver,
    Hold,
    Instructions,
    KillWorker,
    Loaded,
    Occurrence,
    Remove,
    Report,
    Save,
    Snapshotted,
    TakeCheckpoint,
    WorkerEnded,
    WorkerReady,
)
from agent.processing.measures import Interval
from agent.processing.outputs import Nonsense, read_outputs
from agent.processing.processor import Input, Processor
from agent.processing.status import Status
from agent.processing.worker import Request, Worker
from agent.runtime.back_off import BackOff

FIRST_PAUSE_S: Final = 1.0  # before a worker is started that never became ready
MAX_PAUSE_S: Final = 60.0
# The kernel ends a worker that takes so much longer than its limit of CPU time, at most (`_allow`
# in the worker). What one says of more than that is not counted: nobody could read the sum.
KILLED_AFTER_S: Final = 2.0


class Processing(Dispatch):
    """The processors of one master, and its `workers` worker processes."""

    def __init__(self, workers: int) -> None:
        super().__init__()
        self._processors: dict[str, Processor] = {}
        self._wanted = workers
        self._worker_back_off = BackOff(FIRST_PAUSE_S, MAX_PAUSE_S)

    # --- interface ---

    def start(self, now: float) -> Instructions:
        """Start the workers; called once."""
        for _ in range(self._wanted):
            self._start_worker(now)
        return self._taken()

    def handle(self, event: Event, now: float) -> Instructions:
        """Handle `event` at monotonic time `now`. O(workers + log processors), without what a
        failure moves."""
        self.ACTIONS[type(event)](self, event, now)
        self._dispatch(now)
        return self._taken()

    def tick(self, now: float) -> Instructions:
        """Do everything due by `now`."""
        while self._timers and self._timers.peek_key() <= now:
            match self._timers.pop():
                case Worker() as worker:
                    worker.timer = None
                    self._took_too_long(worker, now)
                case Processor() as processor:
                    processor.timer = None
                    self._due(processor, now)
                case None:
                    self._start_worker(now)
        self._dispatch(now)
        return self._taken()

    def status(self, now: float) -> list[Status]:
        """All processors."""
        return [self.status_of(name, now) for name in self._processors]

    def status_of(self, name: str, now: float) -> Status:
        """One processor that is owned."""
        return Status.of(self._processors[name], now)

    def owns(self, name: str) -> bool:
        """Whether there is such a processor."""
        return name in self._processors

    def latency_s(self, processor: str, percentile: float, now: float) -> float | None:
        """In which time this percentile of its messages was processed lately; None: of none is it
        known."""
        found = self._processors.get(processor)
        return None if found is None else found.measures.lately.latency_s(percentile, now)

    def cpu_s(self, processor: str, percentile: float, now: float) -> float | None:
        """How much CPU time this percentile of its messages took lately, likewise."""
        found = self._processors.get(processor)
        return None if found is None else found.measures.lately.cpu_s(percentile, now)

    def next_interval(self, processor: str, percentile: float, now: float) -> Interval:
        """What a processor that is owned did since the interval before; the next one begins. The
        percentile of its latencies is told besides."""
        return self._processors[processor].measures.next_interval(now, percentile)

    def epoch_of(self, processor: str) -> int:
        """The epoch of a processor that is owned."""
        return self._processors[processor].epoch

    def serves(self, worker: int) -> str:
        """The processor that this worker serves or served last; empty if none."""
        known = self._workers.get(worker)
        return known.incarnations.get(known.last, "") if known else ""

    # --- the topics' side ---

    def _create(self, event: Create, now: float) -> None:
        name = event.definition.name
        if name in self._processors:
            raise ValueError(f"processor {name} exists")
        processor = Processor(event.definition, event.epoch, event.checkpoint)
        self._processors[name] = processor
        processor.become("loading")
        self._settle(processor, now)

    def _remove(self, event: Remove, now: float) -> None:
        if (processor := self._processors.get(event.processor)) is not None:
            self._forget(processor, now)

    def _enable(self, event: Enable, now: float) -> None:
        processor = self._processors.get(event.processor)
        if processor is not None and processor.state in ("disabled", "backing_off"):
            processor.forgive()
            self._clear_timer(processor)
            processor.become("loading")
            self._settle(processor, now)

    def _take_checkpoint(self, event: TakeCheckpoint, now: float) -> None:
        if (processor := self._processors.get(event.processor)) is None:
            return
        processor.snapshot_wanted = True
        if processor.done or processor.state == "running":
            self._settle(processor, now)
        else:
            self._save(processor)

    def _hand_over(self, event: HandOver, now: float) -> None:
        if (processor := self._processors.get(event.processor)) is None:
            return
        processor.handing_over = True
        if processor.state == "running" or (processor.state == "ready" and processor.done):
            self._settle(processor, now)
        else:
            self._handed_over(processor, now)

    def _arrived(self, event: Arrived, now: float) -> None:
        if (processor := self._processors.get(event.processor)) is None:
            return  # it was removed or handed over meanwhile
        counters = processor.measures.counters
        if event.position <= processor.accepted:
            counters.repeated += 1
            return
        if processor.held or processor.misses(event.position):
            return  # it comes again
        limits = processor.definition.limits
        if processor.full:
            processor.held = True
            processor.awaited = event.position
            counters.held += 1
            self._out.append(Hold(processor.name, event.position))
            return
        counters.arrived += 1
        taken = processor.accept(event.position, event.body, now)
        if not event.body:
            processor.skip(taken)
        elif len(event.body) > limits.message_bytes:
            why = f"has {len(event.body)} bytes; at most {limits.message_bytes} are allowed"
            self._skip(processor, taken, f"it {why}")
            if processor.state not in {"backing_off", "disabled"}:  # else that has its own reason
                processor.last_failure = f"a message {why}"
        if processor.queued is None:
            self._settle(processor, now)

    # --- the workers' side ---

    def _worker_ready(self, event: WorkerReady, now: float) -> None:
        worker = self._workers.get(event.worker)
        if worker is None or worker.state == "ending":
            return
        if worker.state != "starting":
            self._babbled(event, now)
            return
        self._unset(worker)
        worker.become("idle")

    def _worker_ended(self, event: WorkerEnded, now: float) -> None:
        if (worker := self._workers.pop(event.worker, None)) is None:
            return
        was = worker.state
        self._unset(worker)
        worker.become("ended")
        if was != "ending":
            culprit = self._by_incarnation.get(worker.serves or worker.last)
            after = "" if worker.serves else ", after its last message"
            self._evict(worker, culprit, f"its worker {event.how}{after}", now)
        del self._queues[worker.number]
        if not worker.last:  # it never did anything: another one might not, either
            pause_s = self._worker_back_off.next()
            self._report(
                "", "failed", f"a worker {event.how} at its start; another follows in {pause_s:g} s"
            )
            self._timers.push(now + pause_s, None)
        else:
            self._start_worker(now)

    def _babbled(self, event: Babbled | WorkerReady, now: float) -> None:
        worker = self._workers.get(event.worker)
        if worker is not None and worker.state in ("idle", "busy"):
            culprit = self._by_incarnation.get(worker.serves or worker.last)
            self._kill(worker, culprit, "its worker wrote what is no answer", now)

    def _loaded(self, event: Loaded, now: float) -> None:
        began_s = self._since(event.worker)
        if not self._answered(event, "load", now):
            return
        if (processor := self._by_incarnation.get(event.incarnation)) is not None:
            processor.become("ready")
            processor.loaded = True
            processor.load_s = now - began_s
            self._keep_later(processor, now)
            self._settle(processor, now)

    def _finished(self, event: Finished, now: float) -> None:
        started_s = self._since(event.worker)
        if not 0.0 <= event.cpu_s < math.inf or event.grown_bytes < 0:
            self._babbled(Babbled(event.worker), now)
            return
        if not self._answered(event, "run", now):
            return
        if (processor := self._by_incarnation.get(event.incarnation)) is None:
            return  # removed meanwhile
        head = processor.head
        assert head is not None
        limits = processor.definition.limits
        processor.measures.counters.cpu_s += min(event.cpu_s, limits.cpu_s + KILLED_AFTER_S)
        processor.grown_bytes += event.grown_bytes
        try:
            outputs = read_outputs(event.outputs, limits.outputs, limits.output_bytes)
        except Nonsense as error:
            self._fail(processor, str(error), now, head)
            return
        if event.cpu_s > limits.cpu_s:
            self._fail(
                processor,
                f"it took {event.cpu_s:.3g} s of CPU time for a message; at most "
                f"{limits.cpu_s:g} s are allowed",
                now,
                head,
            )
            return
        processor.become("ready")
        again = head.position <= processor.emitted
        self._advance(processor, now)
        counters = processor.measures.counters
        if again:
            counters.replayed += 1
        else:
            processor.measures.processed(now, head.arrived_s, started_s, head.due_s, event.cpu_s)
            if processor.succeeded():
                self._report(processor.name, "recovered", "it processes messages again")
            if outputs:
                counters.outputs += len(outputs)
                self._out.append(Emit(processor.name, processor.epoch, head.position, outputs))
        if event.state is None:
            self._settle(processor, now)
        else:
            self._kept(event.worker, processor, event.state, now)

    def _snapshotted(self, event: Snapshotted, now: float) -> None:
        if not self._answered(event, "snapshot", now):
            return
        if (processor := self._by_incarnation.get(event.incarnation)) is not None:
            processor.snapshot_wanted = True
            self._kept(event.worker, processor, event.state, now)

    def _kept(self, worker: int, processor: Processor, state: bytes, now: float) -> None:
        """Its state after everything that is done is here."""
        most = processor.definition.limits.state_bytes
        if len(state) > most:
            text = f"its state takes {len(state)} bytes; at most {most} are allowed"
            self._fail(processor, text, now)
            return
        processor.kept(state)
        if processor.handing_over:
            self._handed_over(processor, now)
            return
        if processor.snapshot_wanted or processor.oversized or processor.checkpoint_due:
            self._save(processor)
        if processor.oversized:
            # Only now: without its state, what it did would be done again, and grow again.
            self._make_room(processor)
            self._kill(self._workers[worker], processor, _grew(processor), now)
            return
        if processor.moving:
            self._leave(processor)
        self._make_room(processor)
        self._settle(processor, now)

    def _failed(self, event: Failed, now: float) -> None:
        worker = self._workers.get(event.worker)
        request: Request = worker.request if worker is not None else ""
        if not self._answered(event, request, now) or worker is None:
            return
        if (processor := self._by_incarnation.get(event.incarnation)) is None:
            return
        processor.grown_bytes += event.grown_bytes
        if event.out_of_memory:
            # The one that grew most, which need not be the one that found no more.
            residents = map(self._by_incarnation.__getitem__, worker.incarnations)
            largest = max(residents, key=lambda each: each.grown_bytes)
            half = largest.definition.limits.memory_bytes // 2
            culprit = largest if largest.grown_bytes > half else processor
            text = event.text if culprit is processor else _grew(culprit)
            self._kill(worker, culprit, text, now)
            return
        self._fail(processor, event.text, now, processor.head if request == "run" else None)

    # --- time ---

    def _took_too_long(self, worker: Worker, now: float) -> None:
        if worker.state == "starting":
            worker.become("ending")
            self._out.append(KillWorker(worker.number))
            return
        processor = self._by_incarnation.get(worker.serves)
        what = {"load": "to be built", "run": "for a message", "snapshot": "to give its state"}
        text = f"it took more than {now - worker.since_s:.3g} s {what[worker.request]}"
        self._kill(worker, processor, text, now)

    def _due(self, processor: Processor, now: float) -> None:
        if processor.state == "backing_off":
            processor.become("loading")
        elif processor.unsaved and not processor.done and processor.state != "running":
            self._save(processor)
        else:
            processor.snapshot_wanted = True
        self._settle(processor, now)

    # --- failures ---

    def _kill(self, worker: Worker, culprit: Processor | None, text: str, now: float) -> None:
        """End a worker because of one of its processors."""
        self._unset(worker)
        worker.become("ending")
        self._out.append(KillWorker(worker.number))
        self._evict(worker, culprit, text, now)

    def _evict(self, worker: Worker, culprit: Processor | None, text: str, now: float) -> None:
        """No processor is at this worker any more; `culprit` failed, the others did not."""
        residents = [self._by_incarnation[each] for each in worker.incarnations]
        for processor in residents:
            if processor is culprit:
                running = processor.state == "running"
                self._fail(processor, text, now, processor.head if running else None)
            else:
                self._leave(processor)
                if processor.handing_over:
                    self._handed_over(processor, now)
                else:
                    self._settle(processor, now)

    def _fail(
        self, processor: Processor, text: str, now: float, message: Input | None = None
    ) -> None:
        """The processor failed, at this message if there is one."""
        processor.measures.counters.failed += 1
        processor.failures += 1
        processor.recovering = True
        processor.last_failure = text
        self._detach(processor)
        limits = processor.definition.limits
        if message is not None:
            message.attempts += 1
            if message.attempts >= limits.attempts:
                self._skip(processor, message, f"after {message.attempts} attempts: {text}")
                # Clients choose messages: some that it cannot take must not disable it.
                processor.failures = 0
                processor.skips += 1
        if processor.handing_over:
            self._handed_over(processor, now)
        elif processor.failures >= limits.failures:
            self._disable(processor, f"{text}; it failed {processor.failures} times in a row")
        elif processor.skips >= limits.skips:
            self._disable(processor, f"{text}; it skipped {processor.skips} messages in a row")
        else:
            pause_s = processor.pause_s()
            processor.become("backing_off")
            processor.timer = self._timers.push(now + pause_s, processor)
            self._report(processor.name, "failed", f"{text}; it is started again in {pause_s:g} s")

    def _disable(self, processor: Processor, why: str) -> None:
        processor.become("disabled")
        self._report(processor.name, "disabled", f"{why} and is disabled")

    def _skip(self, processor: Processor, message: Input, why: str) -> None:
        processor.skip(message)
        processor.measures.counters.skipped += 1
        text = f"the message at position {message.position} is skipped: {why}"
        self._report(processor.name, "skipped", text)

    # --- helpers ---

    def _save(self, processor: Processor) -> None:
        processor.saved()
        processor.measures.counters.checkpoints += 1
        if processor.state != "backing_off":
            self._clear_timer(processor)
        self._out.append(Save(processor.name, processor.epoch, processor.checkpoint))

    def _handed_over(self, processor: Processor, now: float) -> None:
        known = processor.checkpoint
        checkpoint = Checkpoint(known.position, processor.emitted, known.state)
        messages = processor.given_away()
        self._forget(processor, now)
        self._out.append(HandedOver(processor.name, processor.epoch, checkpoint, messages))

    def _forget(self, processor: Processor, now: float) -> None:
        self._detach(processor)
        processor.become("removed")
        self._settle(processor, now)
        del self._processors[processor.name]

    def _answered(
        self, event: Loaded | Finished | Snapshotted | Failed, request: Request, now: float
    ) -> bool:
        """Whether the event answers the worker's request, which is then over."""
        worker = self._workers.get(event.worker)
        if worker is None or worker.state == "ending":
            return False
        expected = worker.state == "busy" and worker.request == request
        if not expected or worker.serves != event.incarnation:
            self._babbled(Babbled(event.worker), now)
            return False
        self._unset(worker)
        worker.answered()
        self._worker_back_off.reset()
        return True

    def _report(self, processor: str, occurrence: Occurrence, text: str) -> None:
        self._out.append(Report(processor, occurrence, text))

    ACTIONS: ClassVar[dict[type, Callable[[Processing, Any, float], None]]] = {
        Create: _create,
        Remove: _remove,
        Enable: _enable,
        TakeCheckpoint: _take_checkpoint,
        HandOver: _hand_over,
        Arrived: _arrived,
        WorkerReady: _worker_ready,
        WorkerEnded: _worker_ended,
        Babbled: _babbled,
        Loaded: _loaded,
        Finished: _finished,
        Snapshotted: _snapshotted,
        Failed: _failed,
    }


def _grew(processor: Processor) -> str:
    most = processor.definition.limits.memory_bytes
    return (
        f"it took {processor.grown_bytes // 2**20} MiB of memory; at most {most // 2**20} MiB are "
        "allowed"
    )
