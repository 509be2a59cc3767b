"""One step of the pipeline in a process of its own: ``python -m bench.pipeline.measure STEP LAKE``.

Prints one line of JSON, a `Measured`.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from bench.pipeline.measured import Measured, output, peak, rows_in, size_of
from fleet.lake.schema.folder import Lake
from fleet.lake.schema.tables.base import NODES, READINGS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

HEAP: Final = "2g"  # for all sizes: memory that grows with the data would not fit


def ingest(spark: SparkSession, lake: Lake) -> int:
    """From the landing into the tables; returns rows of readings."""
    from fleet.lake.ingest.stream import ingest as whole

    whole(spark, lake)
    return rows_in(lake.table(READINGS.name))


def climate(spark: SparkSession, lake: Lake) -> int:
    """Climate by the hour."""
    from fleet.report.jobs.climate import climate_hours

    return _written(spark, lake, "climate", climate_hours)


def health(spark: SparkSession, lake: Lake) -> int:
    """Health of all sensors."""
    from fleet.report.jobs.health import sensor_health

    return _written(spark, lake, "health", sensor_health)


def _written(
    spark: SparkSession, lake: Lake, name: str, job: Callable[[DataFrame, DataFrame], DataFrame]
) -> int:
    from fleet.lake.ingest.reading import read

    made = job(read(spark, lake, READINGS), read(spark, lake, NODES))
    made.write.mode("overwrite").parquet(str(output(lake, name)))
    return rows_in(output(lake, name))


STEPS: Final = {"ingest": ingest, "climate": climate, "health": health}


def measure(step: str, lake: Lake) -> Measured:
    """Run one step."""
    started = time.perf_counter()
    with _session(lake) as spark:
        jvm = int(spark._jvm.java.lang.ProcessHandle.current().pid())  # noqa: SLF001 - no other way
        session_s = time.perf_counter() - started
        cpu_s = _cpu_s(jvm) + time.process_time()
        started = time.perf_counter()
        rows = STEPS[step](spark, lake)
        wall_s = time.perf_counter() - started
        return Measured(
            session_s=session_s,
            wall_s=wall_s,
            cpu_s=_cpu_s(jvm) + time.process_time() - cpu_s,
            rows=rows,
            output=size_of(lake.tables if step == "ingest" else output(lake, step)),
            shuffled=_shuffled(spark),
            heap=_heap(spark),
            jvm=peak(jvm),
            python=peak("self"),
        )


@contextmanager
def _session(lake: Lake) -> Iterator[SparkSession]:
    from fleet.spark.session import open_session

    settings = {"spark.driver.memory": HEAP, "spark.local.dir": str(lake.root / "local")}
    with open_session("bench", settings=settings) as spark:
        yield spark


def _cpu_s(pid: int) -> float:
    return time.clock_gettime(~pid << 3 | 2)  # as clock_getcpuclockid(3) makes it


def _shuffled(spark: SparkSession) -> int:
    context: Any = spark.sparkContext._jsc.sc()  # noqa: SLF001 - Python has no metrics of jobs
    context.listenerBus().waitUntilEmpty()
    executors = context.statusStore().executorList(False)
    return sum(executors.apply(i).totalShuffleWrite() for i in range(executors.size()))


def _heap(spark: SparkSession) -> int:
    machine: Any = spark._jvm  # noqa: SLF001 - Python knows nothing of the heap
    machine.java.lang.System.gc()
    runtime = machine.java.lang.Runtime.getRuntime()
    return int(runtime.totalMemory() - runtime.freeMemory())


def main() -> None:
    """Run the command."""
    step, root = sys.argv[1:]
    lake = Lake(Path(root))
    if step == "duckdb":
        from bench.pipeline.duck import climate as beside

        measured = beside(lake)
    else:
        measured = measure(step, lake)
    print(msgspec.json.encode(measured).decode())


if __name__ == "__main__":
    main()
