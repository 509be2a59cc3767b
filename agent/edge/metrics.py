"""Edge node metrics: counts subtasks as they are answered, collects the rest at each scrape.

Imported only if `[metrics] address` is set, as the HTTP page takes 10 MiB.
"""

# ruff: noqa: PTH123 - pathlib takes 0.6 MiB; see history.file

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Final, NamedTuple

import msgspec

from agent.edge.sampling.counters import OUTCOMES, SensorCounters
from agent.metrics import edge_families as f
from agent.metrics.families import KEY_EXPIRY, MALFORMED_FRAMES, MESSAGES_DROPPED
from agent.metrics.numbers import Histogram, Labels, Samples, gauge, known
from agent.metrics.page import Page
from agent.wire.codec import HEADER_BYTES
from agent.wire.config import Metrics

IO: Final = "/proc/self/io"


class NodeNumbers(NamedTuple):
    """A node's numbers at a scrape; `now` is monotonic, in seconds. Per sensor, `faults` counts the
    channels with a fault and `restarts` those of its helper process; per trigger, `alerts` counts
    how often it was raised. `key_expiry_s` is since the epoch."""

    now: float
    sensors: tuple[SensorCounters, ...]
    faults: tuple[int, ...]
    restarts: tuple[int, ...]
    stored: int
    given_up: int
    events_waiting: int
    events_dropped: int
    alerts: Mapping[str, int]
    joined: bool
    synchronised: bool
    malformed_frames: int
    messages_dropped: int
    written_bytes: int | None
    key_expiry_s: float | None


class _Result(msgspec.Struct):
    """The fields of a subtask's result that the metrics need."""

    outcome: str
    wait_ms: float
    execution_ms: float


class EdgeMetrics:
    """Serves /metrics. Call `turn` whenever `fileno` is readable; it calls `numbers` in the same
    thread. OSError if the address cannot be bound."""

    def __init__(self, config: Metrics, numbers: Callable[[], NodeNumbers]) -> None:
        self._numbers = numbers
        self._subtasks = Histogram(f.SUBTASK_DURATION)
        self._decode = msgspec.msgpack.Decoder(_Result).decode
        self._page = Page(config, f.EDGE, self._take)
        self.fileno = self._page.fileno

    def answered(self, frame: bytes) -> None:
        """A subtask was answered with this frame."""
        result = self._decode(memoryview(frame)[HEADER_BYTES:])
        self._subtasks.observe(("node_wait", result.outcome), [max(0.0, result.wait_ms / 1e3)])
        self._subtasks.observe(("execution", result.outcome), [result.execution_ms / 1e3])

    def turn(self) -> None:
        """Answer the waiting scrapes."""
        self._page.turn()

    def close(self) -> None:
        """Stop serving."""
        self._page.close()

    def _take(self) -> list[Samples]:
        return [self._subtasks.samples(), *samples(self._numbers())]


def samples(n: NodeNumbers) -> list[Samples]:
    """All metric families except that of subtasks."""
    values = [
        ((s.sensor, channel, outcome), count)
        for s in n.sensors
        for channel, counts in zip(s.channels, s.values, strict=True)
        for outcome, count in zip(OUTCOMES, counts, strict=True)
    ]
    plain = {
        f.ACKNOWLEDGED: n.stored,
        f.GIVEN_UP: n.given_up,
        f.EVENTS_WAITING: n.events_waiting,
        f.EVENTS_DROPPED: n.events_dropped,
        f.LINK_JOINED: n.joined,
        f.SYNCHRONISED: n.synchronised,
        MALFORMED_FRAMES: n.malformed_frames,
        MESSAGES_DROPPED: n.messages_dropped,
    }
    if n.written_bytes is not None:
        plain[f.WRITTEN] = n.written_bytes
    return [
        gauge(f.SENSOR_VALUES, values),
        gauge(f.TICKS_MISSED, [((s.sensor,), s.missed) for s in n.sensors]),
        gauge(f.SILENCE, [((s.sensor,), s.silence_s(n.now)) for s in n.sensors]),
        gauge(f.VALUE_AGE, [((s.sensor,), s.age_ms / 1e3) for s in n.sensors if s.success_s]),
        gauge(f.FAULTS, _by_sensor(n, n.faults)),
        gauge(f.HELPER_RESTARTS, _by_sensor(n, n.restarts)),
        gauge(f.TRIGGERS_RAISED, [((name,), count) for name, count in n.alerts.items()]),
        known(KEY_EXPIRY, n.key_expiry_s),
        *[gauge(family, [((), value)]) for family, value in plain.items()],
    ]


def _by_sensor(n: NodeNumbers, values: Iterable[float]) -> Iterator[tuple[Labels, float]]:
    return (((s.sensor,), value) for s, value in zip(n.sensors, values, strict=True))


def written_bytes(path: str = IO) -> int | None:
    """Bytes that this process has written to storage, by the kernel's count; None if unknown."""
    with suppress(OSError, ValueError), open(path, encoding="ascii") as file:
        for line in file:
            if line.startswith("write_bytes:"):
                return int(line.partition(":")[2])
    return None
