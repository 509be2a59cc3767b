"""Versions far beyond any clock take no service, and no name, away."""

import pytest

from agent.market import seller
from agent.market.seller import DRAIN_S, MAX_AHEAD_HERE_MS, MAX_AHEAD_MS
from agent.market.terms import Tick
from agent.wire.market import Leave
from agent.wire.principals import Sender
from tests.market.rig import FAST_S, Iad
from tests.market.test_seller import AREA, OWNER, join, one, tick

WALL_S = 1_700_000_000.0
NOW_MS = round(WALL_S * 1e3)
ANYONE = Sender("anyone", "ab12")


@pytest.fixture
def iad():
    made = Iad("iad1", {"n1": (AREA, FAST_S)}, most_pods=2)
    made.seller = seller.Seller(
        "iad1",
        {"temperature": made.areas},
        made.resources,
        most_pods=2,
        hold_s=30.0,
        wall_offset_s=WALL_S,
    )
    return made


FAR = [2**53 - 1, NOW_MS + MAX_AHEAD_MS + 1_000]


@pytest.mark.parametrize(
    ("sender", "names"), [(OWNER, ["unknown"]), (ANYONE, ["climate", "unknown"])]
)
@pytest.mark.parametrize("version", FAR)
def test_a_version_no_clock_explains_ends_nothing_and_blocks_no_name(iad, sender, names, version):
    assert one(iad, join(NOW_MS)).ok
    for name in names:
        reply = one(iad, Leave("l", name, version), sender=sender)
        assert not reply.ok
        assert "look at the clocks" in reply.message
    assert not one(iad, join(version), sender=sender).ok
    assert one(iad, join(NOW_MS + 1)).ok
    assert one(iad, join(NOW_MS, "unknown")).ok


def test_without_keys_a_name_is_taken_away_for_seconds_at_the_most(iad):
    assert not one(iad, Leave("l", "climate", NOW_MS + 2 * MAX_AHEAD_HERE_MS), sender=ANYONE).ok
    assert one(iad, Leave("l", "climate", NOW_MS + MAX_AHEAD_HERE_MS), sender=ANYONE).ok
    assert one(iad, join(NOW_MS + MAX_AHEAD_HERE_MS + 1), 1.0, ANYONE).ok


def test_nor_step_by_step(iad):
    version = NOW_MS + MAX_AHEAD_HERE_MS
    assert one(iad, join(version), sender=ANYONE).ok
    for _ in range(10):
        version += MAX_AHEAD_HERE_MS
        assert not one(iad, join(version), sender=ANYONE).ok
        assert not one(iad, Leave("l", "climate", version), sender=ANYONE).ok
    assert one(iad, join(NOW_MS + MAX_AHEAD_HERE_MS + 1), 1.0, ANYONE).ok


def test_the_one_after_the_last_is_never_too_far(iad):
    newest = NOW_MS + MAX_AHEAD_MS
    assert one(iad, join(newest)).ok
    assert one(iad, join(newest + 1)).ok
    assert one(iad, Leave("l", "climate", newest + 2)).ok


@pytest.mark.parametrize("version", FAR)
def test_an_owner_ends_its_service_whatever_the_clocks_say(iad, version):
    assert one(iad, join(NOW_MS)).ok
    other = Sender("iad", "another")
    assert not one(iad, Leave("l", "climate", version), sender=other).ok
    assert one(iad, Leave("l", "climate", version)).ok
    assert not iad.seller.services
    assert one(iad, Leave("l", "climate", version)).ok, "it is told again"
    iad.perform(iad.seller.handle(Tick(), 2.0 + DRAIN_S))
    assert not iad.pods
    # The clock that was wrong has been set: the name is as free as it was.
    assert one(iad, join(NOW_MS + 1_000), 3.0 + DRAIN_S).ok


def test_a_name_that_a_wrong_clock_took_says_for_how_long(iad):
    ahead_ms = 3_600_000
    assert one(iad, join(NOW_MS + ahead_ms)).ok
    assert one(iad, Leave("l", "climate", NOW_MS + ahead_ms + 1, OWNER.name)).ok
    tick(iad, DRAIN_S)
    # Its owner's clock is right again.
    assert one(iad, join(NOW_MS + 1_000), 1.0).message == (
        "iad1 has left climate in a version that is 3599 s ahead of this one, since a clock was "
        "wrong: choose another name, or try again after that time"
    )
    assert one(iad, join(NOW_MS + ahead_ms), 1.0).message == "iad1 has left climate"
