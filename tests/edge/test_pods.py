"""Pods answer, whatever happens inside a subtask."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.edge.history.history import History
from agent.edge.history.memtable import Sample
from agent.edge.history.reader import Reader
from agent.edge.main import emulation_of
from agent.edge.pods import pods
from agent.edge.pods.pods import Pods, ReceivedSubtask
from agent.wire import codec
from agent.wire.base import Form
from agent.wire.config import ConfigError
from agent.wire.messages import Window
from agent.wire.node_messages import NodeMessage, Subtask, SubtaskResult
from tests.examples import examples

START_MS = 1_700_000_000_000
NOW_MS = START_MS + 99_000
DECODER: codec.Decoder[NodeMessage] = codec.Decoder(NodeMessage)


class Bench:
    """Pods over a small history; `wait` blocks until `n` results were woken for."""

    def __init__(
        self, path: Path, count: int, service_time_s: Callable[[int | None, float], float] | None
    ) -> None:
        self.history = History(path, "boot", group_readings=30, commit_s=10.0, retention_s=1e6)
        self.stream = self.history.stream("sensor", ("temperature",))
        for i in range(100):
            self.stream.append(Sample(START_MS + i * 1000, i * 1000, False, (float(i),)))
        self.woken = threading.Semaphore(0)
        self.at_once = 0
        self.pods = Pods(self.history, count, self.woken.release, service_time_s)

    def submit(
        self,
        number: int,
        *,
        form: Form = "series",
        last_s: float = 50.0,
        channels: tuple[str, ...] = (),
        seed: int | None = None,
    ) -> None:
        subtask = Subtask(number, Window(last_s=last_s), channels, form, seed)
        if self.pods.submit(ReceivedSubtask(subtask, time.monotonic(), NOW_MS)):
            self.at_once += 1
            self.woken.release()

    def wait(self, n: int) -> list[SubtaskResult]:
        for _ in range(n):
            assert self.woken.acquire(timeout=30)
        results = []
        for done in self.pods.take():
            message, _ = DECODER.decode(done.frame)
            assert isinstance(message, SubtaskResult)
            assert message.id == done.subtask
            results.append(message)
        assert len(results) == n
        return results

    def close(self) -> None:
        self.pods.stop()
        self.history.close()


@pytest.fixture
def make_bench(tmp_path: Path) -> Iterator[Callable[..., Bench]]:
    made: list[Bench] = []

    def make(
        count: int = 1, service_time_s: Callable[[int | None, float], float] | None = None
    ) -> Bench:
        made.append(Bench(tmp_path / f"{len(made)}.sqlite", count, service_time_s))
        return made[-1]

    yield make
    for bench in made:
        bench.close()


def test_a_series_and_an_aggregate(make_bench: Callable[..., Bench]) -> None:
    bench = make_bench()
    bench.submit(1)
    bench.submit(2, form="aggregate")
    series, aggregate = sorted(bench.wait(2), key=lambda result: result.id)
    assert (series.id, series.outcome) == (1, "ok")
    assert series.series is not None
    assert series.series.values["temperature"].numbers().tolist() == list(range(50, 100))
    assert series.execution_ms >= 0
    assert series.wait_ms >= 0
    assert aggregate.aggregate is not None
    found = aggregate.aggregate.channels["temperature"]
    assert (found.count, found.min, found.mean, found.max) == (50, 50, 74.5, 99)


def test_a_short_window_in_memory_is_served_at_once(make_bench: Callable[..., Bench]) -> None:
    """Readings 90 … 99 are in the group that grows; with an emulation a pod has to wait."""
    bench = make_bench()
    bench.submit(1, last_s=10.0)
    bench.submit(2, last_s=10.0, form="aggregate")
    assert bench.at_once == 2
    series, aggregate = bench.wait(2)
    assert series.series is not None
    assert series.series.values["temperature"].numbers().tolist() == list(range(90, 100))
    assert aggregate.aggregate is not None
    assert aggregate.aggregate.channels["temperature"].count == 10
    bench.submit(3, last_s=11.0)
    assert bench.at_once == 2
    bench.wait(1)
    emulating = make_bench(1, lambda _seed, _window_s: 0.0)
    emulating.submit(1, last_s=10.0)
    assert emulating.at_once == 0
    assert emulating.wait(1)[0].outcome == "ok"


def test_nothing_in_the_window_is_no_data(make_bench: Callable[..., Bench]) -> None:
    bench = make_bench()
    bench.submit(1, channels=("co2",))
    bench.submit(2, channels=("co2",), form="aggregate")
    assert [result.outcome for result in bench.wait(2)] == ["no_data", "no_data"]


def test_an_error_inside_is_told_and_the_pod_lives_on(
    make_bench: Callable[..., Bench], monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = make_bench()
    real, calls = Reader.series, [0]

    def failing(reader: Reader, *args: Any) -> object:
        calls[0] += 1
        if calls[0] == 1:
            raise ZeroDivisionError("first line\nsecond line")
        return real(reader, *args)

    monkeypatch.setattr(Reader, "series", failing)
    bench.submit(1)
    (failed,) = bench.wait(1)
    assert (failed.outcome, failed.message) == (
        "error",
        "ZeroDivisionError: first line second line",
    )
    bench.submit(2)
    assert bench.wait(1)[0].outcome == "ok"


def test_the_emulated_time_is_drawn_from_the_seed_and_waited_for(
    make_bench: Callable[..., Bench], monkeypatch: pytest.MonkeyPatch
) -> None:
    draw = emulation_of("pi4-sized", "n1")
    assert draw is not None
    assert draw(3, 50.0) == draw(3, 50.0) != draw(4, 50.0)
    assert draw(3, 50.0) < draw(3, 5_000.0)
    other = emulation_of("pi4-sized", "n2")
    assert other is not None
    assert other(3, 50.0) != draw(3, 50.0)
    bench = make_bench(1, draw)
    waited: list[float | None] = []

    def wait(timeout: float | None = None) -> bool:
        waited.append(timeout)
        return False

    monkeypatch.setattr(bench.pods._stopping, "wait", wait)
    bench.submit(1, seed=3)
    (result,) = bench.wait(1)
    assert waited == [draw(3, 50.0)]
    assert result.outcome == "ok"


def test_stop_does_not_wait_for_an_emulated_time(make_bench: Callable[..., Bench]) -> None:
    """It would take an hour, and the test with it."""
    started = threading.Event()

    def hour(_seed: int | None, _window_s: float) -> float:
        started.set()
        return 3600.0

    bench = make_bench(1, hour)
    bench.submit(1)
    assert started.wait(30)
    bench.pods.stop()
    assert not any(thread.is_alive() for thread in bench.pods._threads)


def test_stop_does_not_wait_for_a_pod_that_takes_long(
    make_bench: Callable[..., Bench], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the history would not be closed before systemd kills the agent."""
    monkeypatch.setattr(pods, "PATIENCE_S", 0.0)
    gate = Gate()
    bench = make_bench(2, gate)
    bench.submit(1)
    bench.submit(2)
    gate.await_started(2)
    bench.pods.stop()
    bench.history.close()
    gate.through.release(2)
    for thread in bench.pods._threads:
        thread.join()
    assert not bench.woken.acquire(blocking=False)


def test_as_many_subtasks_run_at_once_as_there_are_pods(make_bench: Callable[..., Bench]) -> None:
    together = threading.Barrier(3, timeout=30)

    def meet(_seed: int | None, _window_s: float) -> float:
        together.wait()
        return 0.0

    bench = make_bench(3, meet)
    for number in range(3):
        bench.submit(number)
    assert {result.outcome for result in bench.wait(3)} == {"ok"}


class Gate:
    """An emulation in which every subtask waits, after it has started, until it is let through."""

    def __init__(self) -> None:
        self.started = threading.Semaphore(0)
        self.through = threading.Semaphore(0)

    def __call__(self, _seed: int | None, _window_s: float) -> float:
        self.started.release()
        assert self.through.acquire(timeout=30)
        return 0.0

    def await_started(self, n: int) -> None:
        for _ in range(n):
            assert self.started.acquire(timeout=30)


def test_pods_grow_while_all_are_at_work(make_bench: Callable[..., Bench]) -> None:
    gate = Gate()
    bench = make_bench(1, gate)
    bench.submit(1)
    gate.await_started(1)
    bench.pods.resize(3)
    bench.submit(2)
    bench.submit(3)
    gate.await_started(2)
    gate.through.release(3)
    assert {result.id for result in bench.wait(3)} == {1, 2, 3}


def test_pods_that_are_at_work_finish_before_they_end(make_bench: Callable[..., Bench]) -> None:
    gate = Gate()
    bench = make_bench(3, gate)
    threads = list(bench.pods._threads)
    for number in (1, 2, 3):
        bench.submit(number)
    gate.await_started(3)
    bench.pods.resize(1)
    assert all(thread.is_alive() for thread in threads)
    gate.through.release(3)
    assert {result.outcome for result in bench.wait(3)} == {"ok"}
    # The two that end are done when the last one serves on.
    bench.submit(4)
    gate.await_started(1)
    gate.through.release()
    bench.wait(1)
    bench.pods.stop()
    assert not any(thread.is_alive() for thread in threads)


@given(
    steps=st.lists(
        st.one_of(st.integers(1, 6), st.sampled_from(["submit", "finish"])), max_size=40
    ),
)
@settings(max_examples=examples(30), deadline=None)
def test_a_subtask_within_the_number_of_pods_never_waits_for_another(
    steps: list[int | str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """However often the number changes: `await_started` would time out."""
    gate = Gate()
    bench = Bench(tmp_path_factory.mktemp("pods") / "history.sqlite", 2, gate)
    count, at_work, number = 2, 0, 0
    try:
        for step in [*steps, *["finish"] * len(steps)]:
            if step == "submit" and at_work < count:
                number += 1
                bench.submit(number)
                gate.await_started(1)
                at_work += 1
            elif step == "finish" and at_work:
                gate.through.release()
                bench.wait(1)
                at_work -= 1
            elif isinstance(step, int):
                bench.pods.resize(step)
                count = step
    finally:
        gate.through.release(len(steps) + 1)
        bench.close()


def test_pods_that_come_and_go_leave_nothing_behind(
    make_bench: Callable[..., Bench], monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = threading.Semaphore(0)
    serve = Pods._serve

    def counted(pods: Pods) -> None:
        serve(pods)
        ended.release()

    monkeypatch.setattr(Pods, "_serve", counted)
    bench = make_bench(1)
    for _ in range(50):
        bench.pods.resize(4)
        bench.pods.resize(1)
        for _ in range(3):
            assert ended.acquire(timeout=30)
    # Of the last round some may be on their way out.
    assert len(bench.pods._threads) <= 7


def test_an_unknown_profile_names_the_nearest() -> None:
    assert emulation_of("", "n1") is None
    with pytest.raises(ConfigError, match=r"did you mean pi4-powersave\?"):
        emulation_of("pi4-powersaver", "n1")
