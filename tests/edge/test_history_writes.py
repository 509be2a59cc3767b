"""What a history has on disk, in which order, and when: readings, sequences, events, clocks."""

from __future__ import annotations

import random
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from agent.edge.history.file import HistoryError
from agent.edge.history.history import History
from agent.edge.history.memtable import Sample
from agent.edge.history.reader import Reader
from agent.edge.history.row_groups import OPENING
from agent.edge.timebase import Correction
from tests.edge.history_oracle import CHANNELS, START_MS, filled, open_history, rows, sample


@pytest.mark.parametrize(("interval_s", "sensors"), [(1, 1), (1, 2), (4, 3), (60, 2)])
def test_a_power_cut_never_loses_more_than_commit_s(
    interval_s: int, sensors: int, tmp_path: Path
) -> None:
    """Whatever the sensors' intervals: a reading older than commit_s is acknowledged when the next
    one is due, and no more commits than it takes are made."""
    history = open_history(tmp_path / "h.sqlite", commit_s=10.0, group_readings=600)
    streams = [history.stream(f"s{i}", (f"c{i}",)) for i in range(sensors)]
    taken: list[int] = []
    commits, acknowledged = 0, 0
    for i in range(120):
        for at, stream in enumerate(streams):
            now_ms = 1000 * interval_s * i + 1000 * at
            due = [t for t in taken if t < now_ms - 10_000]
            # The first two of a sensor say what its interval is.
            assert i < 2 or history.acknowledged >= len(due)
            stream.append(Sample(START_MS + now_ms, now_ms, False, (1.0,)))
            taken.append(now_ms)
            commits += history.acknowledged != acknowledged
            acknowledged = history.acknowledged
    assert commits <= 2 + max(120 * sensors * min(1, interval_s / 10), 120 * interval_s / 10)
    history.close()
    assert history.acknowledged == len(taken)


def test_sequences_are_never_given_twice(tmp_path: Path) -> None:
    """Groups that grow side by side have blocks of their own; an opening has its own, too."""
    path = tmp_path / "h.sqlite"
    given: list[int] = []
    for opening in range(3):
        history = open_history(path, group_readings=10)
        streams = [history.stream(name, (name,)) for name in CHANNELS]
        for i in range(37):
            for at, stream in enumerate(streams):
                now = opening * 1000 + i
                stream.append(sample(now, values=(1.0,), monotonic_ms=now * 1000 + at))
        history.close()
        with sqlite3.connect(path) as db:
            found = db.execute("SELECT sequence, count FROM groups ORDER BY sequence").fetchall()
        db.close()
        given = [first + i for first, count in found for i in range(count)]
        assert len(given) == len(set(given)) == (opening + 1) * 74
        assert given[-1] // OPENING == opening + 1


def test_a_row_group_keeps_one_distance_between_its_clocks(tmp_path: Path) -> None:
    """So that a wrong wall clock can be put right afterwards, group by group."""
    history = open_history(tmp_path / "h.sqlite")
    stream = history.stream("dht", CHANNELS)
    for i in range(100):
        step_ms = 0 if i < 35 else 700 if i < 60 else -90_000
        stream.append(sample(i, step_ms, synchronised=i >= 80))
    assert history.reference() is None
    history.close()
    with sqlite3.connect(tmp_path / "h.sqlite") as db:
        found = db.execute(
            "SELECT first_ms - first_monotonic_ms, last_ms - last_monotonic_ms, synchronised,"
            " count, boot FROM groups ORDER BY sequence"
        ).fetchall()
    db.close()
    offsets = [START_MS, START_MS + 700, START_MS - 90_000, START_MS - 90_000]
    assert found == [
        (offset, offset, synchronised, readings, "boot-1")
        for offset, synchronised, readings in zip(
            offsets, [0, 0, 0, 1], [35, 25, 20, 20], strict=True
        )
    ]
    history = open_history(tmp_path / "h.sqlite")
    assert history.reference() == (99_000, START_MS - 90_000)
    history.close()
    history = open_history(tmp_path / "h.sqlite", "boot-2")
    assert history.reference() is None
    history.close()


def test_events_move_with_the_readings(tmp_path: Path) -> None:
    history = open_history(tmp_path / "h.sqlite")
    events = history.events
    for at_ms, synchronised in ((1_000, False), (2_000, False), (3_000, True), (9_000, False)):
        events.add(monotonic_ms=at_ms, kind="x", time_ms=at_ms, synchronised=synchronised)
    history.correct(Correction(2_000, 9_000, START_MS, START_MS, every=False, synchronised=True))
    assert [(e.time_ms, e.synchronised) for e in events.waiting(0, 9)] == [
        (1_000, False),
        (START_MS + 2_000, True),
        (3_000, True),
        (9_000, False),
    ]
    history.close()


def test_a_correction_that_fails_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "h.sqlite"
    history, stream = filled(path, range(5))
    correction = Correction(0, 5_000, 0, 0, every=False, synchronised=True)
    blocker = sqlite3.connect(path, isolation_level=None)
    blocker.execute("BEGIN IMMEDIATE")
    assert history._db is not None
    history._db.execute("PRAGMA busy_timeout=0")
    reader = Reader(history)
    for _ in range(3):
        with pytest.raises(HistoryError, match="times not corrected: database is locked"):
            history.correct(correction)
        stream.append(sample(5 + _))
    assert len(stream.groups) == 1
    assert len(rows(reader.series(START_MS, 2**53), CHANNELS)) == 8
    blocker.execute("ROLLBACK")
    blocker.close()
    history.correct(correction)
    assert [row.time_ms for row in rows(reader.series(0, 2**53), CHANNELS)] == [
        i * 1000 for i in range(8)
    ]
    reader.close()
    history.close()


def test_events_wait_until_they_are_taken_over(tmp_path: Path) -> None:
    path = tmp_path / "h.sqlite"
    history = open_history(path, most_events=5)
    for i in range(8):
        event = history.events.add(
            monotonic_ms=i, kind="fault", time_ms=i, synchronised=True, sensor="dht", text=str(i)
        )
        assert event.sequence == i + 1
    assert (history.events.count, history.events.dropped) == (5, 3)
    history.events.remove([5, 6, 77])
    history.close()
    history = open_history(path, most_events=5)
    assert (history.events.count, history.events.dropped) == (3, 3)
    assert [event.sequence for event in history.events.waiting(4, 2)] == [7, 8]
    assert history.events.waiting(0, 1)[0].text == "3"
    history.events.remove([4, 7, 8])
    assert history.events.waiting(0, 9) == []
    event = history.events.add(monotonic_ms=9, kind="x", time_ms=9, synchronised=False)
    assert event.sequence == 9  # never one that somebody may have seen
    history.close()


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


WRITER = """
import sys
from pathlib import Path
from tests.edge.history_oracle import CHANNELS, open_history, sample
history = open_history(Path(sys.argv[1]), group_readings=20)
stream = history.stream("dht", CHANNELS)
start = int(sys.argv[2])
for i in range(start, 10**9):
    stream.append(sample(i))
    if history._waiting_since_ms is None:
        assert history.acknowledged == i - start + 1
        print(i, flush=True)
"""


def test_kill_9_loses_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    path, draw = tmp_path / "h.sqlite", random.Random(7)
    committed: set[int] = set()
    start = 0
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
        history: History = open_history(path)
        assert history.report == ""
        reader = Reader(history)
        found = rows(reader.series(0, 2**53), CHANNELS)
        assert len({row.source_time_ms for row in found}) == len(found)
        assert committed <= {row.source_time_ms for row in found}
        for row in found:
            n = row.source_time_ms
            assert row == (START_MS + n * 1000, n, 0, ((n / 2, 0), (-n, 0)))
        start = found[-1].source_time_ms + 1
        reader.close()
        history.close()


def test_a_reading_that_comes_after_a_correction_is_stored_where_the_others_were_moved(
    tmp_path: Path,
) -> None:
    history = open_history(tmp_path / "h.sqlite")
    stream = history.stream("probe", CHANNELS)
    stream.append(sample(0))
    late = sample(1)  # its sensor takes its time
    offset_ms = START_MS + 14 * 86_400_000
    history.correct(Correction(0, 2_000, offset_ms, offset_ms, every=False, synchronised=True))
    stream.append(late)
    stream.append(sample(2, 14 * 86_400_000, synchronised=True))
    reader = Reader(history)
    series = reader.series(0, 2**53)
    reader.close()
    history.close()
    assert series is not None
    assert list(series.time_ms.numbers()) == [offset_ms + n * 1000 for n in range(3)]
