"""Versions far beyond any clock take no service, and no name, away."""

import pytest

from agent.market import seller
from agent.market.seller import MAX_AHEAD_HERE_MS, MAX_AHEAD_MS
from agent.wire.market import Leave
from agent.wire.principals import Sender
from tests.market.rig import FAST_S, Iad
from tests.market.test_seller import AREA, OWNER, join, one

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


@pytest.mark.parametrize("sender", [OWNER, ANYONE])
@pytest.mark.parametrize("version", [2**53 - 1, NOW_MS + MAX_AHEAD_MS + 1_000])
def test_a_version_no_clock_explains_ends_nothing_and_blocks_no_name(iad, sender, version):
    assert one(iad, join(NOW_MS)).ok
    for name in ("climate", "unknown"):
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
