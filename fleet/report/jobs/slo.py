"""SLO attainment by query class and policy."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - everybody calls it F

from fleet.lake.schema.tables.requests import ATTAINMENT
from fleet.report.jobs.requests import CLASS, class_name, response_ms, with_policy
from fleet.report.jobs.statistics import percentile, percentile_interval, ranked, share, wilson

PERCENTILES: Final = {"p50": 50.0, "p90": 90.0, "p99": 99.0, "p999": 99.9}


def attainment(queries: DataFrame, tasks: DataFrame) -> DataFrame:
    """`ATTAINMENT` of `QUERIES` and `TASKS`: a row for each policy and class.

    A query's policy is that of its tasks. A response time is from reception to answer, at the query
    scheduler. The attainment counts all that were not refused; an answer that is not complete did
    not keep the SLO, however fast it was, and its response time is among the percentiles.
    """
    keys = ("policy", *CLASS)
    asked = with_policy(queries, tasks).select(
        "policy",
        class_name(),
        "service",
        "percentile",
        "slo_ms",
        "status",
        "slo_met",
        response_ms(),
    )
    counted = (
        ranked(asked, keys, "response_ms")
        .groupBy(*keys)
        .agg(
            F.count("*").alias("queries"),
            *(F.count_if(F.col("status") == s).alias(s) for s in ("complete", "partial")),
            F.count_if(F.col("status") == "refused").alias("refused"),
            F.count_if("slo_met").alias("kept"),
            *(column for name, p in PERCENTILES.items() for column in _percentile(name, p)),
        )
    )
    taken = F.col("queries") - F.col("refused")
    low, high = wilson(F.col("kept"), taken)
    return counted.withColumns(
        {
            "attainment": share(F.col("kept"), taken),
            "attainment_low": low,
            "attainment_high": high,
        }
    ).select(*ATTAINMENT.names)


def _percentile(name: str, p: float) -> tuple[Column, ...]:
    low, high = percentile_interval("response_ms", p)
    return (
        percentile("response_ms", p).alias(f"{name}_ms"),
        low.alias(f"{name}_low_ms"),
        high.alias(f"{name}_high_ms"),
    )
