"""Deadline estimation: from a task's budget to its queueing deadline (DSSP Eqs. 3–6)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean
from typing import Final

from msgspec import Struct

from _core.deadlines.order_statistics import NodeSet, UnloadedModel
from _core.deadlines.size_regression import SizeModel
from agent.wire.base import MAX_TIMEOUT_MS
from agent.wire.messages import Budget

# From this many samples on, the prior counts little up to the percentile that they reach.
MEASURED: Final = 100
LEAST_PERCENTILE: Final = 0.001
# Halvings of the distance to 100 % between two percentiles: to within a thousandth of it.
HALVINGS: Final = 14
MEAN_POINTS: Final = 64
# Midpoints of this many equal shares of the distribution.
MEAN_PERCENTILES: Final = tuple(100.0 * (i + 0.5) / MEAN_POINTS for i in range(MEAN_POINTS))


class Deadline(Struct, frozen=True):
    """How long the subtasks of a task may queue; seconds.

    `unloaded_s` is x_u and `queueing_budget_s` is t_Q = x_t − x_u (negative: late even if served at
    once). Enqueued at t_0, all of them share the deadline t_D = t_0 + t_Q. `infeasible` says that
    t_Q < 0 was measured, not guessed: every node's window is large enough to have seen the quantile
    in question, or a lower one that is already too long.
    """

    unloaded_s: float
    queueing_budget_s: float
    infeasible: bool


class DeadlineEstimator:
    """Unloaded response times of an IAD's nodes, and the deadlines that follow from them."""

    def __init__(
        self, *, window_samples: int = 10_000, window_s: float = 3_600.0, cold_start_s: float = 0.1
    ) -> None:
        self._model = UnloadedModel(
            max_count=window_samples, max_age_s=window_s, prior_mean_s=cold_start_s
        )
        self._cold_start_s = cold_start_s
        # observe(column, unloaded_s, now): one unloaded response time of a node, in seconds, from
        # dispatch to an idle pod to result received. Called for every subtask: no step between.
        self.observe = self._model.observe
        self._sizes = sizes = SizeModel(cold_start_s)
        # observe_size(column, size, unloaded_s): the same response time, with the size of the
        # request; expected_s(column, size): the node's expected time for it, seconds.
        self.observe_size = sizes.observe
        self.expected_s = sizes.expected

    def add_node(self) -> int:
        """A column for a new node."""
        return self._model.add_node()

    def remove_node(self, column: int) -> None:
        """Forget a node; a later one may have its column."""
        self._model.remove_node(column)
        self._sizes.forget(column)

    def samples(self, column: int) -> int:
        """Number of response times in the node's window."""
        return self._model.node_count(column)

    def mean_s(self, column: int) -> float:
        """Mean unloaded response time of a node, in seconds, within some 2 %: the mean of
        `MEAN_POINTS` quantiles. Without samples, the mean that is assumed before any
        measurement."""
        if not self.samples(column):
            return self._cold_start_s
        node = self._model.node_set([column])
        # A time before the last observation is treated as equal to it.
        return fmean(self._model.quantile(node, p, 0.0) for p in MEAN_PERCENTILES)

    def deadline(
        self, columns: Sequence[int], percentile: float, budget_s: float, now: float
    ) -> Deadline:
        """The deadline of a task that fans out to `columns` now, with budget (p_t, x_t)."""
        nodes = self._model.node_set(columns)
        unloaded_s = self._model.quantile(nodes, percentile, now)
        queueing_budget_s = budget_s - unloaded_s
        infeasible = queueing_budget_s < 0 and self._is_measured(nodes, percentile, budget_s, now)
        return Deadline(unloaded_s, queueing_budget_s, infeasible)

    def would_keep(
        self, columns: Sequence[int], percentile: float, budget_s: float, now: float
    ) -> tuple[Budget, ...]:
        """Budgets that idle nodes keep where (p_t, x_t) is infeasible: x_u for that percentile, and
        the highest percentile of which x_u is within that time. `HALVINGS` quantiles."""
        nodes = self._model.node_set(columns)
        longer_ms = self._model.quantile(nodes, percentile, now) * 1e3
        longer = Budget(percentile, min(longer_ms, MAX_TIMEOUT_MS))
        low, high = LEAST_PERCENTILE, percentile
        if self._model.quantile(nodes, low, now) > budget_s:
            return (longer,)
        for _ in range(HALVINGS):
            middle = 100.0 - math.sqrt((100.0 - low) * (100.0 - high))
            if self._model.quantile(nodes, middle, now) > budget_s:
                high = middle
            else:
                low = middle
        return longer, Budget(low, budget_s * 1e3)

    def _is_measured(self, nodes: NodeSet, percentile: float, budget_s: float, now: float) -> bool:
        """Whether the windows have seen that the quantile is longer than the budget: itself, or one
        below it, which is shorter."""
        least = self._model.min_count(nodes)
        if least >= UnloadedModel.samples_needed(percentile, len(nodes)):
            return True
        if least < MEASURED:
            return False
        seen = max(LEAST_PERCENTILE, 100.0 * (1.0 - 1.0 / least) ** len(nodes))
        return seen < percentile and self._model.quantile(nodes, seen, now) > budget_s
