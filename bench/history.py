"""Local history: windows of three hours against a flat file and DuckDB, and bytes written per day.

python -m bench.history [day|trade]: `day` prints what one compressed day writes, as JSON; `trade`
the table of docs/understand/history.md.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from operator import itemgetter
from pathlib import Path

from msgspec.structs import replace

from agent.edge.history.history import History
from agent.edge.history.memtable import Sample
from agent.edge.history.reader import Reader
from agent.scheduling.aggregation import merge_series
from agent.wire.edge_config import EdgeHistory
from agent.wire.messages import Series
from agent.wire.packed import Float32Column, Int64Column
from bench.output import Result, interleaved, report, result

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build"  # on a disk, unlike many folders for temporary files
START_MS = 1_700_000_000_000
CHANNELS = ("temperature", "humidity")
DAY_S = 86_400
KEPT = 3 * DAY_S
ASKED = 10_800
ROUNDS = 200
BUDGET_MB = 60.0  # a day on the card at the default commit_s; tests/edge/test_history_bytes.py


def sample(i: int) -> Sample:
    """Reading i, a second after the one before."""
    values = 20 + i % 700 / 100, 40 + i % 1100 / 50
    return Sample(START_MS + i * 1000, i * 1000, False, values)


def filled(folder: str, commit_s: float) -> History:
    """A history with three days in it."""
    history = History(
        f"{folder}/history.sqlite",
        "boot",
        group_readings=EdgeHistory().group_readings,
        commit_s=commit_s,
        retention_s=float(KEPT),
    )
    history.stream("past", CHANNELS).load(sample(i) for i in range(-KEPT, 0))
    return history


def written_in_a_day(commit_s: float, day_s: int = DAY_S) -> dict[str, float]:
    """MB that this process passes to write(2) for a day of readings, and the same in dirtied pages
    of 4 KiB, counted over `day_s` seconds on a clock that runs as fast as it can."""
    BUILD.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=BUILD) as folder:
        history = filled(folder, commit_s)
        stream = history.stream("sensor", CHANNELS)
        before = _written()
        for i in range(day_s):
            stream.append(sample(i))
        after = _written()
        history.close()
    scale = DAY_S / day_s / 1e6
    written, pages = [(b - a) * scale for a, b in zip(before, after, strict=True)]
    return {"written_mb": round(written, 2), "pages_mb": round(pages, 2)}


def _written() -> tuple[int, int]:
    lines = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(lines["wchar"]), int(lines["write_bytes"])


def day() -> dict[str, float]:
    """A quarter of a day at the default commit_s, in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "bench.history", "day"],
        capture_output=True,
        check=True,
        text=True,
        cwd=ROOT,
    )
    found: dict[str, float] = json.loads(done.stdout)
    return found


def seconds(work: Callable[[], object]) -> Callable[[], float]:
    """A measure of one call."""

    def measure() -> float:
        started = time.perf_counter()
        work()
        return time.perf_counter() - started

    return measure


def run() -> list[Result]:
    """Goals: history-series-first, of which every group is read from the file and checked, within 5
    times the flat file, as history-series, with the groups in the pods' cache; history-aggregate
    faster than DuckDB; history-bytes within its budget; history-merge, of two sensors' readings by
    turns, 10 times as fast as a sort in Python."""
    import duckdb

    with tempfile.TemporaryDirectory() as folder:
        history = filled(folder, 10.0)
        reader = Reader(history)
        # Neither end is on the boundary of a group.
        end_ms = START_MS - 5_000_000
        start_ms = end_ms - 1000 * ASKED
        series = reader.series(start_ms, end_ms)
        assert series is not None
        assert len(series.time_ms) == ASKED
        flat = Path(folder) / "flat"
        flat.write_bytes(
            b"".join([series.time_ms.data, *[column.data for column in series.values.values()]])
        )
        peer = duckdb.connect()
        peer.execute("SET threads = 1")
        peer.execute("CREATE TABLE readings (time_ms BIGINT, temperature FLOAT, humidity FLOAT)")
        peer.execute(
            "INSERT INTO readings SELECT ? + i * 1000, 20 + i % 700 / 100.0,"
            " 40 + i % 1100 / 50.0 FROM range(?, 0) t(i)",
            (START_MS, -KEPT),
        )
        query = (
            "SELECT count(temperature), min(temperature), avg(temperature), max(temperature),"
            " count(humidity), min(humidity), avg(humidity), max(humidity) FROM readings"
            " WHERE time_ms >= ? AND time_ms < ?"
        )

        def first() -> None:
            history.cache.clear()
            reader.series(start_ms, end_ms)

        # Separately, because DuckDB evicts our data from the processor's caches.
        series_s, first_s, flat_s = interleaved(
            ROUNDS,
            seconds(lambda: reader.series(start_ms, end_ms)),
            seconds(first),
            seconds(lambda: _read(flat)),
        )
        aggregate_s, duckdb_s = interleaved(
            ROUNDS,
            seconds(lambda: reader.aggregate(start_ms, end_ms)),
            seconds(lambda: peer.execute(query, (start_ms, end_ms)).fetchall()),
        )
        later = Int64Column.of([time_ms + 500 for time_ms in series.time_ms.numbers()])
        both = [series, replace(series, time_ms=later)]
        merge_s, sort_s = interleaved(
            ROUNDS // 10, seconds(lambda: merge_series(*both)), seconds(lambda: _sorted(both))
        )
        peer.close()
        reader.close()
        history.close()
    bytes_a_day = day()
    flat_file = "the same bytes from a flat file"
    return [
        result("history-series", series_s, "us", flat_file, flat_s, least_ratio=0.2),
        result("history-series-first", first_s, "us", flat_file, flat_s, least_ratio=0.2),
        result("history-merge", merge_s, "us", "a sort in plain Python", sort_s, least_ratio=10.0),
        result(
            "history-aggregate",
            aggregate_s,
            "us",
            "DuckDB, its own table",
            duckdb_s,
            least_ratio=1.0,
        ),
        result(
            "history-bytes",
            bytes_a_day["pages_mb"],
            "MB a day, in pages",
            "the budget",
            BUDGET_MB,
            most=BUDGET_MB,
            written_mb=bytes_a_day["written_mb"],
        ),
    ]


def _sorted(parts: list[Series]) -> Series:
    """The parts merged without compiled code."""
    times = [time_ms for part in parts for time_ms in part.time_ms.numbers()]
    pick = itemgetter(*sorted(range(len(times)), key=times.__getitem__))
    columns = {
        name: Float32Column.of(pick([x for part in parts for x in part.values[name].numbers()]))
        for name in CHANNELS
    }
    return Series(Int64Column.of(pick(times)), columns)


def _read(path: Path) -> bytes:
    with path.open("rb", buffering=0) as file:
        return file.read()


def main() -> None:
    """Run the command."""
    what = sys.argv[1:]
    if what == ["day"]:
        print(json.dumps(written_in_a_day(EdgeHistory().commit_s, DAY_S // 4)))
    elif what == ["trade"]:
        for commit_s in (1.0, 10.0, 60.0, 600.0):
            print(json.dumps({"commit_s": commit_s} | written_in_a_day(commit_s, DAY_S // 4)))
    else:
        report(run())


if __name__ == "__main__":
    main()
