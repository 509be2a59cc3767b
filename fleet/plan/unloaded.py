"""x_u of the tasks of a capacity plan, from the order statistics that ship (DSSP Eqs. 3-4)."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from typing import Final

import numpy as np

from _core.deadlines.order_statistics import UnloadedModel
from fleet.plan.draw import Draw, Floats
from fleet.plan.times import MAX_QUANTILES, Times

# By then every column may be looked at again, a few with each question.
LATER_S: Final = 10.0


class Unloaded:
    """Masters whose nodes' windows are full of the nodes' own distributions.

    What one IAD answers holds for every IAD of the same kinds of nodes, and of nodes of one kind it
    only matters how many they are: few questions, each asked once.
    """

    def __init__(self, sizes: Sequence[int], kind: Sequence[int], kinds: Sequence[Times]) -> None:
        firsts = np.concatenate(([0], np.cumsum(sizes)))
        self._kind = kind
        self._iads = [tuple(kind[a:b]) for a, b in itertools.pairwise(firsts.tolist())]
        self._windows_s = [times.window_s().tolist() for times in kinds]
        self._models: dict[tuple[int, ...], UnloadedModel] = {}
        self._known: dict[tuple[object, ...], float] = {}

    def of_tasks(self, draw: Draw) -> Floats:
        """[tasks] x_u in s."""
        percentiles, level = np.unique(draw.percentile, return_inverse=True)
        pairs = draw.task_set.astype(np.int64) * len(percentiles) + level
        distinct, task_pair = np.unique(pairs, return_inverse=True)
        found = np.empty(len(distinct))
        for number, pair in enumerate(distinct.tolist()):
            chosen, at = divmod(pair, len(percentiles))
            nodes = draw.set_nodes[draw.set_first[chosen] : draw.set_first[chosen + 1]].tolist()
            found[number] = self.of_set(int(draw.node_iad[nodes[0]]), nodes, float(percentiles[at]))
        x_u_s: Floats = found[task_pair]
        return x_u_s

    def of_set(self, iad: int, nodes: Sequence[int], percentile: float) -> float:
        """x_u in s of a task for these nodes of an IAD, numbered in the fleet."""
        kinds = self._iads[iad]
        asked = Counter(self._kind[node] for node in nodes)
        key = (kinds, tuple(sorted(asked.items())), percentile)
        if key not in self._known:
            model = self._model(kinds)
            columns = [
                column
                for kind, count in asked.items()
                for column in [c for c, other in enumerate(kinds) if other == kind][:count]
            ]
            self._known[key] = model.quantile(model.node_set(columns), percentile, LATER_S)
        return self._known[key]

    def _model(self, kinds: tuple[int, ...]) -> UnloadedModel:
        if kinds not in self._models:
            model = UnloadedModel(max_count=MAX_QUANTILES)
            for kind in kinds:
                column = model.add_node()
                for value_s in self._windows_s[kind]:
                    model.observe(column, value_s, 0.0)
            everybody = model.node_set(range(len(kinds)))
            for _ in kinds:
                model.quantile(everybody, 99.0, LATER_S)
            self._models[kinds] = model
        return self._models[kinds]
