"""What a placement of homes costs, delivery by delivery: the naive twin of `Accounts`."""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple


class Found(NamedTuple):
    """Σ rate · delay, its resource part, the deliveries, and each server's use and shares."""

    total: float
    delegated: float
    deliveries: float
    stored: list[float]
    load: list[float]


def use(case, home):
    """Each server's topics with their publishers' rates, spools counted once."""
    rates = [defaultdict(float) for _ in range(case.servers)]
    for c, t, rate in zip(*(v.tolist() for v in (case.client, case.topic, case.rate)), strict=True):
        if rate > 0 and home[c] >= 0:
            rates[home[c]][t] += rate
    work = case.spool if case.work is None else case.work
    stored = [sum(case.spool[t] for t in each) for each in rates]
    load = [sum(work[t] * rate for t, rate in each.items()) for each in rates]
    return stored, load


def ratio(case, home):
    """RELOC Eq. 2 for every server, the same share of every topic."""
    stored, load = use(case, home)
    return [
        [
            min(
                1.0,
                case.storage[s] / stored[s] if stored[s] else 1.0,
                case.compute[s] / load[s] if load[s] else 1.0,
            )
        ]
        * case.topics
        for s in range(case.servers)
    ]


def cost(case, home, shares):
    """The price, where server s processes the share ``shares[s][t]`` of topic t itself."""
    members = defaultdict(list)
    rows = zip(*(v.tolist() for v in (case.client, case.topic, case.rate, case.hears)), strict=True)
    for c, t, rate, hears in rows:
        if home[c] >= 0:
            members[t].append((c, rate, hears))
    total = delegated = deliveries = 0.0
    for t, each in members.items():
        for u, rate, _ in each:
            for v, _, hears in each:
                if u == v or not rate * hears:
                    continue
                a, b, w = home[u], home[v], shares[home[u]][t]
                middle = w * case.between[a, b] + (1 - w) * 2 * case.cloud
                total += rate * (case.delay[u, a] + middle + case.delay[v, b])
                delegated += rate * (1 - w) * 2 * case.cloud
                deliveries += rate
    if case.extra is not None:
        total += sum(case.extra[c, s] for c, s in enumerate(home) if s >= 0)
    if case.opening is not None:
        total += sum(case.opening[s] for s in {*home} - {-1})
    return Found(total, delegated, deliveries, *use(case, home))
