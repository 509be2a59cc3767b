"""A landing of N node-days, made from real rooms with faults, repeats and corrections in it.

A *reading* is one time at which a sensor was read; with temperature and humidity it becomes two
rows of the table `readings`.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from bench.pipeline.arrays import Array
from bench.pipeline.faults import DAY_S, Day, day
from bench.pipeline.rooms import rooms
from fleet.lake.pull.decode_schema import schema_of
from fleet.lake.schema.folder import Lake
from fleet.lake.schema.landing import GROUPS, NODES

START_MS: Final = 1_767_225_600_000  # 2026-01-01
DAY_MS: Final = DAY_S * 1000
GROUP: Final = 600  # readings, as nodes have it
CHANNELS: Final = ("temperature", "humidity")
MAX_NODES: Final = 32
# Shares of a day's groups: exported once more, the same; first exported an hour early, by a clock
# that was put right afterwards; exported only with the late ones.
AGAIN: Final = 0.01
CORRECTED: Final = 0.005
LATE: Final = 0.02
CORRECTION_MS: Final = 3_600_000


class Node(NamedTuple):
    """An edge node of the landing, in one room of the building."""

    number: int
    iad: str
    name: str
    area: str


class Made(NamedTuple):
    """What is in a landing. `landed` readings are there, of which `readings` are different ones;
    `node_days`; files and bytes."""

    readings: int
    landed: int
    node_days: int
    files: int
    size: int

    def __add__(self, other: object) -> Made:
        assert isinstance(other, Made)
        return Made(*[a + b for a, b in zip(self, other, strict=True)])


def fleet_of(names: list[str], node_days: int) -> list[tuple[Node, int]]:
    """Nodes with how many days each has, `node_days` in all; the first digit of a room is its
    floor, and a floor is an IAD."""
    count = min(len(names), MAX_NODES, node_days)
    nodes = [
        Node(i, f"iad{names[i][0]}", f"n{names[i]}", f"b1/f{names[i][0]}/r{names[i]}")
        for i in range(count)
    ]
    whole, more = divmod(node_days, count)
    return [(node, whole + (node.number < more)) for node in nodes]


def generate(
    lake: Lake,
    readings: int,
    seed: int = 1,
    data: Path | None = None,
    tell: Callable[[str], object] = lambda _: None,
) -> Made:
    """Fill the landing of `lake` with about so many readings; whole node-days, at least one.

    Deterministic by `seed` and `data`, whatever the machine. Memory does not grow with `readings`;
    a node is made by one process at a time, as many as there are processors.
    """
    recorded = rooms(data)
    # Rooms of one floor side by side, so that few nodes have neighbours.
    fleet = fleet_of(sorted(recorded), max(1, math.ceil(readings / DAY_S)))
    _write_nodes(lake, [node for node, _ in fleet])
    made = Made(0, 0, 0, 0, 0)
    # Spawned: a fork of a process with Arrow's threads may hang.
    with ProcessPoolExecutor(os.cpu_count(), get_context("spawn")) as pool:
        work = partial(_node, lake.root, seed)
        minutes = [recorded[node.name[1:]] for node, _ in fleet]
        for done in pool.map(work, fleet, minutes):
            made += done
            tell(f"generated {made.readings:,} readings, {made.size / 2**20:,.0f} MiB")
    return made


def _write_nodes(lake: Lake, nodes: list[Node]) -> None:
    rows = [
        {"iad": n.iad, "node": n.name, "time_ms": START_MS, "areas": [n.area], "model": "Pi 4"}
        for n in nodes
    ]
    _write(lake.nodes / "made.parquet", pa.Table.from_pylist(rows, schema_of(NODES)))


def _node(root: Path, seed: int, node_and_days: tuple[Node, int], minutes: Array) -> Made:
    node, days = node_and_days
    folder = Lake(root).groups / f"iad={node.iad}" / f"node={node.name}"
    made = Made(0, 0, days, 0, 0)
    late = []
    for number, (first, afterwards, count) in enumerate(_days(node, days, minutes, seed)):
        size = _write(folder / f"day-{number:04}.parquet", first)
        made += Made(count, _readings(first), 0, 1, size)
        late.append(afterwards)
    # One file for all that came afterwards, or there would be twice as many.
    table = pa.concat_tables(late)
    if table.num_rows:
        made += Made(0, _readings(table), 0, 1, _write(folder / "late.parquet", table))
    return made


def _days(node: Node, days: int, minutes: Array, seed: int) -> Iterator[tuple[Any, Any, int]]:
    """Each day's groups: those exported at its end, those exported afterwards, and how many
    different readings it has."""
    sequence = 0
    for number in range(days):
        made = day(minutes, node.number, number, seed)
        table = _groups(node, made, number, sequence)
        dice = np.random.default_rng((seed, node.number, number, 1)).random(table.num_rows)
        again = dice < AGAIN
        corrected = (dice >= AGAIN) & (dice < AGAIN + CORRECTED)
        late = dice >= 1 - LATE
        first = pa.concat_tables(
            [table.filter(pa.array(~corrected & ~late)), _early(table.filter(pa.array(corrected)))]
        )
        afterwards = _replaced(
            table.filter(pa.array(again | corrected | late)),
            exported_ms=lambda t: pc.add(t["exported_ms"], DAY_MS),
        )
        shifts = pa.array(np.where(corrected, CORRECTION_MS, 0)[again | corrected | late])
        afterwards = _replaced(afterwards, shift_ms=lambda _, shifts=shifts: shifts)
        yield first, afterwards, len(made.ms)
        sequence += len(made.ms)


def _groups(node: Node, made: Day, number: int, sequence: int) -> Any:
    """A day's row groups, as the landing has them."""
    count = len(made.ms)
    starts = np.arange(0, count, GROUP)
    ends = np.append(starts[1:], count)
    times = made.ms + START_MS + number * DAY_MS
    rows = len(starts)
    offsets = pa.array(np.append(starts, count), pa.int32())
    columns = {
        "iad": _same(node.iad, rows),
        "node": _same(node.name, rows),
        "history": _same(f"{node.number:032x}", rows),
        "sequence": sequence + starts,
        "sensor": _same("dht22", rows),
        "boot": _same(f"boot-{node.number}", rows),
        "synchronised": _same(True, rows),
        "shift_ms": np.zeros(rows, np.int64),
        "exported_ms": np.full(rows, START_MS + (number + 1) * DAY_MS),
        "count": ends - starts,
        "first_ms": times[starts],
        "last_ms": times[ends - 1],
        "time_ms": pa.ListArray.from_arrays(offsets, pa.array(times)),
        "channels": _channels(made, offsets, rows),
    }
    schema = schema_of(GROUPS)
    missing = {name: pa.nulls(rows, schema.field(name).type) for name in schema.names}
    return pa.table({**missing, **columns}).select(schema.names).cast(schema)


def _channels(made: Day, offsets: Any, rows: int) -> Any:
    """Lists of one struct a channel; no flags where a group has none."""
    kind = schema_of(GROUPS).field("channels").type
    structs = []
    for name, values, quality in zip(CHANNELS, made.values, made.quality, strict=True):
        flagged = np.logical_or.reduceat(quality != 0, offsets.to_numpy()[:-1])
        flags = pa.ListArray.from_arrays(offsets, pa.array(quality), mask=pa.array(~flagged))
        parts = {
            "name": _same(name, rows),
            "value": pa.ListArray.from_arrays(offsets, pa.array(values)),
            "raw": pa.nulls(rows, kind.value_type.field("raw").type),
            "quality": flags,
        }
        structs.append(pa.StructArray.from_arrays(list(parts.values()), list(parts)))
    # A group's channels lie side by side.
    order = np.arange(rows * len(CHANNELS)).reshape(len(CHANNELS), rows).T.ravel()
    together = pa.concat_arrays(structs).take(pa.array(order))
    return pa.ListArray.from_arrays(
        pa.array(np.arange(rows + 1) * len(CHANNELS), pa.int32()), together
    )


def _early(table: Any) -> Any:
    """As they were exported before their clock was put right."""
    rows = table.num_rows

    def times(groups: Any) -> Any:
        lists = groups["time_ms"].combine_chunks()
        moved = pc.subtract(lists.flatten(), CORRECTION_MS)
        counts = np.append(0, np.cumsum(groups["count"].to_numpy()))
        return pa.ListArray.from_arrays(pa.array(counts, pa.int32()), moved)

    return _replaced(
        table,
        time_ms=times,
        first_ms=lambda t: pc.subtract(t["first_ms"], CORRECTION_MS),
        last_ms=lambda t: pc.subtract(t["last_ms"], CORRECTION_MS),
        synchronised=lambda _: _same(False, rows),
    )


def _replaced(table: Any, **columns: Callable[[Any], Any]) -> Any:
    for name, made in columns.items():
        at = table.schema.get_field_index(name)
        table = table.set_column(at, table.schema.field(at), made(table))
    return table


def _same(value: object, rows: int) -> Any:
    return pa.array([value] * rows, pa.bool_() if isinstance(value, bool) else pa.string())


def _readings(table: Any) -> int:
    return int(pc.sum(table["count"]).as_py() or 0)


def _write(path: Path, table: Any) -> int:
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.part")
    pq.write_table(table, part, compression="zstd")
    part.rename(path)
    return path.stat().st_size
