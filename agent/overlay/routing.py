"""Routing of a notification's copies: static, and inter-cluster dynamic routing.

A broker that handles a notification has two kinds of target links: **target aLinks**, to the next
brokers of its own cluster on the paths to subscribers, and **target iLinks**, one for each cluster
that this copy still has to serve: at the publisher's broker those of the advertisement's bits, at
any later one those that came with the notification. All brokers of a region are neighbours, so that
every target cluster has exactly one iLink from here.

Static routing (OctopiA section VII-A) uses them all. Dynamic routing (section VII-B) bypasses
congested iLinks: the bits of their clusters are carried by one of the copies, and the broker that
receives it applies the same rule to them.

**Why this terminates, and enters each target cluster once.** The clusters that the copies of one
decision enter, and those whose bits they carry, are together exactly the `clusters` given, each
once. So at any time a target cluster is either entered or the bit of exactly one copy. Bits move in
two ways. Over an iLink they come into a cluster that is thereby served, so this happens at most
once for each target cluster. Over an aLink they follow a copy on its path to subscribers, away from
where the notification entered this cluster; that path lies in a tree and ends, at the latest after
its diameter, at a broker without target aLinks, which must use an iLink. With k target clusters and
a tree of diameter d no copy travels more than ``(k + 1) · d + k`` hops, against ``d + 1`` of static
routing, and there are trees and congestion states in which one does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from _core.matching.civ import Civ
from agent.overlay.link_congestion import LinkStatus
from agent.overlay.scot import BrokerId


class Copy(NamedTuple):
    """A copy for the queue to the neighbour, which serves its own cluster and these further
    `clusters`; usually none. Immutable: copies may share the vector."""

    neighbour: BrokerId
    clusters: Civ


def static_copies(own: BrokerId, a_targets: Sequence[BrokerId], clusters: Civ) -> list[Copy]:
    """SNR: one copy for each target, none of which carries a bit (OctopiA section VII-A).

    `own` is the broker that decides, `a_targets` are the next brokers of its cluster, in any order
    and each once, `clusters` the target clusters, without its own. First the aLinks as given, then
    the iLinks by cluster. O(targets).
    """
    nothing = Civ(clusters.width)
    return [Copy(target, nothing) for target in (*a_targets, *_i_links(own, clusters))]


def dynamic_copies(
    own: BrokerId, a_targets: Sequence[BrokerId], clusters: Civ, status: LinkStatus
) -> list[Copy]:
    """IDR: as few copies on congested iLinks as possible (OctopiA section VII-B).

    Every target aLink gets a copy, and

    - some target iLink is free (i): every free one gets a copy; the least loaded one carries the
      bits of the congested
    - none is, but some target aLink (ii): no iLink gets a copy; the least loaded free aLink carries
      all bits
    - none at all is (iv): the least congested iLink gets a copy and carries the other bits

    A receiver of bits applies this again, which is the paper's case (iii): a last congested iLink
    is used if nothing else is left. Arguments and order are those of `static_copies`; of equally
    loaded iLinks the first after the own cluster is taken, going round, and of aLinks the first
    given. The clusters assigned to each neighbour are recorded in `status`. O(targets).
    """
    if not status.any_congested:
        return static_copies(own, a_targets, clusters)
    i_links = _i_links(own, clusters)
    used = free = [link for link in i_links if not status.congested(link)]
    if len(free) == len(i_links):
        return static_copies(own, a_targets, clusters)
    if free:
        carrier = _least_loaded_i_link(own, free, clusters.width, status)
    elif free_a := [target for target in a_targets if not status.congested(target)]:
        carrier = min(free_a, key=status.load)
    else:
        carrier = _least_loaded_i_link(own, i_links, clusters.width, status)
        used = [carrier]
    status.give(carrier, len(i_links) - len(free))
    carried = clusters.copy()
    for link in used:
        carried.clear(link.cluster)
    nothing = Civ(clusters.width)
    return [
        Copy(target, carried if target == carrier else nothing) for target in (*a_targets, *used)
    ]


def _i_links(own: BrokerId, clusters: Civ) -> list[BrokerId]:
    if own.cluster in clusters:
        raise ValueError(
            f"cluster {own.cluster} is where {own} is: no notification goes back there"
        )
    return [BrokerId(own.vertex, cluster) for cluster in clusters]


def _least_loaded_i_link(
    own: BrokerId, links: Sequence[BrokerId], width: int, status: LinkStatus
) -> BrokerId:
    # Going round from the own cluster: else those with low indices would carry for all others.
    return min(links, key=lambda each: (status.load(each), (each.cluster - own.cluster) % width))
