"""Advice for an infeasible SLO: the objectives that could be kept, in words."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Final

from msgspec import UNSET

from agent.wire.base import MAX_TIMEOUT_MS
from agent.wire.figures import percentile_in_words
from agent.wire.messages import Budget, Slo, TaskResult

# Above what idle nodes need: without it the first other query in a queue would be too much.
HEADROOM: Final = 1.1
# Those that people ask for, the strictest first.
PERCENTILES: Final = (99.99, 99.9, 99.5, 99.0, 98.0, 95.0, 90.0, 75.0, 50.0)


def instead(slo: Slo, task_percentile: float, refusals: Iterable[TaskResult]) -> str:
    """``p99=500ms cannot be kept: lately even idle nodes took longer; p99=820ms can``; empty if no
    IAD that refused said what it would keep. Each of its figures was measured by those IADs; one
    that has not answered yet may need more."""
    told = [each.would_keep for each in refusals if each.would_keep is not UNSET]
    if not told or not all(told):
        return ""
    asked = in_words(slo.percentile, slo.latency_ms)
    text = f"{asked} cannot be kept: lately even idle nodes took longer"
    others = list(_others(slo, task_percentile, told))
    return f"{text}; {', '.join(f'{each} can' for each in others)}" if others else ""


def _others(slo: Slo, task_percentile: float, told: list[tuple[Budget, ...]]) -> Iterator[str]:
    longest_ms = max(slo.latency_ms, *[each[0].budget_ms for each in told])
    if (needed_ms := _rounded_up(longest_ms * HEADROOM)) <= MAX_TIMEOUT_MS:
        yield in_words(slo.percentile, needed_ms)
    if any(len(each) < 2 for each in told):
        return
    # Eq. 2, reversed: p_q = p_t^k.
    k = math.log(slo.percentile / 100.0) / math.log(task_percentile / 100.0)
    reached = 100.0 * (min(each[1].percentile for each in told) / 100.0) ** k
    for percentile in PERCENTILES:
        if percentile < slo.percentile and percentile <= reached:
            yield in_words(percentile, slo.latency_ms)
            return


def in_words(percentile: float, latency_ms: float) -> str:
    """As a command line has it: ``p99=820ms``, ``p99.9=12s``."""
    latency = f"{latency_ms / 1e3:.4g}s" if latency_ms >= 10_000.0 else f"{latency_ms:.4g}ms"
    return f"p{percentile_in_words(percentile)}={latency}"


def _rounded_up(ms: float) -> float:
    """To two digits."""
    step = 10.0 ** (math.floor(math.log10(ms)) - 1)
    return math.ceil(ms / step - 1e-9) * step
