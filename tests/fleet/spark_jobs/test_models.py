"""Models for the planner: by hand, against the records, and as the planner reads them."""

import math
import random
from collections import Counter, defaultdict
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest
from pyarrow import parquet
from pyspark.sql import DataFrame, SparkSession

from agent.wire.records import SubtaskRecord, decode_record
from fleet.cli.commands import run
from fleet.lake.schema.folder import Lake
from fleet.lake.schema.tables import models as tables
from fleet.lake.schema.tables.base import QUERIES, SUBTASKS, TASKS
from fleet.lake.schema.tables.model import Table
from fleet.plan.models import read_models
from fleet.plan.records import read_measured
from fleet.plan.result import CapacityReport
from fleet.plan.times import measured_times
from fleet.report.jobs.models import arrivals, sizes, unloaded, write_models
from tests.fleet.plan.test_plan_models import TYPES, write_table
from tests.fleet.spark_jobs import virtual_run
from tests.fleet.spark_jobs.recorded import found, frame, frames, query, subtask, task


def test_buckets_by_hand(spark: SparkSession) -> None:
    edge = 2.0 ** (49 / 8)
    times_ms = [64.0, 66.0, edge, math.nextafter(edge, 0.0), 0.0, 0.01, 2.0**-4, 8.0]
    rows = [
        subtask(n, dispatched_ms=0.0, result_ms=ms, window_s=64.0) for n, ms in enumerate(times_ms)
    ]
    rows += [
        subtask(20, dispatched_ms=0.0, result_ms=66.0, window_s=65.0),
        subtask(21, dispatches=2),
        subtask(22, outcome="cancelled"),
        subtask(23, dispatched_ms=None),
        subtask(24, dispatched_ms=90.0, result_ms=80.0),
    ]
    by_end = {
        (row["window_s"], row["low_ms"]): row
        for row in found(unloaded(frame(spark, SUBTASKS, rows)), tables.UNLOADED)
    }
    counts = {key: row["count"] for key, row in by_end.items()}
    assert counts == {
        (64.0, 0.0): 2,
        (64.0, 2.0**-4): 1,
        (64.0, 8.0): 1,
        (64.0, 64.0): 3,
        (64.0, edge): 1,
        (128.0, 64.0): 1,
    }
    assert by_end[64.0, 0.0]["high_ms"] == 2.0**-4
    assert by_end[64.0, 64.0]["high_ms"] == edge
    assert by_end[64.0, 64.0]["mean_ms"] == pytest.approx((64.0 + 66.0 + edge) / 3)


def test_arrivals_by_hand(spark: SparkSession) -> None:
    rows = [
        # Ten in half a minute, then a night, then two: 27 + 60 + 3 s.
        *(query(3.0 * n, label="a" if n % 2 else "b") for n in range(10)),
        query(40_000.0, label="a"),
        query(40_003.0, label="b", status="refused"),
        query(0.0, iad="iad2", label="a"),
    ]
    first, second, other = found(arrivals(frame(spark, QUERIES, rows)), tables.ARRIVALS)
    assert (first["iad"], first["class"], first["queries"]) == ("iad1", "a", 6)
    assert first["seconds"] == second["seconds"] == pytest.approx(90.0)
    assert first["rate_per_s"] == pytest.approx(6 / 90.0)
    assert (first["peak_per_s"], second["peak_per_s"]) == (pytest.approx(5 / 60.0),) * 2
    assert (other["iad"], other["seconds"], other["rate_per_s"]) == ("iad2", 60.0, 1 / 60.0)


def test_sizes_by_hand(spark: SparkSession) -> None:
    queries = [
        *(query(n, tasks=[f"a{n}", f"b{n}"], asked=3, label="x") for n in range(3)),
        query(3, tasks=["a3"], label="x"),
        query(4, status="refused", label="x", asked=0),
        query(5, tasks=["gone"], label="y"),
    ]
    tasks = [task(n, task=f"a{n}", fanout=2) for n in range(4)]
    tasks += [task(n, task=f"b{n}", fanout=1, iad="iad2") for n in range(3)]
    subtasks = [subtask(n, task=f"{t}{n}", window_s=3_000.0) for n in range(4) for t in "ab"]
    made = sizes(
        frame(spark, QUERIES, queries),
        frame(spark, TASKS, tasks),
        frame(spark, SUBTASKS, subtasks),
    )
    names = ("areas", "iads", "iad", "nodes", "window_s", "queries", "share")
    rows = {tuple(row[name] for name in names) for row in made.collect()}
    assert rows == {
        (3, 2, None, 2, 4_096.0, 3, 0.6),
        (1, 1, "iad1", 2, 4_096.0, 1, 0.2),
        (0, 0, None, None, None, 1, 0.2),
        (1, 1, None, None, None, 1, 1.0),
    }
    assert made.columns == list(tables.SIZES.names)


# --- of a run -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """Models of a run, written twice, and beside them its records."""
    lake = Lake(tmp_path_factory.mktemp("lake"))
    records = [decode_record(line) for line in virtual_run.lines()]
    made = models_of(*frames(spark, records))
    write_models({"unloaded": made["unloaded"].limit(3)}, lake)
    write_models(made, lake)
    (lake.root / "records").mkdir()
    (lake.root / "records" / "current.jsonl").write_bytes(b"\n".join(virtual_run.lines()) + b"\n")
    return lake


def models_of(queries: DataFrame, tasks: DataFrame, subtasks: DataFrame) -> dict[str, DataFrame]:
    return {
        "unloaded": unloaded(subtasks),
        "arrivals": arrivals(queries),
        "sizes": sizes(queries, tasks, subtasks),
    }


def has_declared_schemas(lake: Lake, expected: Iterable[Table]) -> None:
    """The models' files have the columns and types of their tables, and each key once."""
    for table in expected:
        read = parquet.read_table(lake.models / table.name)
        assert read.schema.names == list(table.names)
        assert read.schema.types == [TYPES[column.type] for column in table.columns]
        for column in table.columns:
            assert column.nullable or read[column.name].null_count == 0
        keys = [tuple(row[name] for name in table.key) for row in read.to_pylist()]
        assert len(set(keys)) == len(keys) > 0
    assert list(lake.staging.iterdir()) == []


def test_files_have_the_declared_schema(lake: Lake) -> None:
    has_declared_schemas(lake, tables.LOAD)


def test_sums_and_counts_are_those_of_the_records(lake: Lake) -> None:
    sums: dict[str, float] = defaultdict(float)
    counts: Counter[str] = Counter()
    for record in map(decode_record, virtual_run.lines()):
        if isinstance(record, SubtaskRecord) and record.outcome == "ok":
            counts[record.node] += 1
            sums[record.node] += (record.result_ms or 0.0) - (record.dispatched_ms or 0.0)
    totals: dict[str, float] = defaultdict(float)
    numbers: Counter[str] = Counter()
    for row in parquet.read_table(lake.models / "unloaded").to_pylist():
        numbers[row["node"]] += row["count"]
        totals[row["node"]] += row["count"] * row["mean_ms"]
        assert row["low_ms"] <= row["mean_ms"] < row["high_ms"]
    assert numbers == counts
    assert totals == pytest.approx(sums, rel=1e-9)


def test_samples_are_within_a_bucket_of_the_records(lake: Lake) -> None:
    models = read_models(lake.root)
    measured = read_measured([lake.root / "records"])
    assert models.subtasks == sum(map(len, measured.unloaded_s.values()))
    assert models.measured.names() == measured.names()
    for at, exact_s in measured.unloaded_s.items():
        read_s = models.measured.unloaded_s[at]
        assert len(read_s) == len(exact_s)
        for read, exact in zip(read_s, sorted(exact_s), strict=True):
            assert abs(math.log2(read / exact)) <= 1 / 8
        means = [measured_times(s).mean_s for s in (read_s, exact_s)]
        assert means[0] == pytest.approx(means[1], rel=0.005)


def test_classes_are_those_that_were_asked(lake: Lake) -> None:
    models = read_models(lake.models)
    classes = models.load_classes(virtual_run.PLAN)
    assert sum(kind.share for kind in classes) == pytest.approx(1.0)
    by_name = {kind.name: kind for kind in classes}
    hot, wide = by_name["virtual edfq 1.2"], by_name["virtual fifo 3"]
    assert (hot.iads, hot.nodes, hot.iad, hot.slo_s) == (1, 1, 1, 0.5)
    assert (wide.iads, wide.nodes, wide.iad, wide.slo_s) == (2, 2, None, 1.2)
    # Those who asked for the impossible make classes that are too rare, under the same labels.
    assert "virtual fifo 3 (2)" not in by_name
    assert "virtual fifo 3 (2)" in {kind.name for kind in models.classes}
    assert models.left_out == 0


def test_many_samples_are_thinned_evenly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    draw = random.Random(1)
    edges = [2.0 ** (k / 8) for k in range(40, 60)]
    rows = [
        {
            "iad": "i",
            "node": "n",
            "window_s": 64.0,
            "low_ms": low,
            "high_ms": high,
            "count": draw.randrange(1, 10_000),
            "mean_ms": low + (high - low) * draw.random(),
        }
        for low, high in pairwise(edges)
    ]
    write_table(tmp_path, tables.UNLOADED, rows)
    for table in (tables.ARRIVALS, tables.SIZES):
        write_table(tmp_path, table, [])
    monkeypatch.setattr("fleet.plan.models.MAX_SAMPLES", 2_000)
    models = read_models(tmp_path)
    [samples_s] = models.measured.unloaded_s.values()
    counted = sum(row["count"] for row in rows)
    assert (len(samples_s), models.subtasks) == (2_000, counted)
    mean_ms = sum(row["count"] * row["mean_ms"] for row in rows) / counted
    assert sum(samples_s) / 2_000 * 1e3 == pytest.approx(mean_ms, rel=0.002)


def test_a_plan_from_models_is_that_from_records(
    lake: Lake, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    classes = tmp_path / "classes.toml"
    classes.write_text('[[class]]\nname = "a"\nshare = 1.0\nslo_ms = 500\niad = "iad2"\n')
    reports = []
    for source in (["--models", str(lake.root)], ["--records", str(lake.root / "records")]):
        arguments = ["--classes", str(classes), "--queries", "4000", "--seeds", "3", "--json"]
        assert run(["plan", *source, *arguments, "--policy", "edfq"]) == 0
        reports.append(msgspec.json.decode(capsys.readouterr().out, type=CapacityReport))
    from_models, from_records = (report.policies[0].highest.rate_per_s for report in reports)
    assert from_models == pytest.approx(from_records, rel=0.05)
    for node, mean_ms in reports[1].unloaded_mean_ms["iad2"].items():
        assert reports[0].unloaded_mean_ms["iad2"][node] == pytest.approx(mean_ms, rel=0.01)
