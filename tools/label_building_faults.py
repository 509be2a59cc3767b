"""Label the faults in the building climate recording, by rules that look at all of it at once.

    python tools/label_building_faults.py building_climate.csv.gz

Writes tests/sensors/fixtures/building_faults.csv, and other_rooms.csv.gz beside it: temperature and
humidity of the rooms with such faults that sensors/replay/data does not have. The rules use nothing
of sensors.quality; they see past, future and all rooms, where the checks see one reading after the
other. fixtures/README.md says what they are and why; the last lines printed say how far each rule's
bound is from the readings on both sides of it. The same recording gives the same bytes.
"""

from __future__ import annotations

import csv
import gzip
import io
import sys
from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

ROOT = Path(__file__).resolve().parent.parent
FIXTURES = ROOT / "tests" / "sensors" / "fixtures"
SHIPPED = ROOT / "sensors" / "replay" / "data"
CHANNELS = ("temperature", "humidity", "co2", "light")
COLUMNS = ("timestamp", "room", "temperature", "humidity")

# A hole of one or two minutes is a message that got lost on the radio, and no fault.
GAP_MINUTES = 3
AROUND_MINUTES = 10
SPIKE = {"temperature": 5.0, "humidity": 20.0, "co2": 200.0, "light": 1_000.0}
BROKEN = {"temperature": 10.0, "humidity": 30.0, "light": 1_000.0}
OUTDOOR_CO2_PPM = 395.0  # Mauna Loa, August 2013

Grid = NDArray[np.float64]  # [room, minute], NaN where there is no row


class Fault(NamedTuple):
    """`start` is the first affected minute, `end` the first one after it; indices of the grid."""

    room: str
    channel: str
    kind: str
    start: int
    end: int
    seen: str


class Recording(NamedTuple):
    """All rooms on one grid of minutes; `rows` are the lines of temperature and humidity."""

    first_s: int
    rooms: list[str]
    grids: dict[str, Grid]
    rows: dict[str, list[list[str]]]


def read(path: Path) -> Recording:
    """The whole recording."""
    minutes: dict[str, list[int]] = defaultdict(list)
    values: dict[str, list[list[float]]] = defaultdict(list)
    rows: dict[str, list[list[str]]] = defaultdict(list)
    with gzip.open(path, "rt", newline="") as file:
        for row in csv.DictReader(file):
            room, time = row["room"], datetime.fromisoformat(row["timestamp"]).replace(tzinfo=UTC)
            minutes[room].append(round(time.timestamp() / 60))
            values[room].append([float(row[channel]) for channel in CHANNELS])
            rows[room].append([row[column] for column in COLUMNS])
    rooms = sorted(minutes)
    first = min(map(min, minutes.values()))
    shape = (len(CHANNELS), len(rooms), max(map(max, minutes.values())) - first + 1)
    cube = np.full(shape, np.nan)
    for number, room in enumerate(rooms):
        cube[:, number, np.array(minutes[room]) - first] = np.array(values[room]).T
    return Recording(first * 60, rooms, dict(zip(CHANNELS, cube, strict=True)), rows)


def gaps(recording: Recording) -> Iterator[Fault]:
    """GAP_MINUTES or more minutes on end without a row, of the time that the recording covers."""
    for room, values in zip(recording.rooms, recording.grids["temperature"], strict=True):
        for start, end in runs(np.isnan(values)):
            if end - start >= GAP_MINUTES:
                yield Fault(room, "all", "gap", start, end, f"{end - start} minutes without a row")


def broken(recording: Recording, margins: list[str]) -> Iterator[Fault]:
    """More than half of a room's readings are farther than BROKEN from the median of all rooms in
    the same minute."""
    for channel, bound in BROKEN.items():
        grid = recording.grids[channel]
        there = ~np.isnan(grid)
        middle = np.full(grid.shape[1], np.nan)
        middle[there.any(axis=0)] = np.nanmedian(grid[:, there.any(axis=0)], axis=0)
        off = np.nanmedian(np.abs(grid - middle), axis=1)
        margins.append(margin(f"broken, {channel}", off, bound))
        for room, distance, some in zip(recording.rooms, off, there, strict=True):
            if distance > bound:
                seen = f"half of the readings are {distance:.2f} or more off the rooms' median"
                first, last = np.flatnonzero(some)[[0, -1]]
                yield Fault(room, channel, "broken", int(first), int(last) + 1, seen)


def offsets(recording: Recording, margins: list[str]) -> Iterator[Fault]:
    """Every empty room has the CO2 of outdoor air: a sensor whose low readings (5 % quantile) are
    not even half of it is wrong."""
    grid = recording.grids["co2"]
    low = np.nanquantile(grid, 0.05, axis=1)
    bound = OUTDOOR_CO2_PPM / 2
    margins.append(margin("offset, co2 (below)", -low, -bound))
    for room, level, values in zip(recording.rooms, low, grid, strict=True):
        if level < bound:
            first, last = np.flatnonzero(~np.isnan(values))[[0, -1]]
            seen = f"5 % quantile {level:.0f} ppm, outdoor air has {OUTDOOR_CO2_PPM:.0f}"
            yield Fault(room, "co2", "offset", int(first), int(last) + 1, seen)


def spikes(
    recording: Recording, known: set[tuple[str, str]], margins: list[str]
) -> Iterator[Fault]:
    """A reading farther than SPIKE from the median of those within AROUND_MINUTES, both before and
    after it, where the readings next to it are not half as far. Channels of `known` are left out:
    what is broken has no level."""
    for channel, bound in SPIKE.items():
        alone = []
        for room, values in zip(recording.rooms, recording.grids[channel], strict=True):
            if (room, channel) in known:
                continue
            distances, levels = isolated(values)
            alone.append(distances)
            for minute in np.flatnonzero(distances > bound):
                seen = f"{values[minute]:.2f}, around it {levels[minute]:.2f}"
                yield Fault(room, channel, "spike", int(minute), int(minute) + 1, seen)
        margins.append(margin(f"spike, {channel}", np.concatenate(alone), bound))


def isolated(values: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """For each minute how far it is from the level around it, 0 where a neighbour is half as far;
    and that level."""
    padded = np.pad(values, AROUND_MINUTES, constant_values=np.nan)
    windows = np.lib.stride_tricks.sliding_window_view(padded, 2 * AROUND_MINUTES + 1).copy()
    windows[:, AROUND_MINUTES] = np.nan
    levels = np.full(len(values), np.nan)
    some = ~np.isnan(windows).all(axis=1) & ~np.isnan(values)
    levels[some] = np.nanmedian(windows[some], axis=1)
    distance = np.nan_to_num(np.abs(values - levels))
    neighbours = np.abs(windows[:, [AROUND_MINUTES - 1, AROUND_MINUTES + 1]] - levels[:, None])
    distance[np.nan_to_num(neighbours).max(axis=1) > distance / 2] = 0.0
    return distance, levels


def runs(mask: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """Start and end, exclusive, of each run of True."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], mask, [False]]).astype(int)))
    return [(int(a), int(b)) for a, b in zip(edges[::2], edges[1::2], strict=True)]


def margin(rule: str, statistic: NDArray[np.float64], bound: float) -> str:
    """The two values of a rule's statistic that its bound lies between."""
    above, below = statistic[statistic > bound], statistic[statistic <= bound]
    lowest = f"{above.min():.2f}" if len(above) else "none"
    return f"{rule}: bound {bound:g}, largest below {below.max():.2f}, smallest above {lowest}"


def label(recording: Recording) -> tuple[list[Fault], list[str]]:
    """All faults, by room, channel and time; and what to print of the rules' margins."""
    margins: list[str] = []
    faults = [*broken(recording, margins), *offsets(recording, margins)]
    known = {(fault.room, fault.channel) for fault in faults}
    faults += [*gaps(recording), *spikes(recording, known, margins)]
    return sorted(faults), margins


def table(recording: Recording, faults: list[Fault]) -> str:
    """The CSV of the labels; times are UTC."""

    def text(minute: int) -> str:
        return f"{datetime.fromtimestamp(recording.first_s + 60 * minute, UTC):%Y-%m-%d %H:%M:%S}"

    file = io.StringIO()
    lines = csv.writer(file, lineterminator="\n")
    lines.writerow(Fault._fields)
    for room, channel, kind, start, end, seen in faults:
        lines.writerow([room, channel, kind, text(start), text(end), seen])
    return file.getvalue()


def other_rooms(recording: Recording, faults: list[Fault]) -> bytes:
    """The rows of the rooms with faults that are not shipped, packed."""
    shipped = {path.name[5:-7] for path in SHIPPED.glob("room-*.csv.gz")}
    common = gap_of_all(recording)
    rooms = {
        fault.room
        for fault in faults
        if fault.channel in {"all", "temperature", "humidity"}
        and max(abs(fault.start - common[0]), abs(fault.end - common[1])) > AROUND_MINUTES
    }
    file = io.StringIO()
    lines = csv.writer(file, lineterminator="\n")
    lines.writerow(COLUMNS)
    for room in sorted(rooms - shipped):
        lines.writerows(recording.rows[room])
    return gzip.compress(file.getvalue().encode("ascii"), compresslevel=9, mtime=0)


def gap_of_all(recording: Recording) -> tuple[int, int]:
    """The longest time without a row of any room."""
    nothing = np.isnan(recording.grids["temperature"]).all(axis=0)
    return max(runs(np.asarray(nothing)), key=lambda run: run[1] - run[0])


def main() -> int:
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    recording = read(Path(sys.argv[1]))
    faults, margins = label(recording)
    FIXTURES.mkdir(parents=True, exist_ok=True)
    (FIXTURES / "building_faults.csv").write_text(table(recording, faults), "ascii")
    (FIXTURES / "other_rooms.csv.gz").write_bytes(other_rooms(recording, faults))
    print(*margins, sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
