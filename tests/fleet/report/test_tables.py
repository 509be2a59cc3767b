"""The report's own tables and what is shown of large ones, against values worked out by hand."""

from datetime import UTC

import pytest
from pyspark.sql import functions as F  # noqa: N812 - everybody calls it F

from fleet.lake.schema.tables import base, placing, report, requests, sensing
from fleet.report.files import write_table
from fleet.report.jobs import contents
from fleet.report.jobs.worst import worst_first, worst_sensors
from fleet.report.page.shown import Shown, grid
from tests.fleet.report.frames import T, frame, hours
from tests.fleet.report.samples import sensor_health


def test_contents_count_by_iad(spark):
    health = [
        {"iad": "a", "node": "n1", "sensor": "s", "channel": c, "readings": r,
         "first": T - hours(2), "last": T, "verdict": "ok"}
        for c, r in (("t", 10), ("h", 9))
    ]  # fmt: skip
    health.append({**health[0], "node": "n2", "sensor": "x", "readings": 5, "last": T + hours(3)})
    pulls = [
        {"iad": "a", "outcome": o, "expired_readings": n}
        for o, n in (("done", 0), ("bounded", 600), ("unreachable", 0))
    ]
    found = contents.contents(
        frame(spark, base.QUERIES, {"iad": "a"}, {"iad": "b", "time": T + hours(5)}),
        frame(spark, base.TASKS, {"iad": "b"}),
        frame(spark, base.SUBTASKS, {"iad": "b"}, {"iad": "b"}),
        frame(spark, base.EVENTS),
        frame(spark, sensing.SENSOR_HEALTH, *health),
        frame(spark, base.NODES, {"iad": "a", "node": "n1"}, {"iad": "a", "node": "n3"}),
        frame(spark, base.PULLS, *pulls),
        frame(spark, base.QUARANTINE, {"iad": "c"}),
    )
    assert found.columns == list(report.CONTENTS.names)
    rows = {row["iad"]: row.asDict() for row in found.collect()}
    assert set(rows) == {"a", "b", "c"}
    a = rows["a"]
    # n1, n2, n3; ten and five readings; two of three pulls went well.
    assert (a["nodes"], a["queries"], a["readings"]) == (3, 1, 15)
    assert (a["pulls"], a["failed"], a["expired_readings"], a["quarantined"]) == (3, 1, 600, 0)
    assert a["first"].astimezone(UTC) == T - hours(2)
    assert a["last"].astimezone(UTC) == T + hours(3)
    b = rows["b"]
    assert (b["queries"], b["tasks"], b["subtasks"], b["readings"]) == (1, 1, 2, 0)
    assert rows["c"]["quarantined"] == 1
    assert rows["c"]["first"] is None


def test_pulled_has_the_last_outcome_of_each_host(spark):
    pulls = [
        {"iad": "a", "host": "a/n1", "time": T + hours(n), "outcome": o, "error": e, "bytes": 7}
        for n, o, e in ((0, "done", ""), (2, "unreachable", "timed out"), (1, "done", ""))
    ]
    (row,) = contents.pulled(frame(spark, base.PULLS, *pulls)).collect()
    assert (row["pulls"], row["failed"], row["bytes"]) == (3, 1, 21)
    assert (row["outcome"], row["error"]) == ("unreachable", "timed out")


RESULTS = """{"emulated": "x", "seed": 1, "virtual": [], "real": [{"policy": "edfq", "seconds": 30,
 "classes": [{"kind": "1.1", "slo_ms": 500, "n": 4, "p50_ms": 90.5, "p95_ms": 200, "p99_ms": 210,
 "within_slo": 0.75, "refused": 1, "partial": 1, "unanswered": 0}]}]}"""


def test_clients_stand_beside_the_records_of_the_same_queries(spark, tmp_path):
    path = tmp_path / "client.json"
    path.write_text(RESULTS)
    queries = frame(
        spark, base.QUERIES,
        *[{"label": "edfq 1.1", "service": s, "status": "complete", "slo_met": ms < 500,
           "aggregated_ms": ms} for s, ms in (("t", 80.0), ("h", 90.0), ("t", 600.0))],
        {"label": "edfq 1.1", "service": "t", "status": "refused", "slo_met": False},
        {"label": "edfq 1.2", "status": "complete", "slo_met": True, "aggregated_ms": 1.0},
    )  # fmt: skip
    found = contents.client(spark, path, queries)
    assert found.columns == list(report.CLIENT.names)
    (row,) = found.collect()
    assert (row["policy"], row["kind"], row["queries"], row["p50_ms"]) == ("edfq", "1.1", 4, 90.5)
    assert (row["recorded"], row["recorded_p50_ms"], row["recorded_p99_ms"]) == (4, 90.0, 600.0)
    assert row["recorded_attainment"] == pytest.approx(2 / 3), "of those that were not refused"
    assert (row["refused"], row["partial"], row["unanswered"]) == (1, 1, 0)


@pytest.mark.parametrize("text", [None, "{", '{"real": 1}'])
def test_results_that_cannot_be_read_are_none(spark, tmp_path, text):
    path = tmp_path / "client.json"
    if text is not None:
        path.write_text(text)
    assert contents.client(spark, path, frame(spark, base.QUERIES)).isEmpty()


def test_a_table_is_one_file_of_each_kind_sorted_by_its_key(spark, tmp_path):
    rows = [("b", "not JSON", 2, "=1"), ("a", "line\nbreak", 1, "x")]
    made = spark.createDataFrame(rows, report.QUARANTINED.ddl).repartition(2)
    assert write_table(report.QUARANTINED, made, tmp_path) == 2
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["data"]
    assert (tmp_path / "data" / "quarantined.csv").read_text() == (
        'iad,reason,items,example\na,"line\nbreak",1,x\nb,not JSON,2,\'=1\n'
    )
    shown = Shown(spark, tmp_path)
    assert shown.top("quarantined", ("iad",), 1).rows == [
        {"iad": "a", "reason": "line\nbreak", "items": 1, "example": "x"}
    ]
    assert shown.top("quarantined", ("iad",), 1).more == 1


def test_hours_are_joined_until_they_fit(spark):
    at = [("x", T, 1), ("x", T + hours(1), 2), ("y", T + hours(200), 30), ("z", T + hours(900), 1)]
    rows = spark.createDataFrame(at, "name string, hour timestamp, n int")
    found = grid(rows, ["y", "x"], F.sum("n"))
    # 201 hours do not fit into 168 columns: pairs of hours, the first of them 10:00 and 11:00.
    assert found is not None
    assert found.step_s == 7200
    assert found.times[0] == T
    assert len(found.times) == 101
    assert found.values[1][0] == 3
    assert found.values[0][100] == 30
    assert sum(value is not None for row in found.values for value in row) == 2
    assert grid(rows, ["nobody"], F.sum("n")) is None


def test_the_worst_come_first_and_are_drawn_in_few_steps(spark):
    health = spark.createDataFrame(sensor_health(24), sensing.SENSOR_HEALTH.ddl)
    top = [row["verdict"] for row in health.orderBy(*worst_first()).limit(4).collect()]
    assert top == ["broken", "broken", "drift", "ok"]
    room = {"iad": "iad1", "node": "pi7", "sensor": "dht22"}
    readings = [
        {**room, "channel": "humidity", "time": T, "value": 40.0},
        {**room, "channel": "humidity", "time": T, "value": 42.0},
        {**room, "channel": "humidity", "time": T, "value": 90.0, "quality": 8},
        {**room, "channel": "humidity", "time": T, "value": float("nan")},
        {**room, "channel": "temperature", "time": T, "value": 20.0},
    ]
    (row,) = worst_sensors(frame(spark, base.READINGS, *readings), health).collect()
    assert (row["readings"], row["bad"]) == (4, 2)
    assert (row["minimum"], row["mean"], row["maximum"]) == (40.0, 41.0, 42.0)


def test_every_table_of_the_report_is_declared_with_a_key_of_its_own_columns():
    for table in (*report.TABLES, *requests.TABLES, *placing.TABLES, *sensing.TABLES):
        assert set(table.key) <= set(table.names), table.name
