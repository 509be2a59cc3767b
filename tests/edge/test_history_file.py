"""Files that are damaged, old, new, full or read-only: the start is never blocked."""

from __future__ import annotations

import math
import os
import random
import shutil
import sqlite3
import struct
from array import array
from pathlib import Path
from typing import Any

import pytest

from agent.edge.history import group_table, recovery, wal
from agent.edge.history import history as history_module
from agent.edge.history.file import MAX_ASIDE, HistoryError
from agent.edge.history.history import History
from agent.edge.history.memtable import Sample
from agent.edge.history.reader import TOGETHER, Reader
from agent.edge.timebase import Correction
from agent.runtime import sqlite
from agent.scheduling.watches.rounds import aggregate_of
from sensors.quality.flags import NO_RESPONSE
from tests.edge.history_oracle import CHANNELS, START_MS, filled, open_history, rows, sample


def fill(path: Path, readings: int = 500, **settings: Any) -> str:
    """A closed history; its id."""
    history, _ = filled(path, range(readings), **settings)
    history.close()
    return history.id


def crash(path: Path, copy: Path) -> None:
    """A copy of the files as they are now."""
    for suffix in ("", "-wal", wal.SUFFIX):
        if Path(f"{path}{suffix}").exists():
            shutil.copy(f"{path}{suffix}", f"{copy}{suffix}")


def found_in(history: History) -> list[int]:
    """The readings, as counted by their source times; closed afterwards."""
    reader = Reader(history)
    found = [row.source_time_ms for row in rows(reader.series(0, 2**53), CHANNELS)]
    reader.aggregate(0, 2**53)
    reader.close()
    return found


def break_file(path: Path, how: str) -> None:
    content = bytearray(path.read_bytes())
    if how == "text":
        content = bytearray(b"this is no database\n" * 100)
    elif how == "short":
        del content[len(content) // 2 + 100 :]
    elif how == "page":
        content[4096:8192] = b"\xaa" * 4096
    elif how == "foreign":
        path.unlink()
        with sqlite3.connect(path) as db:
            db.execute("CREATE TABLE other (x)")
        db.close()
        return
    path.write_bytes(content)


@pytest.mark.parametrize("how", ["text", "short", "page", "foreign"])
def test_a_broken_file_is_put_aside_and_reported(how: str, tmp_path: Path) -> None:
    path = tmp_path / "h.sqlite"
    former = fill(path)
    break_file(path, how)
    broken = path.read_bytes()
    rebuilt = open_history(path)
    assert rebuilt.report.startswith(f"history {path} was broken (")
    assert "\n" not in rebuilt.report
    assert rebuilt.id != former
    (aside,) = [p for p in tmp_path.glob("h.sqlite.broken-*") if not p.name.endswith("-shm")]
    assert how == "foreign" or aside.read_bytes() == broken
    stream = rebuilt.stream("dht", CHANNELS)
    stream.append(sample(1_000))
    kept = found_in(rebuilt)
    assert kept[-1] == 1_000
    rebuilt.close()
    again = open_history(path)
    assert again.report == ""
    assert found_in(again) == kept
    again.close()


def test_what_a_broken_file_still_has_is_taken_over(tmp_path: Path) -> None:
    """One page of numbers is damaged in its structure: the other groups are there again."""
    path = tmp_path / "h.sqlite"
    fill(path, 5_000, group_readings=500)
    with sqlite3.connect(path) as db:
        (page,) = db.execute(
            "SELECT rootpage FROM sqlite_schema WHERE name = 'groups_by_time'"
        ).fetchone()
    db.close()
    content = bytearray(path.read_bytes())
    content[4096 * (page - 1) : 4096 * page] = b"\xaa" * 4096
    path.write_bytes(content)
    history = open_history(path)
    assert "started anew with 5000 readings of it" in history.report
    assert found_in(history) == list(range(5_000))
    stream = history.stream("dht", CHANNELS)
    stream.append(sample(5_000))
    history.close()
    history = open_history(path)
    assert (history.report, found_in(history)) == ("", list(range(5_001)))
    history.close()


def test_random_damage_never_blocks_the_start_nor_a_window(tmp_path: Path) -> None:
    """And no number that was not taken in ever comes out."""
    source = tmp_path / "source.sqlite"
    history, _ = filled(source, range(500))
    history.commit()
    crash(source, tmp_path / "whole.sqlite")
    history.close()
    fill(tmp_path / "whole-2.sqlite")
    whole = {
        suffix: Path(f"{tmp_path}/whole.sqlite{suffix}").read_bytes()
        for suffix in ("", "-wal", wal.SUFFIX)
    }
    closed = (tmp_path / "whole-2.sqlite").read_bytes()
    draw = random.Random(1)
    for n in range(60):
        path = tmp_path / f"{n}.sqlite"
        files = {"": closed} if n % 2 else dict(whole)
        at = draw.choice(list(files))
        content = bytearray(files[at])
        for _ in range(draw.choice([1, 20, 500])):
            content[draw.randrange(len(content))] = draw.randrange(256)
        del content[draw.choice([len(content), draw.randrange(len(content))]) :]
        files[at] = bytes(content)
        for suffix, data in files.items():
            Path(f"{path}{suffix}").write_bytes(data)
        history = open_history(path)
        stream = history.stream("dht", CHANNELS)
        stream.append(sample(1_000))
        reader = Reader(history)
        for row in rows(reader.series(0, 2**53), CHANNELS):
            i = row.source_time_ms
            assert row == (START_MS + i * 1000, i, 0, ((i / 2, 0), (-i, 0)))
        reader.aggregate(0, 2**53)
        reader.close()
        history.close()


def test_a_damaged_group_goes_alone(tmp_path: Path) -> None:
    """At the start, and when a reader finds it; the line says which, and the rest is in use."""
    path = tmp_path / "h.sqlite"
    history, _ = filled(path, range(220))

    def damage(at: int) -> int:
        with sqlite3.connect(path) as db:
            sequences = db.execute("SELECT sequence FROM groups ORDER BY sequence").fetchall()
            (sequence,) = sequences[at]
            db.execute(
                "UPDATE columns SET data = zeroblob(length(data)) WHERE sequence = ?", (sequence,)
            )
        db.close()
        return int(sequence)

    sequence = damage(1)
    expected = [i for i in range(220) if not 50 <= i < 100]
    assert found_in(history) == expected
    history.commit()
    (notice,) = history.notices()
    assert notice == (
        f"history {path}: group {sequence} is damaged (the checksum of its columns is wrong)"
        " and left out; kept apart"
    )
    assert found_in(history) == expected
    history.close()
    sequence = damage(0)
    history = open_history(path)
    assert f"group {sequence} is damaged" in history.report
    with sqlite3.connect(path) as db:  # before anybody reads it
        assert (sequence,) in db.execute("SELECT sequence FROM quarantine").fetchall()
        assert (sequence,) not in db.execute("SELECT sequence FROM groups").fetchall()
    db.close()
    assert found_in(history) == list(range(100, 220))
    history.close()
    with sqlite3.connect(path) as db:
        assert db.execute("SELECT count(*) FROM quarantine").fetchone() == (2,)
        db.execute("UPDATE groups SET first_ms = first_ms - 1 WHERE count = 20")
    db.close()
    history = open_history(path)
    assert "its checksum is wrong" in history.report
    assert found_in(history) == list(range(100, 200))
    history.close()


def test_damaged_groups_among_more_than_are_read_at_once_go_alone(tmp_path: Path) -> None:
    """In the first two of three reads; the last is of one group, which is whole."""
    path = tmp_path / "h.sqlite"
    history, _ = filled(path, range(2 * TOGETHER * 2 + 3), group_readings=2)
    with sqlite3.connect(path) as db:
        sequences = [row[0] for row in db.execute("SELECT sequence FROM groups ORDER BY sequence")]
        assert len(sequences) == 2 * TOGETHER + 1
        gone = [3, TOGETHER, TOGETHER + 9]
        for at in gone[:-1]:
            db.execute("UPDATE columns SET crc = crc + 1 WHERE sequence = ?", (sequences[at],))
        db.execute("DELETE FROM columns WHERE sequence = ?", (sequences[gone[-1]],))
    db.close()
    expected = [i for i in range(2 * TOGETHER * 2 + 3) if i // 2 not in gone]
    assert found_in(history) == expected
    assert found_in(history) == expected  # again, most of them from the cache
    history.commit()
    told = history.notices()
    assert [text.split(" is damaged")[0].split()[-1] for text in told] == [
        str(sequences[at]) for at in gone[:-1]
    ]
    history.close()


def test_broken_files_do_not_fill_the_card(tmp_path: Path) -> None:
    path = tmp_path / "h.sqlite"
    for n in range(MAX_ASIDE + 3):
        path.write_text(f"broken {n}")
        history = open_history(path)
        assert ("1 older deleted" in history.report) == (n >= MAX_ASIDE)
        history.close()
    kept = sorted(p.read_text() for p in tmp_path.glob("*broken*"))
    assert kept == [f"broken {n}" for n in range(3, MAX_ASIDE + 3)]
    assert sqlite.thin_out(str(path), MAX_ASIDE, 20) == 1
    assert len(list(tmp_path.glob("*broken*"))) == 2


def test_a_tail_of_another_history_is_put_aside(tmp_path: Path) -> None:
    history = open_history(tmp_path / "a.sqlite")
    history.stream("dht", CHANNELS).append(sample(0))
    history.commit()
    shutil.copy(tmp_path / "a.sqlite.tail", tmp_path / "b.sqlite.tail")
    history.close()
    fill(tmp_path / "b.sqlite.x", 5)
    (tmp_path / "b.sqlite.x").rename(tmp_path / "b.sqlite")
    history = open_history(tmp_path / "b.sqlite")
    assert "the tail was broken (it belongs to another history); kept as" in history.report
    assert found_in(history) == list(range(5))
    history.close()


def test_a_damaged_record_of_the_tail_goes_alone(tmp_path: Path) -> None:
    path = tmp_path / "h.sqlite"
    history = open_history(path, group_readings=600, commit_s=1e9)
    stream = history.stream("dht", CHANNELS)
    for i in range(50):
        stream.append(sample(i))
        if i % 10 == 9:
            history.commit()
    copy = tmp_path / "copy.sqlite"
    crash(path, copy)
    history.close()
    file = Path(f"{copy}.tail")
    content = bytearray(file.read_bytes())
    third = [i for i in range(len(content)) if content.startswith(wal.MARK, i)][3]
    content[third + 100] ^= 1
    file.write_bytes(content)
    history = open_history(copy)
    assert "1 damaged records of the tail left out" in history.report
    assert found_in(history) == [*range(20), *range(30, 50)]
    history.close()


@pytest.mark.parametrize("corrected", [False, True])
def test_what_was_dropped_does_not_come_back_from_the_tail(corrected: bool, tmp_path: Path) -> None:
    path = tmp_path / "h.sqlite"
    history = open_history(path, group_readings=4, commit_s=1.0, retention_s=40.0)
    stream = history.stream("dht", CHANNELS)
    for i in range(101):
        stream.append(sample(i))
        if corrected and i == 90:
            history.correct(Correction(0, 90_500, START_MS, START_MS, True, True))
    crash(path, tmp_path / "copy.sqlite")
    expected = found_in(history)
    history.close()
    assert len(expected) < 60
    history = open_history(tmp_path / "copy.sqlite", group_readings=4, retention_s=40.0)
    assert set(range(61, 100)) <= set(found_in(history)) <= set(expected)
    history.close()


def test_a_log_that_lost_an_opening_gives_no_sequence_twice(tmp_path: Path) -> None:
    path = tmp_path / "h.sqlite"
    fill(path, 5)
    history, _ = filled(path, range(5, 30))
    history.commit()
    shutil.copy(path, tmp_path / "copy.sqlite")  # without the log, which has the opening
    shutil.copy(f"{path}.tail", tmp_path / "copy.sqlite.tail")
    history.close()
    history, _ = filled(tmp_path / "copy.sqlite", range(30, 99))
    assert found_in(history) == list(range(99))
    history.close()


# --- versions ------------------------------------------------------------------------------------

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


# --- a file that cannot be written ---------------------------------------------------------------


def test_a_path_that_cannot_be_is_one_line(tmp_path: Path) -> None:
    for path in (tmp_path / "missing" / "h.sqlite", tmp_path / "folder"):
        (tmp_path / "folder").mkdir(exist_ok=True)
        with pytest.raises(HistoryError, match=path.name) as caught:
            open_history(path)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("error", [28, 30, 13, 5])
@pytest.mark.parametrize("existed", [False, True])
def test_a_start_without_a_file_to_write_goes_on_in_memory(
    error: int, existed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No room, read-only, no rights, a failing card. Later all of it is in the file."""
    path = tmp_path / "h.sqlite"
    if existed:
        fill(path, 100)

    def fails(*_: object) -> None:
        raise OSError(error, os.strerror(error))

    with monkeypatch.context() as patch:
        patch.setattr(history_module, "hold", fails)
        history = open_history(path)
        assert "cannot be written now" in history.report
        stream = history.stream("dht", CHANNELS)
        complaints: list[str] = []
        for i in range(100, 150):
            try:
                stream.append(sample(i))
            except HistoryError as complaint:
                complaints.append(str(complaint))
        assert 3 <= len(complaints) <= 6  # with pauses
        assert all(os.strerror(error) in complaint for complaint in complaints)
        with pytest.raises(HistoryError, match="cannot be written now"):
            history.events.add(monotonic_ms=1, kind="x", time_ms=1, synchronised=False)
        assert found_in(history) == list(range(0 if existed else 100, 150))
        assert history.acknowledged == 0
    for i in range(150, 170):
        stream.append(sample(i))
    assert history.acknowledged >= 60
    expected = list(range(0 if existed else 100, 170))
    assert found_in(history) == expected
    history.close()
    history = open_history(path)
    assert found_in(history) == expected
    history.close()


@pytest.mark.parametrize("where", ["tail", "file"])
def test_a_failing_commit_keeps_the_readings_and_is_made_up_for(
    where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is acknowledged that is not stored; what has no room goes, counted."""
    path = tmp_path / "h.sqlite"
    history, stream = filled(path, range(3), group_readings=5, commit_s=3.0)
    history.commit()
    assert history.acknowledged == 3

    def fails(*_: object) -> None:
        raise OSError(28, "No space left on device")

    failures: list[tuple[str, int]] = []
    blocker = sqlite3.connect(path, isolation_level=None)
    with monkeypatch.context() as patch:
        if where == "tail":
            patch.setattr(wal, "_write", fails)
        else:
            blocker.execute("BEGIN IMMEDIATE")
            assert history._db is not None
            history._db.execute("PRAGMA busy_timeout=0")
        for i in range(3, 300):
            try:
                stream.append(sample(i))
            except HistoryError as error:
                failures.append((str(error), history.given_up))
        assert 30 <= len(failures) <= 110
        for error_text, lost in failures:
            assert error_text.endswith(f"; {lost} readings given up so far") == (lost > 0)
        held = found_in(history)
        assert held[:3] == [0, 1, 2]
        if where == "tail":
            assert held == list(range(300))
        else:
            assert history.acknowledged == 3
            assert sum(len(group) for group in stream.groups) <= 17 * 5
            assert history.given_up == 300 - len(held)
        crash(path, tmp_path / "copy.sqlite")
    if where == "file":
        blocker.execute("ROLLBACK")
    blocker.close()
    for i in range(300, 310):
        stream.append(sample(i))
    history.commit()
    assert history.acknowledged == 310 - history.given_up
    assert found_in(history) == [*held, *range(300, 310)]
    history.close()
    cut = open_history(tmp_path / "copy.sqlite")
    assert set(found_in(cut)) >= {0, 1, 2}
    cut.close()


def test_a_tail_whose_name_may_be_lost_is_not_used_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rename was made, and could not be synced: the file that is open has no name any more."""
    path = tmp_path / "h.sqlite"
    history = open_history(path, group_readings=600, commit_s=1e9)
    stream = history.stream("dht", CHANNELS)
    stream.append(sample(0))
    history.commit()

    def fails(*_: object) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(wal.WriteAheadLog, "takes", lambda *_: False)
        patch.setattr(wal, "sync_folder", fails)
        stream.append(sample(1))
        with pytest.raises(HistoryError, match="Input/output"):
            history.commit()
    for i in range(2, 5):
        stream.append(sample(i))
    history.commit()
    crash(path, tmp_path / "copy.sqlite")
    history.close()
    history = open_history(tmp_path / "copy.sqlite")
    assert found_in(history) == list(range(5))
    history.close()


@pytest.mark.parametrize("sync", ["fsync", "fdatasync"])
def test_nothing_is_acknowledged_that_was_not_synced(
    sync: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    history = open_history(tmp_path / "h.sqlite", group_readings=600, commit_s=1e9)
    stream = history.stream("dht", CHANNELS)
    if sync == "fdatasync":
        stream.append(sample(0))
        history.commit()
    before = history.acknowledged

    def fails(*_: object) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(os, sync, fails)
        stream.append(sample(1))
        with pytest.raises(HistoryError, match="Input/output"):
            history.commit()
        assert history.acknowledged == before
    history.commit()
    assert history.acknowledged == before + 1
    history.close()


def test_a_file_found_damaged_in_use_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    history = open_history(tmp_path / "h.sqlite", group_readings=5)
    stream = history.stream("dht", CHANNELS)

    class Damaged(sqlite3.DatabaseError):
        sqlite_errorcode = sqlite3.SQLITE_CORRUPT

    assert not history.damaged

    def corrupt(*_: object) -> None:
        raise Damaged("database disk image is malformed")

    for i in range(4):
        stream.append(sample(i))
    with monkeypatch.context() as patch:
        patch.setattr(group_table, "insert", corrupt)
        with pytest.raises(HistoryError, match="malformed"):
            stream.append(sample(4))
    assert history.damaged
    history.close()


def test_a_power_cut_between_two_names_of_a_rebuilt_file(tmp_path: Path) -> None:
    path = tmp_path / "h.sqlite"
    fill(path, 100)
    path.rename(tmp_path / "h.sqlite-new")
    history = open_history(path)
    assert (history.report, len(found_in(history))) == ("", 100)
    history.close()


def test_a_new_file_is_on_stable_storage_with_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    monkeypatch.setattr(recovery.wal, "sync_folder", synced.append)
    path = tmp_path / "h.sqlite"
    history = open_history(path)
    assert synced == [str(path)]
    history.stream("dht", CHANNELS).append(Sample(0, 0, False, (1.0, 2.0)))
    history.commit()
    assert synced == [str(path), f"{path}.tail"]
    history.close()
