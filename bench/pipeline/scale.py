"""The pipeline at several sizes: the cost of a reading, and whether it grows."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from bench.pipeline.generate import Made, generate
from bench.pipeline.measured import Measured
from fleet.lake.schema.folder import Lake

ROOT: Final = Path(__file__).resolve().parents[2]
# DuckDB's step follows Spark's, and compares both results.
STEPS: Final = ("ingest", "climate", "health", "duckdb")


class Size(Struct, frozen=True):
    """One size: the generated data, its duration in seconds, and the measurement of each step."""

    made: Made
    generated_s: float
    steps: dict[str, Measured]


def run(
    millions: Sequence[float], directory: Path, seed: int = 1, data: Path | None = None
) -> Iterator[Size]:
    """Measure about this many million readings, each size in a temporary folder in `directory`.
    RuntimeError if a step fails; its output is on stderr."""
    # Nothing is left in `directory`.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    directory.mkdir(parents=True, exist_ok=True)
    for each in millions:
        with tempfile.TemporaryDirectory(prefix="pipeline-", dir=directory) as folder:
            lake = Lake(Path(folder))
            _tell(f"{each:g} million readings in {folder}")
            started = time.perf_counter()
            made = generate(lake, round(each * 1e6), seed, data, _tell)
            generated_s = time.perf_counter() - started
            steps = {}
            for step in STEPS:
                steps[step] = _measured(step, lake)
                # Left by a shuffle.
                shutil.rmtree(lake.root / "local", ignore_errors=True)
                _tell(f"{step}: {steps[step].wall_s:.1f} s")
            yield Size(made, generated_s, steps)


def _measured(step: str, lake: Lake) -> Measured:
    done = subprocess.run(
        [sys.executable, "-m", "bench.pipeline.measure", step, str(lake.root)],
        check=False,  # the step has reported what is wrong
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    if done.returncode:
        raise RuntimeError(f"{step} failed with {done.returncode}")
    return msgspec.json.decode(done.stdout.splitlines()[-1], type=Measured)


def _tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
