"""The arithmetic of overlays, by hand and by drawing."""

from __future__ import annotations

import random

import pytest

from agent.overlay.scot import BrokerId, Scot
from lab.overlay import formulas, topology
from lab.overlay.formulas import Load


def test_the_papers_overlay():
    scot = topology.paper()
    assert (scot.order, len(scot.vertices), scot.clusters) == (70, 14, 5)
    inner = [vertex for vertex in scot.vertices if not scot.is_edge(BrokerId(vertex, 0))]
    assert sorted(inner) == ["F", "G", "H", "I"]
    expected = formulas.octopia(scot, Load(500, 5_000, 100.0, 100.0))
    # 5 of 70 brokers have an advertisement: −92.9 %; 4 messages against 341: −98.8 %.
    assert expected.srt == pytest.approx(500 * 5 / 70)
    assert expected.prt == 1_000
    assert (expected.advertisement_messages, formulas.flood_messages(scot)) == (4, 341)
    # With a hundred that match, every cluster has one: 4 CIB_SETs for each of 500.
    assert expected.cib_messages == pytest.approx(0.4)
    assert expected.subscription_messages == pytest.approx(13.4)
    assert (expected.subscription_hops, expected.notification_hops) == (5, 6)


def test_by_hand_two_vertices_and_two_clusters():
    scot = Scot([("a", "b")], 2)
    # One subscriber: with probability 1/2 in the other cluster, with 1/2 at the other vertex.
    assert formulas.notification_messages(scot, 1) == pytest.approx(1.0)
    # Very many: into the other cluster once, and over the link of each cluster.
    assert formulas.notification_messages(scot, 1e9) == pytest.approx(3.0)
    assert formulas.flood_messages(scot) == 2 * 4 - 4 + 1


def test_an_overlay_of_one_factor():
    region, tree = Scot([], 4, ["a"]), Scot([("a", "b"), ("b", "c")], 1)
    assert formulas.notification_messages(region, 1e9) == pytest.approx(3.0)
    assert formulas.notification_messages(tree, 1e9) == pytest.approx(2.0)


@pytest.mark.parametrize(
    ("vertices", "clusters", "interested"), [(14, 5, 40), (9, 3, 2), (1, 6, 3), (7, 1, 4)]
)
def test_messages_of_a_notification_as_drawn(vertices, clusters, interested):
    scot = topology.spread(vertices, clusters, fanout=2)
    draw, brokers = random.Random(7), list(scot.brokers())
    drawn = [
        messages(scot, draw.choice(brokers), [draw.choice(brokers) for _ in range(interested)])
        for _ in range(1_500)
    ]
    found = formulas.notification_messages(scot, interested)
    assert sum(drawn) / len(drawn) == pytest.approx(found, rel=0.05)


def messages(scot: Scot, publisher: BrokerId, subscribers: list[BrokerId]) -> int:
    """Of one notification: all links of the ways in the clusters, and a copy into each other."""
    links: set[object] = set()
    for each in subscribers:
        if each.cluster != publisher.cluster:
            links.add(each.cluster)
        way = scot.path(publisher.vertex, each.vertex)
        links.update((each.cluster, hop) for hop in way[1:])
    return len(links)


def test_the_best_number_of_clusters():
    assert formulas.best_clusters(10_000, 1.0, 1.0) == 100
    assert formulas.best_clusters(10_000, 100.0, 1.0) == 10
    brokers, changes = 3_600, (2.0, 8.0)
    best = formulas.best_clusters(brokers, *changes)

    def cost(clusters: float) -> float:
        return (clusters - 1) * changes[0] + (brokers / clusters - 1) * changes[1]

    assert cost(best) < min(cost(best * 1.1), cost(best / 1.1))


def test_a_tree_that_is_spread():
    scot = topology.spread(22, 3)
    assert scot.order == 66
    assert {scot.tree.degree(vertex) for vertex in scot.vertices} == {1, 2, 4, 5}
    assert topology.spread(1, 5).order == 5
