"""The paper's field: servers on a grid, the members of a topic around a point."""

from __future__ import annotations

from typing import Final

import numpy as np
from msgspec import Struct

from fleet.placement.homes.case import Case, Floats

SPOOL: Final = (5, 16)  # messages of a spool of size factor 1, drawn from these
SHARED: Final = 3  # where topics overlap, one in so many members is a client of another topic, too


class Setting(Struct, frozen=True):
    """What a case is drawn from. Delays are ms, `per_km` and `cloud` among them; limits are in
    messages, like spools."""

    sigma_km: float = 4.0
    spool_factor: float = 1.0
    overlap: bool = False
    topics: int = 64
    members: tuple[int, int] = (10, 20)
    side: int = 4  # servers along an edge of the field
    field_km: float = 25.0
    per_km: float = 0.1
    cloud: float = 10.0
    storage: float = 400.0
    compute: float = 2_400.0


def draw(setting: Setting, seed: int) -> tuple[Case, Floats]:
    """A case, and its servers' positions. Everybody publishes and hears, at rate 1."""
    of = np.random.default_rng(seed)
    grid = (np.arange(setting.side) + 0.5) * setting.field_km / setting.side
    sites = np.array([(x, y) for x in grid for y in grid])
    places: list[Floats] = []
    members: list[tuple[int, int]] = []
    for topic in range(setting.topics):
        size = int(of.integers(setting.members[0], setting.members[1] + 1))
        middle = of.random(2) * setting.field_km
        known = _near(of, places, middle, setting, size // SHARED) if setting.overlap else []
        for _ in range(size - len(known)):
            at = middle + of.normal(size=2) * setting.sigma_km
            places.append(np.clip(at, 0.0, setting.field_km))
            known.append(len(places) - 1)
        members += [(client, topic) for client in known]
    client, topics = np.array(sorted(members), np.int64).T
    at_ = np.array(places)
    one = np.ones(len(client))
    case = Case(
        delay=np.linalg.norm(at_[:, None] - sites, axis=2) * setting.per_km,
        between=np.linalg.norm(sites[:, None] - sites, axis=2) * setting.per_km,
        client=client,
        topic=topics,
        rate=one,
        hears=one,
        spool=setting.spool_factor * of.integers(*SPOOL, setting.topics).astype(np.float64),
        storage=np.full(len(sites), setting.storage),
        compute=np.full(len(sites), setting.compute),
        cloud=setting.cloud,
    )
    return case, sites * setting.per_km


def _near(
    of: np.random.Generator, places: list[Floats], middle: Floats, setting: Setting, most: int
) -> list[int]:
    """Clients of other topics, by the same Gaussian around this one's point."""
    if not places:
        return []
    apart = ((np.array(places) - middle) ** 2).sum(axis=1)
    weight = np.exp(-apart / (2 * setting.sigma_km**2))
    number = min(most, int((weight > 1e-12).sum()))
    if not number:
        return []
    chosen = of.choice(len(places), number, replace=False, p=weight / weight.sum())
    return [int(c) for c in chosen]
