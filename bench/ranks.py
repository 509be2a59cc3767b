"""The p99 of all subtasks of an (iad, policy): ``python -m bench ranks [--millions 1 10 100]``.

Each size is computed by `percentiles`, as `fleet report` does it, and, where memory allows, by the
ranks of a sort, which one task makes for a group.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from bench.output import Result, result

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

KEYS = ("iad", "policy")
NAMES = {"queueing_ms": "queueing_p99_ms", "unloaded_ms": "unloaded_p99_ms"}
WARM_UP = 200_000
MAX_GROWTH = 1.3  # from the smallest size
# At 100 million the sort's Java ends for want of its 2 GB.
MOST_SORTED = 20_000_000


def run(arguments: Sequence[str] = ()) -> Iterator[Result]:
    """Goal: `growth`, the processor time of a subtask over that at the smallest size, at most
    1.3 from 1 to 100 million."""
    parser = argparse.ArgumentParser("python -m bench ranks")
    parser.add_argument(
        "--millions", type=float, nargs="+", default=[1.0, 10.0, 100.0], help="of subtasks"
    )
    chosen = parser.parse_args(arguments)
    from fleet.spark.session import open_session

    with open_session("bench", settings={"spark.driver.memory": "2g"}) as spark:
        _cpu_s(spark, _counted, WARM_UP)
        _cpu_s(spark, _sorted, WARM_UP)
        least_us = 0.0
        for millions in sorted(chosen.millions):
            subtasks = round(millions * 1e6)
            cpu_s, found = _cpu_s(spark, _counted, subtasks)
            peer: tuple[()] | tuple[str, float] = ()
            if subtasks <= MOST_SORTED:
                sorted_s, expected = _cpu_s(spark, _sorted, subtasks)
                assert found == expected, "the percentiles differ"
                peer = "ranks of a sort", sorted_s / subtasks
            us = cpu_s / subtasks * 1e6
            least_us = least_us or us
            yield result(
                f"ranks-{millions:g}-million",
                cpu_s / subtasks,
                "us",
                *peer,
                also={f"growth ≤ {MAX_GROWTH:g}": us / least_us <= MAX_GROWTH},
                subtasks=subtasks,
                growth=round(us / least_us, 3),
            )


def _subtasks(spark: SparkSession, count: int) -> DataFrame:
    """Waits that are exponential, times that are log-normal, of two IADs and two policies."""
    return spark.range(count, numPartitions=16).selectExpr(
        "concat('iad', id % 2) AS iad",
        "IF(id % 3 = 0, 'fifo', 'edfq') AS policy",
        "-20 * ln(1 - rand(1)) AS queueing_ms",
        "exp(4 + 0.5 * randn(2)) AS unloaded_ms",
    )


def _counted(frame: DataFrame) -> DataFrame:
    from fleet.report.jobs.statistics import percentiles

    return percentiles(frame, KEYS, 99.0, NAMES)


def _sorted(frame: DataFrame) -> DataFrame:
    from fleet.report.jobs.statistics import percentile, ranked

    both = ranked(ranked(frame, KEYS, "queueing_ms"), KEYS, "unloaded_ms")
    return both.groupBy(*KEYS).agg(*[percentile(v, 99.0).alias(n) for v, n in NAMES.items()])


def _cpu_s(
    spark: SparkSession, way: Callable[[DataFrame], DataFrame], count: int
) -> tuple[float, list[tuple[object, ...]]]:
    """Processor time of Java for one way, compiling it included, and what it found."""
    java = int(spark._jvm.java.lang.ProcessHandle.current().pid())  # type: ignore[union-attr] # noqa: SLF001 - no other way
    clock = ~java << 3 | 2  # as clock_getcpuclockid(3) makes it
    before_s = time.clock_gettime(clock)
    rows = sorted(tuple(row) for row in way(_subtasks(spark, count)).collect())
    return time.clock_gettime(clock) - before_s, rows
