"""The climate job in DuckDB, on the same Parquet files."""

from __future__ import annotations

import time
from typing import Final

from bench.pipeline.measured import Measured, output, peak, rows_in, size_of
from fleet.lake.schema.folder import Lake
from fleet.lake.schema.tables.base import NODES, READINGS
from sensors.quality.flags import BAD

CLIMATE: Final = """
COPY (
  WITH areas AS (
    SELECT iad, node, arg_max(areas[1], time) AS area FROM {nodes} GROUP BY ALL
  ), judged AS (
    SELECT iad, coalesce(area, node) AS area, channel, date_trunc('hour', time) AS hour,
      CASE WHEN quality & {bad} = 0 AND NOT isnan(value) THEN value::DOUBLE END AS value
    FROM {readings} LEFT JOIN areas USING (iad, node)
  )
  SELECT iad, area, channel, hour, count(*) AS readings, count(*) - count(value) AS bad,
    min(value) AS minimum, avg(value) AS mean, max(value) AS maximum
  FROM judged GROUP BY ALL
) TO '{output}' (FORMAT parquet)
"""
# Rows that are not in both, or differ by more than the order of summation explains.
DIFFERENT: Final = """
SELECT count(*) FROM '{one}' a FULL JOIN '{other}' b USING (iad, area, channel, hour)
WHERE (a.readings, a.bad, a.minimum, a.maximum)
    IS DISTINCT FROM (b.readings, b.bad, b.minimum, b.maximum)
  OR (a.mean IS NULL) <> (b.mean IS NULL)
  OR abs(a.mean - b.mean) > 1e-9 * abs(a.mean)
"""


def climate(lake: Lake) -> Measured:
    """Run it on all processors; the connection is its session. AssertionError if Spark's climate is
    there and differs."""
    started = time.perf_counter()
    import duckdb

    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute(f"SET temp_directory = '{lake.root / 'local'}'")
        session_s = time.perf_counter() - started
        file = output(lake, "duckdb") / "climate.parquet"
        file.parent.mkdir(parents=True, exist_ok=True)
        query = CLIMATE.format(
            nodes=table(lake, NODES.name),
            readings=table(lake, READINGS.name),
            output=file,
            bad=BAD,
        )
        cpu_s = time.process_time()
        started = time.perf_counter()
        connection.execute(query)
        wall_s = time.perf_counter() - started
        cpu_s = time.process_time() - cpu_s
        spark = output(lake, "climate")
        if spark.is_dir():
            said = connection.execute(
                DIFFERENT.format(one=f"{spark}/*.parquet", other=file)
            ).fetchone()
            assert said == (0,), f"{said} hours differ between Spark and DuckDB"
    return Measured(
        session_s=session_s,
        wall_s=wall_s,
        cpu_s=cpu_s,
        rows=rows_in(file.parent),
        output=size_of(file.parent),
        python=peak("self"),
    )


def table(lake: Lake, name: str) -> str:
    """A table of the lake, as a query names it."""
    files = lake.table(name) / "*" / "*" / "*.parquet"
    return f"read_parquet('{files}', hive_partitioning = true)"
