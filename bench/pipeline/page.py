"""Tables of docs/results/pipeline.md: the sizes side by side."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from bench.pipeline.measured import Measured
from bench.pipeline.scale import Size
from fleet.terminal.tables import Table

NAME: Final = "pipeline"
MIB: Final = 2**20


def tables(sizes: Sequence[Size]) -> dict[str, Table]:
    """The tables of the page."""
    return {
        "sizes": _sizes(sizes),
        "session": _session(sizes),
        "time": _by_step(
            "Time",
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
        "growth": _growth(sizes),
        "memory": _by_step(
            "Memory and shuffles",
            sizes,
            {
                "shuffled, MiB": lambda m, _: f"{m.shuffled / MIB:,.1f}",
                "bytes a reading": lambda m, n: f"{m.shuffled / n:.1f}",
                "alive, MiB": lambda m, _: f"{m.heap / MIB:,.0f}",
                "JVM, MiB": lambda m, _: f"{m.jvm / MIB:,.0f}",
                "Python, MiB": lambda m, _: f"{m.python / MIB:,.0f}",
            },
        ),
        "duckdb": _duckdb(sizes),
    }


def _wall_s(measured: Measured) -> float:
    return measured.wall_s


def growth(
    sizes: Sequence[Size], step: str, seconds: Callable[[Measured], float] = _wall_s
) -> float:
    """Cost of a reading at the last size, over the first."""
    first, last = [seconds(size.steps[step]) / size.made.readings for size in (sizes[0], sizes[-1])]
    return last / first


def _growth(sizes: Sequence[Size]) -> Table:
    rows = [
        (
            step,
            f"{growth(sizes, step):.2f}",
            f"{growth(sizes[-2:], step):.2f}",
            f"{growth(sizes[-2:], step, lambda m: m.cpu_s):.2f}",
        )
        for step in spark_steps(sizes)
    ]
    headings = ("step", "over the smallest", "over the size before", "the same in CPU time")
    return Table("Growth of the cost of a reading", headings, rows)


def _session(sizes: Sequence[Size]) -> Table:
    took = [m.session_s for size in sizes for step, m in size.steps.items() if step != "duckdb"]
    headings = ("least, s", "most, s")
    return Table("Start of a session", headings, [(f"{min(took):.0f}", f"{max(took):.0f}")], left=0)


def spark_steps(sizes: Sequence[Size]) -> list[str]:
    """The steps that Spark does."""
    return [step for step in sizes[0].steps if step != "duckdb"]


def _sizes(sizes: Sequence[Size]) -> Table:
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
    headings = ("readings", "node-days", "in the landing", "files", "MiB", "made in, s")
    return Table("Sizes", headings, rows, left=0)


def _by_step(
    title: str, sizes: Sequence[Size], columns: dict[str, Callable[[Measured, int], str]]
) -> Table:
    rows = [
        [step, f"{size.made.readings:,}"]
        + [told(size.steps[step], size.made.readings) for told in columns.values()]
        for step in spark_steps(sizes)
        for size in sizes
    ]
    return Table(title, ("step", "readings", *columns), rows)


def _duckdb(sizes: Sequence[Size]) -> Table:
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
    headings = ("readings", "Spark, s", "DuckDB, s", "ratio", "DuckDB's memory, MiB")
    return Table("Beside DuckDB", headings, rows, left=0)
