"""Processor plane: the message processors of this master's topics, in worker processes."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from msgspec.structs import replace

from agent.master.topics.worker_pool import MEMORY_BYTES, WorkerPool
from agent.processing.definition import Definition, limits_of
from agent.processing.events import (
    Arrived,
    Checkpoint,
    Create,
    Emit,
    Enable,
    Hold,
    Instruction,
    Remove,
    Report,
    Resume,
    Save,
    TakeCheckpoint,
)
from agent.processing.processing import Processing
from agent.processing.record import record_of
from agent.processing.status import Status
from agent.runtime.console import Say
from agent.runtime.reactor import Reactor
from agent.topics.events import (
    Checkpointed,
    Emitted,
    Feed,
    Held,
    Resumed,
    StartProcessor,
    TopicsEvent,
)
from agent.wire.master_config import MasterProcessing
from agent.wire.predicates import Value
from agent.wire.records import ProcessingRecord
from agent.wire.topics import Topic, TopicStatus
from processors.base import ProcessorError
from processors.registry import GROUP, PROCESSORS, channels_of, open_processor

# Processors are asked how they do at most so often.
LOOK_S: Final = 0.1
# When a message of a topic without an objective is due.
DUE_S: Final = 1.0
# Messages of a processor that must have been measured before an objective is refused.
ENOUGH: Final = 20
# Of the latencies of a topic without an objective.
PERCENTILE: Final = 90.0
# Up to so many processors, an interval of the records ends for all whenever one comes or goes. The
# model of those that share a master takes no more, and the records would grow as their square.
MAX_TOGETHER: Final = 32
UNHEALTHY: Final = frozenset({"backing_off", "disabled"})

Tell = Callable[[TopicsEvent], None]


class ProcessorPlane:
    """The processors of `agent.master.topics.topic_plane`. The worker processes, one for each core,
    are started with the first processor: a master without any pays nothing.

    `record` takes what each processor did: every `config.record_s`, and whenever one comes or
    goes; of more than `MAX_TOGETHER`, only what one that goes did."""

    def __init__(
        self,
        reactor: Reactor,
        say: Say,
        config: MasterProcessing = MasterProcessing(),  # noqa: B008 - it cannot be changed
        *,
        iad: str = "",
        wall: Callable[[], float] = time.time,
        record: Callable[[ProcessingRecord], object] = lambda _: None,
    ) -> None:
        self._clock = reactor.clock
        self._say = say
        self._config = config
        self._iad = iad
        self._wall = wall
        self._record = record
        self.on_trouble: Callable[[str, str, str], object] = lambda *_: None
        self._cores = len(os.sched_getaffinity(0))
        self._workers = config.workers or self._cores
        self._processing = Processing(self._workers)
        self._topics: dict[str, Topic] = {}
        self._interval_s = 0.0  # when the interval of the records began
        self._began_s: dict[str, float] = {}  # the same of each topic
        reactor.add_timer(self)
        self._pool = WorkerPool(reactor, self._processing, self._deliver, say)
        self._running = False
        self._tells: dict[str, Tell] = {}
        self._statuses: dict[str, Status] = {}
        self._looked_s = -math.inf

    # --- as `Processors` -----------------------------------------------------------------------

    def why_not(self, topic: Topic) -> str:
        """Why the processor of a topic cannot be started here; empty if it can."""
        name = topic.processor
        if name in PROCESSORS:
            try:
                open_processor(name, _parameters(topic))
            except ProcessorError as error:
                return str(error)
        elif problem := _unknown(name):
            return problem
        try:
            limits = limits_of(topic.limits)
        except ValueError as error:
            return str(error)
        if limits.memory_bytes > MEMORY_BYTES:
            return f"limit memory_bytes: a worker has {MEMORY_BYTES} bytes for its processors"
        return self._infeasible(topic)

    def channels(self, topic: Topic) -> tuple[str, ...]:
        """The channels that the processor of a topic uses, as far as it says which."""
        try:
            return channels_of(topic.processor, _parameters(topic))
        except ProcessorError:
            return ()  # `why_not` says so

    def described(self, status: TopicStatus) -> TopicStatus:
        """A topic's status with the processor's part."""
        topic, now = status.topic, self._clock()
        if now >= self._looked_s + LOOK_S:
            self._looked_s = now
            self._statuses = {each.processor: each for each in self._processing.status(now)}
        found = self._statuses.get(topic.name)
        if found is None:
            return status
        counters, cpu = found.counters, found.spreads["cpu"]
        percentile = PERCENTILE if topic.slo is None else topic.slo.percentile
        latency_s = self._processing.latency_s(topic.name, percentile, now)
        failure = found.last_failure[:512]
        trouble = failure if found.state in UNHEALTHY else ""
        return replace(
            status,
            state=found.state,
            waiting=found.waiting,
            processed=counters.processed,
            late=counters.late if topic.slo is not None else 0,
            failed=counters.failed,
            skipped=counters.skipped,
            latency_ms=None if latency_s is None else latency_s * 1e3,
            cpu_ms=cpu.mean_s * 1e3 if cpu.count else None,
            trouble=trouble or status.trouble[:512],
            arrived=counters.arrived,
            cpu_s=counters.cpu_s,
            last_failure="" if trouble else failure,
        )

    def sizes(self, inboxes: Mapping[str, int]) -> dict[str, int]:
        """The bytes of each processor's state and of what waits for it, given those in the topics'
        inboxes: published messages stay there until a checkpoint has them, also while they wait in
        the queue. Readings are in the queue only."""
        found = self._processing.status(self._clock())
        return {
            each.processor: each.state_bytes
            + max(each.waiting_bytes, inboxes.get(each.processor, 0))
            for each in found
        }

    def start(self, started: StartProcessor, tell: Tell) -> None:
        """Begin; `tell` takes what follows."""
        if not self._running:
            self._running = True
            self._pool.start()
        topic, progress = started.topic, started.progress
        self._end_interval(topic.name, len(self._topics))
        self._topics[topic.name] = topic
        self._began_s[topic.name] = self._clock()
        self._tells[topic.name] = tell
        self._looked_s = -math.inf
        definition = Definition(
            name=topic.name,
            processor=topic.processor,
            parameters=_parameters(topic),
            slo_s=DUE_S if topic.slo is None else topic.slo.latency_ms / 1e3,
            limits=limits_of(topic.limits),
        )
        checkpoint = Checkpoint(progress.position, progress.position, progress.state)
        self._pool.handle(Create(definition, started.epoch, checkpoint))

    def stop(self, name: str) -> None:
        """End the processor of this topic."""
        self._end_interval(name, len(self._topics) - 1)
        self._topics.pop(name, None)
        self._began_s.pop(name, None)
        self._tells.pop(name, None)
        self._looked_s = -math.inf
        self._pool.handle(Remove(name))

    def enable(self, name: str) -> None:
        """Start it again, whatever it did before."""
        self._looked_s = -math.inf
        self._pool.handle(Enable(name))

    def feed(self, message: Feed) -> None:
        """A message for it."""
        self._pool.handle(Arrived(message.name, message.position, message.body))

    def take_checkpoint(self, name: str) -> None:
        """Have it give its state."""
        self._pool.handle(TakeCheckpoint(name))

    def close(self) -> None:
        """End the workers. What they had not put out comes again from the inboxes."""
        self._write_records()
        self._pool.close()

    # --- records -------------------------------------------------------------------------------

    @property
    def next_due(self) -> float | None:
        """When the next records are due."""
        return self._interval_s + self._config.record_s if self._topics else None

    def tick(self, now: float) -> None:
        """Write records that are due."""
        if (due := self.next_due) is not None and due <= now:
            self._write_records()

    def _end_interval(self, name: str, beside: int) -> None:
        """The processor of this topic comes or goes; so many are there without it, at most."""
        if beside <= MAX_TOGETHER:
            self._write_records()
        elif name in self._topics:
            self._write([name])

    def _write_records(self) -> None:
        """Write what each processor did since the last time, and begin anew."""
        self._write(list(self._topics))
        self._interval_s = self._clock()

    def _write(self, names: list[str]) -> None:
        now, wall = self._clock(), self._wall()
        crowded = len(self._topics) > MAX_TOGETHER
        there = sorted(self._topics)[:MAX_TOGETHER]
        for name in names:
            if not self._processing.owns(name):
                continue
            topic, began_s = self._topics[name], self._began_s[name]
            self._began_s[name] = now
            percentile = PERCENTILE if topic.slo is None else topic.slo.percentile
            self._record(
                record_of(
                    self._iad,
                    round((wall - (now - began_s)) * 1e3),
                    began_s,
                    now - began_s,
                    topic,
                    self._processing.status_of(name, now),
                    self._processing.next_interval(name, percentile, now),
                    tuple([each for each in there if each != name][: MAX_TOGETHER - 1]),
                    self._cores,
                    self._workers,
                    len(self._topics) - 1 if crowded else None,
                )
            )

    # --- what processors say -------------------------------------------------------------------

    def _deliver(self, instruction: Instruction) -> None:
        match instruction:
            case Report("", _, text):
                self._say(f"processors: {text}\n")
            case Report(name, occurrence, text):
                self._say(f"processor of topic {name}: {text}\n")
                self.on_trouble(name, occurrence, text)
            case Emit(name, epoch, position, outputs):
                self._tell(name, Emitted(name, epoch, position, outputs))
            case Save(name, epoch, checkpoint):
                told = Checkpointed(name, epoch, checkpoint.position, checkpoint.state)
                self._tell(name, told)
            case Hold(name):
                self._tell(name, Held(name, self._processing.epoch_of(name)))
            case Resume(name, after):
                self._tell(name, Resumed(name, self._processing.epoch_of(name), after))

    def _tell(self, name: str, event: TopicsEvent) -> None:
        if (tell := self._tells.get(name)) is not None:
            tell(event)

    def _infeasible(self, topic: Topic) -> str:
        """Why the objective cannot be kept, by what was measured of the same program here."""
        if topic.slo is None:
            return ""
        now = self._clock()
        for status in self._processing.status(now):
            if status.program != topic.processor or status.spreads["cpu"].count < ENOUGH:
                continue
            percentile = topic.slo.percentile
            took_s = self._processing.cpu_s(status.processor, percentile, now)
            if took_s is not None and took_s * 1e3 > topic.slo.latency_ms:
                return (
                    f"infeasible alone: {topic.processor} takes {took_s * 1e3:.3g} ms of CPU time "
                    f"at p{percentile:g} in topic {status.processor}; the objective is "
                    f"{topic.slo.latency_ms:.3g} ms"
                )
        return ""


def _unknown(name: str) -> str:
    """Why no other package has this processor; they are imported by workers only."""
    from importlib.metadata import entry_points  # costs memory

    known = {*PROCESSORS, *entry_points(group=GROUP).names}
    return (
        "" if name in known else f"no processor {name} here; there are {', '.join(sorted(known))}"
    )


def _parameters(topic: Topic) -> dict[str, Any]:
    """On the wire every number is a double; parameters that are counts want integers."""
    return {
        name: [*map(_whole, value)] if isinstance(value, tuple) else _whole(value)
        for name, value in topic.parameters.items()
    }


def _whole(value: Value) -> Value | int:
    return int(value) if isinstance(value, float) and value.is_integer() else value
