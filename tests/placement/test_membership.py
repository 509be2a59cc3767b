"""Masters find each other from one address: how fast, at what price, and whatever fails."""

from __future__ import annotations

from random import Random

import pytest

from agent.placement.membership.membership import (
    DEAD,
    DIALS,
    MAX_ACTIVE,
    MAX_ADDRESSES,
    MIX,
    PROBE,
    STALE,
    TRIAL,
    Membership,
)
from agent.wire.membership import MAX_TOLD_ADDRESSES, MemberAddress, Members
from tests.placement.member_world import ROUND_S, MemberWorld

SETTLED = 30  # rounds


def names(count, first=0):
    return [f"iad{number:03}" for number in range(first, first + count)]


def settled(count, **more):
    world = MemberWorld(**more)
    for iad in names(count):
        world.start(iad)
    world.run(SETTLED * ROUND_S)
    return world


def rounds_until(world, holds, most):
    """How many rounds pass until it holds."""
    for number in range(most + 1):
        if holds():
            return number
        world.run(ROUND_S)
    raise AssertionError(f"not within {most} rounds")


def test_a_hundred_masters_from_one_address_at_less_than_a_kilobyte_a_second():
    world = settled(100, topics=10)
    assert world.graph_is_whole()
    assert all(8 <= len(site.partners) <= world.view for site in world.sites.values())
    world.sent.clear()
    world.run(10 * ROUND_S)
    spent = [sum(kinds.values()) / (10 * ROUND_S) for kinds in world.sent.values()]
    world.start("iad100")
    rounds = rounds_until(world, lambda: world.knowing("iad100") == 100, 10)
    assert rounds <= 10
    assert max(spent) <= 1_000.0


@pytest.mark.parametrize("loss", [0.0, 0.2, 0.5])
def test_all_are_found_whatever_is_lost(loss):
    world = settled(24, loss=loss, facts=False, seed=3)
    rounds_until(world, lambda: all(world.knowing(iad) == 23 for iad in world.sites), SETTLED)
    assert world.graph_is_whole()
    world.start("iad024")
    rounds_until(world, lambda: world.knowing("iad024") == 24, 30)


def test_the_dead_leave_the_views_and_are_found_again_when_they_return():
    world = settled(24, facts=False)
    dead = names(6, 3)
    for iad in dead:
        world.stop(iad)

    def partners():
        return {iad for site in world.sites.values() for iad in site.partners}

    rounds_until(world, lambda: not partners() & set(dead), DEAD + 3)
    assert world.graph_is_whole()
    rounds_until(world, lambda: not any(map(world.knowing, dead)), STALE + 10)
    for iad in dead:
        world.start(iad)
    rounds_until(world, lambda: all(world.knowing(iad) == 23 for iad in dead), 30)
    assert world.graph_is_whole()


@pytest.mark.parametrize("parted", [10, STALE + 20])
def test_a_partition_heals_however_long_it_was(parted):
    world = settled(24, facts=False)
    world.parts = {iad: number % 2 for number, iad in enumerate(names(24))}
    world.run(parted * ROUND_S)
    assert not world.graph_is_whole()
    world.parts = None
    rounds_until(
        world,
        lambda: world.graph_is_whole() and all(world.knowing(iad) == 23 for iad in world.sites),
        3 * MIX,
    )


def test_a_master_whose_first_address_is_dead_waits_for_it():
    world = MemberWorld(facts=False)
    world.start("iad001")
    world.run(20 * ROUND_S)
    assert world.sites["iad001"].partners == set()
    world.start("iad000")
    rounds_until(world, lambda: world.sites["iad001"].partners == {"iad000"}, 10)


def test_a_needed_master_becomes_a_partner_though_both_are_full():
    world = settled(40, view=3, facts=False)
    one = world.sites["iad001"]
    other = next(iad for iad in world.sites if iad not in {"iad001", *one.partners})
    one.needed.add(other)
    rounds_until(world, lambda: other in one.partners, 10)
    world.run(10 * ROUND_S)
    assert other in one.partners
    assert "iad001" in world.sites[other].partners


def test_partners_of_the_configuration_stay_and_tell_what_they_know():
    world = MemberWorld(facts=False)
    world.start("iad001", doors=("tcp://10.1.20.001:5700",), fixed=["iad002"])
    world.start("iad002", doors=("tcp://10.1.20.002:5700",), fixed=["iad001"])
    world.start("iad003", doors=("tcp://10.1.20.002:5700",))
    rounds_until(world, lambda: "iad003" in world.sites["iad001"].partners, 4 * PROBE)
    world.stop("iad002")
    world.run(3 * STALE * ROUND_S)
    assert world.sites["iad001"].partners == {"iad002", "iad003"}


# --- one master ----------------------------------------------------------------------------------


def alone(**more):
    """A master that the test plays the others to."""
    given = {"view": 12, "round_s": 1.0, "now": 0.0, "random": Random(1)} | more
    return Membership("own", "at own", ("at door",), (), **given)


def said(iad, *known, view=False, **more):
    told = tuple([MemberAddress(name, f"at {name}", 0) for name in known])
    return Members(iad, f"at {iad}", view, known=told, **more)


def test_ten_thousand_addresses_cost_bounded_memory_and_connections():
    own = alone()
    own.heard(said("friend", view=True), 0.0)
    rounds = 200
    lies = iter(range(10_000))
    for number in range(rounds):
        now = float(number)
        for _ in range(10_000 // rounds // MAX_TOLD_ADDRESSES + 1):
            heard = [f"liar{next(lies, 0)}" for _ in range(MAX_TOLD_ADDRESSES)]
            own.heard(said("hostile", *heard), now)
        own.heard(said("friend", view=True), now)
        turn = own.turn(now, {"friend"}, ())
        assert len(own.addresses) <= MAX_ADDRESSES
        assert len(turn.links) <= 1 + DIALS * (TRIAL + 1)
        assert "friend" in own.partners
    assert own.counters["members_dialled"] <= DIALS * rounds


def test_hearsay_adds_no_partner_and_replaces_no_address_that_its_master_told():
    own = alone()
    own.heard(said("a", "b", view=True), 0.0)
    own.heard(Members("c", "at c", known=(MemberAddress("a", "elsewhere", 0),)), 1.0)
    assert own.partners == {"a": "at a"}
    assert own.addresses == {"a": "at a", "b": "at b", "c": "at c"}
    # It is dialled when the other one is dead.
    for number in range(2, 9):
        own.turn(float(number), (), ())
    assert own.addresses["a"] == "elsewhere"


def test_who_answers_under_another_name_is_no_partner():
    own = alone()
    own.heard(said("c", "b"), 0.0)
    own.turn(0.0, (), ())
    turn = own.turn(1.0, ("b",), ())
    assert [name for name, _ in turn.tell] == ["b"]
    own.answered("b", said("liar", view=True), 1.1)
    assert own.partners == {}
    assert "b" not in own.turn(1.2, ("b",), ()).links


def test_who_is_not_the_operators_is_neither_heard_nor_kept_nor_dialled():
    own = alone(admits=lambda iad: iad != "stranger")
    assert own.heard(said("stranger", "a", view=True), 0.0) is None
    assert own.addresses == {}
    own.heard(said("a", "stranger"), 0.0)
    assert own.addresses == {"a": "at a"}


def test_a_key_that_is_taken_away_ends_the_partnership():
    ours = {"a"}
    own = alone(admits=ours.__contains__)
    own.heard(said("a", view=True), 0.0)
    ours.clear()
    assert own.turn(0.0, ("a",), ()).links.keys() <= {"at door"}
    assert own.partners == own.addresses == {}


def test_the_active_view_is_bounded_for_those_who_ask_and_those_who_need_it():
    own = alone()
    for number in range(200):
        own.heard(said(f"m{number}", view=True), 0.0)
    assert len(own.partners) == 12
    for number in range(200):
        own.heard(said(f"m{number}", view=True, needs=True), 0.0)
    assert len(own.partners) == MAX_ACTIVE


def test_a_partner_that_has_dropped_this_one_is_dropped():
    own = alone()
    assert own.heard(said("a", view=True), 0.0).view
    assert not own.heard(said("a"), 1.0).view
    assert own.partners == {}


def test_the_own_address_under_another_name_is_not_asked_again():
    own = alone()
    turn = own.turn(0.0, (), ())
    assert turn.links == {"at door": "at door"}
    own.answered("at door", said("own"), 0.1)
    for number in range(1, 100):
        assert own.turn(float(number), (), ()).links == {}
