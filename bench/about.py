"""Form `about` of everything at 1,000 nodes, and form `buckets` of a day of one area at 1 Hz.

The first is what the master's loop does from the decoded query to the encoded answer, first after
a change and then again. The
second is the answer's size in JSON beside that of the series, and the node's time for it beside
that for the aggregate and the series.
"""

from __future__ import annotations

import math
import tempfile
import time
from pathlib import Path

from agent.edge.history.history import History
from agent.edge.history.memtable import Sample
from agent.edge.history.reader import Reader
from agent.scheduling.events import (
    ANYONE,
    NodeJoined,
    QueryArrived,
    SendAnswer,
    SendTask,
    SendTaskResult,
    TaskArrived,
    TaskReturned,
)
from agent.scheduling.queries.scheduler import QueryScheduler
from agent.scheduling.tasks.deadlines import DeadlineEstimator
from agent.scheduling.tasks.scheduler import TaskScheduler
from agent.wire.buckets import grid_of
from agent.wire.codec import JSON, encode
from agent.wire.market import Member
from agent.wire.messages import Answer, AreaResult, Coverage, Query, Slo, Window
from agent.wire.node_messages import Hello
from bench.output import Result, interleaved, report, result

NODES = 1_000
ROUNDS = 20
LOOP_GOAL_S = 20e-3
BUCKETS = 300
JSON_GOAL = 20_000
DAY_S = 86_400
START_MS = 1_700_000_000_000
CHANNELS = ("temperature", "humidity")


def _room(number: int) -> str:
    return f"b{number % 10}/f{number // 10 % 10}/r{number}"


class _Master:
    """Both schedulers, wired as a master does."""

    def __init__(self) -> None:
        rooms = tuple(_room(number) for number in range(NODES))
        pool = (Member("iad1", "", rooms),)
        self.queries = QueryScheduler("iad1", pool, run="bench")
        self.tasks = TaskScheduler("iad1", DeadlineEstimator(), pool=pool)
        for number in range(NODES):
            self.join(number)

    def join(self, number: int, *, incarnation: str = "1", unit: str = "celsius") -> None:
        """A node says hello."""
        hello = Hello(
            f"n{number}", incarnation, "h", (_room(number),), CHANNELS, 1, "1.0",
            units={"temperature": unit},
        )  # fmt: skip
        self.tasks.handle(NodeJoined(number, hello), 0.0)

    def about(self) -> bytes:
        """The answer to a query of everything, encoded."""
        query = Query("q", ("*",), Window(last_s=1.0), Slo(99.0, 5e3), form="about")
        answer = None
        for send in self.queries.handle(QueryArrived("c", query), 1.0):
            assert isinstance(send, SendTask)
            task = TaskArrived("here", send.task, ANYONE, ANYONE)
            for sent in self.tasks.handle(task, 1.0):
                assert isinstance(sent, SendTaskResult)
                [answer, *_] = self.queries.handle(TaskReturned("iad1", sent.result), 1.0)
        assert isinstance(answer, SendAnswer)
        assert answer.answer.coverage == Coverage(NODES, NODES)
        return encode(answer.answer, JSON)


def _loop() -> list[Result]:
    master = _Master()
    turns = iter(range(2 * ROUNDS + 2))

    def changed() -> float:
        number = next(turns)
        master.join(number, incarnation=f"later{number}", unit="kelvin")
        return again()

    def again() -> float:
        started = time.perf_counter()
        master.about()
        return time.perf_counter() - started

    first, then = interleaved(ROUNDS, changed, again)
    return [
        result("about-1000", then, "ms", "after a change", first, most=LOOP_GOAL_S),
        result("about-1000-bytes", len(master.about()), "bytes of JSON"),
    ]


def _sample(n: int) -> Sample:
    value = 21.0 + 3.0 * math.sin(n / 9_000) + (n * 7_919 % 13) / 20
    return Sample(START_MS + n * 1_000, n * 1_000, True, (round(value, 2), round(2.3 * value, 2)))


def _day(folder: str) -> list[Result]:
    history = History(
        Path(folder) / "h.sqlite", "boot", group_readings=600, commit_s=10.0, retention_s=1e9
    )
    stream = history.stream("dht", CHANNELS)
    for n in range(DAY_S):
        stream.append(_sample(n))
    history.commit()
    reader = Reader(history)
    start_ms, end_ms = START_MS, START_MS + DAY_S * 1_000
    grid = grid_of(start_ms, end_ms, DAY_S * 1_000 // BUCKETS, relative=False)

    def size(found: AreaResult) -> int:
        return len(encode(Answer("q", "complete", 1.0, True, Coverage(1, 1), (found,)), JSON))

    series = AreaResult("b1/f4/r413", reader.series(start_ms, end_ms))
    buckets = AreaResult("b1/f4/r413", buckets=reader.buckets(start_ms, end_ms, (), grid))

    def timed(do: object, *given: object) -> float:
        started = time.perf_counter()
        do(*given)  # type: ignore[operator]
        return time.perf_counter() - started

    as_buckets, as_series, as_aggregate = interleaved(
        ROUNDS,
        lambda: timed(reader.buckets, start_ms, end_ms, (), grid),
        lambda: timed(reader.series, start_ms, end_ms),
        lambda: timed(reader.aggregate, start_ms, end_ms),
    )
    reader.close()
    history.close()
    small, whole = size(buckets), size(series)
    return [
        result("buckets-day-bytes", small, "bytes of JSON", "series", whole, most=JSON_GOAL),
        result("buckets-day", as_buckets, "ms", "series", as_series),
        result("buckets-day-aggregate", as_buckets, "ms", "aggregate", as_aggregate),
    ]


def run() -> list[Result]:
    """Goals: at most 20 ms of the loop, at most 20 kB."""
    with tempfile.TemporaryDirectory() as folder:
        return [*_loop(), *_day(folder)]


if __name__ == "__main__":
    report(run())
