"""Result document of a capacity plan, for the terminal, the figure and --json; names, not
indices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from msgspec import Struct

from agent.wire.base import Policy
from fleet.plan.case import Case, Model
from fleet.plan.fleet import places
from fleet.plan.pods import PodPlan
from fleet.plan.search import Curve, Highest

# With fewer queries of a class beyond the percentile, a run says little.
FEW_BEYOND: Final = 20


class ClassReport(Struct, frozen=True):
    """A class; `idle_ms` is the largest time that the masters would reckon with on an idle fleet:
    x_u and overheads. `infeasible` is the share of its tasks for which that exceeds the SLO."""

    name: str
    share: float
    iads: int
    nodes: int | None
    iad: str | None
    percentile: float
    slo_ms: float
    idle_ms: float
    infeasible: float


class HighestReport(Struct, frozen=True):
    """The highest rate, in queries/s, and half its 95 % interval (None of one seed); at that rate
    each class's latency at its percentile / SLO, the class that binds, the busiest node."""

    rate_per_s: float
    half_width: float | None
    ratios: dict[str, float]
    binding: str
    busiest: str
    utilisation: float


class PolicyReport(Struct, frozen=True):
    """The result of a policy with the fleet's present pods."""

    policy: Policy
    highest: HighestReport


class PodsReport(Struct, frozen=True):
    """A policy with the pods for the target: of each node by IAD, all together, and how many more
    than the fleet has. `kept` if the target is sustained; else `obstacle` says why not."""

    policy: Policy
    kept: bool
    obstacle: str
    total: int
    more: int
    pods: dict[str, dict[str, int]]
    highest: HighestReport


class CapacityReport(Struct, frozen=True):
    """The whole result. `assumptions` and `cautions` are sentences; pods as in `PodsReport`."""

    fleet: str
    pods: dict[str, dict[str, int]]
    unloaded_mean_ms: dict[str, dict[str, float]]
    overheads_ms: float
    classes: tuple[ClassReport, ...]
    queries: int
    seeds: tuple[int, ...]
    target_per_s: float | None
    assumptions: tuple[str, ...]
    cautions: tuple[str, ...]
    policies: tuple[PolicyReport, ...]
    plans: tuple[PodsReport, ...]
    curves: tuple[Curve, ...]


class Namer:
    """Names for the numbers of a model."""

    def __init__(self, model: Model, pods: Sequence[int]) -> None:
        self._model = model
        self._pods = sum(pods)
        self._places = places(model.plan)

    def by_node(self, values: Sequence[float]) -> dict[str, dict[str, float]]:
        """A value of each node by IAD and node."""
        found: dict[str, dict[str, float]] = {iad.name: {} for iad in self._model.plan.iads}
        for (iad, node), value in zip(self._places, values, strict=True):
            found[iad][node] = value
        return found

    def pods(self, pods: Sequence[int]) -> dict[str, dict[str, int]]:
        """Pods by IAD and node."""
        named = self.by_node(pods)
        return {iad: {node: int(n) for node, n in nodes.items()} for iad, nodes in named.items()}

    def highest(self, found: Highest) -> HighestReport:
        """A highest rate."""
        names = [kind.name for kind in self._model.classes]
        return HighestReport(
            found.rate_per_s.mean,
            found.rate_per_s.half_width,
            dict(zip(names, found.ratios, strict=True)),
            names[found.binding],
            self._places[found.busiest][1],
            found.utilisation,
        )

    def plan(self, found: PodPlan) -> PodsReport:
        """A plan of pods."""
        return PodsReport(
            found.policy,
            found.kept,
            found.obstacle,
            found.total,
            found.total - self._pods,
            self.pods(found.pods),
            self.highest(found.highest),
        )


def class_reports(cases: Sequence[Case]) -> tuple[ClassReport, ...]:
    """Of every class, over the tasks of all seeds."""
    model = cases[0].model
    outside_s = model.overheads.before_s + model.overheads.after_s
    reports = []
    for number, kind in enumerate(model.classes):
        idle_s = outside_s + np.concatenate(
            [
                case.unloaded_s[case.draw.query_class[case.draw.task_query] == number]
                for case in cases
            ]
        )
        reports.append(
            ClassReport(
                kind.name,
                kind.share,
                kind.iads,
                kind.nodes,
                None if kind.iad is None else model.plan.iads[kind.iad].name,
                kind.percentile,
                kind.slo_s * 1e3,
                float(idle_s.max()) * 1e3,
                float((idle_s > kind.slo_s).mean()),
            )
        )
    return tuple(reports)


def cautions(classes: Sequence[ClassReport], queries: int) -> tuple[str, ...]:
    """Reasons to doubt the numbers."""
    found = []
    for kind in classes:
        if kind.infeasible > 0.0:
            found.append(
                f"class {kind.name} cannot keep its SLO even on an idle fleet: with p"
                f"{kind.percentile:g} it takes up to {kind.idle_ms:.0f} ms, the SLO is "
                f"{kind.slo_ms:g} ms; masters refuse such tasks ({kind.infeasible:.0%} of its "
                "tasks), the simulation serves them"
            )
        beyond = queries * kind.share * (1.0 - kind.percentile / 100.0)
        if beyond < FEW_BEYOND:
            found.append(
                f"class {kind.name}: its p{kind.percentile:g} rests on some {beyond:.0f} queries "
                "of a run; expect rough numbers"
            )
    return tuple(found)
