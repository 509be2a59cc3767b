"""Ingests of landings made by hand."""

import math
import shutil
from datetime import UTC, date, datetime

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from agent.wire import records
from fleet.common import exits
from fleet.lake.ingest import lines, merging, store, stream
from fleet.lake.ingest.compaction import binned
from fleet.lake.ingest.reading import read
from fleet.lake.ingest.run import table as told
from fleet.lake.ingest.store import BusyError
from fleet.lake.ingest.stream import ingest
from fleet.lake.ingest.work import Sizes
from fleet.lake.schema.folder import Lake
from fleet.lake.schema.tables import base
from fleet.spark.errors import EngineError
from tests.fleet.spark_jobs.lake_tables import rows
from tests.fleet.spark_jobs.landings import (
    event,
    group,
    move,
    node,
    processing,
    pull,
    query,
    refused,
    subtask,
    task,
    write_lines,
    write_rows,
)

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
NOON_MS = 1_795_003_200_000  # 2026-11-18T12:00
DAY_MS = 86_400_000
LAST_MS = 253_402_214_400_000  # 9999-12-31
BAD = {
    "nonsense": "no JSON",
    '{"record":"query"': "no JSON",
    '"query"': "record is missing",
    '{"record":"queries"}': "no record kind is called 'queries'",
    '{"record":"task"}': "iad is missing",
    "x" * 1_000_001: "longer than 1,000,000 bytes",
}
WRONG = (
    (query(iad=""), "iad is missing"),
    (query(iad=None), "iad is missing"),
    (query(iad="a" * 65), "iad is no name"),
    (query(iad="__HIVE_DEFAULT_PARTITION__"), "iad is no name"),
    (task(iad="a" * 5_000), "iad is no name"),
    (event(iad="a\0b"), "iad is no name"),
    (query(iad="../a1"), "iad is no name"),
    (query(iad="a1\n"), "iad is no name"),
    (query(iad="a2"), "iad is not the one of this master"),
    (event(iad="a2"), "iad is not the one of this master"),
    (query(slo_ms="12"), "slo_ms is no number"),
    (query(slo_ms=None), "slo_ms is missing"),
    (query(answered=10**12), "answered is no number"),
    (query(wall_ms=10**30), "wall_ms is no number"),
    (query(slo_met="yes"), "slo_met is neither true nor false"),
    (query(areas="b1"), "areas is no list"),
    (query(wall_ms=946_684_799_999), "time is impossible"),
    (task(wall_ms=int(NOW.timestamp() * 1000) + 30 * DAY_MS), "time is impossible"),
    (event(time_ms=-1), "time is impossible"),
    (event(time_ms=400 * DAY_MS), "time is impossible"),
    (event(time_ms=int(NOW.timestamp() * 1000) + 2 * DAY_MS), "time is impossible"),
    (event(time_ms=LAST_MS), "time is impossible"),
    (subtask(node=None), "node is missing"),
    (processing(topic=None), "topic is missing"),
    (processing(together="b"), "together is no list"),
    (move(moved_ms=None), "moved_ms is missing"),
)


@pytest.fixture(scope="module")
def ingested(spark, tmp_path_factory):
    """One lake with something of everything, and what its ingest says of it."""
    lake = Lake(tmp_path_factory.mktemp("lake") / "lake")
    good = [
        query(),
        query(
            query="q2", reason="overloaded", status="later_word", evaluated_ms=None, new={"a": 1}
        ),
        task(task="old", origin=None),
        {k: v for k, v in subtask().items() if k != "demoted"},
        event(time_ms=5),
        processing(slo_ms=None, percentile=None, cpu_ms=None),
        move(later=1),
    ]
    write_lines(lake, "1.jsonl", [*good, "", "  ", query(), b"\xff\xfe", *BAD])
    write_lines(lake, "2.jsonl", [record for record, _ in WRONG] + ["nonsense"])
    write_lines(lake, "3.jsonl", [query(iad="007")], iad="007")
    write_rows(
        lake,
        "groups",
        "g.parquet",
        [
            group(first_ms=NOON_MS),
            group(sequence=10, first_ms=NOON_MS + DAY_MS // 2 - 1000),
            group(sequence=20, first_ms=0, synchronised=False),
            group(sequence=30, sensor=None),
            group(sequence=40, first_ms=-5000),
        ],
    )
    write_rows(lake, "nodes", "n.parquet", [node(), node(time_ms=1_795_000_000_001, model="Pi 5")])
    write_rows(lake, "pulls", "p.parquet", [pull(), pull(error=None)])
    write_rows(lake, "refused", "r.parquet", [refused()])
    broken = lake.groups / "iad=a1" / "node=n1" / "torn.parquet"
    broken.write_bytes((broken.with_name("g.parquet")).read_bytes()[:-100])
    pq.write_table(
        pa.table({"iad": ["a1"], "sequence": ["one"]}), broken.with_name("other.parquet")
    )
    return lake, ingest(spark, lake, clock=lambda: NOW)


LISTING = "spark.sql.sources.parallelPartitionDiscovery.parallelism"


def test_what_was_ingested_is_counted(ingested):
    _, done = ingested
    assert done.rows == {
        "queries": 3, "tasks": 1, "subtasks": 1, "events": 1, "processing": 1, "moves": 1,
        "groups": 3, "readings": 18, "nodes": 1, "pulls": 1,
    }  # fmt: skip
    assert done.quarantined == sum(done.reasons.values()) == len(BAD) + 1 + len(WRONG) + 2 + 2 + 1
    assert (done.files, done.batches, done.replaced) == (9, 1, 0)


def test_what_cannot_be_used_is_kept_with_the_reason(ingested):
    lake, _ = ingested
    found = {row[-1]: row[-2] for row in rows(lake, base.QUARANTINE)}
    for text, reason in BAD.items():
        assert found[text[:1000]] == reason
    said = sorted(found.values())
    assert said == sorted(
        [
            *BAD.values(),
            *(reason for _, reason in WRONG),
            "no text in UTF-8",
            "no Parquet file",
            "columns of another type",
            "sensor is missing",
            "time is impossible",
            "it is torn",
        ]
    )
    sources = {row[3] for row in rows(lake, base.QUARANTINE)}
    assert sources == {
        "records/iad=a1/1.jsonl", "records/iad=a1/2.jsonl", "groups/iad=a1/node=n1/g.parquet",
        "groups/iad=a1/node=n1/torn.parquet", "groups/iad=a1/node=n1/other.parquet", "a1/n1",
    }  # fmt: skip


def test_records_of_other_versions_are_taken(ingested):
    lake, _ = ingested
    queries = {(row[0], row[4]): dict(zip(base.QUERIES.names, row, strict=True)) for row in
               rows(lake, base.QUERIES)}  # fmt: skip
    assert set(queries) == {("a1", "q1"), ("a1", "q2"), ("007", "q1")}
    assert queries["a1", "q2"]["status"] == "later_word"
    assert queries["a1", "q2"]["evaluated_ms"] is None
    assert queries["a1", "q1"]["time"] == datetime(2026, 11, 18, 11, 6, 40, tzinfo=UTC)
    [old] = rows(lake, base.TASKS)
    assert old[-1] == ""
    [subtask_] = rows(lake, base.SUBTASKS)
    assert subtask_[-1] is False
    [move_] = rows(lake, base.MOVES)
    assert move_[4:10] == ("processor", "comfort", "a1", "a2", "settled", "plan")
    [event_] = rows(lake, base.EVENTS)
    assert event_[1:3] == (date(1970, 1, 1), datetime(1970, 1, 1, 0, 0, 0, 5000, tzinfo=UTC))


def test_readings_are_in_the_partition_of_their_own_day(ingested):
    lake, _ = ingested
    folder = lake.table("readings") / "iad=a1"
    days = {
        path.parent.name: pq.ParquetFile(path).metadata.num_rows
        for path in folder.rglob("*.parquet")
    }
    assert days == {"date=2026-11-18": 8, "date=2026-11-19": 4, "date=1970-01-01": 6}


def test_files_are_sorted_for_their_reader(ingested):
    lake, _ = ingested
    [file] = (lake.table("readings") / "iad=a1" / "date=2026-11-18").glob("*.parquet")
    table = pq.ParquetFile(file).read(columns=["channel", "time", "group"]).to_pylist()
    keys = [(row["group"], row["channel"], row["time"]) for row in table]
    assert keys == sorted(keys)


def test_the_last_pull_of_a_day_says_what_a_node_is(ingested):
    lake, _ = ingested
    [row] = rows(lake, base.NODES)
    assert (row[3], row[5]) == ("n1", "Pi 5")


def test_reading_a_time_prunes_days_and_columns(spark, ingested):
    lake, _ = ingested
    since = datetime(2026, 11, 18, 23, 59, 59, tzinfo=UTC)
    until = datetime(2026, 11, 19, 0, 0, 1, tzinfo=UTC)
    frame = read(spark, lake, base.READINGS, since, until).select("channel", "value")
    plan = frame._jdf.queryExecution().executedPlan().toString()
    [scan] = [line for line in plan.splitlines() if "FileScan" in line]
    assert "PartitionFilters: [isnotnull(date" in scan
    assert "(date#" in scan
    assert ">= 2026-11-18" in scan
    assert "<= 2026-11-19" in scan
    assert scan.split("ReadSchema: ")[1].strip() == (
        "struct<channel:string,time:timestamp,value:float>"
    )
    assert sorted(frame.collect()) == [
        ("humidity", 10.0), ("humidity", 11.0), ("temperature", 10.0), ("temperature", 11.0),
    ]  # fmt: skip


def test_groups_are_chosen_by_their_first_time(spark, ingested):
    lake, _ = ingested
    until = datetime(2026, 11, 18, 12, 0, 0, 1, tzinfo=UTC)
    chosen = read(spark, lake, base.GROUPS, None, until).select("sequence").collect()
    assert sorted(row.sequence for row in chosen) == [0, 20]


@pytest.mark.parametrize("table", [base.READINGS, base.QUARANTINE], ids=lambda t: t.name)
def test_where_nothing_is_there_are_columns_and_no_rows(spark, tmp_path, table):
    frame = read(spark, Lake(tmp_path / "none"), table, NOW, NOW)
    assert tuple(frame.columns) == table.names
    assert frame.schema.simpleString() == spark.createDataFrame([], table.ddl).schema.simpleString()
    assert frame.count() == 0


def test_columns_of_records_are_their_fields():
    """A field that a record gets needs a column."""
    for kind, record in zip(
        lines.KINDS,
        (
            records.QueryRecord,
            records.TaskRecord,
            records.SubtaskRecord,
            records.NodeEventRecord,
            records.ProcessingRecord,
            records.MoveRecord,
            records.PlacementRecord,
        ),
        strict=True,
    ):
        assert set(kind.fields) == set(record.__struct_fields__)


def test_a_portion_that_is_too_long_becomes_several_changes(spark, tmp_path):
    lake = Lake(tmp_path)
    for n in range(3):
        write_rows(lake, "pulls", f"{n}.parquet", [pull(time_ms=NOON_MS + n)])
    sizes, told = Sizes(portion_bytes=1, batch_files=2), []

    def tell(line):
        told.append((line, spark.conf.get(LISTING)))

    before = spark.conf.get(LISTING)
    done = ingest(spark, lake, compact=False, sizes=sizes, told=tell)
    assert (done.rows, done.batches) == ({"pulls": 3}, 2)
    assert len(list(lake.table("pulls").rglob("*.parquet"))) == 3
    # Thousands of files are listed by so many tasks, instead of one each.
    assert told == [("2 new files so far", str(2 * spark.sparkContext.defaultParallelism))]
    assert spark.conf.get(LISTING) == before


def test_missing_numbers_are_nan(spark, tmp_path):
    lake = Lake(tmp_path)
    channel = {"name": "t", "value": [None, 1.0, float("nan")], "raw": None, "quality": None}
    write_rows(lake, "groups", "g.parquet", [group(channels=[channel])])
    ingest(spark, lake)
    values = sorted(rows(lake, base.READINGS))
    assert [row[6] for row in values] == ["NaN", 1.0, "NaN"]
    assert all(math.isfinite(row[9]) for row in values)


def test_clocks_that_are_wrong_make_no_partitions(spark, tmp_path):
    lake = Lake(tmp_path)
    ahead = [group(sequence=10 * n, first_ms=LAST_MS - n * DAY_MS) for n in range(1, 5)]
    within = [NOON_MS, LAST_MS, 400 * DAY_MS, NOON_MS + DAY_MS]
    jumps = group(sequence=100, time_ms=within, count=4)
    write_rows(lake, "groups", "g.parquet", [group(first_ms=NOON_MS), *ahead, jumps])
    done = ingest(spark, lake, clock=lambda: NOW)
    assert done.rows == {"groups": 2, "readings": 6 + 4}
    assert (done.reasons, done.dropped) == ({"time is impossible": 4}, 4)
    folders = (lake.table("readings") / "iad=a1").iterdir()
    assert sorted(each.name for each in folders) == ["date=2026-11-18", "date=2026-11-19"]
    assert "4 readings of an impossible time left out" in told(done)[-1]
    assert "time is impossible (4)" in told(done)[-2]


def test_numbers_beyond_all_end_no_ingest(spark, tmp_path):
    """Each of one host ended the ingest of all, for ever."""
    lake = Lake(tmp_path)
    most = (1 << 63) - 1
    sources = group(sequence=10, first_ms=NOON_MS, source_time_ms=[NOON_MS, most, -most])
    beyond = [group(sequence=most - 1), group(sequence=20, shift_ms=-most - 1)]
    write_rows(lake, "groups", "g.parquet", [group(first_ms=NOON_MS), sources, *beyond])
    done = ingest(spark, lake, clock=lambda: NOW)
    assert done.rows == {"groups": 2, "readings": 12}
    assert done.reasons == {"sequence is impossible": 1, "time is impossible": 1}
    found = {row[-2]: row[10] for row in rows(lake, base.READINGS)}
    assert found[10] is not None
    assert found[11] is found[12] is None


def test_reasons_are_counted_however_many_there_are(spark, tmp_path, monkeypatch):
    monkeypatch.setattr(merging, "MAX_REASONS", 3)
    lake = Lake(tmp_path)
    evil = {"record": "\x1b[2J\nfake"}
    kinds = [{"record": f"later{n}"} for n in range(5)]
    write_lines(lake, "1.jsonl", [evil, evil | {"iad": "a1"}, *kinds, "no", "no JSON"])
    done = ingest(spark, lake)
    assert done.quarantined == sum(done.reasons.values()) == 9
    assert len(done.reasons) == 3 + 1
    line = told(done)[-2]
    assert "no record kind is called '?[2J?fake' (2)" in line
    assert line.isprintable()


def test_files_that_no_pull_puts_there_end_no_ingest(spark, tmp_path):
    """Such as one that was copied into the wrong folder."""
    lake = Lake(tmp_path)
    write_rows(lake, "groups", "g.parquet", [group(first_ms=NOON_MS)])
    (whole,) = lake.groups.rglob("*.parquet")
    strays = {"odd.parquet", "else/odd.parquet", "records/odd.parquet", "groups/odd.jsonl"}
    for place in strays:
        (lake.landing / place).parent.mkdir(exist_ok=True)
        shutil.copyfile(whole, lake.landing / place)
    done = ingest(spark, lake, clock=lambda: NOW)
    assert (done.rows["groups"], done.files) == (1, 5)
    assert done.reasons == {"no pull puts such a file there": 4}
    assert {row.source for row in read(spark, lake, base.QUARANTINE).collect()} == strays


@pytest.mark.parametrize("damage", ["emptied", "half gone"])
def test_damaged_checkpoints_are_put_aside_with_a_line(spark, tmp_path, damage):
    """Files that a power cut left empty; each ingest ended at them, for ever."""
    lake, said = Lake(tmp_path), []
    write_rows(lake, "groups", "g.parquet", [group(first_ms=NOON_MS)])
    ingest(spark, lake, clock=lambda: NOW)
    checkpoints = lake.checkpoints / "landing"
    if damage == "emptied":
        for path in checkpoints.rglob("*"):
            if path.is_file():
                path.write_bytes(b"")
    else:
        shutil.rmtree(checkpoints / "offsets")
    write_rows(lake, "groups", "h.parquet", [group(sequence=10, first_ms=NOON_MS)])
    done = ingest(spark, lake, clock=lambda: NOW, told=said.append)
    assert (done.rows["groups"], done.files) == (1, 2)
    assert f"{checkpoints} cannot be used (" in said[0]
    assert (lake.checkpoints / "landing.damaged").is_dir()
    assert ingest(spark, lake, clock=lambda: NOW, told=said.append).files == 0


def test_a_full_disk_says_nothing_of_the_checkpoints(spark, tmp_path, monkeypatch):
    lake, said = Lake(tmp_path), []
    full = EngineError("No space left on device", exits.FAILED)
    (lake.checkpoints / "landing").mkdir(parents=True)
    monkeypatch.setattr(stream, "spoken_of", lambda _: full)
    monkeypatch.setattr(stream.Job, "run", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        ingest(spark, lake, told=said.append)
    assert (said, [path.name for path in lake.checkpoints.iterdir()]) == ([], ["landing"])


def test_a_second_ingest_is_refused_while_one_is_at_work(spark, tmp_path):
    lake = Lake(tmp_path)
    with store.writing(lake), pytest.raises(BusyError, match="at work"):
        ingest(spark, lake)


@pytest.mark.long
def test_without_checkpoints_nothing_is_ingested_twice(spark, ingested):
    lake, _ = ingested
    shutil.rmtree(lake.checkpoints)
    # On another day, too: the quarantine's date is that of the ingest.
    again = ingest(spark, lake, clock=lambda: datetime(2026, 11, 25, tzinfo=UTC))
    assert (again.changed, again.files) == (False, 9)


def test_bins_leave_one_small_file_at_most(tmp_path):
    sizes = [60, 49, 30, 30, 20, 10, 1]
    files = []
    for n, size in enumerate(sizes):
        files.append(tmp_path / str(n))
        files[-1].write_bytes(b"x" * size)
    bins = [sorted(file.stat().st_size for file in one) for one in binned(files, 100)]
    assert bins == [[1, 20, 30, 49], [10, 30]]
    assert list(binned(files[:3], 100)) == [[files[1], files[2]]]
    assert list(binned(files[:2], 100)) == []
