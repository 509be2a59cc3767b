"""How long a report will take, said beforehand."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fleet.lake.schema.folder import Lake
from fleet.report import forecast
from fleet.report.forecast import Work, between_s, in_words, keep_pace, pace_of, said


@pytest.mark.parametrize(
    ("low_s", "high_s", "words"),
    [
        (22.5, 112.5, "20 to 120 s"),
        (3.0, 12.0, "5 to 20 s"),
        (31.5, 67.5, "30 to 70 s"),
        (75.0, 225.0, "1 to 4 minutes"),
        (55.0, 125.0, "50 s to 3 minutes"),
        (2_000.0, 9_900.0, "33 minutes to 3 hours"),
        (2_000.0, 6_900.0, "33 to 115 minutes"),
        (4_000.0, 20_000.0, "1 to 6 hours"),
    ],
)
def test_words_reach_outwards(low_s, high_s, words):
    assert in_words(low_s, high_s) == words


def test_more_rows_take_longer_and_more_cores_shorter():
    small, large = Work(0, 1_000, 1_000_000), Work(10_000_000, 1_000, 100_000_000)
    assert Work(0, 0, 0).expected_s(2) < small.expected_s(2) < large.expected_s(2)
    assert large.expected_s(8) < large.expected_s(2)


def test_the_last_report_narrows_the_range(tmp_path):
    lake = Lake(tmp_path)
    assert pace_of(lake, "local[*]") is None
    unknown = between_s(100.0, None)
    keep_pace(lake, "local[*]", 1.5)
    keep_pace(lake, "spark://host:7077", 0.5)
    known = between_s(100.0, pace_of(lake, "local[*]"))
    assert pace_of(lake, "local[*]") == 1.5
    assert known[0] < 150.0 < known[1]
    assert known[1] / known[0] < unknown[1] / unknown[0]
    lake.pace.write_bytes(b"{")
    assert pace_of(lake, "local[*]") is None
    keep_pace(lake, "local[*]", 2.0)
    assert pace_of(lake, "local[*]") == 2.0


def test_what_there_is_to_read_is_counted_without_reading_it(tmp_path):
    lake = Lake(tmp_path)

    def table(name, day, rows):
        folder = lake.table(name) / "iad=iad1" / f"date={day}"
        folder.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table({"x": list(range(rows))}), folder / "1.parquet")

    for day in ("2026-11-20", "2026-11-21", "2026-11-22"):
        table("readings", day, 100)
        table("groups", day, 7)
        table("queries", day, 10)
    (lake.table("queries") / "iad=iad1/date=2026-11-20/2.parquet").write_bytes(b"torn")
    assert forecast.work(lake, None, None) == Work(0, 30, 300)
    since, until = datetime(2026, 11, 21, tzinfo=UTC), datetime(2026, 11, 21, 12, tzinfo=UTC)
    assert forecast.work(lake, since, until) == Work(0, 10, 100)


def test_only_what_came_after_the_last_ingest_is_new(tmp_path):
    lake = Lake(tmp_path)
    offsets = lake.checkpoints / "landing" / "offsets"
    for folder in (lake.records, offsets):
        folder.mkdir(parents=True)
    for path, at_s, length in (
        (lake.records / "old.jsonl", 1_000, 500),
        (offsets / "0", 2_000, 1),
        (lake.records / "new.jsonl", 3_000, 70),
    ):
        path.write_bytes(b"x" * length)
        os.utime(path, (at_s, at_s))
    assert forecast.work(lake, None, None).new_bytes == 70
    assert forecast.work(lake, None, None, with_new=False).new_bytes == 0


def test_files_that_go_once_they_are_listed_count_nothing(tmp_path, monkeypatch):
    # `fleet lake follow` and `fleet logs pull` give files their names by renames.
    lake = Lake(tmp_path)
    offsets = lake.checkpoints / "landing" / "offsets"
    for folder in (lake.records, offsets):
        folder.mkdir(parents=True)
    for path in (offsets / "0", lake.records / "stays.jsonl"):
        path.write_bytes(b"x" * 70)
    os.utime(offsets / "0", (1_000, 1_000))
    glob, rglob = Path.glob, Path.rglob
    monkeypatch.setattr(Path, "glob", lambda at, what: [at / ".1.tmp", *glob(at, what)])
    monkeypatch.setattr(Path, "rglob", lambda at, what: [at / "gone.part", *rglob(at, what)])
    # pathlib's own look says that it is a file, and the next one finds it gone.
    monkeypatch.setattr(Path, "is_file", lambda path: path.suffix != "" and not path.is_dir())
    assert forecast.work(lake, None, None).new_bytes == 70


def test_it_is_one_line():
    work = Work(0, 20_000, 350_000)
    assert said(work, 40.0, None) == (
        "to read: 350,000 values of readings, 20,000 records; this takes 20 to 100 s"
    )
    assert said(work, 50.0, 1.0).endswith("; this takes 30 to 80 s, going by the last report")
    new = said(Work(2_000_000, 0, 0), 50.0, None)
    assert new.startswith("to read: 2 MB of newly pulled files; ")
    assert said(Work(0, 0, 0), 40.0, None).startswith("to read: no data; ")
