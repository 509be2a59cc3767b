"""Places of IADs in an overlay: who is whose neighbour, and what each master is told."""

from __future__ import annotations

import pytest

from agent.overlay.scot import BrokerId, ScotError
from agent.wire.overlay_config import MasterOverlay, OverlayNeighbour
from fleet.inventory.overlay_plan import OverlayPlan

# A path a - b - c, two times.
SIX = OverlayPlan(
    links=(("a", "b"), ("b", "c")),
    clusters=2,
    places={
        f"{vertex}{cluster}": BrokerId(vertex, cluster) for vertex in "abc" for cluster in (0, 1)
    },
)


def test_neighbours_are_those_in_the_cluster_then_those_in_the_region() -> None:
    assert SIX.neighbours("a0") == ("b0", "a1")
    assert SIX.neighbours("b1") == ("a1", "c1", "b0")


@pytest.mark.parametrize(
    ("publisher", "subscriber", "way"),
    [
        ("c1", "a0", ("c1", "c0", "b0", "a0")),
        ("a0", "c0", ("a0", "b0", "c0")),
        ("b0", "b1", ("b0", "b1")),
        ("b0", "b0", ("b0",)),
    ],
)
def test_a_way_goes_into_the_cluster_first(
    publisher: str, subscriber: str, way: tuple[str, ...]
) -> None:
    assert SIX.way(publisher, subscriber) == way


def test_each_master_is_told_its_place_and_where_its_neighbours_are() -> None:
    assert SIX.section("c0", lambda iad: (f"tcp://{iad}:1", f"keys/{iad}")) == MasterOverlay(
        vertex="c",
        cluster=0,
        links=(("a", "b"), ("b", "c")),
        clusters=2,
        neighbour=(
            OverlayNeighbour("b0", "b", 0, "tcp://b0:1", "keys/b0"),
            OverlayNeighbour("c1", "c", 1, "tcp://c1:1", "keys/c1"),
        ),
    )


def test_one_vertex_needs_no_links() -> None:
    alone = OverlayPlan((), 2, {"x": BrokerId("v", 0), "y": BrokerId("v", 1)})
    assert alone.neighbours("x") == ("y",)


def test_factors_that_form_no_overlay_are_refused() -> None:
    ring = OverlayPlan((("a", "b"), ("b", "a")), 1, {"x": BrokerId("a", 0)})
    with pytest.raises(ScotError):
        ring.neighbours("x")
