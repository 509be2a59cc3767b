"""Sources of a report: counts by IAD, host and reason, and clients' own measurements."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - everybody calls it F

from fleet.lake.schema.tables.report import CLIENT, CONTENTS, PULLED, QUARANTINED
from fleet.report.jobs.requests import response_ms
from fleet.report.jobs.statistics import percentile, ranked, share, total

SUCCEEDED: Final = ("done", "bounded")
EXPIRED: Final = ("expired_files", "expired_groups", "expired_readings")
# Size limit for results.json of a run; a larger file is something else.
MAX_BYTES: Final = 16_000_000


def contents(
    queries: DataFrame,
    tasks: DataFrame,
    subtasks: DataFrame,
    events: DataFrame,
    health: DataFrame,
    nodes: DataFrame,
    pulls: DataFrame,
    quarantine: DataFrame,
) -> DataFrame:
    """CONTENTS: one row for each known IAD. `health` is SENSOR_HEALTH: a sensor's number of
    readings is that of its fullest channel."""
    sensors = health.groupBy("iad", "node", "sensor").agg(
        F.max("readings").alias("readings"),
        F.min("first").alias("first"),
        F.max("last").alias("last"),
    )
    known = nodes.select("iad", "node").union(health.select("iad", "node")).distinct()
    failed = F.count_if(~F.col("outcome").isin(*SUCCEEDED))
    parts = (
        _counted(queries, "queries", "time"),
        _counted(tasks, "tasks", "time"),
        _counted(subtasks, "subtasks"),
        _counted(events, "events", "time"),
        _counted(known, "nodes"),
        _counted(quarantine, "quarantined"),
        sensors.groupBy("iad").agg(
            F.sum("readings").alias("readings"),
            F.min("first").alias("first"),
            F.max("last").alias("last"),
        ),
        pulls.groupBy("iad").agg(
            F.count("*").alias("pulls"),
            failed.alias("failed"),
            *[total(name).alias(name) for name in EXPIRED],
        ),
    )
    whole = parts[0]
    for part in parts[1:]:
        whole = whole.unionByName(part, allowMissingColumns=True)
    counts = [c.name for c in CONTENTS.columns if c.type == "bigint"]
    return (
        whole.groupBy("iad")
        .agg(
            F.min("first").alias("first"),
            F.max("last").alias("last"),
            *[F.coalesce(total(name), F.lit(0)).alias(name) for name in counts],
        )
        .select(*CONTENTS.names)
    )


def _counted(frame: DataFrame, name: str, time: str | None = None) -> DataFrame:
    span = (F.min(time).alias("first"), F.max(time).alias("last")) if time else ()
    return frame.groupBy("iad").agg(F.count("*").alias(name), *span)


def pulled(pulls: DataFrame) -> DataFrame:
    """PULLED: one row for each host that was pulled, or should have been."""
    return (
        pulls.groupBy("iad", "host")
        .agg(
            F.count("*").alias("pulls"),
            F.count_if(~F.col("outcome").isin(*SUCCEEDED)).alias("failed"),
            F.max("time").alias("last"),
            F.max_by("outcome", "time").alias("outcome"),
            F.max_by("error", "time").alias("error"),
            total("bytes").alias("bytes"),
            *[total(name).alias(name) for name in EXPIRED],
        )
        .select(*PULLED.names)
    )


def quarantined(quarantine: DataFrame) -> DataFrame:
    """QUARANTINED: one row per IAD and reason."""
    return (
        quarantine.groupBy("iad", "reason")
        .agg(F.count("*").alias("items"), F.min("text").alias("example"))
        .select(*QUARANTINED.names)
    )


class _Class(Struct):
    """The part of fleet.simulation.measures.ClassSummary that is shown."""

    kind: str
    slo_ms: float
    n: int
    p50_ms: float | None
    p95_ms: float | None
    p99_ms: float | None
    within_slo: float | None
    refused: int = 0
    partial: int = 0
    unanswered: int = 0


class _Run(Struct):
    policy: str
    classes: list[_Class]


class _Results(Struct):
    real: list[_Run]


def client(spark: SparkSession, path: Path, queries: DataFrame) -> DataFrame:
    """CLIENT, from the results.json of a run and the records of the same queries (QUERIES), which
    their labels identify; empty without a readable file."""
    measured = [
        (
            f"{run.policy} {kind.kind}",
            run.policy,
            kind.kind,
            kind.slo_ms,
            kind.n,
            kind.p50_ms,
            kind.p95_ms,
            kind.p99_ms,
            kind.within_slo,
            kind.refused,
            kind.partial,
            kind.unanswered,
        )
        for run in _runs(path)
        for kind in run.classes
    ]
    types = {"label": "string"}
    types |= {c.name: c.type for c in CLIENT.columns if "recorded" not in c.name}
    frame = _frame(spark, types, measured)
    labelled = queries.join(F.broadcast(frame.select("label")), "label", "left_semi").select(
        "label", "status", "slo_met", response_ms()
    )
    recorded = (
        ranked(labelled, ("label",), "response_ms")
        .groupBy("label")
        .agg(
            F.count("*").alias("recorded"),
            share(F.count_if("slo_met"), F.count_if(F.col("status") != "refused")).alias(
                "recorded_attainment"
            ),
            percentile("response_ms", 50.0).alias("recorded_p50_ms"),
            percentile("response_ms", 99.0).alias("recorded_p99_ms"),
        )
    )
    return frame.join(recorded, "label", "left").fillna(0, ["recorded"]).select(*CLIENT.names)


def _frame(spark: SparkSession, types: dict[str, str], rows: Sequence[Sequence[Any]]) -> DataFrame:
    """A few rows as JSON in the plan: those from Python would start a Python worker."""
    named = [dict(zip(types, row, strict=True)) for row in rows]
    ddl = ", ".join(f"{name}: {type_}" for name, type_ in types.items())
    parsed = F.from_json(F.lit(msgspec.json.encode(named).decode()), f"array<struct<{ddl}>>")
    return spark.range(1).select(F.inline(parsed))


def _runs(path: Path) -> list[_Run]:
    try:
        if path.stat().st_size > MAX_BYTES:
            return []
        return msgspec.json.decode(path.read_bytes(), type=_Results).real
    except (OSError, msgspec.MsgspecError):
        return []
