"""Reads the lake's models for a capacity plan: unloaded response times and query classes.

They are tables of fleet/lake/schema/tables/models.py, which `fleet report` writes; nothing of Spark
is needed to read them.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from agent.wire.config import ConfigError
from fleet.lake.schema.tables.model import Table
from fleet.lake.schema.tables.models import ARRIVALS, SIZES, UNLOADED
from fleet.plan.classes import LoadClass
from fleet.plan.records import NAME, Measured
from fleet.simulation.layout import FleetLayout

# Maximum number of samples of a node; more would not change the result.
MAX_SAMPLES: Final = 100_000
# Minimum share of a class: rarer ones need too many queries to simulate.
LEAST_SHARE: Final = 0.01
# If this share of a class's queries to one IAD go to the same IAD, it is a hot spot.
HOT: Final = 0.95
MAX_NAME: Final = 32

Row = Mapping[str, Any]
Shape = tuple[int, int]
"""k_q and k_t: how many IADs, and how many nodes of each at most."""


class AskedClass(Struct, frozen=True):
    """A class as observed: of all its `queries`, `alike` had the most common shape; `iad` is the
    one that (nearly) all asked."""

    name: str
    percentile: float
    slo_ms: float
    queries: int
    shape: Shape
    alike: int
    iad: str | None


class Models(Struct, frozen=True):
    """`subtasks` is the number behind the response times; `classes` are sorted by their queries,
    most first; `left_out` counts queries with too little data."""

    measured: Measured
    subtasks: int
    classes: tuple[AskedClass, ...]
    left_out: int
    rate_per_s: float

    def load_classes(self, plan: FleetLayout) -> tuple[LoadClass, ...]:
        """The classes in a fleet, those of less than `LEAST_SHARE` left out. ConfigError if there
        are none."""
        kept = self.common
        if not kept:
            raise ConfigError("the models have no class of queries; give --classes")
        asked = sum(kind.queries for kind in kept)
        iads = [iad.name for iad in plan.iads]
        return tuple(
            LoadClass(
                kind.name,
                kind.queries / asked,
                min(kind.shape[0], len(iads)),
                kind.shape[1],
                kind.slo_ms / 1e3,
                kind.percentile,
                iads.index(kind.iad) if len(iads) > 1 and kind.iad in iads else None,
            )
            for kind in kept
        )

    @property
    def common(self) -> list[AskedClass]:
        """Classes that are common enough."""
        asked = sum(kind.queries for kind in self.classes)
        return [kind for kind in self.classes if kind.queries >= LEAST_SHARE * asked]

    def sentences(self) -> list[str]:
        """The source of the classes, and their limits."""
        kept = self.common
        asked = sum(kind.queries for kind in self.classes) + self.left_out
        taken = sum(kind.queries for kind in kept)
        whence = f"{taken:,} of {asked:,} queries in the models, which came at"
        said = [f"Classes: those of {whence} {self.rate_per_s:.3g}/s; --classes takes your own."]
        if rare := [kind.name for kind in self.classes if kind not in kept]:
            least = f"{100.0 * LEAST_SHARE:g} %"
            said.append(f"Left out, under {least} of the queries: {', '.join(rare)}.")
        said.extend(
            f"Class {kind.name}: all taken to ask {kind.shape[0]} × {kind.shape[1]} "
            f"(IADs × nodes), as {100.0 * kind.alike / kind.queries:.0f} % did."
            for kind in kept
            if kind.alike < kind.queries
        )
        return said


def read_models(folder: Path) -> Models:
    """Read a lake's models, from their folder or from the lake. ConfigError in one line."""
    root = folder / "models" if (folder / "models" / UNLOADED.name).is_dir() else folder
    if not (root / UNLOADED.name).is_dir():
        raise ConfigError(f"{folder}: no models; fleet report writes them into its lake")
    buckets: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in _rows(root, UNLOADED):
        # Names are printed.
        if NAME.match(row["iad"]) and NAME.match(row["node"]):
            buckets[row["iad"], row["node"]].append(row)
    samples_s = {at: (_samples(rows) / 1e3).tolist() for at, rows in sorted(buckets.items())}
    classes, left_out = _classes(_rows(root, SIZES))
    return Models(
        Measured(samples_s, None, 0),
        sum(row["count"] for rows in buckets.values() for row in rows),
        classes,
        left_out,
        sum(row["rate_per_s"] for row in _rows(root, ARRIVALS)),
    )


def _rows(root: Path, table: Table) -> list[dict[str, Any]]:
    import pyarrow as pa
    from pyarrow import parquet

    path = root / table.name
    try:
        read = parquet.ParquetDataset(path)
        if missing := set(table.names).difference(read.schema.names):
            what = ", ".join(sorted(missing))
            raise ConfigError(f"{path}: no column {what}; let fleet report write it anew")
        found: list[dict[str, Any]] = read.read(list(table.names)).to_pylist()
    except (OSError, pa.ArrowException) as error:
        raise ConfigError(f"{path}: {str(error).splitlines()[0]}") from None
    return found


# --- response times -------------------------------------------------------------------------------


def _samples(buckets: Sequence[Row]) -> npt.NDArray[np.float64]:
    """Milliseconds, as many as were counted and at most `MAX_SAMPLES`, ascending: spread in each
    bucket so that they have its mean. Each is at most a bucket away from what was measured in its
    place: 9 %."""
    by_end: dict[tuple[float, float], tuple[int, float]] = {}
    for row in buckets:  # of all sizes of requests
        count, total = by_end.get((row["low_ms"], row["high_ms"]), (0, 0.0))
        by_end[row["low_ms"], row["high_ms"]] = (
            count + row["count"],
            total + row["count"] * row["mean_ms"],
        )
    counted = sum(count for count, _ in by_end.values())
    part = min(1.0, MAX_SAMPLES / counted)
    found = []
    before = 0
    for (low, high), (count, total) in sorted(by_end.items()):
        # Rounding in one bucket is compensated in the next.
        taken = round((before + count) * part) - round(before * part)
        before += count
        if taken:
            found.append(_spread(low, high, total / count, taken))
    return np.concatenate(found)


def _spread(low: float, high: float, mean: float, count: int) -> npt.NDArray[np.float64]:
    """`count` numbers in [low, high] with that mean: evenly on both sides of it, each side with the
    weight that makes it so."""
    below = (high - mean) / (high - low)
    places = (np.arange(count) + 0.5) / count
    even: npt.NDArray[np.float64] = np.interp(places, [0.0, below, 1.0], [low, mean, high])
    found: npt.NDArray[np.float64] = np.clip(even + (mean - even.mean()), low, high)
    return found


# --- classes --------------------------------------------------------------------------------------


def _classes(rows: Iterable[Row]) -> tuple[tuple[AskedClass, ...], int]:
    """Classes by their queries, most first; and the number of queries that asked nothing known."""
    by_class: dict[tuple[str, str, float, float], list[Row]] = defaultdict(list)
    left_out = 0
    for row in rows:
        if row["iads"] and row["nodes"]:
            by_class[row["class"], row["service"], row["percentile"], row["slo_ms"]].append(row)
        else:
            left_out += row["queries"]
    names: Counter[str] = Counter()
    classes = []
    for key in sorted(by_class, key=lambda key: (-_queries(by_class[key]), key)):
        label, _, percentile, slo_ms = key
        name = "".join(c if c.isprintable() else "?" for c in label.strip())[:MAX_NAME].strip()
        names[name] += 1
        if names[name] > 1:
            name = f"{name} ({names[name]})"
        shapes: Counter[Shape] = Counter()
        iads: Counter[str | None] = Counter()
        for row in by_class[key]:
            shapes[row["iads"], row["nodes"]] += row["queries"]
            iads[row["iad"]] += row["queries"]
        [(shape, alike)] = shapes.most_common(1)
        [(iad, same)] = iads.most_common(1)
        queries = shapes.total()
        hot = iad if iad is not None and same >= HOT * queries else None
        classes.append(AskedClass(name, percentile, slo_ms, queries, shape, alike, hot))
    return tuple(classes), left_out


def _queries(rows: Iterable[Row]) -> int:
    return sum(row["queries"] for row in rows)
