"""Query classes of a capacity plan: from a TOML file, or DSSP's Table II."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta, Struct

from agent.wire.base import MAX_TIMEOUT_MS, Name, SloPercentile
from agent.wire.config import ConfigError, Count, Section, load
from fleet.simulation.layout import FleetLayout
from fleet.simulation.workload import PERCENTILE, TABLE_II

Some = Count | Literal["all"]
LEAST_SLO_MS: Final = 0.01
# No blanks at the ends, and no control characters for terminals.
ClassName = Annotated[str, Meta(pattern=r"^(?! )[^\x00-\x1f\x7f-\x9f]{1,32}(?<! )$(?!\n)")]


class ClassSection(Section, frozen=True):
    """A class as written in its file."""

    name: ClassName
    share: Annotated[float, Meta(gt=0.0, le=1.0)]
    slo_ms: Annotated[float, Meta(ge=LEAST_SLO_MS, le=MAX_TIMEOUT_MS)]
    percentile: SloPercentile = PERCENTILE
    iads: Some = 1
    nodes: Some = 1
    iad: Name | None = None

    def __post_init__(self) -> None:
        if self.iad is not None and self.iads != 1:
            raise ValueError(f"class {self.name}: iad names the only IAD; leave iads out")


class ClassesFile(Section, frozen=True):
    """The file: one ``[[class]]`` per class."""

    classes: Annotated[tuple[ClassSection, ...], Meta(min_length=1, max_length=64)] = msgspec.field(
        name="class"
    )

    def __post_init__(self) -> None:
        names = [kind.name for kind in self.classes]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"more than one class is named {name}")
        total = sum(kind.share for kind in self.classes)
        if not math.isclose(total, 1.0, abs_tol=1e-6):
            raise ValueError(f"the shares of the classes add up to {total:g}, not to 1")


class LoadClass(Struct, frozen=True):
    """A class in a fleet: each query asks `iads` IADs drawn at random (or always that of number
    `iad`), and `nodes` nodes of each (None, or more than it has: all)."""

    name: str
    share: float
    iads: int
    nodes: int | None
    slo_s: float
    percentile: float = PERCENTILE
    iad: int | None = None

    def nodes_of(self, size: int) -> int:
        """k_t at an IAD of `size` nodes."""
        return size if self.nodes is None else min(self.nodes, size)


def read_classes(file: Path | None, plan: FleetLayout) -> tuple[LoadClass, ...]:
    """The classes of a file, or of Table II, whose hot spot is the last IAD and which asks a
    smaller fleet whole; ConfigError in one line."""
    if file is None:
        return tuple(
            LoadClass(
                kind.name,
                kind.share,
                min(kind.iads, len(plan.iads)),
                kind.nodes,
                kind.slo_ms / 1e3,
                iad=len(plan.iads) - 1 if kind.hot_spot else None,
            )
            for kind in TABLE_II
        )
    names = [iad.name for iad in plan.iads]
    return tuple(_in_fleet(kind, names, str(file)) for kind in load(file, ClassesFile).classes)


def _in_fleet(kind: ClassSection, names: list[str], source: str) -> LoadClass:
    if kind.iad is not None and kind.iad not in names:
        raise ConfigError(
            f"{source}: class {kind.name}: the fleet has no IAD {kind.iad}; it has "
            f"{', '.join(names)}"
        )
    iads = len(names) if kind.iads == "all" else kind.iads
    if iads > len(names):
        raise ConfigError(
            f"{source}: class {kind.name} asks {iads} IADs of a fleet of {len(names)}"
        )
    return LoadClass(
        kind.name,
        kind.share,
        iads,
        None if kind.nodes == "all" else kind.nodes,
        kind.slo_ms / 1e3,
        kind.percentile,
        None if kind.iad is None else names.index(kind.iad),
    )
