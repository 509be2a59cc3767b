"""Chaos campaign of fleets with a market; the others are in test_chaos."""

import pytest

from lab.chaos.checker import broken
from lab.chaos.run import run
from tests.examples import campaign


@pytest.mark.parametrize("seed", [pytest.param(2 * n + 1, marks=campaign(n, 2)) for n in range(20)])
def test_a_fleet_with_a_market_that_is_hurt_keeps_its_promises(tmp_path, seed):
    history = run(seed, tmp_path, 6.0, print)
    assert broken(history) == [], tmp_path
    assert all(0.0 <= each.at_s <= each.until_s for each in history.asked)
