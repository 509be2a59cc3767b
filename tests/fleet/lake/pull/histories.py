"""A node with a history, pulls of it, and what they left in the landing."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet as pq

from agent.edge.history.history import History
from agent.edge.history.memtable import Sample
from fleet.lake.pull.counts import Counts
from fleet.lake.pull.history import HistoryTaker
from fleet.lake.pull.host_source import Here
from fleet.lake.schema.folder import Lake

IAD, NODE = "iad1", "e1"
CHANNELS = ("temperature", "humidity")


class Node:
    """A folder with a configuration and, once it was opened, a history."""

    def __init__(self, folder: Path, group_readings: int = 4) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.config = folder / "config.toml"
        self.config.write_text(f"[history]\ngroup_readings = {group_readings}\n")
        self.path = folder / "history.sqlite"
        self.group_readings = group_readings

    def open(self, boot: str = "boot-1", **settings: Any) -> History:
        plain = {"commit_s": 10.0, "retention_s": 1e9, "group_readings": self.group_readings}
        return History(self.path, boot, **plain | settings)


def sample(n: int, **changes: Any) -> Sample:
    """Reading n of a second each."""
    return Sample(1_700_000_000_000 + n * 1000, n * 1000, True, (n / 2, -float(n)))._replace(
        **changes
    )


def fill(stream: Any, numbers: range, **changes: Any) -> None:
    for n in numbers:
        stream.append(sample(n, **changes))


def pull(
    lake: Lake,
    node: Node,
    *,
    since_ms: int | None = None,
    now_ms: int = 1,
    max_bytes: int = 1 << 40,
    spoil: Any = lambda header, data: (header, data),
) -> Counts:
    """A pull, as the command makes it."""
    taker = HistoryTaker(lake, IAD, NODE, since_ms, now_ms)
    try:
        Here(str(node.config)).run(
            taker.program,
            taker.asked(max_bytes),
            lambda header, data: taker.take(*spoil(header, data)),
        )
        taker.end()
    finally:
        taker.close()
    return taker.counts


def landed(lake: Lake) -> dict[tuple[str, int], dict[str, Any]]:
    """The last export of each group, by history and sequence."""
    found: dict[tuple[str, int], dict[str, Any]] = {}
    for path in sorted(lake.groups.glob("iad=*/node=*/*.parquet")):
        for row in pq.ParquetFile(path).read().to_pylist():
            key = (row["history"], row["sequence"])
            if key not in found or found[key]["exported_ms"] < row["exported_ms"]:
                found[key] = row
    return found


def refused(lake: Lake) -> list[dict[str, Any]]:
    return [
        row
        for path in sorted(lake.refused.glob("*.parquet"))
        for row in pq.ParquetFile(path).read().to_pylist()
    ]


class Reading(NamedTuple):
    """One reading, its numbers as the bits of what was stored."""

    sensor: str
    boot: str
    synchronised: bool
    time_ms: int
    source_time_ms: int | None
    age_ms: int
    values: tuple[tuple[str, bytes, bytes, int], ...]  # channel, value, raw, flags


def bits(number: float) -> bytes:
    """What is stored of a number."""
    return struct.pack("<f", number if -3.4e38 < number < 3.4e38 else math.nan)


def reading(sensor: str, boot: str, channels: tuple[str, ...], taken: Sample) -> Reading:
    """What was put in, as it is to come out."""
    raw = taken.raw or taken.values
    flags = taken.quality or (0,) * len(channels)
    return Reading(
        sensor,
        boot,
        taken.synchronised,
        taken.time_ms,
        taken.source_time_ms,
        taken.age_ms,
        tuple(
            (name, bits(value), bits(before), flag)
            for name, value, before, flag in zip(channels, taken.values, raw, flags, strict=True)
        ),
    )


def readings(groups: dict[tuple[str, int], dict[str, Any]]) -> Iterator[Reading]:
    """All readings of groups that landed."""
    for row in groups.values():
        for i in range(row["count"]):
            yield Reading(
                row["sensor"],
                row["boot"],
                row["synchronised"],
                row["time_ms"][i],
                row["source_time_ms"][i] if row["source_time_ms"] else None,
                row["age_ms"][i] if row["age_ms"] else 0,
                tuple(
                    (
                        each["name"],
                        bits(each["value"][i]),
                        bits((each["raw"] or each["value"])[i]),
                        each["quality"][i] if each["quality"] else 0,
                    )
                    for each in row["channels"]
                ),
            )


def numbers(lake: Lake) -> list[int]:
    """Which of `sample`s arrived."""
    return sorted(each.time_ms // 1000 - 1_700_000_000 for each in readings(landed(lake)))
