"""Random placement problems of homes."""

from __future__ import annotations

import numpy as np

from fleet.placement.homes.case import Case


def draw(
    seed: int,
    *,
    clients: int = 24,
    topics: int = 6,
    servers: int = 5,
    members: int = 6,
    storage: float = 1e9,
    compute: float = 1e9,
    everybody_publishes: bool = False,
    plain: bool = False,
) -> Case:
    """Clients and servers in the plane, members of a topic near one another. `plain`: everybody
    publishes and hears, at rate 1, as in the paper."""
    of = np.random.default_rng(seed)
    at, sites = of.random((clients, 2)) * 10, of.random((servers, 2)) * 10
    pairs = set()
    for topic in range(topics):
        middle = of.random(2) * 10
        near = ((at - middle) ** 2).sum(axis=1) * of.random(clients)
        pairs |= {(int(c), topic) for c in np.argsort(near)[:members]}
    client, topic_ = np.array(sorted(pairs), np.int64).reshape(-1, 2).T
    rate, hears = of.integers(0, 3, len(client)) * 1.0, of.integers(0, 2, len(client)) * 1.0
    if plain:
        rate = hears = np.ones(len(client))
    elif everybody_publishes:
        rate = rate + 1.0
    return Case(
        delay=np.linalg.norm(at[:, None] - sites[None], axis=2),
        between=np.linalg.norm(sites[:, None] - sites[None], axis=2),
        client=client,
        topic=topic_,
        rate=rate,
        hears=hears,
        spool=of.integers(1, 10, topics) * 1.0,
        storage=np.full(servers, storage),
        compute=np.full(servers, compute),
        cloud=30.0,
        work=None if plain else of.random(topics),
        extra=None if plain else of.random((clients, servers)),
        opening=None if plain else of.random(servers) * 50,
    )
