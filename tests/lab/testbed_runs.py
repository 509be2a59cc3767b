"""Runs of the testbed sweep that are made up, and the plan that tests go by."""

from __future__ import annotations

import math

import numpy as np

from agent.wire.base import Policy
from fleet.simulation.layout import building_fleet, part_of
from lab.testbed.measures import CLASSES, SLO_MS, Run, Source

PLAN = part_of(building_fleet(), 2, 2)
RATES = (8.0, 10.0, 12.0, 14.0, 16.0)


def made(
    policy: Policy,
    rate_per_s: float,
    scale: float,
    *,
    n: int = 20_000,
    source: Source = "virtual",
    seed: int = 1,
) -> Run:
    """Classes in turn; exponential latencies whose p99 is `scale` times the SLO."""
    kinds = np.arange(n) % len(CLASSES)
    slo_ms = np.array([SLO_MS[kind] for kind in CLASSES])[kinds]
    draws = np.random.default_rng(seed).exponential(1 / math.log(100), n)
    return Run(source, policy, rate_per_s, kinds.astype(np.int8), draws * scale * slo_ms)
