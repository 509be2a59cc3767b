"""What the history promises, one promise a test; `test_history_model` has the random operations."""

from __future__ import annotations

import random
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from agent.edge.history.columns import series_of
from agent.edge.history.file import HistoryError
from agent.edge.history.history import History
from agent.edge.history.memtable import RowGroup, Sample
from agent.edge.history.reader import Reader
from agent.edge.history.row_groups import OPENING
from agent.edge.history.snapshot import Recent
from agent.edge.timebase import Correction
from agent.wire.messages import ChannelAggregate
from tests.edge.history_oracle import CHANNELS, START_MS, filled, open_history, rows, sample

HOUR_MS = 3_600_000
RETENTION_MS = 4 * HOUR_MS


def sources(reader: Reader) -> list[int]:
    """The source times of all readings, which count them."""
    return [row.source_time_ms for row in rows(reader.series(0, 2**53), CHANNELS)]


@pytest.mark.parametrize("step_ms", [0, -1_209_600_000, 1_209_600_000])
def test_retention_drops_by_age_and_survives_a_clock_step(step_ms: int, tmp_path: Path) -> None:
    """A jump of the wall clock neither drops young readings nor keeps old ones for ever."""
    history = open_history(
        tmp_path / "h.sqlite", group_readings=60, retention_s=RETENTION_MS / 1000, commit_s=60.0
    )
    stream = history.stream("dht", CHANNELS)
    reader = Reader(history)
    n = 6 * 3600
    for i in range(n):
        stream.append(sample(i, step_ms if i > n // 2 else 0))
    found = sources(reader)
    assert set(range(n - 4 * 3600, n)) <= set(found)
    assert len(found) <= 4 * 3600 + 2 * 60
    assert len(found) == len(set(found))
    reader.close()
    history.close()


def test_what_an_earlier_boot_left_ages_by_a_wall_clock_that_is_right(tmp_path: Path) -> None:
    history = open_history(tmp_path / "h.sqlite")
    stream = history.stream("dht", CHANNELS)
    for i in range(100):
        stream.append(sample(i, synchronised=True))
    history.close()
    history = open_history(
        tmp_path / "h.sqlite", "boot-2", group_readings=1, retention_s=RETENTION_MS / 1000
    )
    reader = Reader(history)
    stream = history.stream("dht", CHANNELS)
    wrong = Sample(START_MS + 1_209_600_000, 0, False, (1.0, 2.0), 7)
    stream.append(wrong)
    assert set(sources(reader)) == {7, *range(100)}
    right = Sample(START_MS + RETENTION_MS + 70_000, 1_000, True, (1.0, 2.0), 8)
    stream.append(right)
    assert set(sources(reader)) == {7, 8, *range(50, 100)}
    reader.close()
    history.close()


def test_boots_that_never_knew_the_time_age_by_what_was_recorded_since(tmp_path: Path) -> None:
    """An hour a boot, each with a wall clock that says anything; four hours are kept."""
    for boot in range(7):
        history = open_history(
            tmp_path / "h.sqlite",
            f"boot-{boot}",
            group_readings=60,
            commit_s=60.0,
            retention_s=RETENTION_MS / 1000,
        )
        stream = history.stream("dht", CHANNELS)
        for i in range(3600):
            now = sample(i, [1_209_600_000, -90_000, 0][boot % 3])
            stream.append(now._replace(source_time_ms=boot * 3600 + i))
        reader = Reader(history)
        kept = set(sources(reader))
        reader.close()
        history.close()
    assert set(range(3 * 3600, 7 * 3600)) <= kept
    assert len(kept) <= 4 * 3600 + 6 * 60


def test_retention_by_size_drops_the_oldest(tmp_path: Path) -> None:
    path = tmp_path / "h.sqlite"
    history = open_history(path, group_readings=600, commit_s=600.0, retention_bytes=1 << 20)
    stream = history.stream("dht", CHANNELS)
    stream.load(sample(i) for i in range(120_000))
    for i in range(120_000, 121_000):
        stream.append(sample(i))
    reader = Reader(history)
    found = sources(reader)
    assert found == list(range(found[0], 121_000))
    assert 30_000 < len(found) < 50_000
    reader.close()
    history.close()


def test_preloaded_readings_are_there_at_once_and_stay(tmp_path: Path) -> None:
    path = tmp_path / "h.sqlite"
    for opening in range(2):
        history = open_history(path)
        stream = history.stream("dht", CHANNELS)
        other = history.stream("co2", ("co2",))
        assert stream.empty == (opening == 0)
        assert other.empty
        if not opening:
            stream.load(sample(i) for i in range(-10_800, 0))
            for i in range(25):
                stream.append(sample(i))
        assert not history.empty
        reader = Reader(history)
        assert sources(reader) == list(range(-10_800, 25))
        reader.close()
        history.close()


def test_a_preload_that_fails_leaves_no_reading(tmp_path: Path) -> None:
    history = open_history(tmp_path / "h.sqlite")
    stream = history.stream("dht", CHANNELS)
    good = [sample(i) for i in range(170)]
    with pytest.raises(ValueError, match="1 values"):
        stream.load([*good, sample(170, values=(1.0,))])
    assert history.empty
    stream.append(sample(0))
    reader = Reader(history)
    assert sources(reader) == [0]
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
        {"quality": (1,)},
        {"quality": (0, 256)},
        {"age_ms": 2**32},
        {"raw": (1.0,)},
    ],
)
def test_a_row_group_takes_a_reading_whole_or_not_at_all(wrong: dict[str, Any]) -> None:
    good = Sample(1000, 1000, False, (1.0, 2.0), 7, raw=(3.0, 4.0))
    group = RowGroup(0, "dht", ("temperature", "humidity"), good, keeps_raw=True)
    before = group.slice(0, 1)
    with pytest.raises((ValueError, TypeError, OverflowError, AssertionError)):
        group.add(good._replace(**wrong))
    assert (len(group), group.slice(0, len(group))) == (1, before)
    group.add(good._replace(time_ms=2000, quality=(0, 1), age_ms=5))
    assert len(series_of(group.slice(0, 2)).time_ms) == 2  # and all other columns, it says


def test_channels_are_picked_and_missing_ones_filled(tmp_path: Path) -> None:
    history = open_history(tmp_path / "h.sqlite")
    history.stream("dht", ("temperature",)).append(sample(0, values=(1.5,)))
    history.close()
    history = open_history(tmp_path / "h.sqlite")
    history.stream("dht", ("humidity", "temperature")).append(sample(1, values=(2.5, 3.5)))
    reader = Reader(history)
    series = reader.series(0, 2**53)
    assert series is not None
    assert list(series.values) == ["temperature", "humidity"]
    assert [row.values for row in rows(series, CHANNELS)] == [
        ((1.5, 0), (None, 0)),
        ((3.5, 0), (2.5, 0)),
    ]
    only = reader.series(0, 2**53, ("humidity", "co2"))
    assert only is not None
    assert list(only.values) == ["humidity"]
    assert len(only.time_ms) == 1
    assert reader.series(0, 2**53, ("co2",)) is None
    aggregate = reader.aggregate(0, 2**53, ("humidity", "co2"))
    assert aggregate is not None
    assert [(name, a.count) for name, a in aggregate.channels.items()] == [("humidity", 1)]
    reader.close()
    history.close()


def test_a_channel_of_which_every_reading_is_bad_is_told(tmp_path: Path) -> None:
    """In memory, from the statistics of groups in the file, and from groups that are cut."""
    spike = 8
    history = open_history(tmp_path / "h.sqlite", group_readings=5)
    stream = history.stream("dht", CHANNELS)
    for i in range(10):
        stream.append(sample(i, values=(85.0, float(i)))._replace(quality=(spike, 0)))
    reader = Reader(history)
    for start, end in ((0, 10), (1, 9), (6, 8)):
        dead, alive = ChannelAggregate(0, bad=end - start), end - start
        window_ms = START_MS + 1000 * start, START_MS + 1000 * end
        aggregate = reader.aggregate(*window_ms)
        assert aggregate is not None
        assert aggregate.channels["temperature"] == dead
        assert aggregate.channels["humidity"].count == alive
        assert (aggregate.first_ms, aggregate.last_ms) == (window_ms[0], window_ms[1] - 1000)
        only = reader.aggregate(*window_ms, ("temperature", "co2"))
        assert only is not None
        assert only.channels == {"temperature": dead}
    assert reader.aggregate(0, START_MS) is None
    reader.close()
    history.close()


def test_only_the_sensor_that_is_asked_for_is_read(tmp_path: Path) -> None:
    """The columns of the other one are gone, and nobody misses them."""
    path = tmp_path / "h.sqlite"
    history = open_history(path)
    for name in CHANNELS:
        stream = history.stream(name, (name,))
        stream.load(sample(i, values=(float(i),)) for i in range(200))
    with sqlite3.connect(path) as db:
        db.execute(
            "DELETE FROM columns WHERE sequence IN"
            " (SELECT sequence FROM groups WHERE sensor = 'humidity')"
        )
    db.close()
    reader = Reader(history)
    series = reader.series(0, 2**53, ("temperature",))
    assert series is not None
    assert series.values["temperature"].numbers().tolist() == list(range(200))
    assert history._doubtful == {}
    reader.close()
    history.close()


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


def test_readers_beside_writers_see_every_reading_once(tmp_path: Path) -> None:
    """Each look finds readings 0 … n of each stream without a gap, never fewer than before."""
    history = open_history(tmp_path / "h.sqlite", group_readings=7, commit_s=1.0)
    done = threading.Event()
    problems: list[str] = []
    looks = [0, 0]
    streams = [history.stream(name, (name,)) for name in CHANNELS]

    def look(index: int) -> None:
        reader, seen, name = Reader(history), 0, CHANNELS[index]
        while not done.is_set() or not looks[index]:
            series = reader.series(0, 2**53, (name,))
            found = series.values[name].numbers().tolist() if series is not None else []
            if found != list(range(len(found))) or len(found) < seen:
                problems.append(f"{seen} {found}")
                break
            seen = len(found)
            looks[index] += 1
        reader.close()

    def write(index: int) -> None:
        for i in range(300):
            streams[index].append(sample(i, index * 3, values=(float(i),)))

    threads = [threading.Thread(target=look, args=(i,)) for i in range(2)]
    writers = [threading.Thread(target=write, args=(i,)) for i in range(2)]
    for thread in threads + writers:
        thread.start()
    for thread in writers:
        thread.join()
    done.set()
    for thread in threads:
        thread.join()
    history.close()
    assert problems == []
    assert all(looks)
    assert history.acknowledged == 600


def test_what_is_filed_between_the_looks_at_memory_and_file_is_seen_once(tmp_path: Path) -> None:
    """Groups that were growing, or not begun, are complete when the file is read."""
    history, stream = filled(tmp_path / "h.sqlite", range(13), group_readings=5)
    take = history.recent

    def recent(start_ms: int, end_ms: int) -> Recent:
        found = take(start_ms, end_ms)
        for i in range(13, 40):
            stream.append(sample(i))
        return found

    history.recent = recent  # type: ignore[method-assign]
    reader = Reader(history)
    assert sources(reader) == list(range(13))
    reader.close()
    history.close()


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
