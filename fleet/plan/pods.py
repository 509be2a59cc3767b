"""The fewest pods with which a policy sustains a rate: a heuristic search on common random numbers.

It starts from the fewest pods with which no node is overloaded, adds pods where late queries waited
for their last subtask, and then takes away what turns out not to be needed. Nothing proves that no
smaller number would do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from msgspec import Struct

from agent.wire.base import Policy
from fleet.plan.case import IDLE, Case
from fleet.plan.draw import Floats, Ints
from fleet.plan.search import Highest, binding, highest_rate, mean_ratios

# Number of seeds used by the search; the result is confirmed with all of them.
SEARCH_SEEDS: Final = 3
# Nodes with at least this share of the longest waiting get a pod in the same step.
NEARLY: Final = 0.5
# The smallest share of nodes from which one step removes a pod, in the search and at its end:
# single nodes in fleets of usual size, and a bounded number of runs in fleets of thousands.
PARTS: Final = 32
LAST_PARTS: Final = 16


class PodPlan(Struct, frozen=True):
    """Pods of every node; `kept` if the target is sustained with them, and `highest` is what they
    sustain. Otherwise `obstacle` says why no more pods were added."""

    policy: Policy
    pods: tuple[int, ...]
    kept: bool
    highest: Highest
    obstacle: str = ""

    @property
    def total(self) -> int:
        """Pods of the whole fleet."""
        return sum(self.pods)


class _Search:
    def __init__(self, cases: Sequence[Case], policy: Policy, rate_per_s: float, most: int) -> None:
        self._all = cases
        self._cases = cases[:SEARCH_SEEDS]
        self._policy = policy
        self._rate_per_s = rate_per_s
        self._most = most
        model = cases[0].model
        # More than anybody has: the maximum of an int32.
        self.least: Ints = 1 + np.minimum(rate_per_s * model.work_s, 1e9).astype(np.int32)
        # What makes nodes different to the load: hardware, work, and an IAD that a class always
        # asks.
        named = {kind.iad for kind in model.classes}
        spot = [iad if iad in named else -1 for iad in cases[0].draw.node_iad.tolist()]
        self._place = np.column_stack([spot, model.times.kind, np.round(model.work_s, 9)])

    def run(self) -> tuple[Ints, str]:
        """The pods, and what prevented adding more (empty if they are enough)."""
        model = self._all[0].model
        if (self.least > self._most).any():
            pods = np.minimum(self.least, self._most)
            node = int((self.least - self._most).argmax())
            name = model.plan.nodes[node].name
            return pods, (
                f"{name} needs {self.least[node]} pods to keep up at all, pods.most allows "
                f"{self._most}"
            )
        if (late := self._late_when_idle()) is not None:
            return self.least, f"class {late} misses its SLO on an idle fleet"
        pods, obstacle = self._add(self.least.copy(), self._cases)
        if obstacle:
            return pods, obstacle
        fewer = self._remove(pods, self.least, self._cases, PARTS)
        # Pods that suit the few seeds may be slightly too few for all.
        pods, obstacle = self._add(fewer, self._all)
        return self._remove(pods, fewer, self._all, LAST_PARTS), obstacle

    def _late_when_idle(self) -> str | None:
        ratios = mean_ratios(
            [
                case.with_pods(self.least.tolist()).point(self._policy, IDLE * self._rate_per_s)
                for case in self._cases
            ]
        )
        late = binding(ratios)
        return self._all[0].model.classes[late].name if ratios[late] > 1.0 else None

    def _sustained(self, pods: Ints, cases: Sequence[Case]) -> bool:
        points = [
            case.with_pods(pods.tolist()).point(self._policy, self._rate_per_s) for case in cases
        ]
        return max(mean_ratios(points)) <= 1.0 and all(p.utilisation < 1.0 for p in points)

    def _add(self, pods: Ints, cases: Sequence[Case]) -> tuple[Ints, str]:
        """Add pods until the rate is sustained."""
        while not self._sustained(pods, cases):
            waiting_s = self._waiting_s(pods)
            longest = int(waiting_s.argmax())
            if pods[longest] >= self._most:
                name = self._all[0].model.plan.nodes[longest].name
                return pods, f"{name} has {self._most} pods, as many as pods.most allows"
            more = (waiting_s >= NEARLY * waiting_s[longest]) & (pods < self._most)
            pods = pods + more.astype(np.int32)
        return pods, ""

    def _waiting_s(self, pods: Ints) -> Floats:
        """[nodes] Waiting of late queries, the mean over nodes that the load cannot tell apart: in
        large fleets there are fewer late queries than nodes."""
        total: Floats = np.zeros(len(pods))
        for case in self._cases:
            total += case.with_pods(pods.tolist()).waiting_s(self._policy, self._rate_per_s)
        _, alike = np.unique(np.column_stack([self._place, pods]), axis=0, return_inverse=True)
        alike = alike.ravel()
        mean: Floats = np.bincount(alike, weights=total) / np.bincount(alike)
        return mean[alike]

    def _remove(self, pods: Ints, least: Ints, cases: Sequence[Case], parts: int) -> Ints:
        """Remove a pod from as many as possible of the nodes with more than `least`."""
        extra = np.flatnonzero(pods > least)
        use = self._all[0].model.work_s / pods
        idle_first = extra[np.argsort(use[extra], kind="stable")]
        return self._remove_of(pods, idle_first.tolist(), cases, max(1, len(extra) // parts))

    def _remove_of(
        self, pods: Ints, nodes: list[int], cases: Sequence[Case], smallest: int
    ) -> Ints:
        """Remove a pod from all of `nodes` if possible, otherwise recursively from each half."""
        if not nodes:
            return pods
        fewer = pods.copy()
        fewer[nodes] -= 1
        if self._sustained(fewer, cases):
            return fewer
        if len(nodes) <= smallest:
            return pods
        middle = len(nodes) // 2
        pods = self._remove_of(pods, nodes[:middle], cases, smallest)
        return self._remove_of(pods, nodes[middle:], cases, smallest)


def plan_pods(cases: Sequence[Case], policy: Policy, rate_per_s: float, most: int) -> PodPlan:
    """Pods for `rate_per_s` under a policy, at most `most` at a node."""
    pods, obstacle = _Search(cases, policy, rate_per_s, most).run()
    chosen = tuple(pods.tolist())
    with_them = [case.with_pods(chosen) for case in cases]
    return PodPlan(
        policy, chosen, not obstacle, highest_rate(with_them, policy, rate_per_s), obstacle
    )
