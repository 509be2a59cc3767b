"""Room climate by hour and by day."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - everybody calls it F

from fleet.lake.schema.tables.sensing import CLIMATE_DAYS, CLIMATE_HOURS
from fleet.report.jobs.areas import with_area
from fleet.report.jobs.hourly import hourly


def climate_hours(readings: DataFrame, nodes: DataFrame) -> DataFrame:
    """CLIMATE_HOURS of `readings`; `nodes` gives the areas.

    Bad values and NaN are counted and used nowhere else; an hour with no other values has nulls.
    """
    return climate_of(hourly(readings), nodes)


def climate_of(hours: DataFrame, nodes: DataFrame) -> DataFrame:
    """The same of `hourly`."""
    grouped = with_area(hours, nodes).groupBy("iad", "area", "channel", "hour")
    rolled = grouped.agg(
        F.sum("readings").alias("readings"),
        F.sum("bad").alias("bad"),
        F.min("minimum").alias("minimum"),
        _ratio(F.sum("total"), F.sum(F.col("readings") - F.col("bad"))).alias("mean"),
        F.max("maximum").alias("maximum"),
    )
    return rolled.select(*CLIMATE_HOURS.names)


def climate_days(hours: DataFrame) -> DataFrame:
    """CLIMATE_DAYS of `climate_hours`: the same as from the readings, because an hour's mean is
    weighted by its number of good values."""
    good = F.col("readings") - F.col("bad")
    grouped = hours.groupBy("iad", "area", "channel", F.to_date("hour").alias("day"))
    rolled = grouped.agg(
        F.sum("readings").alias("readings"),
        F.sum("bad").alias("bad"),
        F.min("minimum").alias("minimum"),
        _ratio(F.sum(F.col("mean") * good), F.sum(good)).alias("mean"),
        F.max("maximum").alias("maximum"),
    )
    return rolled.select(*CLIMATE_DAYS.names)


def _ratio(total: Column, count: Column) -> Column:
    return F.when(count > 0, total / count)
