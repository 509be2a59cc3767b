"""The replay driver gives a recording's rows, all of them, in order, unchanged."""

from __future__ import annotations

import csv
import gzip
import math
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from sensors import replay
from sensors.base import Driver, Reading, SensorError
from sensors.registry import open_driver

DATA = Path(replay.DATA)
FIXTURES = DATA.parent / "fixtures"
RECORDING = """\
timestamp,room,temperature,door,humidity
2013-08-23 23:04:00,1,20.5,0,40
2013-08-23 23:04:00,2,99,0,99
2013-08-23 23:05:00,1,,1,41.25
2013-08-24T01:06:00+02:00,1,21.5,0,42
"""
START_MS = 1_377_299_040_000
ROWS = [
    ((20.5, 40.0), START_MS),
    ((math.nan, 41.25), START_MS + 60_000),
    ((21.5, 42.0), START_MS + 120_000),
]


def open_replay(folder: Path, **options: Any) -> Driver:
    return open_driver("replay", options, folder)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "rooms.csv").write_text(RECORDING)
    (tmp_path / "rooms.csv.gz").write_bytes(gzip.compress(RECORDING.encode()))
    return tmp_path


def plain(readings: list[Reading]) -> list[tuple[str, int | None]]:
    """Comparable where a value is NaN."""
    return [(repr(tuple(reading.values)), reading.source_time_ms) for reading in readings]


def expected(*rows: int) -> list[tuple[str, int | None]]:
    return plain([Reading(*ROWS[row]) for row in rows])


@pytest.mark.parametrize("name", ["rooms.csv", "rooms.csv.gz"])
def test_rows_come_in_order_and_start_again_at_the_end(folder: Path, name: str) -> None:
    driver = open_replay(folder, file=name, room=1)
    assert [channel.name for channel in driver.channels] == ["temperature", "humidity"]
    assert plain([driver.read() for _ in range(7)]) == expected(0, 1, 2, 0, 1, 2, 0)
    driver.close()


@pytest.mark.parametrize(
    ("start", "preload", "before", "first"),
    [(2, 2, [0, 1], 2), (1, 2, [2, 0], 1), (5, 7, [1, 2, 0, 1, 2, 0, 1], 2), (0, 0, [], 0)],
)
def test_preload_gives_the_rows_before_the_first(
    folder: Path, start: int, preload: int, before: list[int], first: int
) -> None:
    driver = open_replay(folder, file="rooms.csv", room="1", start_row=start, preload_rows=preload)
    history = list(driver.preload())
    assert [n for n, _ in history] == list(range(preload, 0, -1))
    assert plain([reading for _, reading in history]) == expected(*before)
    assert plain([driver.read()]) == expected(first)


@pytest.mark.parametrize("room", ["413", "640"])
def test_a_shipped_room_equals_its_file(room: str, tmp_path: Path) -> None:
    driver = open_replay(tmp_path, room=room)
    with gzip.open(DATA / f"room-{room}.csv.gz", "rt", newline="") as file:
        rows = list(csv.DictReader(file))
    readings = list(islice(iter(driver.read, None), len(rows) + 1))
    for row, reading in zip(rows, readings, strict=False):
        time = datetime.strptime(row["timestamp"], "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC)
        assert reading.source_time_ms == round(time.timestamp() * 1000)
        assert reading.values == (float(row["temperature"]), float(row["humidity"]))
    assert readings[-1] == readings[0]


def test_the_fixture_reads_as_its_golden_rows_say() -> None:
    with (FIXTURES / "golden.csv").open(newline="") as file:
        golden = list(csv.DictReader(file))
    driver = open_replay(FIXTURES, file="rooms.csv", room=419)
    names = [channel.name for channel in driver.channels]
    assert [*golden[0]] == ["source_time_ms", *names]
    rows = [
        Reading(tuple([float(row[name]) for name in names]), int(row["source_time_ms"]))
        for row in golden
    ]
    assert plain([driver.read() for _ in golden]) == plain(rows)


def test_every_room_of_the_fleet_is_shipped() -> None:
    with (DATA / "building_fleet.csv").open(newline="") as file:
        rooms = sorted(row["room"] for row in csv.DictReader(file))
    assert len(rooms) == 32
    assert rooms == sorted(path.name[5:-7] for path in DATA.glob("room-*.csv.gz"))


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({}, "give either file or the room"),
        ({"room": "414"}, "no recording of room 414 is shipped; known: 413,"),
        ({"room": True}, "room must be a text"),
        ({"file": "rooms.csv", "room": "3"}, "no rows of room 3"),
        ({"file": "rooms.csv", "start_row": -1}, "start_row must be a whole number"),
        ({"file": "rooms.csv", "start_row": True}, "start_row must be a whole number"),
        ({"file": "rooms.csv", "preload_rows": 1.5}, "preload_rows must be a whole number"),
        ({"file": "rooms.csv", "strat_row": 1}, "did you mean start_row?"),
        ({"file": "missing.csv"}, "No such file"),
    ],
)
def test_a_wrong_option_is_one_line(folder: Path, options: dict[str, Any], problem: str) -> None:
    with pytest.raises(SensorError, match=problem.replace("?", r"\?")) as caught:
        open_replay(folder, **options)
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith("replay: ")


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "names no column timestamp"),
        (b"time,temperature\n", "names no column timestamp"),
        (b"timestamp,door\n", "names no channel"),
        (b"timestamp,temperature\n", "no rows"),
        (b"timestamp,temperature\n2013-08-23 23:04:00,warm\n", "line 2 is not a reading"),
        (b"timestamp,temperature\nyesterday,20\n", "line 2 is not a reading"),
        (b"timestamp,temperature\n2013-08-23 23:04:00\n", "line 2 is not a reading"),
        (b"timestamp,temperature\n\xff\xfe,20\n", "is not a reading"),
    ],
)
def test_a_broken_file_is_one_line(tmp_path: Path, content: bytes, problem: str) -> None:
    (tmp_path / "broken.csv").write_bytes(content)
    with pytest.raises(SensorError, match=problem):
        open_replay(tmp_path, file="broken.csv")


def test_a_truncated_gzip_file_is_one_line(folder: Path) -> None:
    whole = (folder / "rooms.csv.gz").read_bytes()
    for length in (5, 15, len(whole) - 1):
        (folder / "cut.csv.gz").write_bytes(whole[:length])
        with pytest.raises(SensorError, match=r"cut\.csv\.gz: "):
            open_replay(folder, file="cut.csv.gz")


def test_quoted_fields_and_line_ends_are_those_of_csv(tmp_path: Path) -> None:
    lines = 'timestamp,"room","temperature"\r\n"2013-08-23 23:04:00","a,\r\n""b""","20.5"\r\n'
    (tmp_path / "quoted.csv.gz").write_bytes(gzip.compress(lines.encode()))
    driver = open_replay(tmp_path, file="quoted.csv.gz", room='a,\r\n"b"')
    assert driver.read() == Reading((20.5,), START_MS)


def test_a_file_that_goes_while_it_is_read_names_itself_alone(folder: Path) -> None:
    driver = open_replay(folder, file="rooms.csv")
    path = folder / "rooms.csv"
    path.unlink()
    with pytest.raises(SensorError, match=rf"^{path}: No such file or directory$"):
        driver.read()


def test_an_unknown_driver_names_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(SensorError, match=r"unknown sensor driver repaly; did you mean replay\?"):
        open_driver("repaly", {}, tmp_path)
