"""Hours of channels: what the climate and the drift of sensors are computed from."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - everybody calls it F

from fleet.report.jobs.health_readings import KEY, flagged, judged
from sensors.quality.flags import BAD, DRIFT


def hourly(readings: DataFrame) -> DataFrame:
    """One row for each channel, date and `hour`: `readings`, and `bad`, those whose value the node
    flagged or that have none; `minimum, total, maximum` of the others. `mean` is of those of them
    that the limits allow, too, and null without any; `drifts`: the node said so of one of these.

    One shuffle, with one row per hour and channel of each partition read.
    """
    value = F.col("value").cast("double")
    good = F.when(~flagged(BAD) & ~F.isnan("value"), value)
    usable = F.when(~flagged(BAD), F.col("usable"))
    rows = judged(readings).select(
        *KEY,
        "date",
        F.date_trunc("hour", "time").alias("hour"),
        good.alias("good"),
        usable.alias("usable"),
        flagged(DRIFT).alias("told"),
    )
    return rows.groupBy(*KEY, "date", "hour").agg(
        F.count(F.lit(1)).alias("readings"),
        F.count_if(F.isnull("good")).alias("bad"),
        F.min("good").alias("minimum"),
        F.sum("good").alias("total"),
        F.max("good").alias("maximum"),
        F.avg("usable").alias("mean"),
        F.max(F.when(F.isnotnull("usable"), F.col("told"))).alias("drifts"),
    )
