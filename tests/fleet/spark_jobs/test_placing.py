"""Processors and moves by topic and by master, from rows by hand."""

from datetime import timedelta

import pytest

from fleet.lake.ingest.stream import ingest
from fleet.lake.schema.folder import Lake
from fleet.lake.schema.tables.base import MOVES, PLACEMENT, PROCESSING
from fleet.lake.schema.tables.placing import MASTER_LOAD, MOVE_EFFECTS, MOVED, PROCESSED
from fleet.placement.campaign.lake import intervals
from fleet.placement.campaign.stays import Processed
from fleet.report.jobs.placing import master_load, move_effects, moved, processed
from tests.fleet.spark_jobs import landings
from tests.fleet.spark_jobs.recorded import START, found, frame


def at(minute, made):
    """The record as a row, which began so many minutes after START."""
    time = START + timedelta(minutes=minute)
    return made | {"time": time, "date": time.date(), "start_s": 60.0 * minute}


def minute(number, topic="comfort", iad="iad1", **more):
    return at(number, landings.processing(iad, topic, **more))


def test_a_topic_over_several_minutes(spark):
    rows = [
        minute(0, achieved_ms=900.0, cpu_ms=10.0, processed=100, arrived=120, cpu_s=3.0),
        minute(1, achieved_ms=1_200.0, cpu_ms=20.0, processed=300, arrived=240, cpu_s=6.0),
        minute(2, achieved_ms=950.0, slo_ms=940.0, processed=0, arrived=0, cpu_s=0.0, cpu_ms=None),
        minute(2, topic="free", slo_ms=None, percentile=None, state="disabled"),
    ]
    comfort, free = found(processed(frame(spark, PROCESSING, rows)), PROCESSED)
    assert (comfort["topic"], comfort["slo_ms"]) == ("comfort", 940.0)  # the latest
    assert (comfort["seconds"], comfort["arrived"], comfort["processed"]) == (180.0, 360, 400)
    assert (comfort["rate_per_s"], comfort["load"]) == pytest.approx((2.0, 0.05))
    assert comfort["cpu_ms"] == pytest.approx(17.5)
    assert (comfort["records"], comfort["kept"]) == (2, 1)
    assert (comfort["achieved_ms"], comfort["worst_ms"]) == (950.0, 1_200.0)
    assert (free["kept"], free["records"], free["state"]) == (1, 1, "disabled")


def test_counts_beyond_all_end_no_report(spark):
    """They are a host's words; those of others are told."""
    most = (1 << 63) - 1
    counts = dict.fromkeys(("arrived", "processed", "late", "failed", "skipped"), most)
    rows = [minute(n, **counts, seconds=1e300) for n in (0, 1)] + [minute(0, iad="iad2")]
    table = frame(spark, PROCESSING, rows)
    one, two = found(processed(table), PROCESSED)
    assert {one[name] for name in counts} == {most}
    assert two["processed"] == rows[2]["processed"]
    moves = frame(spark, MOVES, [at(1, landings.move("iad1", "comfort", target="iad2"))])
    one, two = found(master_load(table, moves), MASTER_LOAD)
    assert (one["processed"], one["late"]) == (most, most)
    assert found(move_effects(table, moves, frame(spark, PLACEMENT, [])), MOVE_EFFECTS)


def test_the_load_of_a_master_is_that_of_all_its_processors(spark):
    rows = [
        minute(0, cpu_s=30.0),
        minute(0, topic="other", cpu_s=60.0, late=0),
        minute(1, cpu_s=6.0),
        minute(0, iad="iad2", cpu_s=12.0, cores=2, workers=1),
    ]
    moves = [
        at(1, landings.move("iad1", "other", target="iad2")),
        at(1, landings.move("iad1", "comfort", target="iad3", state="aborted", pause_ms=None)),
    ]
    table = frame(spark, MOVES, moves)
    first, second = found(master_load(frame(spark, PROCESSING, rows), table), MASTER_LOAD)
    assert (first["topics"], first["most_topics"], first["late"]) == (2, 2, 6)
    assert (first["load"], first["most_load"]) == pytest.approx((0.8, 1.5))
    assert (first["came"], first["left"]) == (0, 1)
    assert (second["came"], second["left"], second["cores"], second["workers"]) == (1, 0, 2, 1)
    assert [row["pause_ms"] for row in found(moved(table), MOVED)] == [None, 12.5]


def test_time_in_which_some_came_into_a_crowd_counts_once(spark):
    rows = [
        minute(0, cpu_s=30.0, others=40),
        minute(0, topic="gone", cpu_s=6.0, seconds=20.0, others=40),
        minute(0.5, topic="came", cpu_s=12.0, seconds=30.0, others=40),
        minute(1, cpu_s=12.0, others=40),
        minute(1, topic="came", cpu_s=12.0, others=40),
    ]
    (load,) = found(
        master_load(frame(spark, PROCESSING, rows), frame(spark, MOVES, [])), MASTER_LOAD
    )
    assert load["load"] == pytest.approx(72.0 / 120.0)


def test_intervals_of_a_crowd_train_nothing(spark, tmp_path):
    """Not even those whose cut lists look like a whole set."""
    lake = Lake(tmp_path)
    lines = [
        landings.processing("a1", topic, start_s=60.0, together=listed, others=40)
        for topic, listed in {"a": ["b"], "b": ["a"]}.items()
    ]
    landings.write_lines(lake, "1.jsonl", lines)
    ingest(spark, lake)
    assert intervals(spark, lake, 99.0) == []


def test_intervals_of_a_campaign_come_whole_from_the_lake(spark, tmp_path):
    lake = Lake(tmp_path)
    both = {"a": ["b"], "b": ["a"]}
    lines = [
        landings.processing("a1", topic, start_s=start_s, together=others, **more)
        for start_s, more in (
            (60.0, {}),
            (120.0, {"failed": 1}),
            (180.0, {"state": "loading"}),
            (240.0, {}),
        )
        for topic, others in both.items()
    ]
    # Of the last one, a record was not pulled yet.
    landings.write_lines(lake, "1.jsonl", lines[:-1])
    ingest(spark, lake)
    (found,) = intervals(spark, lake, 99.0)
    assert (found.iad, found.start_s, found.seconds, found.workers) == ("a1", 60.0, 60.0, 4)
    assert found.topics == tuple(
        Processed(topic, 120, 118, 12.5, 80.0, 1_000.0) for topic in ("a", "b")
    )


def test_a_processor_that_joins_begins_a_moment_after_the_others(spark, tmp_path):
    lake = Lake(tmp_path)
    lines = [
        landings.processing("a1", "a", start_s=60.0, seconds=4.0001, together=["b"]),
        landings.processing("a1", "b", start_s=60.0001, seconds=4.0, together=["a"]),
        # Both end together here, too, but one was alone for seconds.
        landings.processing("a1", "a", start_s=70.0, seconds=8.0, together=["b"]),
        landings.processing("a1", "b", start_s=74.0, seconds=4.0, together=["a"]),
    ]
    landings.write_lines(lake, "1.jsonl", lines)
    ingest(spark, lake)
    (found,) = intervals(spark, lake, 99.0)
    assert (found.start_s, found.seconds, found.names) == (60.0, 4.0001, ("a", "b"))


def told(number, iad, *arrivals, way_ms=4.0):
    """A record of placement, with the arrivals of comfort by IAD."""
    rows = [
        {"topic": "comfort", "source": source, "peer": "", "per_s": rate}
        for source, rate in arrivals
    ]
    delays = [{"iad": other, "p50_ms": way_ms, "p90_ms": 9.0} for other in ("iad1", "iad2", "iad3")]
    return at(number, landings.placement(iad, arrivals=rows, delays=delays))


def test_each_side_of_a_move_is_what_was_measured_there(spark):
    rows = [
        minute(0, achieved_ms=900.0),  # more than an hour before it
        minute(70, achieved_ms=90.0, arrived=600, late=59),
        minute(71, achieved_ms=70.0, arrived=600, late=0),
        minute(72, achieved_ms=50.0),  # still going on as it moved
        minute(73, iad="iad2", achieved_ms=20.0, arrived=1_200, late=0),
        minute(73, iad="iad2", topic="other", achieved_ms=1.0),
        minute(80, iad="iad3", achieved_ms=5.0, late=0),
    ]
    moves = [
        at(72.5, landings.move("iad1", "comfort", target="iad2")),
        at(75, landings.move("iad2", "comfort", target="iad3", reason="drift")),
        at(76, landings.move("iad3", "comfort", target="iad1", state="aborted")),
    ]
    records = [
        told(71, "iad1", ("iad1", 1.0), ("iad2", 3.0)),
        told(73, "iad2", ("iad1", 1.0), ("iad2", 3.0)),
        told(74, "iad2", ("iad9", 3.0)),  # of an unknown way
    ]
    tables = [
        frame(spark, table, each)
        for table, each in ((PROCESSING, rows), (MOVES, moves), (PLACEMENT, records))
    ]
    first, second = found(move_effects(*tables), MOVE_EFFECTS)
    assert (first["iad"], first["target"], first["pause_ms"]) == ("iad1", "iad2", 12.5)
    assert (first["percentile"], first["slo_ms"]) == (90.0, 1_000.0)
    assert (first["before_records"], first["before_rate_per_s"]) == (2, 10.0)
    assert (first["before_achieved_ms"], first["before_worst_ms"]) == (80.0, 90.0)
    assert first["before_late_share"] == pytest.approx(59 / 236)
    assert (first["before_way_ms"], first["after_way_ms"]) == (3.0, 1.0)
    assert (first["after_records"], first["after_achieved_ms"]) == (1, 20.0)
    assert (first["after_rate_per_s"], first["after_late_share"]) == (20.0, 0.0)
    assert (second["iad"], second["target"], second["reason"]) == ("iad2", "iad3", "drift")
    assert (second["before_achieved_ms"], second["after_achieved_ms"]) == (20.0, 5.0)
    assert (second["after_way_ms"], second["after_records"]) == (None, 1)
