"""Schemas of the Parquet files in the landing zone, in Spark's type names.

Times are milliseconds since 1970, UTC. Files are written under another name and renamed.
"""

from __future__ import annotations

from typing import Final

# One row per row group, with its numbers in lists of `count`. A column is null if it holds only
# defaults: no replay, age 0, raw equal to the values, all good. The last `exported_ms` of a (node,
# history, sequence) counts.
GROUPS: Final = (
    "iad string, node string, history string, sequence bigint, sensor string, boot string, "
    "synchronised boolean, shift_ms bigint, exported_ms bigint, count int, "
    "first_ms bigint, last_ms bigint, time_ms array<bigint>, source_time_ms array<bigint>, "
    "age_ms array<bigint>, "
    "channels array<struct<name: string, value: array<float>, raw: array<float>, "
    "quality: array<smallint>>>"
)
NODES: Final = "iad string, node string, time_ms bigint, areas array<string>, model string"
PULLS: Final = (
    "iad string, host string, time_ms bigint, outcome string, error string, bytes bigint, "
    "records bigint, groups bigint, readings bigint, expired_files bigint, expired_groups bigint, "
    "expired_readings bigint"
)
REFUSED: Final = "iad string, time_ms bigint, source string, reason string, text string"
BY_FOLDER: Final = {"groups": GROUPS, "nodes": NODES, "pulls": PULLS, "refused": REFUSED}
