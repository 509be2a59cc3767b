"""Make sensors/replay/data/ from the building climate recording.

    python tools/extract_building_data.py building_climate.csv.gz building_fleet.csv

One room-<number>.csv.gz for each room of the fleet: its rows of timestamp, temperature and
humidity, unchanged and in the recording's order, faults included. The output depends on the input
alone: the gzip headers carry neither time nor file name.
"""

from __future__ import annotations

import csv
import gzip
import io
import shutil
import sys
from pathlib import Path

DATA = Path(__file__).resolve().parent.parent / "sensors" / "replay" / "data"
COLUMNS = ("timestamp", "temperature", "humidity")


def extract(recording: Path, fleet: Path, target: Path) -> dict[str, int]:
    """Write the files of all rooms that `fleet` names; returns the number of rows of each room."""
    with fleet.open(newline="") as file:
        rooms = [row["room"] for row in csv.DictReader(file)]
    texts = {room: io.StringIO(newline="") for room in rooms}
    counts = dict.fromkeys(rooms, 0)
    for text in texts.values():
        text.write(",".join(COLUMNS) + "\n")
    with gzip.open(recording, "rt", newline="") as file:
        for row in csv.DictReader(file):
            if row["room"] in texts:
                texts[row["room"]].write(",".join(row[column] for column in COLUMNS) + "\n")
                counts[row["room"]] += 1
    target.mkdir(parents=True, exist_ok=True)
    for room, text in texts.items():
        packed = gzip.compress(text.getvalue().encode("ascii"), compresslevel=9, mtime=0)
        (target / f"room-{room}.csv.gz").write_bytes(packed)
    shutil.copyfile(fleet, target / "building_fleet.csv")
    return counts


def main() -> int:
    if len(sys.argv) != 3:
        print(__doc__, file=sys.stderr)
        return 2
    for room, count in extract(Path(sys.argv[1]), Path(sys.argv[2]), DATA).items():
        print(f"room {room}: {count} rows")
    return 0


if __name__ == "__main__":
    sys.exit(main())
