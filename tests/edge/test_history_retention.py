"""What a history drops by age and by size, and what it was given before its first reading."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.edge.history.memtable import Sample
from agent.edge.history.reader import Reader
from tests.edge.history_oracle import CHANNELS, START_MS, open_history, sample, sources

HOUR_MS = 3_600_000
RETENTION_MS = 4 * HOUR_MS


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


def test_a_synchronised_clock_that_is_set_to_2099_drops_nothing_of_earlier_boots(
    tmp_path: Path,
) -> None:
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
    in_2099_ms = 4_080_000_000_000
    for at, time_ms in enumerate([START_MS + 200_000, in_2099_ms, START_MS + 202_000]):
        stream.append(Sample(time_ms + at, 1_000 * at, True, (1.0, 2.0), 200 + at))
    assert set(sources(reader)) == {*range(100), 200, 201, 202}
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
