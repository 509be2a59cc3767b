"""`_core.colocation.model`, straight from its formulas: sums over all sets of active topics, and
an overrun found by bisection."""

import math
from collections.abc import Sequence
from itertools import product
from typing import Any

Topic = tuple[float, float, float, float, float]
"""service_s, rate, publishers, objective_s, quantile"""


def speed(cores: float, interference: float, active: int) -> float:
    return min(1.0, cores / active) / (1.0 + interference * (active - 1))


def root(free_s: float, variance: float, certainty: float) -> float:
    return (math.sqrt(free_s**2 + 2.0 * variance * certainty) - free_s) / 2.0


def wait(
    topic: Topic, service_s: float, utilisation: float, variance: float, window_s: float
) -> float:
    _, rate, publishers, _, quantile = topic
    certainty = math.log(max(min(utilisation, 1.0) / (1.0 - quantile), 1.0))
    per_message = variance + (1.0 if publishers == 0 else 0.0)
    walk = root(
        (1.0 - utilisation) * window_s, rate * service_s**2 * per_message * window_s, certainty
    )
    bridge = 0.0
    if publishers > 1:
        period_s = publishers / rate
        free_s = max(1.0 - utilisation, 0.0) * period_s
        bridge = root(free_s, (publishers - 1) * service_s**2, certainty)
    return walk + bridge


def own_threads(topics: Sequence[Topic], p: dict[str, Any]) -> list[float]:
    base = [topic[0] * p["service_scale"] for topic in topics]
    busy = [min(1.0, topic[1] * each) for topic, each in zip(topics, base, strict=True)]
    service, utilisation, variance = base[:], busy[:], [0.0] * len(topics)
    for _ in range(60):
        moved = 0.0
        for i in range(len(topics)):
            others = [busy[j] for j in range(len(topics)) if j != i]
            mean = square = 0.0
            for active in product((False, True), repeat=len(others)):
                chance = math.prod(
                    u if on else 1.0 - u for u, on in zip(others, active, strict=True)
                )
                fast = speed(p["cores"], p["interference"], 1 + sum(active))
                mean += chance * fast
                square += chance * fast**2
            service[i] = base[i] / mean
            utilisation[i] = topics[i][1] * service[i]
            variance[i] = max(square / mean**2 - 1.0, 0.0)
            step = min(1.0, utilisation[i]) - busy[i]
            moved = max(moved, abs(step))
            busy[i] = min(1.0, busy[i] + 1.5 * step)
        if moved < 1e-4:
            break
    return [
        p["overhead_s"]
        + service[i]
        + (
            wait(
                topic,
                service[i],
                utilisation[i],
                p["service_variance"] + p["speed_variance"] * variance[i],
                p["window_s"],
            )
            if topic[1] > 0
            else 0.0
        )
        for i, topic in enumerate(topics)
    ]


def overrun(topics: Sequence[Topic], shares: Sequence[float], wait_s: float) -> float:
    def excess(f: float) -> float:
        return sum(
            share * (max(0.0, topic[3] + f) - wait_s)
            for topic, share in zip(topics, shares, strict=True)
        )

    if not sum(shares):
        return -max(topic[3] for topic in topics)
    low, high = -max(topic[3] for topic in topics), wait_s
    for _ in range(200):
        middle = (low + high) / 2.0
        low, high = (middle, high) if excess(middle) < 0.0 else (low, middle)
    return high


def pooled_wait(topics: Sequence[Topic], p: dict[str, Any], latest_s: float) -> float:
    """The wait without regard to objectives, of the topics with objectives up to `latest_s`."""
    some = [topic for topic in topics if topic[3] <= latest_s and topic[1] > 0]
    if not some:
        return 0.0
    cores = p["cores"]
    slow = 1.0 + p["interference"] * (cores - 1.0)
    steps = [topic[0] * p["service_scale"] * slow / cores for topic in some]
    pairs = list(zip(some, steps, strict=True))
    utilisation = sum(topic[1] * step for topic, step in pairs)
    chance = min(utilisation, 1.0) ** (math.sqrt(2.0 * (cores + 1.0)) - 1.0)
    certainty = math.log(max(chance / (1.0 - max(0.5, *(t[4] for t in [*some, *some]))), 1.0))
    walk = sum(t[1] * step**2 * (p["service_variance"] + (t[2] == 0)) for t, step in pairs)
    wait_s = root((1.0 - utilisation) * p["window_s"], walk * p["window_s"], certainty)
    publishers = sum(topic[2] for topic in some)
    if publishers <= 1:
        return wait_s
    bridges = [
        (t[2] * step**2 * (publishers - 1) / publishers, max(1 - utilisation, 0.0) * t[2] / t[1])
        for t, step in pairs
        if t[2] > 0
    ]
    low, high = 0.0, math.sqrt(sum(v for v, _ in bridges) * certainty / 2.0)
    for _ in range(200):
        middle = (low + high) / 2.0
        if middle == 0.0:
            break
        more = middle < sum(v * certainty / 2.0 / (middle + free) for v, free in bridges)
        low, high = (middle, high) if more else (low, middle)
    return wait_s + high


def shared_queue(topics: Sequence[Topic], p: dict[str, Any]) -> list[float]:
    cores = p["cores"]
    slow = 1.0 + p["interference"] * (cores - 1.0)
    shares = [topic[0] * p["service_scale"] * topic[1] for topic in topics]
    wait_s = pooled_wait(topics, p, math.inf)
    late = overrun(topics, shares, wait_s)
    busy = min(sum(shares) * slow, cores)
    slowed = 1.0 + p["interference"] * max(busy - 1.0, 0.0)
    found = []
    for topic in topics:
        service_s = topic[0] * p["service_scale"] * slowed
        own_s = 0.0
        if p["serial"] and topic[1] > 0:
            load = topic[1] * service_s
            own_s = wait(topic, service_s, load, p["service_variance"], p["window_s"])
        waited_s = max(0.0, own_s, topic[3] + late, pooled_wait(topics, p, topic[3]))
        found.append(p["overhead_s"] + service_s + waited_s)
    return found


def latencies(topics: Sequence[Topic], *, shared: bool, **parameters: Any) -> list[float]:
    """What the model predicts, without trees."""
    p = {
        "service_scale": 1.0,
        "overhead_s": 0.0,
        "service_variance": 0.0,
        "speed_variance": 0.0,
        "window_s": 100.0,
        "serial": False,
        **parameters,
    }
    return (shared_queue if shared else own_threads)(topics, p)


def tree_sum(trees: Sequence[Sequence[Sequence[Any]]], row: Sequence[float]) -> float:
    total = 0.0
    for feature, threshold, left, right, value in trees:
        node = 0
        while left[node] != -1:
            node = left[node] if row[feature[node]] <= threshold[node] else right[node]
        total += value[node]
    return total
