"""Rooms of a real building, on whole minutes.

D. Hong, Q. Gu, K. Whitehouse, "High-dimensional Time Series Clustering via Cross-Predictability",
AISTATS 2017: one-minute means of an office building, 2013-08-23 to 2013-08-31.
"""

from __future__ import annotations

import csv
import gzip
from collections import defaultdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import numpy as np

from bench.pipeline.arrays import Array

SHIPPED: Final = Path(__file__).resolve().parents[2] / "sensors" / "replay" / "data"
MINUTE_S: Final = 60
# Rooms with shorter recordings are left out, and the room whose sensor is broken.
LEAST_MINUTES: Final = 7 * 1440
BROKEN: Final = "419"


def rooms(data: Path | None = None) -> dict[str, Array]:
    """Temperature and humidity by room, (2, minutes); missing values are interpolated linearly.

    `data` is the whole recording (``timestamp, room, temperature, humidity, …``, gzipped); without
    one, the rooms in the repository are taken.
    """
    if data is not None:
        series = _whole(data)
    else:
        files = sorted(SHIPPED.glob("room-*.csv.gz"))
        series = {file.name[5:8]: _rows(file) for file in files}
    found = {room: _on_minutes(rows) for room, rows in sorted(series.items()) if room != BROKEN}
    return {room: values for room, values in found.items() if values.shape[1] >= LEAST_MINUTES}


Row = tuple[float, float, float]


def _whole(data: Path) -> dict[str, list[Row]]:
    series: dict[str, list[Row]] = defaultdict(list)
    with gzip.open(data, "rt", encoding="ascii") as file:
        for row in csv.DictReader(file):
            series[row["room"]].append(_row(row))
    return series


def _rows(file: Path) -> list[Row]:
    with gzip.open(file, "rt", encoding="ascii") as opened:
        return [_row(row) for row in csv.DictReader(opened)]


def _row(row: dict[str, str]) -> Row:
    time = datetime.fromisoformat(row["timestamp"]).replace(tzinfo=UTC)
    return time.timestamp(), float(row["temperature"]), float(row["humidity"])


def _on_minutes(rows: list[Row]) -> Array:
    at, *values = np.array(sorted(rows)).T
    minutes = np.arange(at[0], at[-1] + 1, MINUTE_S)
    return np.stack([np.interp(minutes, at, column) for column in values])
