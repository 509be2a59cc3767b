"""Drift of many masters over a bad network: no move raises the cost, and it ends."""

from __future__ import annotations

import random

import pytest

from agent.placement.admission import QUIET_S
from tests.examples import CAMPAIGN, campaign
from tests.placement.drifting_masters import ROUND_S, Masters, Trouble

PIECES = 50
SCHEDULES = 10_000
SHORT = 20


def trouble(rng: random.Random) -> Trouble:
    return Trouble(
        loss=rng.choice((0.0, 0.2, 0.5)),
        age=rng.choice((0, 3, 10)),
        mixed=rng.random() < 0.5,
        deaths=rng.choice((0.0, 0.0, 0.05)),
        aborts=rng.choice((0.0, 0.2)),
        longest_s=rng.choice((5.0, 20.0)),
    )


@pytest.mark.parametrize(
    "seeds",
    [
        range(SHORT),
        *(
            pytest.param(range(n, SCHEDULES, PIECES), marks=campaign(n, PIECES))
            for n in range(PIECES)
        ),
    ],
    ids=str,
)
def test_no_move_raises_the_true_cost_whatever_is_lost_old_or_dead(seeds: range) -> None:
    moves = 0
    for seed in seeds:
        rng = random.Random(seed)
        masters = Masters(seed, rng.randrange(3, 6), rng.randrange(4, 9), trouble(rng))
        masters.run(40)
        assert not masters.rises, f"Masters({seed}): {masters.rises}"
        moves += len(masters.moves)
    assert moves > len(seeds)


@pytest.mark.parametrize(
    ("count", "clones", "told"),
    [
        (5, 20, Trouble(loss=0.5, age=10)),
        pytest.param(12, 100, Trouble(), marks=CAMPAIGN),
        pytest.param(12, 100, Trouble(loss=0.5, age=10), marks=pytest.mark.long),
    ],
    ids=str,
)
def test_drift_settles_with_few_moves(count: int, clones: int, told: Trouble) -> None:
    masters = Masters(7, count, clones, told)
    masters.run(QUIET_S / ROUND_S + 100)
    assert not masters.rises
    assert len(masters.moves) <= 1.5 * clones
    assert masters.wants() == []
