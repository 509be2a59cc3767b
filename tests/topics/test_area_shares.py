"""No client takes the places of all areas that a topic's processor keeps."""

from __future__ import annotations

from agent.topics import area_shares
from agent.topics.area_shares import MAX_OF_CLIENT, AreaShares
from agent.wire.processor_limits import AREA_KEPT_S, MAX_AREAS

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
        "this client published to comfort for 2,048 areas within an hour, as many as are left free "
        "of the 4,096 that its processor keeps; go on with those, or take another topic"
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


def test_several_clients_leave_room_for_the_next_one():
    shares = AreaShares()
    for n in range(1, 4):
        areas = [f"b{n}/{number}" for number in range(MAX_AREAS)]
        # Each as much as is left free by all.
        assert published(shares, f"eve{n}", areas, float(n)) == MAX_AREAS // 2**n
    assert published(shares, "ann", ["a1", "a2"], 9.0) == 2
    # What they publish for is no further place, and an hour later all is free.
    assert published(shares, "ann", [f"b1/{number}" for number in range(600)], 9.0) == 600
    later = [f"c/{number}" for number in range(MAX_AREAS)]
    assert published(shares, "ann", later, 10.0 + AREA_KEPT_S) == MAX_OF_CLIENT


def kept(shares):
    return sum(len(each.areas) for each in shares._clients.values())


def test_what_is_remembered_of_all_is_bounded(monkeypatch):
    monkeypatch.setattr(area_shares, "MAX_KEPT", 3 * FEW)
    shares = AreaShares()
    for client in range(10):
        areas = [f"b1/{n}" for n in range(FEW)]
        assert published(shares, f"c{client}", areas, 0.0)
    assert shares._kept == kept(shares) == 3 * FEW
    more = [f"b2/{n}" for n in range(3 * FEW)]
    assert published(shares, "ann", more, AREA_KEPT_S) == 3 * FEW
    assert shares._kept == kept(shares) == 3 * FEW
    assert len(shares._clients) == 1


def test_no_client_makes_its_own_areas_forgotten_by_those_of_other_topics(monkeypatch):
    monkeypatch.setattr(area_shares, "MAX_KEPT", 4 * FEW)
    monkeypatch.setattr(area_shares, "MAX_OF_CLIENT", FEW)
    shares = AreaShares()
    first, later = ([f"b{m}/{n}" for n in range(FEW)] for m in (1, 2))
    assert published(shares, "eve", first, 0.0) == FEW
    for n in range(5 * FEW):
        published(shares, "eve", ["b1"], 1.0, f"other{n}")
    assert published(shares, "eve", later, 2.0) == 0
    assert "there is no room for more" in shares.why_not("eve", "another", "b1", 2.0)
    assert published(shares, "eve", first, 2.0) == FEW
    # Another one takes of what it has.
    assert published(shares, "ann", first, 3.0) == FEW
    assert kept(shares) == 4 * FEW
    assert shares.why_not("eve", "another", "b1", AREA_KEPT_S + 2.0) == ""
