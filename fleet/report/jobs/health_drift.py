"""Sensor drift: channels against co-located channels of the same name, hour by hour.

The rule of `sensors.quality.colocated` as far as a grid of hours goes: the residual is against the
median of all, and its mean of the last day is held against that of the first. Its baseline learns
for ever and stands still while a channel drifts; here it is the first of the last AGED_S.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - everybody calls it F

from fleet.report.jobs.health_limits import limit
from fleet.report.jobs.health_readings import KEY
from sensors.quality.colocated import ABSOLUTE, AGED_S, LEARNT_S, SMOOTHED_S

# Of two channels it is impossible to say which one drifted.
LEAST: Final = 3


def drift(hours: DataFrame, areas: DataFrame) -> DataFrame:
    """One row for each channel: `drift`, the mean residual of its last day, and `baseline`, that of
    its first; null where it never had two beside it. `drifts`: they are apart by more than the
    limit, or the channel is off by ABSOLUTE times that, or the node said so in its last hour.

    `hours` are those of `hourly`; `areas` has `iad, node, area`; a place is the area above a node's
    own. Shuffles a row an hour and channel.
    """
    hours = _residuals(_hours(hours, areas))
    channel = Window.partitionBy(*KEY)
    last_s = F.max("hour").over(channel)
    hours = hours.withColumn("last_s", last_s).where(F.col("hour") > F.col("last_s") - AGED_S)
    # Only hours with others beside it count.
    followed = F.when(F.isnotnull("residual"), F.col("hour"))
    hours = hours.withColumns(
        {"begun_s": F.min(followed).over(channel), "ended_s": F.max(followed).over(channel)}
    )
    young = F.col("hour") < F.col("begun_s") + LEARNT_S
    late = F.col("hour") > F.col("ended_s") - SMOOTHED_S
    told = hours.groupBy(*KEY).agg(
        F.avg(F.when(late, F.col("residual"))).alias("drift"),
        F.avg(F.when(young, F.col("residual"))).alias("baseline"),
        F.max((F.col("hour") == F.col("last_s")) & F.col("told")).alias("told"),
    )
    off, moved = F.abs("drift") / ABSOLUTE, F.abs(F.col("drift") - F.col("baseline"))
    found = F.coalesce(F.greatest(off, moved) > limit("drift"), F.lit(False))
    return told.select(*KEY, "drift", "baseline", (found | F.col("told")).alias("drifts"))


def _hours(hours: DataFrame, areas: DataFrame) -> DataFrame:
    """Those with a mean; `hour` in seconds since 1970."""
    place = F.regexp_replace(F.coalesce("area", "node"), "/[^/]*$", "")
    means = hours.where(F.isnotnull("mean")).select(
        *KEY, F.unix_seconds("hour").alias("hour"), "mean", F.col("drifts").alias("told")
    )
    return means.join(F.broadcast(areas), ["iad", "node"], "left").withColumn("place", place)


def _residuals(hours: DataFrame) -> DataFrame:
    beside = Window.partitionBy("iad", "place", "channel", "hour")
    residual = F.col("mean") - F.percentile("mean", 0.5).over(beside)
    enough = F.count(F.lit(1)).over(beside) >= LEAST
    return hours.withColumn("residual", F.when(enough, residual))
