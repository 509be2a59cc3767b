"""The history against a plain list, through clock steps, retention, reopening and crashes."""

from __future__ import annotations

import math
import os
import random
import sqlite3
import subprocess
import sys
import threading
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from agent.edge.groups import RowGroup, Sample
from agent.edge.history import History
from agent.edge.history_file import OPENING, HistoryError
from agent.edge.retrieval import Reader
from agent.wire.messages import Series
from agent.wire.packed import Float32Column

CHANNELS = ("temperature", "humidity")
START_MS = 1_700_000_000_000
HOUR_MS = 3_600_000
RETENTION_MS = 4 * HOUR_MS


def open_history(path: Path, **settings: Any) -> History:
    settings = {
        "channels": CHANNELS,
        "boot": "boot-1",
        "group_readings": 50,
        "commit_s": 10.0,
        "retention_s": RETENTION_MS / 1000,
    } | settings
    return History(path, settings.pop("channels"), settings.pop("boot"), **settings)


def sample(n: int, step_ms: int = 0, **changes: Any) -> Sample:
    """Reading n of a second each, with a wall clock that is `step_ms` off."""
    plain = Sample(START_MS + n * 1000 + step_ms, n * 1000, None, (n / 2, -float(n)), n)
    return plain._replace(**changes)


def rows(series: Series | None) -> list[tuple[Any, ...]]:
    """A series as tuples (time, source time, temperature, humidity); NaN as None."""
    if series is None:
        return []
    times = series.time_ms.numbers().tolist()
    sources = series.source_time_ms.numbers().tolist() if series.source_time_ms else times
    columns = [
        [None if math.isnan(x) else x for x in series.values[name].numbers()]
        if name in series.values
        else [None] * len(times)
        for name in CHANNELS
    ]
    return list(zip(times, sources, *columns, strict=True))


def float32(x: float) -> float | None:
    return None if math.isnan(x) else Float32Column.of([x]).numbers()[0]


class Oracle:
    """What was taken in, in order, as a plain list."""

    def __init__(self) -> None:
        self.samples: list[Sample] = []

    def window(self, start_ms: int, end_ms: int) -> list[tuple[Any, ...]]:
        found = [s for s in self.samples if start_ms <= s.time_ms < end_ms]
        any_source = any(s.source_time_ms is not None for s in found)
        return [
            (
                s.time_ms,
                s.source_time_ms if any_source and s.source_time_ms is not None else s.time_ms,
                *(float32(x) for x in s.values),
            )
            for s in sorted(found, key=lambda s: s.time_ms)
        ]


def check_window(reader: Reader, oracle: Oracle, start_ms: int, end_ms: int) -> None:
    expected = oracle.window(start_ms, end_ms)
    assert rows(reader.series(start_ms, end_ms)) == expected
    aggregate = reader.aggregate(start_ms, end_ms)
    columns = {
        name: [row[2 + i] for row in expected if row[2 + i] is not None]
        for i, name in enumerate(CHANNELS)
    }
    if not any(columns.values()):
        assert aggregate is None
        return
    assert aggregate is not None
    assert (aggregate.first_ms, aggregate.last_ms) == (expected[0][0], expected[-1][0])
    assert aggregate.channels.keys() == {name for name, column in columns.items() if column}
    for name, found in aggregate.channels.items():
        column = columns[name]
        assert (found.count, found.min, found.max) == (len(column), min(column), max(column))
        assert found.mean == pytest.approx(math.fsum(column) / len(column), rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("seed", range(12))
def test_random_operations_agree_with_a_list(seed: int, tmp_path: Path) -> None:
    """Readings with gaps, faults and clock steps, reopening, windows; nothing is old enough to be
    dropped."""
    draw = random.Random(seed)
    path, oracle, boot = tmp_path / "history.sqlite", Oracle(), 1
    group = draw.choice([1, 3, 50])
    history = open_history(path, group_readings=group, retention_s=1e9)
    reader = Reader(history)
    monotonic, offset, replay, synchronised = 5_000, START_MS, draw.random() < 0.5, None
    for _ in range(1_000):
        action = draw.random()
        if action < 0.90:
            monotonic += draw.choice([1, 999, 1000, 1001, 30_000])
            taken = Sample(
                monotonic + offset,
                monotonic,
                synchronised,
                (draw.choice([20.1, -5.0, math.nan]), draw.uniform(0, 100)),
                draw.randrange(10**12) if replay else None,
            )
            history.append(taken)
            oracle.samples.append(taken)
        elif action < 0.93:
            offset += draw.choice([-1_209_600_000, 1_209_600_000, -7_000, -2_000, 400, -400, 2_000])
        elif action < 0.94:
            replay, synchronised = not replay, draw.choice([None, False, True])
        elif action < 0.95:
            reader.close()
            history.close()
            boot += draw.randrange(2)
            history = open_history(path, group_readings=group, retention_s=1e9, boot=f"boot-{boot}")
            reader = Reader(history)
            assert history.report == ""
        else:
            around = [s.time_ms for s in draw.sample(oracle.samples, min(2, len(oracle.samples)))]
            # Often exactly at a reading, which then is inside at the start and outside at the end.
            start = min(around, default=START_MS) + draw.randrange(-1, 2)
            check_window(reader, oracle, start, max(around, default=START_MS) + draw.randrange(3))
    check_window(reader, oracle, 0, 2**53)
    reader.close()
    history.close()


@pytest.mark.parametrize("step_ms", [0, -1_209_600_000, 1_209_600_000])
def test_retention_drops_by_age_and_survives_a_clock_step(step_ms: int, tmp_path: Path) -> None:
    """A jump of the wall clock neither drops young readings nor keeps old ones for ever."""
    history = open_history(tmp_path / "h.sqlite", group_readings=60)
    reader = Reader(history)
    n = 6 * 3600
    for i in range(n):
        history.append(sample(i, step_ms if i > n // 2 else 0))
    found = rows(reader.series(0, 2**53))
    kept = {row[1] for row in found}  # the source time counts the readings
    assert set(range(n - 4 * 3600, n)) <= kept
    assert len(kept) <= 4 * 3600 + 2 * 60
    assert len(found) == len(kept)
    reader.close()
    history.close()


def test_what_an_earlier_boot_left_ages_by_the_wall_clock(tmp_path: Path) -> None:
    history = open_history(tmp_path / "h.sqlite")
    for i in range(100):
        history.append(sample(i))
    history.close()
    history = open_history(tmp_path / "h.sqlite", boot="boot-2", group_readings=1)
    reader = Reader(history)
    later = Sample(START_MS + RETENTION_MS + 70_000, 0, None, (1.0, 2.0), 7)
    history.append(later)
    assert {row[1] for row in rows(reader.series(0, 2**53))} == {7, *range(50, 100)}
    reader.close()
    history.close()


def test_preloaded_readings_are_there_at_once_and_stay(tmp_path: Path) -> None:
    path = tmp_path / "h.sqlite"
    history = open_history(path)
    assert history.empty
    history.load(sample(i) for i in range(-10_800, 0))
    oracle = Oracle()
    oracle.samples = [sample(i) for i in range(-10_800, 25)]
    reader = Reader(history)
    for i in range(25):
        history.append(sample(i))
    check_window(reader, oracle, START_MS - 3 * HOUR_MS, START_MS + HOUR_MS)
    check_window(reader, oracle, START_MS - 77_500, START_MS - 3_000)
    reader.close()
    history.close()
    history = open_history(path)
    assert not history.empty
    reader = Reader(history)
    check_window(reader, oracle, START_MS - 3 * HOUR_MS, START_MS + HOUR_MS)
    reader.close()
    history.close()


@pytest.mark.parametrize(
    "wrong",
    [
        {"values": (1.0,)},
        {"values": (1.0, None)},
        {"values": None},
        {"time_ms": 2**63},
        {"source_time_ms": 2**63},
        {"source_time_ms": None},
    ],
)
def test_a_row_group_takes_a_reading_whole_or_not_at_all(wrong: dict[str, Any]) -> None:
    good = Sample(1000, 1000, None, (1.0, 2.0), 7)
    group = RowGroup(0, ("temperature", "humidity"), good)
    with pytest.raises((ValueError, TypeError, OverflowError, AssertionError)):
        group.add(good._replace(**wrong))
    assert (len(group.time_ms), len(group.source_time_ms or ())) == (1, 1)
    assert [len(column) for column in group.values] == [1, 1]
    assert group.last == good


def test_channels_are_picked_and_missing_ones_filled(tmp_path: Path) -> None:
    history = open_history(tmp_path / "h.sqlite", channels=("temperature",))
    history.append(sample(0, values=(1.5,)))
    history.close()
    history = open_history(tmp_path / "h.sqlite", channels=("humidity", "temperature"))
    history.append(sample(1, values=(2.5, 3.5)))
    reader = Reader(history)
    series = reader.series(0, 2**53)
    assert series is not None
    assert list(series.values) == ["temperature", "humidity"]
    assert [row[2:] for row in rows(series)] == [(1.5, None), (3.5, 2.5)]
    only = reader.series(0, 2**53, ("humidity", "co2"))
    assert only is not None
    assert list(only.values) == ["humidity"]
    assert reader.series(0, 2**53, ("co2",)) is None
    aggregate = reader.aggregate(0, 2**53, ("humidity", "co2"))
    assert aggregate is not None
    assert [(name, a.count) for name, a in aggregate.channels.items()] == [("humidity", 1)]
    reader.close()
    history.close()


def test_commits_happen_after_commit_s_of_readings(tmp_path: Path) -> None:
    """A look at the file through another connection sees what is committed, and nothing else."""
    path = tmp_path / "h.sqlite"
    history = open_history(path, commit_s=10.0, group_readings=600)
    other = sqlite3.connect(path)
    stored = []
    for i in range(35):
        history.append(sample(i))
        stored.append(other.execute("SELECT coalesce(sum(count), 0) FROM groups").fetchone()[0])
    assert all(taken + 1 - kept <= 10 for taken, kept in enumerate(stored))
    assert len(set(stored)) == 4  # none, and after three commits: not one a reading
    other.close()
    history.close()


def test_sequences_are_never_given_twice(tmp_path: Path) -> None:
    path = tmp_path / "h.sqlite"
    history = open_history(path)
    history.append(sample(0))
    reader = Reader(history)
    assert reader.series(0, 2**53)  # seen, but never committed
    reader.close()
    history._db.close()
    os.close(history._holder)
    history = open_history(path)
    history.append(sample(1))
    history.close()
    db = sqlite3.connect(path)
    assert db.execute("SELECT sequence FROM groups").fetchall() == [(2 * OPENING,)]
    db.close()


def test_a_row_group_keeps_one_distance_between_its_clocks(tmp_path: Path) -> None:
    """So that a wrong wall clock can be put right afterwards, group by group."""
    history = open_history(tmp_path / "h.sqlite")
    for i in range(100):
        step_ms = 0 if i < 35 else 700 if i < 60 else -90_000
        history.append(sample(i, step_ms, synchronised=None if i < 80 else True))
    history.close()
    db = sqlite3.connect(tmp_path / "h.sqlite")
    found = db.execute(
        "SELECT first_ms - first_monotonic_ms, last_ms - last_monotonic_ms, synchronised, count,"
        " boot FROM groups ORDER BY sequence"
    ).fetchall()
    db.close()
    offsets = [START_MS, START_MS + 700, START_MS - 90_000, START_MS - 90_000]
    assert found == [
        (offset, offset, synchronised, readings, "boot-1")
        for offset, synchronised, readings in zip(
            offsets, [None, None, None, 1], [35, 25, 20, 20], strict=True
        )
    ]


def test_the_history_id_lives_and_dies_with_the_file(tmp_path: Path) -> None:
    history = open_history(tmp_path / "a.sqlite")
    other = open_history(tmp_path / "b.sqlite")
    first = history.id
    assert first != other.id
    other.close()
    history.close()
    history = open_history(tmp_path / "a.sqlite")
    assert history.id == first
    history.close()


def test_two_agents_cannot_share_a_history(tmp_path: Path) -> None:
    history = open_history(tmp_path / "h.sqlite")
    with pytest.raises(HistoryError, match="another agent is using it"):
        open_history(tmp_path / "h.sqlite")
    history.close()
    open_history(tmp_path / "h.sqlite").close()


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
    elif how == "blob":
        with sqlite3.connect(path) as db:
            db.execute("PRAGMA ignore_check_constraints=ON")
            db.execute("UPDATE groups SET time_ms = x'00'")
        db.close()
        return
    path.write_bytes(content)


@pytest.mark.parametrize("how", ["text", "short", "page", "foreign", "blob"])
def test_a_broken_file_is_put_aside_and_reported(how: str, tmp_path: Path) -> None:
    path = tmp_path / "h.sqlite"
    history = open_history(path)
    for i in range(500):
        history.append(sample(i))
    history.close()
    break_file(path, how)
    broken = path.read_bytes()
    rebuilt = open_history(path)
    assert rebuilt.report.startswith(f"history {path} was broken (")
    assert "\n" not in rebuilt.report
    assert rebuilt.id != history.id
    (aside,) = [
        p for p in tmp_path.glob("h.sqlite.broken-*") if p.suffix[-4:] not in {"-wal", "-shm"}
    ]
    assert how == "foreign" or aside.read_bytes() == broken
    rebuilt.append(sample(1))
    rebuilt.close()
    again = open_history(path)
    assert again.report == ""
    again.close()


def test_random_damage_never_blocks_the_start(tmp_path: Path) -> None:
    source = tmp_path / "source.sqlite"
    history = open_history(source)
    for i in range(500):
        history.append(sample(i))
    history.close()
    whole, draw = source.read_bytes(), random.Random(1)
    for n in range(60):
        content = bytearray(whole)
        for _ in range(draw.choice([1, 20, 500])):
            content[draw.randrange(len(content))] = draw.randrange(256)
        del content[draw.choice([len(content), draw.randrange(len(content))]) :]
        path = tmp_path / f"{n}.sqlite"
        path.write_bytes(content)
        history = open_history(path)
        reader = Reader(history)
        history.append(sample(1_000))
        # What can still be read may be wrong, but it can be read.
        reader.series(0, 2**53)
        reader.aggregate(0, 2**53)
        assert rows(reader.series(START_MS + 1_000_000, 2**53)) == [
            (START_MS + 1_000_000, 1_000, 500.0, -1000.0)
        ]
        reader.close()
        history.close()


def test_a_newer_format_is_refused_and_kept(tmp_path: Path) -> None:
    path = tmp_path / "h.sqlite"
    open_history(path).close()
    with sqlite3.connect(path) as db:
        db.execute("UPDATE meta SET value = 2 WHERE key = 'version'")
    db.close()
    with pytest.raises(HistoryError, match="newer version"):
        open_history(path)
    assert [p.name for p in tmp_path.iterdir() if "broken" in p.name] == []


def test_a_path_that_cannot_be_is_one_line(tmp_path: Path) -> None:
    for path in (tmp_path / "missing" / "h.sqlite", tmp_path / "folder"):
        (tmp_path / "folder").mkdir(exist_ok=True)
        with pytest.raises(HistoryError, match=path.name) as caught:
            open_history(path)
        assert "\n" not in str(caught.value)


def test_a_failing_commit_keeps_the_readings_and_is_made_up_for(tmp_path: Path) -> None:
    path = tmp_path / "h.sqlite"
    history = open_history(path, group_readings=5)
    reader = Reader(history)
    blocker = sqlite3.connect(path, isolation_level=None)
    blocker.execute("PRAGMA locking_mode=NORMAL")
    history._db.execute("PRAGMA busy_timeout=0")
    blocker.execute("BEGIN IMMEDIATE")
    failures = 0
    for i in range(23):
        try:
            history.append(sample(i))
        except HistoryError:
            failures += 1
    assert failures
    assert [row[1] for row in rows(reader.series(0, 2**53))] == list(range(23))
    blocker.execute("ROLLBACK")
    history.commit()
    assert blocker.execute("SELECT sum(count) FROM groups").fetchone() == (23,)
    assert [row[1] for row in rows(reader.series(0, 2**53))] == list(range(23))
    assert history.given_up == 0
    blocker.execute("BEGIN IMMEDIATE")
    for i in range(23, 323):
        with pytest.raises(HistoryError) if i >= 40 else _whatever() as told:
            history.append(sample(i))
    assert history.given_up > 0
    assert str(told.value).endswith(f"; {history.given_up} readings given up so far")
    assert sum(len(group) for group in history._groups) <= 16 * 5
    blocker.execute("ROLLBACK")
    blocker.close()
    reader.close()
    history.close()


class _whatever:  # noqa: N801 - reads like pytest.raises, its neighbour
    """Both outcomes are fine."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, *_: object) -> bool:
        return kind is HistoryError


def test_readers_beside_a_writer_see_every_reading_once(tmp_path: Path) -> None:
    """Each look finds readings 0 … n without a gap, never fewer than the look before."""
    history = open_history(tmp_path / "h.sqlite", group_readings=7, commit_s=1.0)
    done = threading.Event()
    problems: list[str] = []
    looks = [0, 0]

    def look(index: int) -> None:
        reader, seen = Reader(history), 0
        while not done.is_set() or not looks[index]:
            found = [row[1] for row in rows(reader.series(0, 2**53))]
            if found != list(range(len(found))) or len(found) < seen:
                problems.append(f"{seen} {found}")
                break
            seen = len(found)
            looks[index] += 1
        reader.close()

    threads = [threading.Thread(target=look, args=(i,)) for i in range(2)]
    for thread in threads:
        thread.start()
    for i in range(600):
        history.append(sample(i))
    done.set()
    for thread in threads:
        thread.join()
    history.close()
    assert problems == []
    assert all(looks)


WRITER = """
import sys
from pathlib import Path
from tests.edge.test_history import open_history, sample
history = open_history(Path(sys.argv[1]), group_readings=20)
for i in range(int(sys.argv[2]), 10**9):
    history.append(sample(i))
    if history._waiting_since_ms is None:
        print(i, flush=True)
"""


def test_kill_9_loses_nothing_that_was_committed(tmp_path: Path) -> None:
    path, next_reading, draw = tmp_path / "h.sqlite", count(0), random.Random(7)
    committed: set[int] = set()
    start = next(next_reading)
    for _ in range(6):
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(path), str(start)],
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[2],
        )
        assert writer.stdout is not None
        for _ in range(draw.randrange(1, 40)):
            last = int(writer.stdout.readline())
        writer.kill()
        # What it had announced before the signal hit it.
        rest = [int(line) for line in writer.stdout.read().split("\n")[:-1]]
        writer.wait()
        writer.stdout.close()
        last = max([last, *rest])
        committed |= set(range(start, last + 1))
        history = open_history(path, retention_s=1e9)
        assert history.report == ""
        reader = Reader(history)
        found = rows(reader.series(0, 2**53))
        assert len({row[1] for row in found}) == len(found)
        assert committed <= {row[1] for row in found}
        assert all(row == (START_MS + n * 1000, n, n / 2, -n) for row in found for n in [row[1]])
        start = found[-1][1] + 1
        reader.close()
        history.close()
