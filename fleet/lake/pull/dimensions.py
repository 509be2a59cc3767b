"""Dimension files of a pull: the nodes that exist, and the outcome for each host, in Parquet."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import msgspec

from fleet.inventory.model import Inventory
from fleet.lake.pull.landing_files import staged
from fleet.lake.pull.outcome import COUNTED, HostPulled
from fleet.lake.schema.folder import Lake
from fleet.lake.schema.landing import NODES, PULLS


def keep_nodes(lake: Lake, pull: str, fleet: Inventory, now_ms: int) -> None:
    """Have the nodes of the inventory in the landing, and beside it the names of their rooms.
    OSError."""
    rows = [
        {
            "iad": iad.name,
            "node": node.name,
            "time_ms": now_ms,
            "areas": list(node.areas),
            "model": node.model,
        }
        for iad in fleet.iad
        for node in iad.node
    ]
    if rows:
        _keep(lake, lake.nodes, pull, NODES, rows)
    if fleet.rooms or lake.rooms.exists():
        with staged(lake, lake.rooms) as part:
            part.write_bytes(msgspec.json.encode(fleet.rooms))


def keep_pulls(lake: Lake, pull: str, hosts: Iterable[HostPulled], now_ms: int) -> None:
    """Have what came of each host that was begun in the landing. OSError."""
    rows = []
    for host in hosts:
        if host.outcome == "skipped":
            continue
        iad, _, name = host.host.partition("/")
        row = {"iad": iad, "host": name, "time_ms": now_ms, "outcome": host.outcome}
        row |= {"error": host.error or None}
        rows.append(row | {count: getattr(host, count) for count in COUNTED})
    if rows:
        _keep(lake, lake.pulls, pull, PULLS, rows)


def _keep(
    lake: Lake, folder: Path, pull: str, ddl: str, rows: Sequence[Mapping[str, object]]
) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    types = {"string": pa.string(), "bigint": pa.int64(), "array<string>": pa.list_(pa.string())}
    columns = [column.split(" ") for column in ddl.split(", ")]
    schema = pa.schema([(name, types[kind]) for name, kind in columns])
    with staged(lake, folder / f"{pull}.parquet") as part:
        pq.write_table(pa.Table.from_pylist(list(rows), schema), part)
