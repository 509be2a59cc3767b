"""Recordings of rooms on a grid of minutes, in the form that the checks take."""

from __future__ import annotations

import csv
import gzip
import math
import zlib
from collections.abc import Iterable
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Final

from msgspec import Struct

import sensors.quality

CHECKOUT: Final = Path(sensors.quality.__file__).parents[2]
SHIPPED: Final = CHECKOUT / "sensors" / "replay" / "data"
FIXTURES: Final = CHECKOUT / "tests" / "sensors" / "fixtures"
LABELS: Final = FIXTURES / "building_faults.csv"

UNITS: Final = {"temperature": "celsius", "humidity": "percent", "co2": "ppm", "light": "lux"}
STEP_S: Final = 60.0
WEEK_S: Final = 7 * 86_400.0

Series = list[float]


class RecordingError(Exception):
    """A file cannot be used; one line says why."""


class Label(Struct, frozen=True):
    """A fault of the recording: seconds since 1970, the end not included. The channel `all` stands
    for every one."""

    room: str
    channel: str
    kind: str
    start_s: float
    end_s: float

    def covers(self, room: str, channel: str) -> bool:
        """Whether it is a fault of that channel."""
        return self.room == room and self.channel in {channel, "all"}


class Recording(Struct, frozen=True):
    """`series[channel][room]`: a value for each minute from `first_s` on (seconds since 1970), NaN
    where nothing was recorded."""

    first_s: float
    minutes: int
    series: dict[str, dict[str, Series]]

    @property
    def rooms(self) -> list[str]:
        """All rooms, in order."""
        return sorted({room for rooms in self.series.values() for room in rooms})

    def floors(self, channel: str) -> dict[str, dict[str, Series]]:
        """The rooms of each floor, which are co-located: a room's first digit is its floor."""
        floors: dict[str, dict[str, Series]] = {}
        for room, series in sorted(self.series[channel].items()):
            floors.setdefault(room[0], {})[room] = series
        return floors


def read(files: Iterable[Path]) -> Recording:
    """All rooms of `files`, CSV or CSV packed with gzip. A file without a column `room` is named
    after its room: room-413.csv.gz."""
    rows: list[tuple[int, str, dict[str, float]]] = []
    for path in files:
        try:
            rows.extend(_rows(path))
        except (OSError, EOFError, zlib.error, IndexError, ValueError) as error:
            raise RecordingError(f"{path}: {type(error).__name__}: {error}") from None
    if not rows:
        raise RecordingError("no recordings; run in a checkout, or give --data FILE")
    first = min(row[0] for row in rows)
    minutes = max(row[0] for row in rows) - first + 1
    series: dict[str, dict[str, Series]] = {}
    for minute, room, values in rows:
        for channel, value in values.items():
            rooms = series.setdefault(channel, {})
            if room not in rooms:
                rooms[room] = [math.nan] * minutes
            rooms[room][minute - first] = value
    return Recording(first * STEP_S, minutes, series)


def shipped() -> Recording:
    """The rooms in the repository: temperature and humidity."""
    return read([*sorted(SHIPPED.glob("room-*.csv.gz")), *FIXTURES.glob("other_rooms.csv.gz")])


def labels(path: Path) -> list[Label]:
    """The faults that a file lists (written by tools/label_building_faults.py)."""
    try:
        with path.open(encoding="utf-8", newline="") as file:
            return [
                Label(
                    row["room"], row["channel"], row["kind"], _time(row["start"]), _time(row["end"])
                )
                for row in csv.DictReader(file)
            ]
    except (OSError, KeyError, ValueError) as error:
        raise RecordingError(f"{path}: {error}; run in a checkout, or give --labels") from None


def _rows(path: Path) -> Iterable[tuple[int, str, dict[str, float]]]:
    opener = gzip.open if path.suffix == ".gz" else open
    named = path.name.removeprefix("room-").split(".")[0]
    with opener(path, "rt", encoding="utf-8", newline="") as file:
        lines = csv.reader(file)
        header = next(lines, [])
        columns = [(name, header.index(name)) for name in UNITS if name in header]
        timestamp = header.index("timestamp")
        room = header.index("room") if "room" in header else None
        for row in lines:
            values = {name: float(row[column] or "nan") for name, column in columns}
            yield _minute(row[timestamp]), named if room is None else row[room], values


@lru_cache(maxsize=65_536)  # rooms share their minutes
def _minute(text: str) -> int:
    return round(_time(text) / STEP_S)


def _time(text: str) -> float:
    """Seconds since 1970; a time without an offset is UTC."""
    time = datetime.fromisoformat(text)
    return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()
