"""The load-step experiment of the auto-scaler: its load, and the events that a run records."""

from __future__ import annotations

from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from agent.wire.master_config import MasterAutoscale
from fleet.simulation.layout import FleetLayout, IadLayout, building_fleet
from fleet.simulation.workload import Arrival, QueryClass, arrivals, within


class Step(Struct, frozen=True):
    """A constant load for some time."""

    rate_per_s: float
    seconds: float


def steps_of(rates_per_s: tuple[float, ...], seconds: float) -> tuple[Step, ...]:
    """Steps of equal length."""
    return tuple(Step(rate, seconds) for rate in rates_per_s)


SLO_MS: Final = 1_000.0
PROFILE: Final = "pi3"
RULES: Final = MasterAutoscale(enabled=True, window_s=8.0, cool_down_s=8.0)


def fleet_of(nodes: int) -> FleetLayout:
    """One IAD with the first nodes of the building, all of them the slow profile."""
    iad = building_fleet().iads[0]
    slow = tuple(replace(node, profile=PROFILE) for node in iad.nodes[:nodes])
    return FleetLayout((IadLayout(iad.name, slow),))


def trace_of(
    plan: FleetLayout, steps: tuple[Step, ...], *, seed: int, slo_ms: float = SLO_MS
) -> list[Arrival]:
    """Poisson arrivals at each step's rate; every query asks every node."""
    kind = QueryClass("steps", 1.0, iads=1, nodes=len(plan.nodes), slo_ms=slo_ms)
    trace: list[Arrival] = []
    start_s = 0.0
    for number, step in enumerate(steps):
        endless = arrivals(
            plan, rate_per_s=step.rate_per_s, seed=seed * 1_000 + number, classes=(kind,)
        )
        trace += [
            replace(arrival, number=len(trace) + n, at_s=start_s + arrival.at_s)
            for n, arrival in enumerate(within(endless, step.seconds))
        ]
        start_s += step.seconds
    return trace


class SubtaskEnd(Struct, frozen=True):
    """A subtask that returned or timed out, `at_s` after the start of the load."""

    at_s: float
    node: str
    missed: bool


class PodsChange(Struct, frozen=True):
    """A node has `pods` from `at_s` on."""

    at_s: float
    node: str
    pods: int


class TaskEnd(Struct, frozen=True):
    """A query was answered."""

    asked_s: float
    slo_met: bool


class StepsRun(Struct, frozen=True):
    """The events of one run, each list in the order of time."""

    subtasks: list[SubtaskEnd]
    changes: list[PodsChange]
    answers: list[TaskEnd]
