"""Measures of a load-step run: by the second, and by the step; pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

from msgspec import Struct

from lab.autoscale.workload import PodsChange, Step, StepsRun, SubtaskEnd


class Second(Struct, frozen=True):
    """One node at the end of one second of the load. Percentages are of the last window; None if
    nothing ended in it."""

    second: int
    rate_per_s: float
    node: str
    pods: int
    missed_percent: float | None
    slo_percent: float | None


class StepResult(Struct, frozen=True):
    """One node during one step. Settled is one window after the last change of pods, or after the
    step's start if there was none."""

    rate_per_s: float
    node: str
    pods_before: int
    pods_after: int
    changes: int
    reversals: int
    last_change_s: float | None
    missed_until_settled_percent: float | None
    missed_after_percent: float | None
    slo_percent: float | None


def percent(hits: Iterable[bool]) -> float | None:
    """Percentage of true values; None if there are none."""
    found = list(hits)
    return 100.0 * sum(found) / len(found) if found else None


def by_second(run: StepsRun, steps: Sequence[Step], window_s: float) -> list[Second]:
    """A row per second and node; O(seconds · subtasks)."""
    rows = []
    for second in range(1, round(sum(step.seconds for step in steps)) + 1):
        slo = percent(a.slo_met for a in run.answers if second - window_s <= a.asked_s < second)
        for node in _nodes(run):
            missed = _missed(run.subtasks, node, second - window_s, second)
            pods = _pods(run.changes, node, second)
            rows.append(Second(second, _rate(steps, second), node, pods, missed, slo))
    return rows


def by_step(run: StepsRun, steps: Sequence[Step], window_s: float) -> list[StepResult]:
    """A row per step and node."""
    rows = []
    start_s = 0.0
    for step in steps:
        end_s = start_s + step.seconds
        slo = percent(a.slo_met for a in run.answers if start_s <= a.asked_s < end_s)
        for node in _nodes(run):
            # A node's first entry is its initial number.
            own = [c for c in run.changes if c.node == node]
            within = [c for c in own[1:] if start_s <= c.at_s < end_s]
            settled_s = (within[-1].at_s if within else start_s) + window_s
            numbers = [_pods(own, node, start_s), *(c.pods for c in within)]
            moves = [b > a for a, b in pairwise(numbers)]
            rows.append(
                StepResult(
                    rate_per_s=step.rate_per_s,
                    node=node,
                    pods_before=numbers[0],
                    pods_after=numbers[-1],
                    changes=len(within),
                    reversals=sum(a != b for a, b in pairwise(moves)),
                    last_change_s=within[-1].at_s - start_s if within else None,
                    missed_until_settled_percent=_missed(
                        run.subtasks, node, start_s, min(settled_s, end_s)
                    ),
                    missed_after_percent=_missed(run.subtasks, node, settled_s, end_s),
                    slo_percent=slo,
                )
            )
        start_s = end_s
    return rows


def _nodes(run: StepsRun) -> list[str]:
    return sorted({change.node for change in run.changes})


def _missed(subtasks: list[SubtaskEnd], node: str, start_s: float, end_s: float) -> float | None:
    return percent(s.missed for s in subtasks if s.node == node and start_s <= s.at_s < end_s)


def _pods(changes: list[PodsChange], node: str, at_s: float) -> int:
    return [c.pods for c in changes if c.node == node and c.at_s <= at_s][-1]


def _rate(steps: Sequence[Step], second: int) -> float:
    for step in steps:
        if second <= step.seconds:
            return step.rate_per_s
        second -= round(step.seconds)
    raise ValueError("a second after the last step")
