"""Judges what the real history makes of a file after a power cut, given what was acknowledged.

What is held against the script, each violation one line:

- the history opens, and puts no file aside
- every acknowledged reading is there once, unless it was too old to be kept, with its values,
  quality, age, raw values, source time, and its time as corrected
- nothing is there that was never appended
- every acknowledged event waits unless its removal had begun or newer ones took its room; none
  comes back after its removal
- the history keeps its id, and gives no sequence twice
- it takes further readings, commits and closes
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Final, NamedTuple

from agent.edge.history.file import HistoryError
from agent.edge.history.history import History
from agent.edge.history.memtable import CLOCK_STEP_MS
from agent.edge.history.reader import Reader
from agent.wire.messages import Series
from tests.torture.player import opened, streams
from tests.torture.script import (
    STREAMS,
    AddEvent,
    Append,
    Commit,
    Correct,
    Open,
    Remove,
    Script,
    Step,
    flags_of,
    sample_of,
    value_of,
)

FURTHER: Final = 9_999_999  # number of the readings that a judge appends
EVER_MS: Final = 1 << 52
LOST: Final = "LOST"  # begins the lines that nothing may cause


class Reading:
    """A reading that was appended, and what is known of it."""

    __slots__ = (
        "acknowledged",
        "append",
        "boot",
        "closed",
        "doubtful",
        "moved",
        "synchronised",
        "times",
    )

    def __init__(self, append: Append, boot: int) -> None:
        self.append = append
        self.boot = boot
        # Its time, and while corrections are in doubt, those that it may have as well.
        self.times = {append.sample.time_ms}
        self.moved = False
        self.synchronised = append.sample.synchronised
        self.acknowledged = False
        self.doubtful = False  # may have been given up
        self.closed = False  # was not on stable storage when a close failed

    def may_have(self, time_ms: int) -> bool:
        """Whether that may be its time. A group moves as one, and may hold slewing of the clock."""
        slew_ms = CLOCK_STEP_MS if self.moved else 0
        return any(abs(time_ms - may) <= slew_ms for may in self.times)


class Event(NamedTuple):
    """An event; `sequence` is None while its adding is in doubt."""

    number: int
    sequence: int | None


class Truth:
    """What a script has done so far, as its marks tell."""

    def __init__(self, played: Script) -> None:
        self._script = played
        self.readings: dict[tuple[int, int], Reading] = {}
        self.events: dict[int, Event] = {}
        self.begun_removal: set[int] = set()
        self.removed: set[int] = set()
        self.history = ""
        self.boot = 0
        self.given_up = 0
        self.last_sequence = 0
        self.latest_ms = 0
        self.latest_synchronised_ms = 0
        self._spans: dict[int, tuple[int, int]] = {}  # by boot: first and last monotonic time
        self.refused = 0
        self.done = -1  # the last step that was
        self._opening: list[Reading] = []
        self._unsure: list[Reading] = []  # of this opening, appended and not acknowledged
        self._given_up = 0  # in this opening

    def learn(self, mark: str) -> None:
        """Take in one mark."""
        kind, number, *rest = mark.split()
        step = self._script.steps[int(number)]
        if kind == "b":
            self._begin(step)
        elif kind == "o":
            self._acknowledge()
        elif kind == "f":
            for reading in self._unsure:
                reading.closed = True
        else:
            if isinstance(step, Open):
                self._opened(step)
            self._given_up_so_far(int(rest[1]))
            if kind == "x":
                self.refused += 1
            else:
                self.done = int(number)
                self._carried_out(step, int(rest[0]), rest[3:])
                if self._opening and not self._unsure:
                    self.history = rest[2]  # while it cannot be written, it may not know

    def _carried_out(self, step: Step, acknowledged: int, gave: list[str]) -> None:
        if acknowledged + self._given_up == len(self._opening) or isinstance(step, Commit):
            self._acknowledge()
        match step:
            case Correct():
                for reading in self._corrected(step):
                    reading.times = {correction_of(reading, step)}
                    reading.synchronised = step.correction.synchronised
            case AddEvent(number):
                self.last_sequence = max(self.last_sequence, int(gave[0]))
                self.events[number] = Event(number, int(gave[0]))
            case Remove(numbers):
                self.removed.update(n for n in numbers if self.events[n].sequence is not None)

    def _given_up_so_far(self, given_up: int) -> None:
        if given_up > self._given_up:
            # Which ones cannot be said from here.
            for reading in self._unsure:
                reading.doubtful = True
            self.given_up += given_up - self._given_up
            self._given_up = given_up

    def _begin(self, step: Step) -> None:
        match step:
            case Append():
                reading = Reading(step, self.boot)
                self.readings[step.stream, step.number] = reading
                self._opening.append(reading)
                self._unsure.append(reading)
                now_ms = step.sample.monotonic_ms
                self._spans[self.boot] = (self._spans.get(self.boot, (now_ms, 0))[0], now_ms)
                self.latest_ms = max(self.latest_ms, step.sample.time_ms)
                if step.sample.synchronised:
                    self.latest_synchronised_ms = max(
                        self.latest_synchronised_ms, step.sample.time_ms
                    )
            case Correct():
                for reading in self._corrected(step):
                    reading.times = reading.times | {correction_of(reading, step)}
                    reading.moved = True
                    self.latest_ms = max(self.latest_ms, *reading.times)
            case AddEvent():
                self.events[step.number] = Event(step.number, None)
            case Remove(numbers):
                self.begun_removal.update(numbers)

    def _opened(self, step: Open) -> None:
        self.boot = step.boot
        self._opening = []
        self._unsure = []
        self._given_up = 0

    def _acknowledge(self) -> None:
        for reading in self._unsure:
            reading.acknowledged = not reading.doubtful
        self._unsure = []

    def _corrected(self, step: Correct) -> Iterator[Reading]:
        c = step.correction
        for reading in self.readings.values():
            sample = reading.append.sample
            if (
                reading.boot == self.boot
                and c.since_monotonic_ms <= sample.monotonic_ms < c.until_monotonic_ms
                and (c.every or not reading.synchronised)
            ):
                yield reading

    def expired(self, reading: Reading, retention_s: float) -> bool:
        """Whether retention may have dropped the reading: by what was recorded since, which takes
        no wall clock, or by wall clocks that were synchronised."""
        retention_ms = retention_s * 1000
        age_ms = self._spans[reading.boot][1] - reading.append.sample.monotonic_ms
        age_ms += sum(
            last - first for boot, (first, last) in self._spans.items() if boot > reading.boot
        )
        by_wall = reading.synchronised and reading.boot != self.boot
        latest_ms = self.latest_synchronised_ms
        return age_ms > retention_ms or (by_wall and min(reading.times) < latest_ms - retention_ms)


def correction_of(reading: Reading, step: Correct) -> int:
    """The time of a reading after the correction."""
    monotonic_ms = reading.append.sample.monotonic_ms
    return monotonic_ms + step.correction.offset_ms(monotonic_ms)


def judge(truth: Truth, played: Script, folder: Path, *, at_end: bool = False) -> list[str]:
    """What is wrong with the history in `folder`; the history is used and changed.

    `at_end` says that the script was played to its end and no power failed.
    """
    try:
        history = _opened(truth, played, folder)
    except Exception as error:  # noqa: BLE001 - whatever is raised keeps the agent from starting
        return [f"does not open: {type(error).__name__}: {error}"]
    found: list[str] = []
    try:
        if history.report:
            found.append(f"put aside: {history.report}")
        if truth.history and history.id != truth.history:
            found.append("it is another history")
        found += _judge_readings(truth, played, history, at_end=at_end)
        found += _judge_events(truth, played, history)
        found += _goes_on(truth, history)
    except Exception as error:  # noqa: BLE001 - as above
        found.append(f"does not go on: {type(error).__name__}: {error}")
    return found + _closed(history)


def judge_damaged(truth: Truth, played: Script, folder: Path) -> list[str]:
    """What is wrong with a history whose file was damaged beyond what a power cut does.

    It may lose what it held, go back to an earlier state, or find out only when it is used; but it
    opens, tells nothing that was never written, and works, at the latest when it is opened again.
    """
    found: list[str] = []
    for _ in range(2):
        try:
            history = _opened(truth, played, folder)
        except Exception as error:  # noqa: BLE001 - as above
            return [f"does not open: {type(error).__name__}: {error}"]
        try:
            read = _judge_readings(truth, played, history, at_end=False)
            found = [line for line in read if "never appended" in line or "twice" in line]
            found += _goes_on(truth, history, sequences=False)
        except Exception as error:  # noqa: BLE001 - as above
            found.append(f"does not go on: {type(error).__name__}: {error}")
        found += _closed(history)
        if not found:
            break
    return found


def _opened(truth: Truth, played: Script, folder: Path) -> History:
    return opened(f"{folder}/history.sqlite", truth.boot + 1, played.settings)


def _closed(history: History) -> list[str]:
    try:
        history.close()
    except HistoryError as error:
        return [f"does not close: {error}"]
    return []


def _judge_readings(
    truth: Truth, played: Script, history: History, *, at_end: bool
) -> Iterator[str]:
    there: set[tuple[int, int]] = set()
    with closing(Reader(history)) as reader:
        for stream, plan in enumerate(STREAMS):
            names = (*plan.channels, f"{plan.channels[1]}_raw") if plan.keeps_raw else plan.channels
            series = reader.series(0, EVER_MS, names)
            before = 0
            for time_ms, row in _rows(series, names) if series is not None else ():
                number = int(row[0])
                if number == FURTHER:
                    continue
                reading = truth.readings.get((stream, number))
                if reading is None:
                    yield f"{plan.name} {number} was never appended"
                    continue
                if (stream, number) in there:
                    yield f"{plan.name} {number} is there twice"
                there.add((stream, number))
                if not reading.may_have(time_ms):
                    too_old = truth.expired(reading, played.settings.retention_s)
                    yield (
                        f"{plan.name} {number} has time {time_ms}, not {sorted(reading.times)}"
                        + ", and is too old to be there" * too_old
                    )
                if row[1:] != _expected(stream, number):
                    yield f"{plan.name} {number} has {row}, not {_expected(stream, number)}"
                if time_ms < before:
                    yield f"{plan.name} {number} is out of order"
                before = time_ms
    retention_s = played.settings.retention_s
    lost = [
        key
        for key, reading in truth.readings.items()
        if reading.acknowledged and key not in there and not truth.expired(reading, retention_s)
    ]
    if lost:
        yield f"{LOST} {len(lost)} acknowledged readings: {sorted(lost)[:5]}"
    if at_end:
        gone = [
            key
            for key, reading in truth.readings.items()
            if key not in there and not reading.closed and not truth.expired(reading, retention_s)
        ]
        if len(gone) > truth.given_up:
            yield f"{len(gone)} readings are gone, {truth.given_up} were given up: {gone[:5]}"


def _rows(series: Series, names: Sequence[str]) -> Iterator[tuple[int, tuple[Any, ...]]]:
    """(time, (number, value, raw value or None, flags, age, source time or None))."""
    times = series.time_ms.numbers()
    numbers, values = (series.values[name].numbers() for name in names[:2])
    # Raw values that are as the stored ones are not there twice.
    raw = series.values.get(names[2], series.values[names[1]]).numbers() if names[2:] else None
    quality = [series.quality[n].numbers() if n in series.quality else None for n in names[:2]]
    ages = series.age_ms.numbers() if series.age_ms is not None else None
    sources = series.source_time_ms.numbers() if series.source_time_ms is not None else None
    for i, time_ms in enumerate(times):
        if numbers[i] == numbers[i]:
            yield (
                time_ms,
                (
                    numbers[i],
                    _comparable(values[i]),
                    raw and _comparable(raw[i]),
                    tuple(column[i] if column else 0 for column in quality),
                    ages[i] if ages else 0,
                    sources[i] if sources else None,
                ),
            )


def _expected(stream: int, number: int) -> tuple[Any, ...]:
    sample = sample_of(stream, number, 0, 0, sync=True)
    return (
        _comparable(value_of(number)),
        _comparable(sample.raw[1]) if sample.raw else None,
        flags_of(number) or (0, 0),
        sample.age_ms,
        sample.source_time_ms,
    )


def _comparable(value: float) -> float | str:
    return value if value == value else "nan"


def _judge_events(truth: Truth, played: Script, history: History) -> Iterator[str]:
    waiting = {event.text: event for event in history.events.waiting(0, 1 << 30)}
    if len(waiting) != history.events.count:
        yield f"{history.events.count} events counted, {len(waiting)} waiting"
    numbers = {int(text.split()[1]) for text in waiting}
    most = played.settings.most_events
    for event in truth.events.values():
        n = event.number
        newer = sum(1 for other in truth.events if other > n)
        acknowledged = event.sequence is not None and n not in truth.begun_removal and newer < most
        if acknowledged and n not in numbers:
            yield f"{LOST} acknowledged event {n}"
        if n in truth.removed and n in numbers:
            yield f"event {n} is back after its removal"
        found = waiting.get(f"event {n}")
        if found and event.sequence is not None and found.sequence != event.sequence:
            yield f"event {n} has sequence {found.sequence}, not {event.sequence}"
        if found and found.kind != "test":
            yield f"event {n} is {found}"
    if numbers - truth.events.keys():
        yield f"events {sorted(numbers - truth.events.keys())} were never added"


def _goes_on(truth: Truth, history: History, *, sequences: bool = True) -> Iterator[str]:
    """The history must be usable as if nothing had happened."""
    time_ms = truth.latest_ms + 1_000
    for stream, taken in enumerate(streams(history)):
        taken.append(sample_of(stream, FURTHER, time_ms, 1_000, sync=True))
    history.commit()
    if history.acknowledged != len(STREAMS):
        yield f"{history.acknowledged} readings acknowledged, not {len(STREAMS)}"
    event = history.events.add(
        monotonic_ms=1_000, kind="test", time_ms=time_ms, synchronised=True, text="event 9999999"
    )
    if sequences and event.sequence <= truth.last_sequence:
        yield f"sequence {event.sequence} is given again; {truth.last_sequence} was acknowledged"
    with closing(Reader(history)) as reader:
        for plan in STREAMS:
            series = reader.series(time_ms, time_ms + 1, plan.channels)
            if series is None or FURTHER not in series.values[plan.channels[0]].numbers():
                yield f"{plan.name}: a new reading is not found"
