"""The paper's rule: all clones in parallel, each with one random cloud, by its own cost alone."""

from __future__ import annotations

from collections import deque
from typing import Final

import numpy as np
from msgspec import Struct

from fleet.placement.homes.case import Bools, Floats, Ints
from lab.placement.clones.draw import Game

A: Final = 9.0
ETA: Final = 0.9
FULL: Final = 1e9  # ρ of a cloud that is overloaded, in ms: worse than all else


class Outcome(Struct, frozen=True):
    """How a run ended. `rounds` until nobody wants to move, or all that were run."""

    settled: bool
    rounds: int
    moves: int
    rose: int  # rounds in which the cost rose
    at: Ints
    costs: list[float]


def regulariser(weight: Floats) -> Floats:
    """f(w) = exp(−1 / (w + a))."""
    return np.exp(-1.0 / (np.maximum(weight, 0.0) + A))


def delays(game: Game, load: Floats) -> Floats:
    """ρ of clouds with these loads."""
    with np.errstate(divide="ignore", invalid="ignore"):
        found = game.delta * load / (game.capacity - load)
    return np.where(load < game.capacity, found, FULL)


def costs(game: Game, at: Ints) -> tuple[Floats, Floats]:
    """u of every clone at every cloud, the others being where they are; and the weights of clouds
    without the clone (n × m). ρ counts the clone's own demand where it is or would be."""
    here = np.eye(game.clouds)[at]
    talk = game.demand @ here
    load = game.load @ here
    others = np.maximum(load - game.load[:, None] * here, 0.0)
    without, with_ = delays(game, others), delays(game, others + game.load[:, None])
    cost = talk @ game.delay + game.load[:, None] * with_
    cost += (talk * without).sum(axis=1, keepdims=True) + talk * (with_ - without)
    weights = (cost * here).sum(axis=0) - cost * here
    return cost, weights


def wishes(cost: Floats, weights: Floats, own: Ints, eta: float) -> Bools:
    """n × m: whether the rule lets the clone go there."""
    row = np.arange(len(own))
    stay = cost[row, own] * regulariser(weights[row, own])
    found = cost * regulariser(weights + cost) <= eta * stay[:, None]
    found[row, own] = False
    return found


def run(
    game: Game,
    at: Ints,
    seed: int,
    *,
    eta: float = ETA,
    rounds: int = 500,
    age: int = 0,
    lost: float = 0.0,
) -> Outcome:
    """Rounds until nobody wants to move. A clone knows where it is, and where the others were `age`
    rounds ago, or earlier if that was lost."""
    of = np.random.default_rng(seed)
    at = at.copy()
    row = np.arange(game.clones)
    past: deque[Ints] = deque([at.copy()], maxlen=age + 64)
    known = np.zeros(game.clones, np.int64)  # the age of what each knows
    moves = rose = 0
    cost = [game.cost(at)]
    for number in range(rounds):
        fresh = costs(game, at)
        if not wishes(*fresh, at, eta).any():
            return Outcome(True, number, moves, rose, at, cost)
        known = np.where(of.random(game.clones) < lost, known + 1, age)
        known = np.minimum(known, len(past) - 1)
        goes = np.zeros(game.clones, np.bool_)
        target = of.integers(game.clouds, size=game.clones)
        for each in np.unique(known):
            seen = fresh if not each else costs(game, past[-1 - each])
            mine = known == each
            goes[mine] = wishes(*seen, at, eta)[row, target][mine]
        at = np.where(goes, target, at)
        past.append(at.copy())
        moves += int(goes.sum())
        cost.append(game.cost(at))
        rose += cost[-1] > cost[-2] * (1 + 1e-12)
    settled = not wishes(*costs(game, at), at, eta).any()
    return Outcome(settled, rounds, moves, rose, at, cost)
