"""Replay driver: plays a recorded CSV file, one row per read, in a loop.

The sampler stamps each reading with the time of its replay; the recorded time is kept as
`source_time_ms`. Values are passed on as recorded, including faults.
"""

# ruff: noqa: PTH118, PTH120, PTH123, PTH208 - pathlib takes 0.6 MiB of memory, on every node

from __future__ import annotations

import csv
import gzip
import os
import zlib
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING, Final, TextIO, cast

from sensors.base import Channel, Described, Options, Reading, SensorError, nearest

if TYPE_CHECKING:
    from _csv import Reader as _CsvReader

# The columns of a recording that are channels; others are ignored.
CHANNELS: Final = (
    Channel("temperature", "celsius", -40.0, 80.0),
    Channel("humidity", "percent", 0.0, 100.0),
    Channel("co2", "ppm", 0.0, 10_000.0),
    Channel("light", "lux", 0.0, 200_000.0),
)
DATA: Final = os.path.join(os.path.dirname(__file__), "data")


class Replay:
    """Replays the rows of `path`, only those of `room` if that is given and the file has a column
    `room`.

    The file is read once to check it, and then row by row, so a recording of any length takes the
    memory of one row.
    """

    def __init__(self, path: str, room: str | None, start_row: int, preload_rows: int) -> None:
        self._path = path
        self._room = room
        self._preload_rows = preload_rows
        self.channels = self._find_channels()
        # Reading all rows checks them; none can be invalid from here on.
        self._rows = sum(1 for _ in self._once())
        if not self._rows:
            raise self._error(f"no rows{f' of room {room}' if room else ''}")
        self._first = (start_row - preload_rows) % self._rows
        self._live = self._from(start_row % self._rows)

    def read(self) -> Reading:
        return next(self._live)

    def preload(self) -> Iterable[tuple[int, Reading]]:
        rows = islice(self._from(self._first), self._preload_rows)
        return zip(range(self._preload_rows, 0, -1), rows, strict=True)

    def close(self) -> None:
        self._live.close()

    def _from(self, row: int) -> Generator[Reading, None, None]:
        while True:
            yield from self._once(row)
            row = 0

    def _once(self, first: int = 0) -> Iterator[Reading]:
        """The rows from number `first` on; those before it are not parsed."""
        names = [channel.name for channel in self.channels]
        with self._lines() as lines:
            header = next(lines)
            columns = [header.index(name) for name in names]
            timestamp = header.index("timestamp")
            room = header.index("room") if self._room and "room" in header else None
            rows = (row for row in lines if room is None or row[room] == self._room)
            for row in islice(rows, first, None):
                values = tuple([float(row[i] or "nan") for i in columns])
                yield Reading(values, _milliseconds(row[timestamp]))

    def _find_channels(self) -> tuple[Channel, ...]:
        with self._lines() as lines:
            header = next(lines, [])
        if "timestamp" not in header:
            raise self._error("the first line names no column timestamp")
        channels = tuple(channel for channel in CHANNELS if channel.name in header)
        if not channels:
            known = ", ".join(channel.name for channel in CHANNELS)
            raise self._error(f"the first line names no channel; known: {known}")
        return channels

    @contextmanager
    def _lines(self) -> Iterator[_CsvReader]:
        """The file's lines, split; SensorError for any error in the file or a line."""
        lines = None
        try:
            with self._open() as file:
                lines = csv.reader(file)
                yield lines
        except OSError as error:
            raise self._error(error.strerror or str(error)) from None
        except (EOFError, zlib.error) as error:
            raise self._error(str(error)) from None
        except (ValueError, IndexError, csv.Error):
            line = lines.line_num if lines is not None else 0
            raise self._error(f"line {line} is not a reading") from None

    def _open(self) -> TextIO:
        if self._path.endswith(".gz"):
            return cast(TextIO, gzip.open(self._path, "rt", encoding="utf-8", newline=""))
        return open(self._path, encoding="utf-8", newline="")

    def _error(self, text: str) -> SensorError:
        return SensorError(f"{self._path}: {text}")


def _milliseconds(timestamp: str) -> int:
    """Milliseconds since 1970 UTC; a timestamp without an offset is UTC."""
    time = datetime.fromisoformat(timestamp)
    if time.tzinfo is None:
        time = time.replace(tzinfo=UTC)
    return round(time.timestamp() * 1000)


def open_driver(options: Options) -> Replay | Described:
    path = options.path("file")
    room = options.text("room")
    start_row = options.count("start_row", 0)
    preload_rows = options.count("preload_rows", 0)
    options.finish()
    if path is None:
        if room is None:
            raise options.error("give either file or the room of a shipped recording")
        path, room = _shipped(room, options), None
    if options.leave == "machine":
        return Described(CHANNELS)
    try:
        return Replay(path, room, start_row, preload_rows)
    except SensorError as error:
        raise options.error(str(error)) from None


def _shipped(room: str, options: Options) -> str:
    names = sorted(name for name in os.listdir(DATA) if name.startswith("room-"))
    rooms = {name[5:-7]: os.path.join(DATA, name) for name in names}
    if room not in rooms:
        raise options.error(f"no recording of room {room} is shipped; {nearest(room, rooms)}")
    return rooms[room]
