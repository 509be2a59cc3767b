"""Small random traces, as the keyword arguments of `Trace`; and models for them."""

from __future__ import annotations

import random
from array import array
from collections.abc import Callable
from itertools import accumulate, groupby
from typing import Any

import numpy as np
import pytest

from _core.deadlines.order_statistics import UnloadedModel
from _core.deadlines.size_regression import SizeModel
from _core.simulator import Run, ServiceTimes, simulate_events, simulate_nodes

Arguments = dict[str, Any]


class Case:
    """A fleet of one to three IADs, its trace, and a service time for each subtask.

    With `ties` all times are small whole numbers: much happens at the same instant.
    """

    def __init__(self, seed: int, *, ties: bool = False, queries: int = 60) -> None:
        self.draw = random.Random(seed)
        self.ties = ties
        self.fleet = self._fleet()
        self.load = self._load(queries)
        self.trace: Arguments = self.fleet | self.load
        self.nodes = len(self.fleet["node_iad"])
        self.subtasks = sum(self.load["task_size"])
        self.node_service = array("i", [0] * self.nodes)
        self.service_s = array("d", [self._time(0.8) for _ in range(self.subtasks)])
        # What is expected of each says little of it.
        self.expected_s = array("d", [(0.8 + time_s) / 2.0 for time_s in self.service_s])
        self.deadline_s = array(
            "d",
            [
                enqueued_s + budget_s - self._time(1.0)
                for enqueued_s, budget_s in zip(
                    self.load["task_enqueued_s"], self.load["task_budget_s"], strict=True
                )
            ],
        )

    def sizes(self) -> list[SizeModel]:
        """Empty models of sizes, one for each IAD."""
        return [SizeModel(0.8) for _ in groupby(self.fleet["node_iad"])]

    def models(self) -> list[UnloadedModel]:
        """Empty models, one for each IAD."""
        made = []
        for _, nodes in groupby(self.fleet["node_iad"]):
            model = UnloadedModel(prior_mean_s=0.8)
            for _ in nodes:
                model.add_node()
            made.append(model)
        return made

    def _time(self, mean_s: float) -> float:
        if self.ties:
            return float(self.draw.randint(0, 3))
        return self.draw.expovariate(1.0 / mean_s)

    def _fleet(self) -> Arguments:
        draw = self.draw
        iads = draw.randint(1, 3)
        node_iad = [iad for iad in range(iads) for _ in range(draw.randint(1, 5))]
        sets = []
        for _ in range(draw.randint(1, 8)):
            iad = draw.randrange(iads)
            members = [node for node, of in enumerate(node_iad) if of == iad]
            sets.append(draw.sample(members, draw.randint(1, len(members))))
        return {
            "node_iad": array("i", node_iad),
            "node_pods": array("i", [draw.choice([1, 1, 1, 2, 3, 5]) for _ in node_iad]),
            "set_first": array("q", [0, *accumulate(len(nodes) for nodes in sets)]),
            "set_nodes": array("i", [node for nodes in sets for node in nodes]),
        }

    def _load(self, queries: int) -> Arguments:
        draw = self.draw
        first = self.fleet["set_first"]
        load: Arguments = {
            "query_arrived_s": array("d"),
            "query_class": array("i"),
            "task_query": array("i"),
            "task_set": array("i"),
            "task_size": array("i"),
            "task_enqueued_s": array("d"),
            "task_budget_s": array("d"),
            "task_percentile": array("d"),
            "task_after_s": array("d"),
            "task_window_s": array("d"),
            "query_scheduler": array("i"),
            "query_percentile": array("d"),
        }
        now_s = 0.0
        for query in range(queries):
            now_s += self._time(1.0)
            kind = draw.randrange(3)
            load["query_arrived_s"].append(now_s)
            load["query_class"].append(kind)
            load["query_scheduler"].append(query % 2)
            load["query_percentile"].append((90.0, 99.0, 99.9)[kind])
            for _ in range(draw.randint(1, 3)):
                chosen = draw.randrange(len(first) - 1)
                load["task_query"].append(query)
                load["task_set"].append(chosen)
                load["task_size"].append(draw.randint(1, first[chosen + 1] - first[chosen]))
                load["task_enqueued_s"].append(now_s + self._time(0.5))
                load["task_budget_s"].append((2.0, 4.0, 8.0)[kind])
                load["task_percentile"].append((90.0, 99.0, 99.9)[kind])
                load["task_after_s"].append(self._time(0.1))
                load["task_window_s"].append((60.0, 600.0)[query % 2])
        return load


Simulate = Callable[..., Run]
BOTH = pytest.mark.parametrize("simulate", [simulate_nodes, simulate_events])


SERVICES = (
    ServiceTimes.exponential_sum([0.3, 0.4], known=0.7),
    ServiceTimes.lognormal(0.7, 0.6, 0.1, known=0.7),
    ServiceTimes.quantiles(array("d", [0.2, 0.5, 1.5]), exponential_tail_s=0.75),
)


def one_node(pods: int, arrived_s: np.ndarray, budget_s: float = 1.0) -> dict[str, Any]:
    """Queries of one subtask each at one node."""
    queries = len(arrived_s)
    zeros = np.zeros(queries, dtype=np.int32)
    return {
        "node_iad": array("i", [0]),
        "node_pods": array("i", [pods]),
        "set_first": array("q", [0, 1]),
        "set_nodes": array("i", [0]),
        "task_set": zeros,
        "task_size": zeros + np.int32(1),
        "query_arrived_s": arrived_s,
        "query_class": zeros,
        "task_query": np.arange(queries, dtype=np.int32),
        "task_enqueued_s": arrived_s,
        "task_budget_s": np.full(queries, budget_s),
        "task_percentile": np.full(queries, 99.0),
        "task_after_s": np.zeros(queries),
    }
