"""Files of a history that an earlier or a later version wrote."""

from __future__ import annotations

import math
import sqlite3
import struct
from array import array
from pathlib import Path

from agent.edge.history.database import connect
from agent.edge.history.file import MAX_ASIDE
from agent.edge.history.reader import GROUPS, Reader
from agent.scheduling.watches.rounds import aggregate_of
from sensors.quality.flags import NO_RESPONSE
from tests.edge.broken_history import fill, found_in
from tests.edge.history_oracle import CHANNELS, START_MS, open_history, rows, sample

FORMAT_1 = """
PRAGMA application_id = 0x53414E44;
CREATE TABLE meta (key TEXT PRIMARY KEY, value ANY NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE groups (
    sequence INTEGER PRIMARY KEY, count INTEGER NOT NULL, first_ms INTEGER NOT NULL,
    last_ms INTEGER NOT NULL, boot TEXT NOT NULL, first_monotonic_ms INTEGER NOT NULL,
    last_monotonic_ms INTEGER NOT NULL, synchronised INTEGER, channels TEXT NOT NULL,
    statistics BLOB NOT NULL, time_ms BLOB NOT NULL, source_time_ms BLOB,
    channel_values BLOB NOT NULL
) STRICT;
CREATE INDEX groups_by_time ON groups (last_ms, first_ms);
INSERT INTO meta VALUES ('version', 1), ('openings', 7), ('history', 'abcd');
PRAGMA journal_mode=WAL;
"""


def format_1(path: Path) -> None:
    """A history as format 1 wrote it: two groups, 0 … 59 with source times and 60 … 119 without."""
    db = sqlite3.connect(path)
    db.executescript(FORMAT_1)
    for first, synchronised in ((0, None), (60, 1)):
        samples = [sample(i) for i in range(first, first + 60)]
        times = array("q", [s.time_ms for s in samples])
        columns = [array("f", [s.values[i] for s in samples]) for i in range(2)]
        statistics = b"".join(struct.pack("<q3d", 60, min(c), max(c), sum(c)) for c in columns)
        source = None if first else array("q", range(60)).tobytes()
        row = (7 * 2**32 + first, 60, times[0], times[-1], "boot-1", first * 1000)
        row += ((first + 59) * 1000, synchronised, ",".join(CHANNELS), statistics, times.tobytes())
        row += (source, b"".join(c.tobytes() for c in columns))
        db.execute("INSERT INTO groups VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?)", row)
    db.commit()
    db.close()


def test_a_history_of_format_1_is_migrated_without_loss(tmp_path: Path) -> None:
    path = tmp_path / "h.sqlite"
    format_1(path)
    for _ in range(2):
        history = open_history(path)
        assert (history.report, history.id) == ("", "abcd")
        assert not history.stream("dht", CHANNELS).empty
        reader = Reader(history)
        found = rows(reader.series(0, 2**53), CHANNELS)
        assert found == [
            (START_MS + i * 1000, i if i < 60 else START_MS + i * 1000, 0, ((i / 2, 0), (-i, 0)))
            for i in range(120)
        ]
        aggregate = reader.aggregate(0, 2**53)
        assert aggregate is not None
        assert aggregate.channels["humidity"].min == -119
        assert history.reference() == (119_000, START_MS)
        reader.close()
        history.close()
    with sqlite3.connect(path) as db:
        assert db.execute("SELECT value FROM meta WHERE key = 'openings'").fetchone() == (9,)
    db.close()


def test_what_is_missing_in_format_1_is_flagged_and_counted_as_bad(tmp_path: Path) -> None:
    path = tmp_path / "h.sqlite"
    format_1(path)
    with sqlite3.connect(path) as db:
        values = array("f", db.execute("SELECT channel_values FROM groups").fetchone()[0])
        values[3] = values[5] = math.nan
        db.execute("UPDATE groups SET channel_values = ? WHERE source_time_ms NOTNULL", (values,))
    db.close()
    history = open_history(path)
    reader = Reader(history)
    series, aggregate = reader.series(0, 2**53), reader.aggregate(0, 2**53)
    assert series is not None
    assert aggregate is not None
    assert {name: list(flags.data[:7]) for name, flags in series.quality.items()} == {
        "temperature": [0, 0, 0, NO_RESPONSE, 0, NO_RESPONSE, 0]
    }
    assert aggregate.channels["temperature"].bad == 2
    assert aggregate == aggregate_of(series)
    reader.close()
    history.close()


def test_a_contradictory_group_of_format_1_goes_alone(tmp_path: Path) -> None:
    path = tmp_path / "h.sqlite"
    format_1(path)
    with sqlite3.connect(path) as db:
        db.execute("UPDATE groups SET time_ms = x'00' WHERE sequence % 100 = 60 OR synchronised")
    db.close()
    history = open_history(path)
    assert found_in(history) == list(range(60))
    history.close()


def test_the_index_by_time_covers_what_a_series_needs_in_older_files_too(tmp_path: Path) -> None:
    path = tmp_path / "h.sqlite"
    fill(path, 120)
    with sqlite3.connect(path) as db:
        db.execute("DROP INDEX groups_by_time")
        db.execute("CREATE INDEX groups_by_time ON groups (last_ms, first_ms, shift_ms, layout)")
    db.close()
    history = open_history(path)
    assert (history.report, found_in(history)) == ("", list(range(120)))
    history.close()
    with sqlite3.connect(path) as db:
        [(*_, plan)] = db.execute(f"EXPLAIN QUERY PLAN {GROUPS}", (0, 0, 0))
    db.close()
    assert "USING COVERING INDEX groups_by_time" in plan


def test_texts_are_decoded_once_and_damaged_ones_without_an_error(tmp_path: Path) -> None:
    db = connect(str(tmp_path / "texts.sqlite"))
    query = "WITH RECURSIVE n(i) AS (VALUES (0) UNION ALL SELECT i + 1 FROM n WHERE i < 199) SELECT"
    twice = [text for (text,) in db.execute(f"{query} printf('layout %d', i / 100) FROM n")]
    assert twice == ["layout 0"] * 100 + ["layout 1"] * 100
    assert len({id(text) for text in twice}) == 2
    many = [text for (text,) in db.execute(f"{query} printf('text %d', i) FROM n")]
    assert many == [f"text {i}" for i in range(200)]
    assert db.execute("SELECT CAST(x'61ff' AS TEXT)").fetchone() == ("a\ufffd",)
    db.close()


def future(path: Path, compatible: int) -> None:
    """A history as a later version might write it: more tables, columns and kinds of columns."""
    fill(path, 120)
    with sqlite3.connect(path) as db:
        db.execute("UPDATE meta SET value = 3 WHERE key = 'version'")
        db.execute("UPDATE meta SET value = ? WHERE key = 'compatible'", (compatible,))
        db.execute("CREATE TABLE lunar (phase REAL)")
        db.execute("ALTER TABLE groups ADD COLUMN mood TEXT DEFAULT 'fine'")
        db.execute("ALTER TABLE events ADD COLUMN smell TEXT")
    db.close()


def test_a_later_format_that_allows_it_is_used_and_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "h.sqlite"
    future(path, compatible=2)
    history = open_history(path)
    assert history.report == ""
    stream = history.stream("dht", CHANNELS)
    for i in range(120, 200):
        stream.append(sample(i))
    history.events.add(monotonic_ms=1, kind="x", time_ms=1, synchronised=False)
    assert found_in(history) == list(range(200))
    history.close()
    with sqlite3.connect(path) as db:
        assert dict(db.execute("SELECT key, value FROM meta"))["version"] == 3
        assert db.execute("SELECT DISTINCT mood FROM groups").fetchall() == [("fine",)]
        assert db.execute("SELECT count(*) FROM lunar").fetchone() == (0,)
    db.close()


def test_a_later_format_that_forbids_it_is_kept_and_the_node_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "h.sqlite"
    future(path, compatible=3)
    kept = path.read_bytes()
    history = open_history(path)
    assert "was written by a later version (format 3, this version reads 2); kept as" in (
        history.report
    )
    stream = history.stream("dht", CHANNELS)
    stream.append(sample(0))
    assert found_in(history) == [0]
    history.close()
    for n in range(MAX_ASIDE + 2):  # which deletes broken files only
        path.write_text(f"broken {n}")
        open_history(path).close()
    (newer,) = tmp_path.glob("h.sqlite.newer-*")
    assert newer.read_bytes() == kept
