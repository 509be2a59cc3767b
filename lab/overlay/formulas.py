"""Closed-form costs of an overlay as a function of its two factors.

Clients are placed uniformly at random: each client at a broker drawn from all, independently. |V_a|
is the number of vertices of the tree, |V_c| that of clusters.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from msgspec import Struct

from agent.overlay.scot import Scot


class Load(Struct, frozen=True):
    """Advertisements and subscriptions in the whole overlay; the number of subscriptions that match
    one notification, and that match one advertisement."""

    advertisements: int
    subscriptions: int
    interested: float
    matching: float


class Expected(Struct, frozen=True):
    """Means: entries of a broker's tables; messages of one advertisement, of one subscription (of
    which `cib_messages` notify hosts of advertisements) and of one notification; hops of the
    longest path of a subscription, and of a notification (statically); messages of a broker when
    all start together, without content."""

    brokers: int
    neighbours: float
    srt: float
    prt: float
    advertisement_messages: float
    subscription_messages: float
    cib_messages: float
    notification_messages: float
    subscription_hops: int
    notification_hops: int
    start_messages: float


def octopia(scot: Scot, load: Load) -> Expected:
    """OctopiA's, with static routing. O(|V_a|)."""
    vertices, clusters = len(scot.vertices), scot.clusters
    cib = load.advertisements * _other_targets(clusters, load.matching) / load.subscriptions
    return Expected(
        brokers=scot.order,
        neighbours=2 * scot.size / scot.order,
        srt=load.advertisements / vertices,
        prt=load.subscriptions / clusters,
        advertisement_messages=clusters - 1,
        subscription_messages=vertices - 1 + cib,
        cib_messages=cib,
        notification_messages=notification_messages(scot, load.interested),
        subscription_hops=scot.tree.diameter,
        notification_hops=scot.diameter,
        start_messages=start_messages(scot),
    )


def start_messages(scot: Scot) -> float:
    """Per broker: the two ends of each link compare versions; each broker's empty set of
    subscriptions goes to all of its cluster, and that of advertisements to its region, which
    answers."""
    vertices, clusters = len(scot.vertices), scot.clusters
    return 2 * (vertices - 1) / vertices + vertices - 1 + 3 * (clusters - 1)


def flood_messages(scot: Scot) -> int:
    """For an advertisement that is flooded over all links, each duplicate discarded on arrival:
    over every link in both directions, except for the |V| − 1 over which it came first."""
    return 2 * scot.size - scot.order + 1


def notification_messages(scot: Scot, interested: float) -> float:
    """A copy into each target cluster, and in each cluster over the links of its tree that lead
    from its entry to a subscriber."""
    vertices, clusters, order = len(scot.vertices), scot.clusters, scot.order
    in_trees = 0.0
    for below in _below(scot):
        for near, far in ((below, vertices - below), (vertices - below, below)):
            # It enters on this side of the link, and a subscriber is on the other.
            in_trees += near / vertices * _some(far / order, interested)
    return clusters * in_trees + _other_targets(clusters, interested)


def best_clusters(brokers: int, advertisements_per_s: float, subscriptions_per_s: float) -> float:
    """The |V_c| with fewest messages for changes of advertisements (|V_c| − 1 each) and of
    subscriptions (|V_a| − 1 each): √(brokers · subscriptions / advertisements)."""
    best: float = (brokers * subscriptions_per_s / advertisements_per_s) ** 0.5
    return best


def _some(share: float, count: float) -> float:
    """The probability that at least one of this many, placed at random, is in that share of the
    overlay."""
    some: float = 1.0 - (1.0 - share) ** count
    return some


def _other_targets(clusters: int, interested: float) -> float:
    """Clusters other than the publisher's with a subscriber."""
    return (clusters - 1) * _some(1 / clusters, interested)


def _below(scot: Scot) -> Sequence[int]:
    """For each link of the tree, the number of vertices that it separates from the first one."""
    tree = scot.tree
    if not tree.links:
        return []
    root = tree.vertices[0]
    order, parent = [root], {root: root}
    for at in order:  # grows during iteration
        for each in tree.neighbours(at):
            if each not in parent:
                parent[each] = at
                order.append(each)
    size = dict.fromkeys(order, 1)
    for each in itertools.islice(reversed(order), len(order) - 1):
        size[parent[each]] += size[each]
    return [size[each] for each in order[1:]]
