"""RELOC: homes by locality, relation and cooperation (Tanaka et al., Algorithm 1)."""

from __future__ import annotations

from typing import Final

import numpy as np

from fleet.placement.homes.case import NOWHERE, Case, Floats, Ints
from fleet.placement.homes.cooperation import cooperate
from fleet.placement.homes.usage import Usage

RELATED: Final = (
    10  # clients with the strongest relation that are looked at; the paper has no number
)
KMEANS_STARTS: Final = 10
KMEANS_ROUNDS: Final = 100


def reloc_homes(
    case: Case, clusters: int, seed: int, positions: Floats | None = None, related: int = RELATED
) -> Ints:
    """Homes of all clients, in their order.

    Servers are clustered by k-means over their `positions`, or, where nobody has these, over their
    delays to one another. A client uses servers of the cluster that is closest to it.
    """
    places = case.between if positions is None else positions
    cluster = kmeans(places, min(clusters, case.servers), seed)
    servers = [np.flatnonzero(cluster == k) for k in range(int(cluster.max()) + 1)]
    closest = _closest(case, servers)
    usage = Usage(case)
    for client in range(case.clients):
        k = int(closest[client])
        usage.put(client, _related_home(usage, client, cluster, k, related))
        if usage.exhausted(int(usage.home[client])):
            cooperate(usage, client, servers[k])
    return usage.home


def _closest(case: Case, servers: list[Ints]) -> Ints:
    """The cluster whose centroid is closest, among those where a client may live. The squared
    distance to a centroid is the mean of the squared distances to its points, less half the mean of
    theirs to one another."""
    far = [
        (case.delay[:, each] ** 2).mean(axis=1) - (case.between[np.ix_(each, each)] ** 2).mean() / 2
        for each in servers
    ]
    usable = np.stack([case.may_live[:, each].any(axis=1) for each in servers], axis=1)
    return np.asarray(np.where(usable, np.stack(far, axis=1), np.inf).argmin(axis=1))


def _related_home(usage: Usage, client: int, cluster: Ints, k: int, related: int) -> int:
    case = usage.case
    usable = case.may_live[client] & (cluster == k)
    for other in case.co_membership[client][0][:related].tolist():
        home = int(usage.home[other])
        if home != NOWHERE and usable[home]:
            return home
    return int(np.where(usable, case.delay[client], np.inf).argmin())


def kmeans(points: Floats, clusters: int, seed: int) -> Ints:
    """The cluster of each point: Lloyd's rounds from k-means++ starts, the best of ten."""
    draw = np.random.default_rng(seed)
    best, least = np.zeros(len(points), np.int64), np.inf
    for _ in range(KMEANS_STARTS):
        centres = _spread(points, clusters, draw)
        for _ in range(KMEANS_ROUNDS):
            apart = ((points[:, None, :] - centres[None, :, :]) ** 2).sum(axis=2)
            cluster = apart.argmin(axis=1)
            moved = centres.copy()
            for k in range(len(centres)):
                if (cluster == k).any():
                    moved[k] = points[cluster == k].mean(axis=0)
            if np.array_equal(moved, centres):
                break
            centres = moved
        inertia = float(apart.min(axis=1).sum())
        if inertia < least:
            best, least = cluster, inertia
    return np.unique(best, return_inverse=True)[1]


def _spread(points: Floats, clusters: int, draw: np.random.Generator) -> Floats:
    chosen = [int(draw.integers(len(points)))]
    while len(chosen) < clusters:
        apart = ((points[:, None, :] - points[chosen][None, :, :]) ** 2).sum(axis=2).min(axis=1)
        if not apart.any():
            break
        chosen.append(int(draw.choice(len(points), p=apart / apart.sum())))
    return points[chosen].copy()
