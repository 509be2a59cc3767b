"""Files of a history that are damaged: the start is never blocked, and what is whole is kept."""

from __future__ import annotations

import random
import shutil
import sqlite3
from pathlib import Path

import pytest

from agent.edge.history import group_table, wal
from agent.edge.history.file import MAX_ASIDE, HistoryError
from agent.edge.history.reader import TOGETHER, Reader
from agent.edge.timebase import Correction
from agent.runtime import sqlite
from tests.edge.broken_history import break_file, crash, fill, found_in
from tests.edge.history_oracle import CHANNELS, START_MS, filled, open_history, rows, sample


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
