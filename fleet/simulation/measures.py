"""Metrics of a run: query outcomes, and their summary by class; pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from msgspec import Struct


class Outcome(Struct, frozen=True):
    """How one query of a trace ended. `latency_ms` counts from its arrival in the trace, so a load
    generator that is late cannot hide it; None if no answer came at all. `gaps` are the reasons why
    areas are missing, or why it was refused."""

    number: int
    kind: str
    slo_ms: float
    status: str
    latency_ms: float | None
    gaps: tuple[str, ...] = ()

    @property
    def within_slo(self) -> bool:
        """Whether the answer was complete and in time."""
        return (
            self.status == "complete"
            and self.latency_ms is not None
            and self.latency_ms <= self.slo_ms
        )


class ClassSummary(Struct, frozen=True):
    """A class of queries under one policy: how many, percentiles of their latency in milliseconds
    (None where nothing was answered), and the share that kept the SLO. As in a report, the last two
    are of all that were not `refused` (None if all were). `partial` answers lacked areas;
    `unanswered` are queries without any reply."""

    kind: str
    slo_ms: float
    n: int
    p50_ms: float | None
    p95_ms: float | None
    p99_ms: float | None
    within_slo: float | None
    refused: int = 0
    partial: int = 0
    unanswered: int = 0


def percentile(ordered: Sequence[float], p: float) -> float | None:
    """The nearest-rank percentile of sorted numbers: the smallest that at least p % of them do not
    exceed; None if there are none."""
    # Rounded before the ceiling: 0.95 · 20 is a hair above 19 in floating point.
    rank = math.ceil(round(p / 100 * len(ordered), 9))
    return ordered[max(rank, 1) - 1] if ordered else None


def summarize(outcomes: Iterable[Outcome]) -> list[ClassSummary]:
    """One summary per class, in the order of their names."""
    by_class: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        by_class.setdefault(outcome.kind, []).append(outcome)
    return [_summary(by_class[kind]) for kind in sorted(by_class)]


def _summary(outcomes: list[Outcome]) -> ClassSummary:
    taken = [o for o in outcomes if o.status != "refused"]
    latencies = sorted(o.latency_ms for o in taken if o.latency_ms is not None)
    return ClassSummary(
        kind=outcomes[0].kind,
        slo_ms=outcomes[0].slo_ms,
        n=len(outcomes),
        p50_ms=percentile(latencies, 50),
        p95_ms=percentile(latencies, 95),
        p99_ms=percentile(latencies, 99),
        within_slo=sum(o.within_slo for o in taken) / len(taken) if taken else None,
        refused=len(outcomes) - len(taken),
        partial=sum(o.status == "partial" for o in taken),
        unanswered=sum(o.latency_ms is None for o in taken),
    )
