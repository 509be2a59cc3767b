"""Models of order statistics that are filled and settled, and service times to fill them with."""

import math
import random

from _core.deadlines.order_statistics import NodeSet, UnloadedModel

# After this many calls all columns of any set have been looked at.
CALLS = 16


def lognormal(draw: random.Random, mean_s: float, count: int) -> list[float]:
    """`count` service times of a hardware profile."""
    return [draw.lognormvariate(math.log(mean_s) - 0.18, 0.6) for _ in range(count)]


def filled(model: UnloadedModel, samples: list[list[float]]) -> NodeSet:
    """The set of all nodes of a model that got these samples at time 0."""
    for values in samples:
        column = model.add_node()
        for value in values:
            model.observe(column, value, 0.0)
    return model.node_set(range(len(samples)))


def settled(model: UnloadedModel, nodes: NodeSet, now_s: float) -> NodeSet:
    """The set, all its columns that are due by age refreshed."""
    for _ in range(CALLS):
        model.quantile(nodes, 50.0, now_s)
    return nodes
