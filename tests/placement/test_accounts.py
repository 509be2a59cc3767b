"""Accounts that every change updates, against a naive recount."""

from __future__ import annotations

import random

import pytest

from agent.placement.placement import Placement
from agent.placement.world import Client, Flow, Master, PlacementError, Topic, Unit, World
from tests.placement import oracle, worlds


@pytest.mark.parametrize("seed", range(20))
def test_accounts_equal_a_recount_after_every_change(seed: int) -> None:
    rng = random.Random(seed)
    placement = Placement(worlds.world(rng))
    for step in range(60):
        worlds.change(rng, placement, step)
        counted = oracle.accounts(placement.world, dict(placement.items()))
        for account, sums in zip(placement.accounts, counted, strict=True):
            assert account.units == sums.units
            assert frozenset(account.processors) == sums.processors
            for name in ("storage", "load", "deliveries", "distance"):
                assert getattr(account, name) == pytest.approx(getattr(sums, name), abs=1e-9)


def test_a_copy_has_the_same_accounts_and_changes_alone() -> None:
    rng = random.Random(7)
    placement = Placement(worlds.world(rng))
    for step in range(60):
        worlds.change(rng, placement, step)
    before = oracle.accounts(placement.world, dict(placement.items()))
    copied = placement.copy()
    assert dict(copied.items()) == dict(placement.items())
    for unit in dict(copied.items()):
        copied.remove(unit)
    assert all(not account.units for account in copied.accounts)
    assert oracle.accounts(placement.world, dict(placement.items())) == before


def test_flows_of_what_disappears_are_taken_out_of_the_clones_load() -> None:
    device, home = Unit("clone", "d"), Unit("home", "c")
    work, other = Unit("processor", "comfort"), Unit("processor", "doors")
    topics = [Topic("comfort", processor=True), Topic("doors", processor=True)]
    flows = [Flow(device, home, 2.0), Flow(device, work, 4.0), Flow(device, other, 8.0)]
    world = World([Master("m")], (), [Client("c", {"m": 0.001})], topics, flows)
    placement = Placement(world, [(device, "m"), (home, "m"), (work, "m"), (other, "m")])
    assert placement.accounts[0].load == 14.0
    placement.leave("c")
    assert placement.accounts[0].load == 12.0
    placement.drop_topic("comfort")
    assert placement.accounts[0].load == 8.0
    placement.put_topic(Topic("doors"))  # It has no processor any more.
    assert placement.accounts[0].load == 0.0
    placement.drop_topic("doors")
    assert world.peers[device] == {}


def test_a_join_that_is_refused_changes_nothing() -> None:
    world = World([Master("m")], topics=[Topic("comfort"), Topic("doors")])
    placement = Placement(world)
    with pytest.raises(PlacementError, match="topic doors: the rate of publisher c is -1"):
        placement.join(Client("c", {"m": 0.001}), {"comfort": 1.0, "doors": -1.0})
    assert list(world.units()) == []
    assert not world.topics["comfort"].publishers
