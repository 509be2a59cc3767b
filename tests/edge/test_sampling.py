"""The schedule keeps its beat; the sampler survives whatever a driver does."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator
from fractions import Fraction
from itertools import repeat
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.edge.clocks import Clocks
from agent.edge.events.faults import Faults, Happening
from agent.edge.history.file import HistoryError
from agent.edge.history.history import History
from agent.edge.history.reader import Reader
from agent.edge.node_time import NodeTime
from agent.edge.rate_limited_log import Reporter
from agent.edge.sampling.colocated import ColocatedChannels
from agent.edge.sampling.sampling import Sampler, Schedule, Threads
from agent.edge.sampling.sensor import Sensor, StoredChannel, close_sensors
from agent.edge.timebase import TimeBase
from agent.wire.messages import Series
from sensors.base import Channel, ChecksumError, Reading, SensorError
from sensors.quality.flags import CHECKSUM, NO_RESPONSE, OUT_OF_RANGE, SPIKE
from sensors.quality.limits import limits_for

START_S = 1_700_000_000.0


def test_late_ticks_do_not_move_later_ones_and_missed_ones_are_left_out() -> None:
    schedule = Schedule(100.0, 1.0)
    assert schedule.take(100.0)
    assert not schedule.take(100.9)
    assert schedule.take(101.4)
    assert schedule.next_at == 102.0
    assert schedule.take(106.7)  # 102 … 105 are gone; this is the one of 106
    assert schedule.next_at == 107.0
    assert schedule.missed == 4
    assert not schedule.take(106.99)


@given(
    st.floats(0.01, 100.0),
    st.lists(st.floats(0.0, 500.0), max_size=50),
)
def test_a_schedule_never_bursts_nor_drifts(interval_s: float, pauses: list[float]) -> None:
    schedule = Schedule(0.0, interval_s)
    now, taken = 0.0, 0
    for pause in pauses:
        now += pause
        if schedule.take(now):
            taken += 1
            assert not schedule.take(now)
        assert schedule.next_at > now - 1e-9 * now
        assert schedule.next_at - now <= interval_s * (1 + 1e-9)
        assert schedule.next_at == pytest.approx(interval_s * (taken + schedule.missed))


class FakeClocks(Clocks):
    """Time that passes when told."""

    def __init__(self) -> None:
        self.now = 50.0

    def monotonic(self) -> float:
        return self.now

    def wall(self) -> float:
        return START_S + self.now

    def synchronised(self) -> bool:
        return True


class Script:
    """A driver that does what it was told, one thing a reading."""

    channels = (
        Channel("temperature", "celsius", -40.0, 80.0),
        Channel("humidity", "%", 0.0, 100.0),
    )

    def __init__(self, *steps: Any) -> None:
        self.steps = list(steps)
        self.past: Any = [(2, Reading((1.0, 2.0), 11)), (1, Reading((3.0, 4.0), 12))]

    def read(self) -> Any:
        step = self.steps.pop(0)
        if isinstance(step, BaseException):
            raise step
        return step

    def preload(self) -> Any:
        return self.past

    def close(self) -> None:
        pass


class OddFlag(SensorError):
    flag = 1 << 40


class FlagOfText(SensorError):
    flag: Any = "wet"


class NoText(Exception):
    def __str__(self) -> str:
        raise ValueError("no text")


class Bench:
    """A sampler with all its surroundings in the test's hands."""

    def __init__(
        self, path: Path, *steps: Any, gain: float = 1.0, driver: type[Script] = Script
    ) -> None:
        self.lines: list[str] = []
        self.happenings: list[Happening] = []
        self.clocks = FakeClocks()
        self.history = History(path, "boot", group_readings=10, commit_s=10.0, retention_s=1000.0)
        self.driver = driver(*steps)
        channels = tuple(
            StoredChannel(c.name, c.name, c.unit, gain, 0.0, limits_for(c.name, c.unit, {}))
            for c in Script.channels
        )
        sensor = Sensor("probe", "", self.driver, 2.0, channels)
        self.stream = self.history.stream(
            "probe", ("temperature", "humidity"), keeps_raw=sensor.calibrated
        )
        reporter = Reporter(self.lines.append, "n1", self.clocks.monotonic)
        time = NodeTime(
            self.clocks, TimeBase(), self.history.correct, lambda *_: None, lambda _: None
        )
        self.sampler = Sampler(
            sensor,
            self.stream,
            time,
            reporter,
            ColocatedChannels([sensor]).check,
            Faults("probe", channels, self.happenings.append),
        )
        self.steps = len(steps)

    def run(self) -> None:
        for _ in range(self.steps):
            self.sampler.sample()
            self.clocks.now += 2.0

    def series(self, *channels: str) -> Series | None:
        """All that is stored; closes the history."""
        reader = Reader(self.history)
        series = reader.series(0, 2**53, channels)
        reader.close()
        self.history.close()
        return series

    def stored(self) -> list[tuple[int, list[float], int | None]]:
        series = self.series()
        if series is None:
            return []
        columns = [column.numbers().tolist() for column in series.values.values()]
        sources = series.source_time_ms
        return [
            (time, list(values), source)
            for time, *values, source in zip(
                series.time_ms.numbers(),
                *columns,
                sources.numbers() if sources else [None] * len(series.time_ms),
                strict=True,
            )
        ]


def test_quality_age_and_raw_values_are_stored_beside_the_calibrated_ones(tmp_path: Path) -> None:
    bench = Bench(
        tmp_path / "h.sqlite",
        Reading((20.0, 40.0), age_ms=350),
        ChecksumError("damaged"),
        Reading((math.nan, 40.0)),
        Reading((81.0, 40.0)),
        gain=0.5,
    )
    bench.run()
    series = bench.series("temperature", "temperature_raw")
    assert series is not None
    temperature, raw = (series.values[n].numbers() for n in ("temperature", "temperature_raw"))
    assert (temperature[0], raw[0], temperature[3], raw[3]) == (10.0, 20.0, 40.5, 81.0)
    assert list(series.quality["temperature"].numbers()) == [
        0,
        CHECKSUM,
        NO_RESPONSE,
        OUT_OF_RANGE,  # of what the sensor can measure, not of what is plausible
    ]
    assert series.age_ms is not None
    assert list(series.age_ms.numbers()) == [350, 0, 0, 0]


def test_counters_tell_what_came_of_the_readings(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "h.sqlite", Reading((20.0, 40.0), age_ms=7), SensorError("silent"))
    bench.run()
    counters = bench.sampler.counters
    assert (counters.reads, counters.age_ms, counters.success_s) == (2, 7, 50.0)
    assert [counts[:2] for counts in counters.values] == [[1, 1], [1, 1]]
    bench.history.close()


def test_a_fault_is_an_event_when_it_begins_and_when_it_is_over(tmp_path: Path) -> None:
    good = [Reading((20.0, 40.0 + n % 2)) for n in range(400)]
    bench = Bench(tmp_path / "h.sqlite", *good[:50], Reading((20.0, 120.0)), *good)
    bench.run()
    assert [(h.kind, h.sensor, h.channel, h.text) for h in bench.happenings] == [
        ("fault_began", "probe", "humidity", "out_of_range: 120 %"),
        ("fault_ended", "probe", "humidity", "out_of_range: over after 2 s"),
    ]
    began, ended = bench.happenings
    assert began.time_ms == round((START_S + 50.0 + 100.0) * 1000)
    assert ended.time_ms == began.time_ms + 2000
    bench.history.close()


def test_a_recording_that_begins_again_has_not_jumped(tmp_path: Path) -> None:
    rows = [Reading((20.0, 40.0), 11), Reading((20.0, 40.0), 12), Reading((50.0, 40.0), 13)]
    bench = Bench(tmp_path / "h.sqlite", *rows, Reading((-9.0, 40.0), 11))
    bench.run()
    assert [happening.text for happening in bench.happenings] == ["spike: 50 celsius"]
    series = bench.series("temperature")
    assert series is not None
    assert list(series.quality["temperature"].numbers()) == [0, 0, SPIKE, 0]


def test_preloaded_readings_end_one_interval_before_the_first_live_one(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "h.sqlite", Reading((5.0, 6.0), 13))
    bench.sampler.preload()
    bench.run()
    bench.sampler.preload()  # not empty any more: nothing happens
    first_ms = round((START_S + 50) * 1000)
    assert bench.stored() == [
        (first_ms - 4000, [1.0, 2.0], 11),
        (first_ms - 2000, [3.0, 4.0], 12),
        (first_ms, [5.0, 6.0], 13),
    ]


@pytest.mark.parametrize(
    ("failure", "told"),
    [
        (SensorError("checksum"), "no reading: checksum"),
        (ZeroDivisionError("oops"), "no reading: ZeroDivisionError: oops"),
        (Reading((1.0,)), "no reading: 1 values for 2 channels"),
        (Reading((1.0, 2.0, 3.0)), "no reading: 3 values for 2 channels"),
        (None, "no reading: the driver gave NoneType in place of a reading"),
        ((1.0, 2.0), "no reading: the driver gave tuple in place of a reading"),
        (Reading((1.0, None)), "no reading: TypeError: float() argument must be"),
        (Reading((1.0, "wet")), "no reading: ValueError: could not convert string to float: 'wet'"),
        (Reading(None), "no reading: TypeError: 'NoneType' object is not iterable"),
        (Reading((1.0, 10**400)), "no reading: OverflowError: int too large"),
        (Reading((1.0, 2.0), 1.5), "no reading: TypeError: 'float' object cannot be"),
        (Reading((1.0, 2.0), 2**63), "no reading: 9223372036854775808 is no time at which"),
        (SystemExit(3), "no reading: SystemExit: 3"),
        (NoText(), "no reading: NoText"),
        (OddFlag("odd"), "no reading: odd"),
        (FlagOfText("odd"), "no reading: odd"),
    ],
)
def test_a_failed_reading_is_a_hole_and_three_are_a_line(
    failure: Any, told: str, tmp_path: Path
) -> None:
    good = Reading((1.0, 2.0))
    steps = [failure, good, failure, failure, good, failure, failure, failure, good]
    bench = Bench(tmp_path / "h.sqlite", *steps)
    bench.run()
    assert [math.isnan(values[0]) for _, values, _ in bench.stored()] == [
        step is not good for step in steps
    ]
    failed, again = bench.lines
    assert failed.startswith(f"sanderling-edge n1: probe: {told}")
    assert again == "sanderling-edge n1: probe: reads again\n"


def test_a_dead_sensor_is_the_last_word_though_it_was_flaky_before(tmp_path: Path) -> None:
    good, bad = Reading((1.0, 2.0)), SensorError("checksum 3 of 4")
    bench = Bench(tmp_path / "h.sqlite", *[*[bad] * 4, good] * 50, *[SensorError("no port")] * 3)
    bench.run()
    assert "probe: reads again" in "".join(bench.lines)
    assert bench.lines[-1] == "sanderling-edge n1: probe: no reading: no port\n"
    assert len(bench.lines) < 12
    bench.history.close()


def test_numbers_of_other_kinds_are_stored_as_numbers(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "h.sqlite", Reading((True, Fraction(5, 2)), True))
    bench.run()
    assert [values for _, values, _ in bench.stored()] == [[1.0, 2.5]]
    assert bench.lines == []


def failing(error: BaseException) -> Iterator[tuple[int, Reading]]:
    yield 2, Reading((1.0, 2.0))
    raise error


@pytest.mark.parametrize(
    "past",
    [
        None,
        [(1, None)],
        [(1, Reading((1.0, None)))],
        [(2, Reading((1.0, 2.0))), (1, 5)],
        [(1, Reading((1.0, 2.0))), (2, Reading((1.0, 2.0)))],
        [(0, Reading((1.0, 2.0)))],
        repeat((1, Reading((1.0, 2.0)))),
        failing(SystemExit(1)),
        failing(GeneratorExit()),
    ],
)
def test_a_preload_that_fails_leaves_an_empty_history_that_works(past: Any, tmp_path: Path) -> None:
    bench = Bench(tmp_path / "h.sqlite", Reading((1.0, 2.0)))
    bench.driver.past = past
    bench.sampler.preload()
    assert len(bench.lines) == 1
    assert "probe: no preloaded readings: " in bench.lines[0]
    assert bench.stream.empty
    bench.run()
    bench.history.commit()
    assert [values for _, values, _ in bench.stored()] == [[1.0, 2.0]]


class Stuck:
    """A preload that does not return until the test lets it."""

    def __init__(self) -> None:
        self.go_on, self.over = threading.Event(), threading.Event()

    def __iter__(self) -> Iterator[tuple[int, Reading]]:
        try:
            assert self.go_on.wait(60.0)
            yield 1, Reading((1.0, 2.0))
        finally:
            self.over.set()


def test_a_preload_that_does_not_return_or_has_no_end_keeps_no_agent_from_sampling(
    tmp_path: Path,
) -> None:
    bench = Bench(tmp_path / "h.sqlite", Reading((1.0, 2.0)))
    bench.driver.past = stuck = Stuck()
    bench.sampler.preload(patience_s=0.0)
    bench.driver.past = ((n, Reading((1.0, 2.0))) for n in range(10**12, 0, -1))
    bench.sampler.preload(patience_s=0.0)
    assert [line.partition("readings: ")[2] for line in bench.lines] == [
        "the driver has not given all of them within 0 s\n"
    ] * 2
    stuck.go_on.set()
    assert stuck.over.wait(60.0)
    bench.run()
    bench.history.commit()
    assert [values for _, values, _ in bench.stored()] == [[1.0, 2.0]]


@pytest.mark.parametrize("error", [OSError("no bus"), SystemExit(1)])
def test_a_sensor_that_cannot_be_closed_keeps_no_other_open(
    error: BaseException, tmp_path: Path
) -> None:
    closed = []

    class Odd(Script):
        def close(self) -> None:
            closed.append(self)
            raise error

    benches = [Bench(tmp_path / name, driver=Odd) for name in ("a", "b")]
    sensors = [Sensor("probe", "", each.driver, 2.0, ()) for each in benches]
    close_sensors(sensors)
    assert closed == [each.driver for each in benches]
    stuck: list[str] = []
    threads = Threads(sensors, [each.sampler for each in benches])
    threads.end()
    threads.start()
    threads.close(stuck.append)
    assert (len(closed), stuck) == (4, [])
    for each in benches:
        each.history.close()


class Helped(Script):
    """A driver whose helper process is started again before steps that fail."""

    def __init__(self, *steps: Any) -> None:
        super().__init__(*steps)
        self.restarts = 0

    def read(self) -> Any:
        if isinstance(self.steps[0], Exception):
            self.restarts += 1
        return super().read()


def test_a_helper_that_is_started_again_is_reported_and_an_event_until_it_reads(
    tmp_path: Path,
) -> None:
    good, spins = Reading((20.0, 40.0)), SensorError("it spins")
    steps = [good, spins, SensorError("it hangs"), spins, good, good, spins, good]
    bench = Bench(tmp_path / "h.sqlite", *steps, driver=Helped)
    bench.run()
    again = "its helper process was started again,"
    told = [(h.sensor, h.channel, h.text) for h in bench.happenings if h.kind == "helper_restarted"]
    assert told == [
        ("probe", "", f"{again} restart 1 since the agent's start: it spins"),
        ("probe", "", f"{again} restart 4 since the agent's start: it spins"),
    ]
    assert sum(again in line for line in bench.lines) == 1  # the others within a minute
    at = [h.moment.monotonic_ms for h in bench.happenings if h.kind == "helper_restarted"]
    assert at == [54_000, 64_000]
    bench.history.close()


def test_a_value_that_is_no_number_is_missing(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "h.sqlite", Reading((math.inf, -1e300)))
    bench.run()
    ((_, values, _),) = bench.stored()
    assert all(math.isnan(value) for value in values)


def test_a_sensor_that_reads_again_is_told(tmp_path: Path) -> None:
    good, bad = Reading((1.0, 2.0)), SensorError("no answer")
    bench = Bench(tmp_path / "h.sqlite", good, *[bad] * 100, good, good)
    bench.run()
    assert "probe: no reading: no answer" in bench.lines[0]
    assert "probe: reads again" in bench.lines[-1]
    assert len(bench.lines) < 8
    bench.history.close()


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (HistoryError("history: disk full"), "history: disk full"),
        (ValueError("a mistake"), "not stored: ValueError: a mistake"),
    ],
)
def test_a_history_that_cannot_be_written_does_not_end_the_sampling(
    error: Exception, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench(tmp_path / "h.sqlite", Reading((1.0, 2.0)), Reading((1.0, 2.0)))

    def refuse(_: object) -> None:
        raise error

    monkeypatch.setattr(bench.stream, "append", refuse)
    bench.run()
    assert bench.lines == [f"sanderling-edge n1: {told}\n"]
    bench.history.close()


def test_the_loop_ends_when_told(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "h.sqlite", *[Reading((1.0, 2.0))] * 3)
    waits: list[float] = []

    class Stop(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            assert timeout is not None
            waits.append(timeout)
            bench.clocks.now += timeout + (0.5 if len(waits) == 2 else 0.0)
            return len(waits) > 3

    bench.sampler.run(Stop())
    assert waits == [0.0, 2.0, 1.5, 2.0]
    assert len(bench.stored()) == 3


def test_readings_left_out_are_reported(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "h.sqlite", *[Reading((1.0, 2.0))] * 4)
    late_s = iter([0.0, 0.0, 7.0, 0.0])  # the third tick comes 7 s late: 3 intervals of 2 s

    class Stop(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            assert timeout is not None
            bench.clocks.now += timeout
            late = next(late_s, None)
            if late is None:
                return True
            bench.clocks.now += late
            return False

    bench.sampler.run(Stop())
    assert len(bench.lines) == 1
    assert "readings left out: 3, " in bench.lines[0]
    bench.history.close()
