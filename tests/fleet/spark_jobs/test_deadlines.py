"""Violations by node and hour, by hand; what the auto-scaler makes of recorded subtasks."""

import random
from typing import Any

import msgspec
import pytest
from pyspark.sql import SparkSession

from agent.scheduling.tasks.autoscale import SubtaskFinished, finished
from agent.wire.records import SubtaskRecord
from fleet.lake.schema.tables.base import SUBTASKS
from fleet.lake.schema.tables.requests import NODE_HOURS
from fleet.report.jobs import autoscaling
from fleet.report.jobs.autoscaling import IDLE_LOOKS, HourOfPods, Replay
from fleet.report.jobs.deadlines import _finished, node_hours
from tests.fleet.spark_jobs.recorded import START, found, frame, hours, subtask


def late(at_s: float, **other: Any) -> dict[str, Any]:
    """A subtask that waited for 300 ms, 100 too long."""
    row = {"dispatched_ms": 301.0, "result_ms": 371.0, "missed_deadline": True}
    return subtask(at_s, **(row | other))


def test_node_hours_by_hand(spark: SparkSession) -> None:
    rows = [
        # n1, first hour: 4 of 5 count, 1 missed; the fifth could wait for no time at all.
        *(subtask(n) for n in range(3)),
        late(3.0),
        late(4.0, task="none", deadline_ms=1.0),
        late(5.0, task="down", outcome="node_down", dispatched_ms=None, result_ms=None),
        # The next hour: never dispatched, and so late too.
        late(3600.0, dispatched_ms=None, result_ms=None, outcome="timeout"),
        # Another node of that name, and one that nothing can be said of.
        subtask(3599.9, iad="iad2"),
        subtask(0.0, node="n2", outcome="node_down", result_ms=None),
    ]
    first, second, other = found(node_hours(frame(spark, SUBTASKS, rows)), NODE_HOURS)
    assert (first["iad"], first["node"], first["hour"]) == ("iad1", "n1", hours(0))
    assert (first["subtasks"], first["missed"], first["violations"]) == (4, 1, 25.0)
    # Wilson, 1 of 4.
    ends = [round(first[f"violations_{end}"], 2) for end in ("low", "high")]
    assert ends == [4.56, 69.94]
    assert first["queueing_ms"] == pytest.approx((3 * 10.0 + 300.0) / 4)
    # Five times 70 ms at work, from 12:00:00 until the one of :05 was given up at its deadline.
    assert first["busy"] == pytest.approx(5 * 0.070 / 5.201)
    assert (second["hour"], second["violations"], second["queueing_ms"]) == (hours(1), 100.0, None)
    assert second["busy"] is None
    assert (other["iad"], other["hour"], other["missed"]) == ("iad2", hours(0), 0)
    assert [r["pods_most"] for r in (first, second, other)] == [1, 1, 1]


def test_what_counts_is_what_the_auto_scaler_counts(spark: SparkSession) -> None:
    draw = random.Random(1)
    rows = [
        subtask(
            float(n),
            enqueued_ms=draw.choice([1.0, 201.0, 300.0]),
            outcome=draw.choice(["ok", "node_down", "timeout", "cancelled"]),
            dispatched_ms=draw.choice([None, 310.0]),
            result_ms=draw.choice([None, 400.0]),
            missed_deadline=draw.choice([False, True]),
        )
        for n in range(60)
    ]
    expected = []
    for row in rows:
        at_s = row["time"].timestamp()
        record = msgspec.convert(
            row | {"start_s": at_s, "wall_ms": round(at_s * 1e3)}, SubtaskRecord
        )
        if (event := finished(record)) is not None:
            expected.append(event)
    assert 10 < len(expected) < 50
    made = _finished(frame(spark, SUBTASKS, rows)).orderBy("enqueued_s").collect()
    events = [
        SubtaskFinished("n1", r["enqueued_s"], r["slack_s"], r["missed"], r["busy_s"]) for r in made
    ]
    assert events == expected


# A minute of calm, ten seconds with every second subtask late, a quieter minute.
LOAD = [n / 10 for n in range(600)] + [60 + n / 20 for n in range(200)]
LOAD += [70 + n / 2 for n in range(120)]


def stepped(at_s: float) -> dict[str, Any]:
    return late(at_s) if 60 <= at_s < 70 and round(at_s * 20) % 2 else subtask(at_s)


def test_pods_come_with_violations_and_go_afterwards(spark: SparkSession) -> None:
    late_by_s = 3600.0 - 60.0  # the violations begin with the second hour
    rows = [
        row
        for at_s in LOAD
        for row in [stepped(at_s) | {"time": subtask(late_by_s + at_s)["time"]}]
    ]
    calm, stormy = found(node_hours(frame(spark, SUBTASKS, rows)), NODE_HOURS)
    assert (calm["pods_up"], calm["pods_down"], calm["pods_most"]) == (0, 0, 1)
    assert (stormy["missed"], stormy["pods_up"]) == (100, 1)
    assert stormy["pods_down"] >= 1
    assert 1 < stormy["pods_most"] <= 8


def replayed(rows: list[tuple[float, bool]]) -> list[HourOfPods]:
    """(end, missed) of subtasks that waited for 10 ms and took 70."""
    replay = Replay()
    made: list[HourOfPods] = []
    for at_s, missed in rows:
        event = SubtaskFinished("", at_s - 0.08, 0.2, missed, 0.07)
        made += replay.finished(at_s, int(at_s // 3600) * 3600, event)
    return [*made, *replay.ended()]


def test_an_idle_time_is_skipped_without_a_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = random.Random(2)
    at_s, rows = START.timestamp(), []
    for _ in range(12):
        at_s += draw.choice([25.0, 100.0, 1_000.0])
        bad = draw.random() < 0.5
        for _ in range(300):
            at_s += draw.expovariate(10.0)
            rows.append((at_s, bad and draw.random() < 0.3))
    quick = replayed(rows)
    assert sum(hour.up for hour in quick) >= 3
    assert sum(hour.down for hour in quick) >= 3
    monkeypatch.setattr(autoscaling, "IDLE_LOOKS", 10**9)
    assert replayed(rows) == quick


def test_a_year_of_nothing_takes_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[int] = []
    look_at = Replay._look_at

    def counted(self: Replay, look: int) -> None:
        looks.append(look)
        look_at(self, look)

    monkeypatch.setattr(Replay, "_look_at", counted)
    replayed([(START.timestamp() + year * 3e7, False) for year in range(10)])
    assert len(looks) < 10 * (IDLE_LOOKS + 3)


@pytest.mark.parametrize("end_s", [1e9, 1e15, 1e305])
def test_nor_does_a_subtask_that_waits_for_ever(
    monkeypatch: pytest.MonkeyPatch, end_s: float
) -> None:
    """So a master says, or its clock."""
    looks: list[int] = []
    look_at = Replay._look_at

    def counted(self: Replay, look: int) -> None:
        looks.append(look)
        assert len(looks) < 20_000
        look_at(self, look)

    monkeypatch.setattr(Replay, "_look_at", counted)
    replay = Replay()
    replay.queue(0.0, 1)
    replay.queue(end_s, -1)
    event = SubtaskFinished("", end_s, 0.2, False, 0.07)
    assert list(replay.finished(end_s, 0, event)) == []
    assert len(list(replay.ended())) == 1


def test_a_queue_keeps_pods() -> None:
    """None is taken away while more subtasks wait than there are pods."""
    taken = []
    for waiting in (8, 0):
        replay = Replay()
        at_s = 1e6
        for n in range(200):
            at_s += 0.1
            list(replay.finished(at_s, 0, SubtaskFinished("", at_s, 0.2, n < 20, 0.01)))
        replay.queue(at_s, waiting)
        for _ in range(2_000):
            at_s += 0.1
            list(replay.finished(at_s, 0, SubtaskFinished("", at_s, 0.2, False, 0.01)))
        [hour] = replay.ended()
        assert hour.up == 1
        taken.append(hour.down)
    assert taken[0] == 0 < taken[1]
