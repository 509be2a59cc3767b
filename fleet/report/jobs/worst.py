"""Values of the channels with the worst verdicts, for their plots."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - everybody calls it F

from fleet.lake.schema.tables.report import WORST_SENSORS
from sensors.quality.flags import BAD

DRAWN: Final = 6
STEPS: Final = 180
KEY: Final = ("iad", "node", "sensor", "channel")
# As fleet.report.jobs.health orders them.
VERDICTS: Final = (
    "silent", "broken", "out_of_range", "flatline", "drift", "gaps", "missing", "spikes",
)  # fmt: skip


def worst_first() -> tuple[Column | str, ...]:
    """Channels by verdict; of one verdict, those first that give least."""
    known = F.array(*[F.lit(verdict) for verdict in VERDICTS])
    place = F.array_position(known, F.col("verdict"))
    is_known = place > 0
    # A verdict that is new here stands after those that are known, and before ok.
    rank = F.when(is_known, place).when(F.col("verdict") != "ok", 90).otherwise(99)
    return rank, F.col("success"), *KEY


def worst_sensors(readings: DataFrame, health: DataFrame) -> DataFrame:
    """WORST_SENSORS of `readings`, for the first DRAWN channels of `health` (SENSOR_HEALTH) that
    are not ok: at most STEPS intervals of equal length each. An interval without readings has no
    row, so a gap is seen."""
    worst = (
        health.where(F.col("verdict") != "ok")
        .orderBy(*worst_first())
        .limit(DRAWN)
        .select(*KEY, "first", "last")
    )
    step_s = F.greatest(
        F.lit(1), F.ceil((F.unix_timestamp("last") - F.unix_timestamp("first") + 1) / STEPS)
    )
    start = F.timestamp_seconds(F.floor(F.unix_timestamp("time") / step_s) * step_s)
    good = (F.col("quality").bitwiseAND(F.lit(BAD)) == 0) & ~F.isnan("value")
    value = F.when(good, F.col("value").cast("double"))
    return (
        readings.join(F.broadcast(worst), list(KEY))
        .select(*KEY, start.alias("time"), value.alias("value"))
        .groupBy(*KEY, "time")
        .agg(
            F.count(F.lit(1)).alias("readings"),
            F.count_if(F.isnull("value")).alias("bad"),
            F.min("value").alias("minimum"),
            F.avg("value").alias("mean"),
            F.max("value").alias("maximum"),
        )
        .select(*WORST_SENSORS.names)
    )
