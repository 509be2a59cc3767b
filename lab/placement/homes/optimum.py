"""Distance of every method from the optimum, in cases small enough to solve exactly."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

import numpy as np
from msgspec import Struct

from fleet.placement.homes.accounts import Accounts
from fleet.placement.homes.baselines import nearest_homes, otos_homes
from fleet.placement.homes.case import Case
from fleet.placement.homes.exact import Optimum, best_homes
from fleet.placement.homes.reloc import reloc_homes
from fleet.placement.homes.search import Effort, greedy_homes, improve
from fleet.placement.homes.sharing import PerTopic
from lab.placement.homes.draw import Setting, draw
from lab.placement.homes.sweeps import CENTROID, NEAREST, OURS, RELOC, Extent

SECONDS: Final = 30.0  # for the program; what it has not proven then is left out, and counted
PROVEN: Final = 1.001  # over the bound
SIDE: Final = 3
MEMBERS: Final = (6, 10)
ROOM: Final = 2.5  # of the spools' bytes, spread over all servers; beside the largest spool
ALONE: Final = "ours, no kicks"
COMPARED: Final = (NEAREST, CENTROID, RELOC, ALONE, OURS)


class Found(Struct, frozen=True):
    """One case: what each method's delay is, in optima; none where the optimum is not proven."""

    clients: int
    overlap: bool
    seed: int
    solved_s: float
    over: dict[str, float]


def cases(extent: Extent) -> Iterable[tuple[int, bool, int]]:
    """Sizes, kinds and seeds."""
    for clients in extent.optimum_clients:
        for overlap in (False, True):
            for seed in range(1, extent.optimum_seeds + 1):
                yield clients, overlap, seed


def small(clients: int, overlap: bool, seed: int) -> Case:
    """A case of about so many clients, with limits that bind."""
    topics = clients // (6 if overlap else 8)
    case, _ = draw(Setting(4.0, 1.0, overlap, topics, MEMBERS, SIDE), seed)
    room = ROOM * case.spool.sum() / case.servers + case.spool.max()
    return replace(case, storage=np.full(case.servers, room))


def compare(clients: int, overlap: bool, seed: int) -> Found:
    """Every method over the optimum, with hard limits and at most RELOC's storage."""
    case, sharing = small(clients, overlap, seed), PerTopic()
    reloc = reloc_homes(case, 3, seed)
    budget = Accounts(case, sharing, reloc).storage
    began = time.process_time()
    optimum = _solve(case, budget)
    if optimum is None:  # RELOC delegates here: with so few bytes nothing keeps the limits.
        budget = np.inf
        optimum = _solve(case, budget)
    took = time.process_time() - began
    if optimum is None or optimum.total > optimum.bound * PROVEN:
        return Found(case.clients, overlap, seed, took, {})
    homes = {NEAREST: nearest_homes(case), CENTROID: otos_homes(case, "centroid"), RELOC: reloc}
    starts = [*homes.values(), greedy_homes(case, sharing)]
    homes[ALONE] = improve(case, sharing, starts, budget, Effort(kicks=0))
    homes[OURS] = improve(case, sharing, starts, budget)
    over = {
        name: Accounts(case, sharing, home).total / optimum.total for name, home in homes.items()
    }
    return Found(case.clients, overlap, seed, took, over)


def _solve(case: Case, budget: float) -> Optimum | None:
    try:
        return best_homes(case, budget, SECONDS)
    except ValueError:
        return None
