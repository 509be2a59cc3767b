"""No client takes the places of all areas that a topic's processor keeps."""

from __future__ import annotations

from agent.topics import area_shares
from agent.topics.area_shares import MAX_OF_CLIENT, AreaShares
from agent.wire.processor_limits import AREA_KEPT_S

FEW = 8


def published(shares, client, areas, now, topic="comfort"):
    """How many of these areas it may publish for."""
    return sum(not shares.why_not(client, topic, area, now) for area in areas)


def test_a_client_has_half_and_others_have_theirs():
    shares = AreaShares()
    areas = [f"b1/{n}" for n in range(MAX_OF_CLIENT + 5)]
    assert published(shares, "eve", areas, 0.0) == MAX_OF_CLIENT
    assert published(shares, "eve", areas[:100], 1.0) == 100
    assert shares.why_not("eve", "comfort", "b2", 1.0) == (
        "this client published to comfort for 2,048 areas within an hour, half of what its "
        "processor keeps; go on with those, or take another topic"
    )
    assert published(shares, "eve", areas[:100], 1.0, "other") == 100
    assert published(shares, "ann", ["b1/f1"], 1.0) == 1


def test_areas_that_are_silent_for_an_hour_leave_their_places():
    shares = AreaShares()
    areas = [f"b1/{n}" for n in range(MAX_OF_CLIENT)]
    published(shares, "ann", areas, 0.0)
    published(shares, "ann", areas[:10], 1.0)
    more = [f"b2/{n}" for n in range(MAX_OF_CLIENT)]
    assert published(shares, "ann", more, AREA_KEPT_S) == MAX_OF_CLIENT - 10


def test_what_is_remembered_of_all_is_bounded(monkeypatch):
    monkeypatch.setattr(area_shares, "MAX_KEPT", 3 * FEW)
    shares = AreaShares()
    for client in range(10):
        published(shares, f"c{client}", [f"b1/{n}" for n in range(FEW)], 0.0)
    assert shares._kept == sum(map(len, shares._areas.values())) <= 3 * FEW
    assert ("c9", "comfort") in shares._areas
