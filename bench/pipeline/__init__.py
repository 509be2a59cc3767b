"""The pipeline at scale: ``python -m bench pipeline [--millions 1 10 100] [--results FOLDER]``."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from bench.output import Result, result

if TYPE_CHECKING:
    from bench.pipeline.scale import Size

BUILD = Path(__file__).resolve().parents[2] / "build"  # on a disk


def run(arguments: Sequence[str] = ()) -> Iterator[Result]:
    """Goals: `growth`, the cost of a reading over that at the smallest size, at most 1.3 from 1 to
    100 million; `growth_of_last`, over that at the size before; `heap_mib`, the live heap at the
    end, the same. pipeline-climate is compared with DuckDB, which is faster on one machine."""
    parser = argparse.ArgumentParser("python -m bench pipeline")
    parser.add_argument("--millions", type=float, nargs="+", default=[1.0], help="of readings")
    parser.add_argument("--directory", type=Path, default=BUILD, help="for folders that go again")
    parser.add_argument("--data", type=Path, help="building_climate.csv.gz; else shipped rooms")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--results", type=Path, help="folder for pipeline.md and its tables")
    chosen = parser.parse_args(arguments)
    # Arrow is imported only when this benchmark runs.
    from bench.pipeline import page, scale
    from lab import pages
    from lab.provenance import now

    provenance = now(shlex.join(["python", "-m", "bench", "pipeline", *arguments]))
    sizes: list[Size] = []
    for size in scale.run(sorted(chosen.millions), chosen.directory, chosen.seed, chosen.data):
        sizes.append(size)
        yield from _results(sizes)
    if chosen.results:
        pages.write(chosen.results, page.NAME, page.tables(sizes), provenance)


def _results(sizes: list[Size]) -> Iterator[Result]:
    """The results of the last size."""
    from bench.pipeline import page

    size = sizes[-1]
    readings = size.made.readings
    for step in page.spark_steps(sizes):
        took = size.steps[step]
        duckdb = size.steps["duckdb"].wall_s if step == "climate" else None
        yield result(
            f"pipeline-{step}",
            took.wall_s,
            "s",
            "DuckDB, all processors" if duckdb else None,
            duckdb,
            readings=readings,
            us_a_reading=round(took.wall_s / readings * 1e6, 3),
            growth=round(page.growth(sizes, step), 3),
            growth_of_last=round(page.growth(sizes[-2:], step), 3),
            cpu_s=round(took.cpu_s, 2),
            session_s=round(took.session_s, 2),
            shuffled_bytes_a_reading=round(took.shuffled / readings, 1),
            rows=took.rows,
            output_mib=round(took.output / page.MIB, 1),
            heap_mib=round(took.heap / page.MIB),
            jvm_mib=round(took.jvm / page.MIB),
            python_mib=round(took.python / page.MIB),
        )
    yield result(
        "pipeline-generate", size.generated_s, "s", readings=readings, landed=size.made.landed
    )
