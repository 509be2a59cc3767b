"""Registry of report jobs: the table that each makes, and its inputs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from datetime import datetime, timedelta
from functools import cached_property
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - everybody calls it F

from fleet.lake.ingest.reading import read
from fleet.lake.schema.folder import Lake
from fleet.lake.schema.tables import base, placing, report, requests, sensing
from fleet.lake.schema.tables.model import Table
from fleet.report.jobs import climate, deadlines, health, load, models, slo, timing
from fleet.report.jobs import placing as placed
from fleet.report.jobs.contents import client, contents, pulled, quarantined
from fleet.report.jobs.worst import worst_sensors
from fleet.report.kept import HOURS, STEPS, KeptAggregates
from fleet.simulation.workload import WARM_UP

# Tasks of a query are dated by other masters' clocks, and a little later than the query.
SLACK: Final = timedelta(minutes=5)
# All others read records, and what is kept of the readings.
FROM_READINGS: Final = (report.WORST_SENSORS,)
Made = Callable[[Table], DataFrame]
Job = tuple[Table, Callable[[], DataFrame]]


class Sources:
    """The lake's tables between `since` and `until`.

    Pulls and the quarantine are dated by the operator's clock, after the data that they concern:
    all rows since `since` are used; of nodes all rows.
    """

    def __init__(
        self, spark: SparkSession, lake: Lake, since: datetime | None, until: datetime | None
    ) -> None:
        def of(table: Table) -> DataFrame:
            return read(spark, lake, table, since, until)

        def around(table: Table) -> DataFrame:
            return read(spark, lake, table, since and since - SLACK, until and until + SLACK)

        self.queries = of(base.QUERIES)
        self.tasks = of(base.TASKS)
        self.subtasks = of(base.SUBTASKS)
        self.events = of(base.EVENTS)
        self.processing = of(base.PROCESSING)
        self.moves = of(base.MOVES)
        self.placement = of(base.PLACEMENT)
        self.readings = of(base.READINGS)
        self.tasks_around = around(base.TASKS)
        self.subtasks_around = around(base.SUBTASKS)
        self._kept = KeptAggregates(spark, lake, since, until)
        self.nodes = read(spark, lake, base.NODES)
        self.pulls = read(spark, lake, base.PULLS, since)
        self.quarantine = read(spark, lake, base.QUARANTINE, since)

    @cached_property
    def hours(self) -> DataFrame:
        """The hours of all channels; the first use computes those that are not kept."""
        return self._kept.frame(HOURS)

    @cached_property
    def steps(self) -> DataFrame:
        """The same of days and steps of time."""
        return self._kept.frame(STEPS)

    def keep_aggregates(self, executor: Executor) -> None:
        """Compute hours and steps that are not kept, beside one another."""
        for each in [executor.submit(lambda: self.hours), executor.submit(lambda: self.steps)]:
            each.result()

    def is_empty(self) -> bool:
        """Whether there is no data in this time."""
        frames = (
            *(self.queries, self.readings, self.tasks, self.events),
            *(self.processing, self.moves),
        )
        return all(frame.isEmpty() for frame in frames)


def jobs(spark: SparkSession, lake: Lake, sources: Sources, made: Made) -> Iterator[Job]:
    """Each table with its job; `made` returns a table that was written before."""
    s = sources
    # A warm-up is another load: of one room each, and with pauses.
    asked, tasks, subtasks = (
        frame.where(F.col("label") != WARM_UP) for frame in (s.queries, s.tasks, s.subtasks)
    )
    yield requests.ATTAINMENT, lambda: slo.attainment(s.queries, s.tasks_around, s.subtasks_around)
    yield requests.TIME_SPENT, lambda: timing.time_spent(tasks, s.subtasks_around)
    yield requests.NODE_HOURS, lambda: deadlines.node_hours(subtasks)
    yield (
        requests.LOAD_CURVE,
        lambda: load.load_curve(asked, s.tasks_around, s.subtasks_around, load.window_s(asked)),
    )
    yield placing.PROCESSED, lambda: placed.processed(s.processing)
    yield placing.MASTER_LOAD, lambda: placed.master_load(s.processing, s.moves)
    yield placing.MOVED, lambda: placed.moved(s.moves)
    yield (
        placing.MOVE_EFFECTS,
        lambda: placed.move_effects(s.processing, s.moves, s.placement),
    )
    yield sensing.CLIMATE_HOURS, lambda: climate.climate_of(s.hours, s.nodes)
    yield sensing.CLIMATE_DAYS, lambda: climate.climate_days(made(sensing.CLIMATE_HOURS))
    yield sensing.SENSOR_HEALTH, lambda: health.health_of(s.steps, s.hours, s.nodes)
    yield (
        report.WORST_SENSORS,
        lambda: worst_sensors(s.readings, made(sensing.SENSOR_HEALTH)),
    )
    yield report.PULLED, lambda: pulled(s.pulls)
    yield report.QUARANTINED, lambda: quarantined(s.quarantine)
    yield report.CLIENT, lambda: client(spark, lake.client, s.queries)
    yield (
        report.CONTENTS,
        lambda: contents(
            s.queries,
            s.tasks,
            s.subtasks,
            s.events,
            made(sensing.SENSOR_HEALTH),
            s.nodes,
            s.pulls,
            s.quarantine,
        ),
    )


def write_models(lake: Lake, sources: Sources) -> None:
    """Write the input of `fleet plan`, from the same time as the report."""
    s = sources
    frames = {
        "unloaded": models.unloaded(s.subtasks),
        "arrivals": models.arrivals(s.queries),
        "sizes": models.sizes(s.queries, s.tasks_around, s.subtasks_around),
    }
    models.write_models(frames, lake)
