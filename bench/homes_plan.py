"""A plan of homes: 10,000 clients × 1,000 topics × 100 servers, by the planner `homes`,
beside its greedy start alone; and how such a plan follows clients that join, leave and move.

Once with limits that nobody meets, once with twice the storage that a plan needs, spread evenly, so
that servers in crowded places are full. CPU time of one process.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import replace

import numpy as np

from bench.output import Result, result
from fleet.placement.homes.accounts import Accounts
from fleet.placement.homes.baselines import nearest_homes
from fleet.placement.homes.case import Case, Ints
from fleet.placement.homes.planner import Homes
from fleet.placement.homes.search import greedy_homes
from fleet.placement.homes.sharing import PerTopic
from lab.placement.homes.draw import Setting, draw
from lab.placement.homes.online import follow

SETTING = Setting(
    overlap=True, topics=1_000, side=10, field_km=62.5, storage=np.inf, compute=np.inf
)
GOAL_S = 10.0
EVENTS = 300
MIGRATIONS, OFF_PERCENT = 0.5, 3.5
NEEDED = 4.4  # of all spools stored once: twice what a plan within these limits stores


def run() -> Iterable[Result]:
    """The measures."""
    case, _ = draw(SETTING, 1)
    each = np.full(case.servers, NEEDED * case.spool.sum() / case.servers)
    yield plan("homes-plan", case)
    yield plan("homes-plan-tight", replace(case, storage=each))
    [look] = follow(SETTING, 1, EVENTS, looks=1, storage=NEEDED)
    yield result(
        "homes-follow",
        look.migrations,
        "migrations an event",
        most=MIGRATIONS,
        also={f"at most {OFF_PERCENT} % off a plan made anew": look.off_percent <= OFF_PERCENT},
        off_percent=round(look.off_percent, 2),
        event_ms=round(look.event_ms, 3),
        events=EVENTS,
    )


def plan(name: str, case: Case) -> Result:
    """A plan and its greedy start."""
    nearest = nearest_homes(case)
    planner = Homes(case.cloud)
    greedy, greedy_s = timed(lambda: greedy_homes(case, PerTopic()))
    found, found_s = timed(lambda: planner.choose(case, nearest))
    delay, before = (Accounts(case, PerTopic(), home).mean for home in (found, greedy))
    return result(
        name,
        found_s,
        "s",
        "greedy alone",
        greedy_s,
        most=GOAL_S,
        clients=case.clients,
        topics=case.topics,
        servers=case.servers,
        delay_over_greedy=round(delay / before, 4),
    )


def timed(work: Callable[[], Ints]) -> tuple[Ints, float]:
    """What it returns, and its CPU time."""
    began = time.process_time()
    found = work()
    return found, time.process_time() - began
