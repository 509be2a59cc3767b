"""The decision of one broker: static and dynamic copies, case by case."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from _core.matching.civ import Civ
from agent.overlay.events import LinkMeasured
from agent.overlay.link_congestion import LinkStatus
from agent.overlay.routing import Copy, dynamic_copies, static_copies
from agent.overlay.scot import BrokerId

WIDTH = 6
HERE = BrokerId("m", 2)
UP, DOWN = BrokerId("u", 2), BrokerId("d", 2)


def civ(*clusters: int) -> Civ:
    return Civ(WIDTH, clusters)


def plain(copies: Iterable[Copy]) -> list[tuple[str, int, list[int]]]:
    return [(each.neighbour.vertex, each.neighbour.cluster, [*each.clusters]) for each in copies]


def status(**lengths: int) -> LinkStatus:
    """Steady queues, to a vertex or to a cluster (``c3``): congested above 10."""
    table = LinkStatus()
    for name, length in lengths.items():
        known = {"up": UP, "down": DOWN}.get(name)
        neighbour = known or BrokerId(HERE.vertex, int(name.removeprefix("c")))
        table.measured(LinkMeasured(neighbour, 0, 0, length))
    return table


def test_static_routing_uses_every_target_link_and_carries_nothing() -> None:
    assert plain(static_copies(HERE, [UP, DOWN], civ(5, 0, 3))) == [
        ("u", 2, []),
        ("d", 2, []),
        ("m", 0, []),
        ("m", 3, []),
        ("m", 5, []),
    ]
    assert static_copies(HERE, [], civ()) == []


def test_dynamic_routing_without_congestion_is_static() -> None:
    lengths = status(up=10, down=3, c0=10, c5=1)
    assert plain(dynamic_copies(HERE, [UP, DOWN], civ(0, 5), lengths)) == plain(
        static_copies(HERE, [UP, DOWN], civ(0, 5))
    )
    # No clusters are left: congested aLinks are used all the same.
    assert plain(dynamic_copies(HERE, [UP], civ(), status(up=99))) == [("u", 2, [])]


def test_the_least_loaded_free_i_link_carries_the_congested_ones() -> None:
    copies = dynamic_copies(HERE, [UP], civ(0, 1, 3, 4, 5), status(up=50, c0=11, c1=9, c3=5, c4=99))
    assert plain(copies) == [("u", 2, []), ("m", 1, []), ("m", 3, []), ("m", 5, [0, 4])]
    copies = dynamic_copies(HERE, [], civ(0, 1, 3, 4), status(c0=11, c1=9, c3=5, c4=99))
    assert plain(copies) == [("m", 1, []), ("m", 3, [0, 4])]


def test_without_a_free_i_link_the_least_loaded_free_a_link_carries_all() -> None:
    lengths = status(up=6, down=5, c0=11, c1=12)
    assert plain(dynamic_copies(HERE, [UP, DOWN], civ(0, 1), lengths)) == [
        ("u", 2, []),
        ("d", 2, [0, 1]),
    ]
    # Also if it is a single cluster, and the other aLink is congested.
    lengths = status(up=60, down=5, c0=11)
    assert plain(dynamic_copies(HERE, [UP, DOWN], civ(0), lengths)) == [
        ("u", 2, []),
        ("d", 2, [0]),
    ]


def test_without_any_free_link_the_least_congested_i_link_carries_the_others() -> None:
    lengths = status(up=11, down=12, c0=30, c1=20, c4=25)
    assert plain(dynamic_copies(HERE, [UP, DOWN], civ(0, 1, 4), lengths)) == [
        ("u", 2, []),
        ("d", 2, []),
        ("m", 1, [0, 4]),
    ]


def test_a_last_congested_i_link_is_used_if_nothing_else_is_left() -> None:
    assert plain(dynamic_copies(HERE, [], civ(0), status(c0=99))) == [("m", 0, [])]


def test_of_equals_the_next_cluster_going_round_and_the_first_a_link_is_taken() -> None:
    # From cluster 2: 4 comes before 0, and 5 before 1.
    assert plain(dynamic_copies(HERE, [], civ(0, 3, 4), status(c3=11))) == [
        ("m", 0, []),
        ("m", 4, [3]),
    ]
    assert plain(dynamic_copies(HERE, [], civ(1, 5), status(c1=20, c5=20))) == [("m", 5, [1])]
    assert plain(dynamic_copies(HERE, [UP, DOWN], civ(1), status(c1=20))) == [
        ("u", 2, [1]),
        ("d", 2, []),
    ]


def test_within_a_window_the_work_goes_round() -> None:
    table = status(c0=11, c1=12)

    def carriers(a_targets: list[BrokerId], *clusters: int) -> list[BrokerId]:
        decisions = [dynamic_copies(HERE, a_targets, civ(*clusters), table) for _ in range(3)]
        return [each.neighbour for copies in decisions for each in copies if each.clusters]

    three, four = BrokerId("m", 3), BrokerId("m", 4)
    assert carriers([], 0, 3, 4) == [three, four, three]
    assert carriers([UP, DOWN], 0, 1) == [UP, DOWN, UP]
    # Of congested ones too, by how congested they were.
    table.measured(LinkMeasured(BrokerId("m", 0), 0, 0, 11))
    assert carriers([], 0, 1) == [BrokerId("m", 0), BrokerId("m", 1), BrokerId("m", 0)]


def test_the_clusters_given_are_left_as_they_are() -> None:
    targets = civ(0, 1)
    dynamic_copies(HERE, [], targets, status(c0=11))
    assert [*targets] == [0, 1]


def test_no_notification_goes_to_the_own_cluster_over_an_i_link() -> None:
    with pytest.raises(ValueError, match="cluster 2 is where"):
        static_copies(HERE, [], civ(2))
    with pytest.raises(ValueError, match="cluster 2 is where"):
        dynamic_copies(HERE, [], civ(2), LinkStatus())


# --- whatever the load ---

LENGTHS = st.dictionaries(
    st.sampled_from(["up", "down", "c0", "c1", "c3", "c4", "c5"]), st.integers(0, 22)
)
TARGETS = st.sets(st.sampled_from([0, 1, 3, 4, 5]))


@settings(deadline=None)
@given(st.lists(st.sampled_from([UP, DOWN]), unique=True), TARGETS, LENGTHS)
def test_every_target_is_served_once_and_congested_links_alone_are_bypassed(
    a_targets: list[BrokerId], targets: set[int], lengths: dict[str, int]
) -> None:
    table = status(**lengths)
    copies = dynamic_copies(HERE, a_targets, civ(*targets), status(**lengths))

    neighbours = [each.neighbour for each in copies]
    assert neighbours[: len(a_targets)] == a_targets
    i_links = neighbours[len(a_targets) :]
    entered = [each.cluster for each in i_links]
    assert all(each.vertex == HERE.vertex for each in i_links)
    assert entered == sorted(entered)
    carried = [cluster for each in copies for cluster in each.clusters]
    assert sorted(entered + carried) == sorted(targets)
    carriers = [each.neighbour for each in copies if each.clusters]
    assert len(carriers) <= 1

    congested = {c for c in targets if table.congested(BrokerId(HERE.vertex, c))}
    assert targets - set(entered) <= congested
    used = set(entered) & congested
    # A congested iLink is used only if all target links are congested, and then it is one.
    assert len(used) <= 1
    if used:
        assert congested == targets
        assert all(map(table.congested, a_targets))
        assert min(table.load(BrokerId(HERE.vertex, c)) for c in targets) == table.load(i_links[0])
    elif carriers:
        rivals = [each for each in (i_links or a_targets) if not table.congested(each)]
        assert min(map(table.load, rivals)) == table.load(carriers[0])
