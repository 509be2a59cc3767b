"""Renders docs/results/pipeline.md: the sizes side by side."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from bench.pipeline.measure import HEAP, Measured
from bench.pipeline.scale import Size
from lab.provenance import Provenance

MIB: Final = 2**20
PAGE: Final = """\
# What the pipeline takes

Written by `python -m bench pipeline`.

{provenance}

Landings are made with a seed from real rooms (D. Hong, Q. Gu, K. Whitehouse, "High-dimensional Time
Series Clustering via Cross-Predictability", AISTATS 2017): one-minute means played at 1 Hz with
noise, in steps of 0.1 as a DHT22 has them, and with spikes, stuck, missing and drifting values, a
broken sensor, gaps, groups that come twice, late, or again with their clock put right. A *reading*
is one time at which a sensor was read; it has a temperature and a humidity, and so two rows in the
table `readings`.

{sizes}

## Time

Each step runs in a fresh process on `local[*]`: the landing into the tables (`ingest`), then from
these the climate by the hour and the health of all sensors, each written to Parquet. The start of
the session, {session} s whatever the size, is not in the seconds; whatever is loaded and compiled
at first use is. The smallest size is mostly that, so the cost of a reading falls at first.

{time}

**Growth** is the cost of a reading at the largest size over that at the smallest: {growth}.
At most 1.3 was aimed at. Over the size before the largest, where what is done once weighs less:
{last}; in CPU time, which other work on the machine stretches less: {last_cpu}.

## Memory and shuffles

Driver and executors are one JVM with a heap of {heap} at every size. *Alive* is its heap at the
end, after a collection; *JVM* and *Python* are the most that was resident.

{memory}

## Beside DuckDB

The climate of rooms by the hour, from the same Parquet files to the same rows (compared one by
one), with all processors, in the same run. A ratio is DuckDB's time over Spark's: below 1, DuckDB
was faster.

{duckdb}
"""


def page(sizes: Sequence[Size], provenance: Provenance) -> str:
    """The page, in Markdown."""
    sessions = [m.session_s for size in sizes for step, m in size.steps.items() if step != "duckdb"]
    return PAGE.format(
        provenance=provenance.table(),
        sizes=_sizes(sizes),
        session=f"{min(sessions):.0f} to {max(sessions):.0f}",
        time=_by_step(
            sizes,
            {
                "s": lambda m, _: f"{m.wall_s:.1f}",
                "CPU s": lambda m, _: f"{m.cpu_s:.1f}",
                "µs a reading": lambda m, n: f"{m.wall_s / n * 1e6:.2f}",
                "CPU µs a reading": lambda m, n: f"{m.cpu_s / n * 1e6:.2f}",
                "rows": lambda m, _: f"{m.rows:,}",
                "output, MiB": lambda m, _: f"{m.output / MIB:,.1f}",
            },
        ),
        growth=_growth(sizes),
        last=_growth(sizes[-2:]),
        last_cpu=_growth(sizes[-2:], lambda m: m.cpu_s),
        heap=f"{HEAP[:-1]} GiB",
        memory=_by_step(
            sizes,
            {
                "shuffled, MiB": lambda m, _: f"{m.shuffled / MIB:,.1f}",
                "bytes a reading": lambda m, n: f"{m.shuffled / n:.1f}",
                "alive, MiB": lambda m, _: f"{m.heap / MIB:,.0f}",
                "JVM, MiB": lambda m, _: f"{m.jvm / MIB:,.0f}",
                "Python, MiB": lambda m, _: f"{m.python / MIB:,.0f}",
            },
        ),
        duckdb=_duckdb(sizes),
    )


def _wall_s(measured: Measured) -> float:
    return measured.wall_s


def growth(
    sizes: Sequence[Size], step: str, seconds: Callable[[Measured], float] = _wall_s
) -> float:
    """Cost of a reading at the last size, over the first."""
    first, last = [seconds(size.steps[step]) / size.made.readings for size in (sizes[0], sizes[-1])]
    return last / first


def _growth(sizes: Sequence[Size], seconds: Callable[[Measured], float] = _wall_s) -> str:
    return ", ".join(f"{step} {growth(sizes, step, seconds):.2f}" for step in spark_steps(sizes))


def spark_steps(sizes: Sequence[Size]) -> list[str]:
    """The steps that Spark does."""
    return [step for step in sizes[0].steps if step != "duckdb"]


def _sizes(sizes: Sequence[Size]) -> str:
    rows = [
        [
            f"{size.made.readings:,}",
            f"{size.made.node_days:,}",
            f"{size.made.landed:,}",
            f"{size.made.files:,}",
            f"{size.made.size / MIB:,.0f}",
            f"{size.generated_s:.1f}",
        ]
        for size in sizes
    ]
    head = ["readings", "node-days", "in the landing", "files", "MiB", "made in, s"]
    return _table(head, rows)


def _by_step(sizes: Sequence[Size], columns: dict[str, Callable[[Measured, int], str]]) -> str:
    rows = [
        [step, f"{size.made.readings:,}"]
        + [told(size.steps[step], size.made.readings) for told in columns.values()]
        for step in spark_steps(sizes)
        for size in sizes
    ]
    return _table(["step", "readings", *columns], rows)


def _duckdb(sizes: Sequence[Size]) -> str:
    rows = []
    for size in sizes:
        spark, duck = size.steps["climate"], size.steps["duckdb"]
        rows.append(
            [
                f"{size.made.readings:,}",
                f"{spark.wall_s:.2f}",
                f"{duck.wall_s:.2f}",
                f"{duck.wall_s / spark.wall_s:.3f}",
                f"{duck.python / MIB:,.0f}",
            ]
        )
    head = ["readings", "Spark, s", "DuckDB, s", "ratio", "DuckDB's memory, MiB"]
    return _table(head, rows)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    rule = ["---" if name == "step" else "---:" for name in head]
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, rule, *rows))
