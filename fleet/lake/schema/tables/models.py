"""Schemas of the tables that `fleet plan` and `fleet placement` read."""

from __future__ import annotations

from typing import Final

from fleet.lake.schema.tables.base import PLACEMENT, PROCESSOR, SERVICE, TOPIC
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
SERVICE_TIMES: Final = Table(
    "service_times",
    "What one topic's messages take, wherever its processor was.",
    ("topic",),
    (
        TOPIC,
        PROCESSOR,
        Column("iad", "string", "", "where it was last"),
        Column("percentile", "double", "%", "percentile of its latest objective", True),
        Column("slo_ms", "double", "ms", "latency of its latest objective", True),
        Column("messages", "bigint", "", "messages processed"),
        Column("cpu_ms", "double", "ms", "mean CPU time of a message", True),
        Column("achieved_ms", "double", "ms", "percentile of the objective, median", True),
        Column("state_bytes", "bigint", "bytes", "its latest state"),
    ),
)
TOPIC_ARRIVALS: Final = Table(
    "topic_arrivals",
    "Messages of one topic in one hour of the day, by where they come from; demand between clones.",
    ("topic", "source", "peer", "hour"),
    (
        TOPIC,
        Column("source", "string", "", "the IAD that they come by way of"),
        Column("peer", "string", "", "the topic that puts them out, such as a clone's, or empty"),
        Column("hour", "int", "h", "hour of the day, UTC"),
        Column("per_s", "double", "1/s", "mean of the records of this hour, of all days"),
        Column("most_per_s", "double", "1/s", "the same in the busiest record"),
        Column("records", "bigint", "", "records of the topic in this hour"),
        Column("days", "bigint", "", "on so many days"),
    ),
)
MASTER_DELAYS: Final = Table(
    "master_delays",
    "The way from one master to another, by the clock of the first.",
    ("iad", "other"),
    (
        Column("iad", "string", "", "the IAD whose master measured it"),
        Column("other", "string", "", "the IAD of the other master"),
        Column("p50_ms", "double", "ms", "one way, median of the records' medians"),
        Column("p90_ms", "double", "ms", "median of the records' 90th percentiles"),
        Column("records", "bigint", "", "records with a measurement"),
    ),
)
MASTERS: Final = Table(
    "masters",
    "The latest that one master recorded of itself.",
    ("iad",),
    (
        Column("iad", "string", "", "the IAD"),
        Column("time", "timestamp", "UTC", "of its latest record"),
        Column("records", "bigint", "", "records"),
        *(
            column
            for column in PLACEMENT.columns
            if column.name not in {"iad", "date", "time", "start_s", "delays", "arrivals"}
        ),
    ),
)
LOAD: Final = (UNLOADED, ARRIVALS, SIZES)
PLACING: Final = (SERVICE_TIMES, TOPIC_ARRIVALS, MASTER_DELAYS, MASTERS)
TABLES: Final = (*LOAD, *PLACING)
