"""The paper's sweeps over σ, spool size and clusters, for every method."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

import numpy as np
from msgspec import Struct

from fleet.placement.homes.accounts import Accounts, Sharing
from fleet.placement.homes.baselines import nearest_homes, otos_homes, random_homes
from fleet.placement.homes.case import Case, Floats, Ints
from fleet.placement.homes.reloc import reloc_homes
from fleet.placement.homes.search import Effort, greedy_homes, improve
from fleet.placement.homes.sharing import PerTopic, Ratio
from lab.placement.homes.draw import Setting, draw

RANDOM: Final = "random"
NEAREST: Final = "nearest"
CENTROID: Final = "OTOS at centroid"
LEAST_USED: Final = "OTOS least used"
RELOC: Final = "RELOC"
OURS: Final = "ours"  # with at most RELOC's storage
FREE: Final = "ours, any storage"
METHODS: Final = (RANDOM, NEAREST, CENTROID, LEAST_USED, RELOC, OURS, FREE)
PEERS: Final = (NEAREST, CENTROID, LEAST_USED, RELOC)
EFFORT: Final = Effort(starts=2, passes=20, kicks=0)
CLUSTERS: Final = 4


class Point(Struct, frozen=True):
    """A setting of a sweep, with RELOC's clusters."""

    sweep: str  # "σ", "spool" or "clusters"
    setting: Setting
    clusters: int = CLUSTERS


class Row(Struct, frozen=True):
    """One method at one point, of one seed; delays of a delivery in ms."""

    limits: str  # "ratio": the paper's w; "hard": whole topics are delegated
    sweep: str
    topics: str
    sigma_km: float
    spool_factor: float
    clusters: int
    seed: int
    method: str
    delay: float
    resource: float
    storage: float
    highest_load: float  # of a server, over its limit
    highest_use: float  # the same of storage


class Extent(Struct, frozen=True):
    """How much is run."""

    sigmas: tuple[float, ...] = (1.0, 2.0, 4.0, 6.0, 8.0)
    factors: tuple[float, ...] = (0.5, 1.0, 1.5, 2.0, 2.5)
    clusters: tuple[int, ...] = (1, 2, 4, 8, 16)
    hard: tuple[tuple[float, float], ...] = ((4.0, 1.0), (4.0, 2.5), (8.0, 2.5))  # σ, factor
    seeds: int = 4
    topics: int = 64
    optimum_clients: tuple[int, ...] = (35, 50, 80)
    optimum_seeds: int = 3
    events: int = 1_500


def points(extent: Extent) -> Iterable[Point]:
    """All points of the three sweeps, with disjoint topics and with overlapping ones."""
    for overlap in (False, True):
        base = Setting(overlap=overlap, topics=extent.topics)
        for sigma in extent.sigmas:
            yield Point("σ", _with(base, sigma, 1.0))
        for factor in extent.factors:
            yield Point("spool", _with(base, 4.0, factor))
        for sigma in (2.0, 6.0):
            for clusters in extent.clusters:
                yield Point("clusters", _with(base, sigma, 2.0), clusters)


def _with(base: Setting, sigma: float, factor: float) -> Setting:
    return Setting(sigma, factor, base.overlap, base.topics)


def run_point(point: Point, seed: int) -> list[Row]:
    """Every method on one case."""
    case, sites = draw(point.setting, seed)
    homes = assign(case, sites, point.clusters, seed, Ratio())
    return [row(point, seed, name, case, home, Ratio()) for name, home in homes.items()]


def run_hard(point: Point, seed: int) -> list[Row]:
    """The same under hard limits, as in the product."""
    case, sites = draw(point.setting, seed)
    homes = assign(case, sites, point.clusters, seed, PerTopic())
    return [row(point, seed, name, case, home, PerTopic()) for name, home in homes.items()]


def assign(
    case: Case, sites: Floats, clusters: int, seed: int, sharing: Sharing
) -> dict[str, Ints]:
    """The homes that every method chooses."""
    simple: dict[str, Callable[[], Ints]] = {
        RANDOM: lambda: random_homes(case, seed),
        NEAREST: lambda: nearest_homes(case),
        CENTROID: lambda: otos_homes(case, "centroid"),
        LEAST_USED: lambda: otos_homes(case, "least used"),
        RELOC: lambda: reloc_homes(case, clusters, seed, sites),
    }
    homes = {name: choose() for name, choose in simple.items()}
    starts = [*(homes[name] for name in PEERS), greedy_homes(case, sharing)]
    budget = Accounts(case, sharing, homes[RELOC]).storage
    homes[OURS] = improve(case, sharing, starts, budget, EFFORT)
    homes[FREE] = improve(case, sharing, [*starts, homes[OURS]], effort=EFFORT)
    return homes


def row(point: Point, seed: int, name: str, case: Case, home: Ints, sharing: Sharing) -> Row:
    """What a placement costs."""
    accounts = Accounts(case, sharing, home)
    setting = point.setting
    return Row(
        limits="ratio" if isinstance(sharing, Ratio) else "hard",
        sweep=point.sweep,
        topics="overlapping" if setting.overlap else "disjoint",
        sigma_km=setting.sigma_km,
        spool_factor=setting.spool_factor,
        clusters=point.clusters,
        seed=seed,
        method=name,
        delay=accounts.mean,
        resource=accounts.delegated / accounts.deliveries,
        storage=accounts.storage,
        highest_load=float(np.max(accounts.load / case.compute)),
        highest_use=float(np.max(accounts.stored / case.storage)),
    )
