"""``python -m bench report``: `fleet report` of a day of the demo's fleet, beside DuckDB.

The command runs as a user runs it, Java's start included: on a lake of which nothing was reported
yet, and again. DuckDB computes most of the same aggregates from the same files: climate, steps
between readings with spikes, attainment, time spent and node hours; no flatlines, load curve, page.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bench.output import Result, result

if TYPE_CHECKING:
    from fleet.lake.schema.folder import Lake

BUILD: Final = Path(__file__).resolve().parents[2] / "build"  # on a disk
FLEET: Final = str(Path(sys.executable).with_name("fleet"))
GOAL_S: Final = 30.0
# By channel and step between readings; spikes are held against two readings on either side.
STEPS: Final = """
  WITH timed AS (
    SELECT *, date_diff('millisecond', lag(time) OVER w, time) AS step_ms,
      lag(value, 1) OVER w AS a, lag(value, 2) OVER w AS b,
      lead(value, 1) OVER w AS c, lead(value, 2) OVER w AS d
    FROM {readings} WINDOW w AS (PARTITION BY iad, node, sensor, channel, date ORDER BY time, value)
  )
  SELECT iad, node, sensor, channel, date, step_ms, count(*) AS readings,
    count_if(isnan(value)) AS missing, min(time) AS first, max(time) AS last,
    count_if((abs(value - a) <= 2)::INT + (abs(value - b) <= 2)::INT
      + (abs(value - c) <= 2)::INT + (abs(value - d) <= 2)::INT < 2) AS spikes
  FROM timed GROUP BY ALL
"""
DAYS: Final = """
  SELECT iad, area, channel, hour::DATE AS day, sum(readings) AS readings, min(minimum) AS minimum,
    sum(mean * (readings - bad)) / sum(readings - bad) AS mean, max(maximum) AS maximum
  FROM '{output}/climate.parquet' GROUP BY ALL
"""
ATTAINMENT: Final = """
  SELECT policy, q.label, count(*) AS queries, count_if(slo_met) AS kept,
    quantile_disc(q.aggregated_ms, [0.5, 0.9, 0.99, 0.999]) AS percentiles
  FROM {queries} q JOIN {tasks} t ON t.task = q.tasks[1] GROUP BY ALL
"""
TIME_SPENT: Final = """
  SELECT iad, policy, count(*) AS subtasks, avg(dispatched_ms - enqueued_ms) AS queueing_ms,
    avg(result_ms - dispatched_ms) AS unloaded_ms, avg(node_wait_ms) AS node_wait_ms,
    quantile_disc(dispatched_ms - enqueued_ms, 0.99) AS queueing_p99_ms,
    quantile_disc(result_ms - dispatched_ms, 0.99) AS unloaded_p99_ms
  FROM {subtasks} WHERE outcome = 'ok' AND dispatches = 1 GROUP BY ALL
"""
NODE_HOURS: Final = """
  SELECT iad, node, date_trunc('hour', time) AS hour, count(*) AS subtasks,
    count_if(missed_deadline) AS missed, avg(dispatched_ms - enqueued_ms) AS queueing_ms
  FROM {subtasks} GROUP BY ALL
"""
ALL: Final = {
    "days": DAYS, "steps": STEPS, "attainment": ATTAINMENT, "time_spent": TIME_SPENT,
    "node_hours": NODE_HOURS,
}  # fmt: skip


def run() -> Iterator[Result]:
    """Goal of both reports: 30 s, on a quiet machine of two processors. AssertionError if the
    climate differs from DuckDB's, or the second report from the first."""
    # Arrow is imported only when this benchmark runs.
    from bench.pipeline.day import write_day
    from fleet.lake.schema.folder import Lake

    BUILD.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="report-", dir=BUILD) as folder:
        lake = Lake(Path(folder))
        readings = write_day(lake)
        first_s = _report(lake, "first")
        again_s = _report(lake, "again")
        duckdb_s = _duckdb(lake)
        for name in ("climate_hours", "sensor_health", "contents"):
            both = [
                (lake.reports / each / "data" / f"{name}.csv").read_bytes()
                for each in ("first", "again")
            ]
            assert both[0] == both[1], f"{name} differs in the second report"
    for name, took_s in (("report-day", first_s), ("report-day-again", again_s)):
        peer = "DuckDB, most of the aggregates"
        yield result(name, took_s, "s", peer, duckdb_s, most=GOAL_S, readings=readings)


def _report(lake: Lake, name: str) -> float:
    command = (FLEET, "report", "--no-ingest", "--lake", str(lake.root))
    started = time.perf_counter()
    subprocess.run(
        [*command, "--output", str(lake.reports / name)],
        check=True,
        stdout=subprocess.DEVNULL,
        env=os.environ | {"COLUMNS": "100"},
    )
    return time.perf_counter() - started


def _duckdb(lake: Lake) -> float:
    """Seconds of a process of its own, its start included."""
    started = time.perf_counter()
    subprocess.run([sys.executable, "-m", "bench.pipeline.report", str(lake.root)], check=True)
    return time.perf_counter() - started


def main() -> None:
    """DuckDB's part: ``python -m bench.pipeline.report LAKE``."""
    import duckdb

    from bench.pipeline.duck import CLIMATE, DIFFERENT, table
    from bench.pipeline.measured import output
    from fleet.lake.schema.folder import Lake
    from fleet.lake.schema.tables import base
    from sensors.quality.flags import BAD

    lake = Lake(Path(sys.argv[1]))
    folder = output(lake, "duckdb")
    folder.mkdir(parents=True)
    names = {
        each.name: table(lake, each.name)
        for each in (base.READINGS, base.NODES, base.QUERIES, base.TASKS, base.SUBTASKS)
    }
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute("SET enable_progress_bar = false")
        climate = folder / "climate.parquet"
        connection.execute(CLIMATE.format(**names, output=climate, bad=BAD))
        for name, query in ALL.items():
            told = query.format(**names, output=folder)
            connection.execute(f"COPY ({told}) TO '{folder / name}.parquet' (FORMAT parquet)")
        spark = lake.reports / "first" / "data" / "climate_hours.parquet"
        said = connection.execute(DIFFERENT.format(one=spark, other=climate)).fetchone()
        assert said == (0,), f"{said} hours differ between Spark and DuckDB"


if __name__ == "__main__":
    main()
