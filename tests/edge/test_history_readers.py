"""What a history gives its readers: channels, sensors, and every reading once beside writers."""

from __future__ import annotations

import sqlite3
import threading
from pathlib import Path
from typing import Any

import pytest

from agent.edge.history.columns import series_of
from agent.edge.history.memtable import RowGroup, Sample
from agent.edge.history.reader import Reader
from agent.edge.history.snapshot import Recent
from agent.wire.messages import ChannelAggregate
from tests.edge.history_oracle import (
    CHANNELS,
    START_MS,
    filled,
    open_history,
    rows,
    sample,
    sources,
)


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
