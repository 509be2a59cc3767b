"""The cost of a step of the pipeline, and where its output lies."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from msgspec import Struct

from fleet.lake.schema.folder import Lake

OUTPUTS: Final = "measured"  # folder in the lake's


class Measured(Struct, frozen=True):
    """The cost of a step, without the start of its session, which is given separately. CPU time is
    of all processes; `shuffled` is in bytes written, `output` in bytes on disk.

    Memory, in bytes: `jvm` and `python` are the peaks of resident memory (driver and executors are
    one JVM), `heap` is the live heap of the JVM at the end.
    """

    session_s: float
    wall_s: float
    cpu_s: float
    rows: int
    output: int
    shuffled: int = 0
    jvm: int = 0
    heap: int = 0
    python: int = 0


def output(lake: Lake, name: str) -> Path:
    """Folder for a step's output."""
    return lake.root / OUTPUTS / name


def rows_in(folder: Path) -> int:
    """Rows of all Parquet files below `folder`."""
    import pyarrow.parquet as pq

    return sum(pq.read_metadata(file).num_rows for file in folder.rglob("*.parquet"))


def peak(process: int | str) -> int:
    """Peak resident memory of a process, in bytes."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))


def size_of(folder: Path) -> int:
    """Their size in bytes."""
    return sum(file.stat().st_size for file in folder.rglob("*.parquet"))
