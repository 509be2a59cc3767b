"""The area that a node's readings are attributed to."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - everybody calls it F

NODE = ("iad", "node")


def node_areas(nodes: DataFrame) -> DataFrame:
    """`iad, node, area` of the table `nodes`: one row per node; the first area of the node's latest
    declaration, or null if it declared none."""
    return nodes.groupBy(*NODE).agg(F.get(F.max_by("areas", "time"), 0).alias("area"))


def with_area(frame: DataFrame, nodes: DataFrame) -> DataFrame:
    """`frame`, which has `iad` and `node`, with a column `area`: the node's own name if its area is
    unknown. The few nodes are broadcast to every executor, so `frame` is not shuffled."""
    joined = frame.join(F.broadcast(node_areas(nodes)), [*NODE], "left")
    return joined.withColumn("area", F.coalesce("area", "node"))
