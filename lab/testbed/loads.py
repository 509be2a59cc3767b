"""The sweep's runs on the real fleet, and the same queries repeated in virtual time."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from agent.wire.base import Policy
from fleet.simulation import workload
from fleet.simulation.layout import FleetLayout
from fleet.simulation.virtual import WARM_SAMPLES, VirtualFleet
from fleet.simulation.workload import Arrival
from lab.testbed.measures import Run, run_of

# Warm-up that is not counted, for a run that is long enough: queues are empty before the first
# query.
LEAD_S: Final = 3.0
LEAD_OF_RUN: Final = 0.25
# Pause between two runs in virtual time, after the last arrival of the first: its queues are empty
# then.
PAUSE_S: Final = 20.0


class Load(Struct, frozen=True):
    """One planned run: a policy at a rate with the trace of `seed`, for `seconds` after a lead."""

    policy: Policy
    rate_per_s: float
    seed: int
    seconds: float

    @property
    def name(self) -> str:
        """Label in records and file names."""
        return f"{self.policy}@{self.rate_per_s:g}"

    @property
    def lead_s(self) -> float:
        """Seconds before the counted ones."""
        return min(LEAD_S, LEAD_OF_RUN * self.seconds)

    @property
    def takes_s(self) -> float:
        """Duration from the first query to the last."""
        return self.lead_s + self.seconds

    def trace(self, plan: FleetLayout) -> list[Arrival]:
        """Its queries."""
        endless = workload.arrivals(plan, rate_per_s=self.rate_per_s, seed=self.seed)
        return workload.within(endless, self.takes_s)

    def first(self, trace: Sequence[Arrival]) -> int:
        """The number of the first query that counts."""
        return next((a.number for a in trace if a.at_s >= self.lead_s), len(trace) + 1)


class Turn(Struct, frozen=True):
    """All runs of one policy, one after the other. They are preceded by `learning`, which is not
    counted: learning from misses takes a while."""

    policy: Policy
    learning: Load
    loads: tuple[Load, ...]


def turns_of(
    rates: dict[Policy, tuple[float, ...]], seed: int, seconds: float, learning_s: float
) -> list[Turn]:
    """A turn for each policy, the last one first: masters learn from misses under every policy, so
    the policies that use it start with nothing learnt, as in virtual time.

    The n-th rates of all policies have the same trace, faster or slower.
    """
    return [
        Turn(
            policy,
            Load(policy, some[0], seed * 1_000 + 999, learning_s),
            tuple(
                Load(policy, rate, seed * 1_000 + number, seconds)
                for number, rate in enumerate(some)
            ),
        )
        for policy, some in reversed(rates.items())
    ]


class Again(Struct, frozen=True):
    """A turn to be repeated in virtual time."""

    plan: FleetLayout
    turn: Turn
    warm_samples: int = WARM_SAMPLES


def perform_again(again: Again) -> list[Run]:
    """A run for each load of the turn: the same queries and service times as on the real fleet,
    after as much learning."""
    turn = again.turn
    trace: list[Arrival] = []
    bounds = []
    for load in (turn.learning, *turn.loads):
        begin_s = trace[-1].at_s + PAUSE_S if trace else 0.0
        offset = len(trace)
        asked = load.trace(again.plan)
        bounds.append((offset + load.first(asked), offset + len(asked)))
        trace += [replace(a, number=offset + a.number, at_s=begin_s + a.at_s) for a in asked]
    fleet = VirtualFleet(again.plan, turn.policy, warm_samples=again.warm_samples)
    outcomes = sorted(fleet.run(trace), key=lambda outcome: outcome.number)
    numbers = [outcome.number for outcome in outcomes]
    assert numbers == list(range(1, len(trace) + 1))
    return [
        run_of(
            "virtual",
            turn.policy,
            load.rate_per_s,
            itertools.islice(outcomes, first - 1, last),
        )
        for load, (first, last) in zip(turn.loads, bounds[1:], strict=True)
    ]
