"""Schemas of the tables that `fleet plan` reads."""

from __future__ import annotations

from typing import Final

from fleet.lake.schema.tables.base import SERVICE
from fleet.lake.schema.tables.model import IAD, NODE, Column, Table
from fleet.lake.schema.tables.requests import CLASS

UNLOADED: Final = Table(
    "unloaded",
    "Histogram of unloaded response times: dispatch to result, of one node and request size.",
    ("iad", "node", "window_s", "low_ms"),
    (
        IAD,
        NODE,
        Column("window_s", "double", "s", "upper end of the windows asked, a power of two"),
        Column("low_ms", "double", "ms", "lower end of the bucket, inclusive"),
        Column("high_ms", "double", "ms", "upper end, exclusive"),
        Column("count", "bigint", "", "subtasks"),
        Column("mean_ms", "double", "ms", "mean of those in the bucket"),
    ),
)
ARRIVALS: Final = Table(
    "arrivals",
    "How often queries of one class arrive.",
    ("iad", "class", "service", "percentile", "slo_ms"),
    (
        Column("iad", "string", "", "the IAD whose query scheduler received them"),
        CLASS,
        SERVICE,
        Column("percentile", "double", "%", "percentile of the SLO"),
        Column("slo_ms", "double", "ms", "latency of the SLO"),
        Column("queries", "bigint", "", "queries"),
        Column("seconds", "double", "s", "of its queries, one after another, pauses up to 60 s"),
        Column("rate_per_s", "double", "1/s", "queries / seconds"),
        Column("peak_per_s", "double", "1/s", "the same in the busiest minute"),
    ),
)
SIZES: Final = Table(
    "sizes",
    "What queries of one class ask.",
    ("class", "service", "percentile", "slo_ms", "areas", "iads", "iad", "nodes", "window_s"),
    (
        CLASS,
        SERVICE,
        Column("percentile", "double", "%", "percentile of the SLO"),
        Column("slo_ms", "double", "ms", "latency of the SLO"),
        Column("areas", "int", "areas", "areas asked, resolved"),
        Column("iads", "int", "IADs", "k_q, IADs asked; 0 of a refused query"),
        Column("iad", "string", "", "the IAD, if it is the only one", True),
        Column("nodes", "int", "nodes", "k_t, nodes asked at an IAD, the most", True),
        Column("window_s", "double", "s", "upper end of the windows asked, a power of two", True),
        Column("queries", "bigint", "", "queries"),
        Column("share", "double", "", "of the queries of the class"),
    ),
)
TABLES: Final = (UNLOADED, ARRIVALS, SIZES)
