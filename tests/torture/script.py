"""What a node does to its history, made from a seed: readings of three sensors under clocks that
jump and drift, commits, corrections, events, checkpoints, reopenings and reboots.

A script is a pure function of its seed, so that the process that plays it (`player.py`) and the one
that judges what a power cut left (`judge.py`) need to tell each other the numbers of steps only.
"""

from __future__ import annotations

from random import Random
from typing import Final, NamedTuple

from agent.edge.history.memtable import Sample
from agent.edge.timebase import Correction, TimeBase

DAY_MS: Final = 86_400_000
BEGIN_MS: Final = 1_790_000_000_000
NAN: Final = float("nan")
NO_RESPONSE: Final = 1


class StreamPlan(NamedTuple):
    """A sensor: two channels, the number of a reading and a value that follows from it."""

    name: str
    channels: tuple[str, str]
    keeps_raw: bool
    every: int  # of how many beats


STREAMS: Final = (
    StreamPlan("a", ("a_n", "a_v"), keeps_raw=False, every=1),
    StreamPlan("b", ("b_n", "b_v"), keeps_raw=True, every=2),
    StreamPlan("c", ("c_n", "c_v"), keeps_raw=False, every=5),
)


class Settings(NamedTuple):
    """The history's settings in a script."""

    group_readings: int
    commit_s: float
    retention_s: float
    most_events: int


class Append(NamedTuple):
    """A reading, by its number; `sample` is what the sampler makes of it."""

    stream: int
    number: int
    sample: Sample


class Commit(NamedTuple):
    """All readings are to be on stable storage."""


class Correct(NamedTuple):
    """Times of this boot were wrong."""

    correction: Correction


class AddEvent(NamedTuple):
    """An event, by its number."""

    number: int
    monotonic_ms: int
    time_ms: int
    synchronised: bool


class Remove(NamedTuple):
    """The master took these events over."""

    numbers: tuple[int, ...]


class Checkpoint(NamedTuple):
    """SQLite's checkpoint, asked for by another connection, as one may happen at any time."""

    mode: str


class Open(NamedTuple):
    """Close the history, if it is open, and open it in this boot."""

    boot: int


class Fail(NamedTuple):
    """From now on `count` operations on the disk fail, after `after` that pass."""

    what: str
    after: int
    count: int


class Mend(NamedTuple):
    """The disk works again."""


Step = Append | Commit | Correct | AddEvent | Remove | Checkpoint | Open | Fail | Mend


class Script(NamedTuple):
    """The settings and the steps of a seed."""

    seed: int
    settings: Settings
    steps: tuple[Step, ...]


def value_of(number: int) -> float:
    """The second channel of reading `number`; NaN for a missing one."""
    return NAN if number % 17 == 3 else number * 7919 % 4001 / 8


def flags_of(number: int) -> tuple[int, ...]:
    """The quality of reading `number`."""
    return (0, NO_RESPONSE) if number % 17 == 3 else (0, 8) if number % 13 == 5 else ()


def sample_of(stream: int, number: int, time_ms: int, monotonic_ms: int, sync: bool) -> Sample:
    """Reading `number`, with everything that can be stored about one."""
    value = value_of(number)
    return Sample(
        time_ms,
        monotonic_ms,
        sync,
        (float(number), value),
        source_time_ms=1_000 * number if stream == 2 else None,
        age_ms=number % 7 if stream == 2 else 0,
        quality=flags_of(number),
        raw=(float(number), value * 2 + 1) if STREAMS[stream].keeps_raw else None,
    )


class _Clocks:
    """A boot's clocks, in ms. `drift` is what the wall clock gains, as a fraction."""

    def __init__(self, draw: Random, true_ms: int) -> None:
        self.monotonic_ms = draw.randrange(1_000, 60_000)
        self._draw = draw
        self._wrong_ms = draw.choice((0, 0, -14 * DAY_MS, 14 * DAY_MS, -20_000 * DAY_MS, 700))
        self._wrong_ms = max(self._wrong_ms, DAY_MS - true_ms)  # wall clocks begin in 1970
        self._true_offset_ms = true_ms - self.monotonic_ms
        self.synchronised = draw.random() < 0.3
        if self.synchronised:
            self._wrong_ms = 0

    @property
    def true_ms(self) -> int:
        return self.monotonic_ms + self._true_offset_ms

    @property
    def wall_ms(self) -> int:
        return self.true_ms + self._wrong_ms

    def advance(self) -> None:
        draw = self._draw
        self.monotonic_ms += 1_000 + draw.randrange(-20, 20)
        if draw.random() < 0.01:
            self.monotonic_ms += draw.randrange(100_000)  # the node was busy
        if not self.synchronised and draw.random() < 0.05:
            self._wrong_ms += draw.choice((-1, 1, 60, -60))
        if draw.random() < 0.008:
            self._wrong_ms += draw.choice((-14, 14)) * DAY_MS
            self._wrong_ms = max(self._wrong_ms, DAY_MS - self.true_ms)
            self.synchronised = draw.random() < 0.3  # a false server, or set by hand
        elif draw.random() < 0.01:
            self.synchronised = not self.synchronised
            if self.synchronised:
                self._wrong_ms = 0


def script(seed: int, length: int, *, faults: bool = False) -> Script:
    """The script of a seed: `length` beats of about a second, some steps each."""
    return _Writer(seed, faults).write(length)


class _Writer:
    def __init__(self, seed: int, faults: bool) -> None:
        self._seed = seed
        self._draw = draw = Random(f"script {seed} {faults}")
        self._faults = faults
        self._settings = Settings(
            group_readings=draw.choice((4, 15, 60)),
            commit_s=draw.choice((0.5, 3.0, 10.0, 40.0)),
            retention_s=draw.choice((40.0, 300.0, 1e7)),
            most_events=draw.choice((8, 10_000)),
        )
        self._steps: list[Step] = []
        self._readings = [0 for _ in STREAMS]
        self._events = 0
        self._removed = 0
        self._boot = 0
        self._failing = False

    def write(self, length: int) -> Script:
        draw = self._draw
        clocks = self._reboot(BEGIN_MS)
        for beat in range(length):
            clocks.advance()
            stamp = self._base.look(
                clocks.monotonic_ms, clocks.wall_ms, synchronised=clocks.synchronised
            )
            if stamp.correction is not None:
                self._steps.append(Correct(stamp.correction))
            for stream, plan in enumerate(STREAMS):
                if beat % plan.every == 0:
                    self._read(stream, stamp.time_ms, clocks.monotonic_ms, stamp.synchronised)
            self._sometimes(stamp.time_ms, clocks.monotonic_ms, stamp.synchronised)
            if self._faults:
                self._break_or_mend()
            if draw.random() < 0.01:
                clocks = self._reboot(clocks.true_ms + draw.randrange(100_000))
            elif draw.random() < 0.01:
                self._steps.append(Open(self._boot))
        if self._failing:
            self._steps.append(Mend())
        self._steps.append(Commit())
        return Script(self._seed, self._settings, tuple(self._steps))

    def _reboot(self, true_ms: int) -> _Clocks:
        self._boot += 1
        self._base = TimeBase()
        self._steps.append(Open(self._boot))
        return _Clocks(self._draw, true_ms)

    def _read(self, stream: int, time_ms: int, monotonic_ms: int, sync: bool) -> None:
        number = self._readings[stream]
        self._readings[stream] += 1
        sample = sample_of(stream, number, time_ms, monotonic_ms, sync)
        self._steps.append(Append(stream, number, sample))

    def _sometimes(self, time_ms: int, monotonic_ms: int, sync: bool) -> None:
        draw = self._draw
        if draw.random() < 0.03:
            self._steps.append(Commit())
        if draw.random() < 0.06:
            self._steps.append(AddEvent(self._events, monotonic_ms, time_ms, sync))
            self._events += 1
        if draw.random() < 0.02 and self._removed < self._events:
            last = draw.randrange(self._removed, self._events) + 1
            self._steps.append(Remove(tuple(range(self._removed, last))))
            self._removed = last
        if draw.random() < 0.04:
            self._steps.append(Checkpoint(draw.choice(("PASSIVE", "RESTART", "TRUNCATE"))))

    def _break_or_mend(self) -> None:
        draw = self._draw
        if self._failing and draw.random() < 0.1:
            self._steps.append(Mend())
            self._failing = False
        elif not self._failing and draw.random() < 0.04:
            what = draw.choice(("FULL", "READ_ONLY", "BROKEN", "NO_SYNC"))
            count = draw.choice((1, 2, 5, 1 << 60))
            self._steps.append(Fail(what, draw.randrange(12), count))
            self._failing = True
