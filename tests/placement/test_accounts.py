"""Accounts that every change updates, against a naive recount."""

from __future__ import annotations

import random

import pytest

from agent.placement.placement import Placement
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
