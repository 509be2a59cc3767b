"""Central planners with full knowledge: annealing, greedy, best response. On arrays, apart from the
product's prices, so that either checks the other."""

from __future__ import annotations

from typing import Final

import numpy as np

from fleet.placement.homes.case import Floats, Ints
from lab.placement.clones.draw import Game

SWEEPS: Final = 700
# Runs of annealing: the first and the last temperature, in a clone's mean cost.
HEATS: Final = ((0.1, 0.005), (0.3, 0.01), (1.0, 0.01))
ROUNDING: Final = 1e-9
ALMOST: Final = 1e-9  # of capacity that a full cloud has left, so that its price is a number
FULL: Final = 1e9  # what nothing else costs


class State:
    """Places with what prices need: loads of clouds, and Σ d·τ of each clone at each cloud."""

    def __init__(self, game: Game, at: Ints | None = None) -> None:
        """Without `at`, all are nowhere."""
        self.game = game
        self.at = np.full(game.clones, -1) if at is None else at.copy()
        self.load = np.zeros(game.clouds)
        self._now = np.zeros(game.clouds)
        self.ways = np.zeros((game.clones, game.clouds))
        for i in np.flatnonzero(self.at >= 0).tolist():
            self._count(i, int(self.at[i]), 1.0)
        self._rates = [game.demand[i, peers][:, None] for i, peers in enumerate(game.peers)]

    def _count(self, i: int, at: int, sign: float) -> None:
        game = self.game
        self._add(at, sign * game.load[i])
        peers = game.peers[i]
        self.ways[peers] += sign * game.demand[i, peers][:, None] * game.delay[at]

    def _add(self, at: int, load: float) -> None:
        self.load[at] += load
        self._now[at] = self._at_cloud(at, float(self.load[at]))

    def prices(self, i: int) -> Floats:
        """By how much each cloud would make the cost rise with this clone, were it nowhere; FULL
        and more where it has no room."""
        own = self.game.load[i]
        found: Floats = self.ways[i] + (self._waiting(self.load + own) - self._now)
        here = int(self.at[i])
        if here >= 0:
            before = self._at_cloud(here, float(self.load[here]) - own)
            found[here] = self.ways[i, here] + (self._now[here] - before)
        return found

    def _waiting(self, load: Floats) -> Floats:
        spare = np.maximum(self.game.capacity - load, ALMOST)
        return self.game.delta * load * load / spare

    def _at_cloud(self, x: int, load: float) -> float:
        spare = max(float(self.game.capacity[x]) - load, ALMOST)
        return self.game.delta * load * load / spare

    def move(self, i: int, target: int) -> None:
        """The clone lives there now."""
        game, source = self.game, int(self.at[i])
        if source == target:
            return
        if source < 0:
            self._count(i, target, 1.0)
        else:
            self._add(source, -game.load[i])
            self._add(target, game.load[i])
            self.ways[game.peers[i]] += self._rates[i] * (game.delay[target] - game.delay[source])
        self.at[i] = target


def greedy(game: Game) -> Ints:
    """The clones with the most demand first, each to the cheapest cloud for those that are there
    already; to the one with the most room if all are full."""
    state = State(game)
    for i in np.argsort(-game.load, kind="stable").tolist():
        prices = state.prices(i)
        full = prices.min() >= FULL
        state.move(i, int((game.capacity - state.load).argmax() if full else prices.argmin()))
    return state.at


def best_response(game: Game, at: Ints) -> Ints:
    """One clone after the other goes to its cheapest cloud, until nobody gains."""
    state = State(game, at)
    moved = True
    while moved:
        moved = False
        for i in range(game.clones):
            prices = state.prices(i)
            best = int(prices.argmin())
            if prices[best] < prices[state.at[i]] * (1 - ROUNDING):
                state.move(i, best)
                moved = True
    return state.at


def anneal(game: Game, at: Ints, seed: int, sweeps: int = SWEEPS) -> Ints:
    """The best of some runs of simulated annealing: each clone in turn is drawn anew by
    exp(−price / temperature) over all clouds. The temperature falls geometrically, and best
    response ends a run."""
    of = np.random.default_rng(seed)
    start = game.cost(at)
    scale = (start if np.isfinite(start) else 55.0 * game.load.sum()) / max(1, game.clones)
    ends = []
    for hot, cold in HEATS:
        state = State(game, at)
        for heat in np.geomspace(hot * scale, cold * scale, sweeps):
            noise = heat * of.gumbel(size=(game.clones, game.clouds))
            for i in of.permutation(game.clones).tolist():
                state.move(i, int((state.prices(i) - noise[i]).argmin()))
        ends.append(best_response(game, state.at))
    return min(ends, key=game.cost)
