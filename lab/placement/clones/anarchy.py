"""Every placement of a few clones, and which of them are equilibria: prices of anarchy without
sampling."""

from __future__ import annotations

from math import inf
from typing import Final

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from fleet.placement.homes.case import Floats
from lab.placement.clones.draw import Game
from lab.placement.clones.paper import FULL, regulariser

ETAS: Final = (0.5, 0.7, 0.9, 0.99)


class Every(Struct, frozen=True):
    """All m^n placements of a game, as arrays with one axis a clone."""

    potential: Floats  # half of Σ u: what ours lowers
    social: Floats  # Σ w · f(w): the paper's
    pull: Floats  # of the clone that would gain most by the paper's rule: cost there over cost here

    @property
    def least(self) -> float:
        """The optimum."""
        return float(self.potential.min())

    def ours(self, moving_cost: float) -> float:
        """The dearest placement in which no clone gains more than `moving_cost` by the price with
        its toll, over the optimum."""
        stays = np.isfinite(self.potential)
        for axis in range(self.potential.ndim):
            stays &= self.potential <= self.potential.min(axis=axis, keepdims=True) + moving_cost
        return float(self.potential[stays].max()) / self.least

    def paper(self, eta: float) -> float:
        """The dearest placement in which the paper's rule moves nobody, over the optimum; infinite
        if one is overloaded, 0 if there is none."""
        stays = self.pull > eta
        dearest = float(self.social[stays].max(initial=0.0))
        return inf if dearest >= FULL else dearest / float(self.social.min())


def every(game: Game) -> Every:
    """O(m^n · n · (n + m)). The weights are the paper's, with its rule's costs."""
    n, m = game.clones, game.clouds
    shape = (m,) * n
    places = np.indices(shape, np.int8, sparse=True)
    load = [
        sum((places[i] == x) * game.load[i] for i in range(n)) + np.zeros(shape) for x in range(m)
    ]
    with np.errstate(divide="ignore", invalid="ignore"):
        rho = [
            np.where(d < c, game.delta * d / (c - d), FULL)
            for d, c in zip(load, game.capacity, strict=True)
        ]
    near = [_chosen(rho, places[i], shape) for i in range(n)]
    cost = []
    for i in range(n):
        mine = game.load[i] * near[i]
        for j in game.peers[i].tolist():
            mine = mine + game.demand[i, j] * (game.delay[places[i], places[j]] + near[j])
        cost.append(mine)
    weight = [sum((places[i] == x) * cost[i] for i in range(n)) for x in range(m)]
    social = sum(w * regulariser(w) for w in weight)
    potential = sum(cost) / 2
    potential = np.where(potential < FULL, potential, np.inf)
    return Every(potential, np.asarray(social), _pull(cost, weight, shape))


def _chosen(of: list[Floats], place: NDArray[np.int8], shape: tuple[int, ...]) -> Floats:
    found = np.zeros(shape)
    for x, values in enumerate(of):
        np.copyto(found, values, where=place == x)
    return found


def _pull(cost: list[Floats], weight: list[Floats], shape: tuple[int, ...]) -> Floats:
    """Over all clones and clouds the least u(y) f(w_y + u(y)) / (u(x) f(w_x − u(x)))."""
    least = np.full(shape, np.inf)
    for i in range(len(shape)):
        mine = np.moveaxis(cost[i], i, 0)
        weights = [np.moveaxis(w, i, 0) for w in weight]
        found = np.moveaxis(least, i, 0)
        for x in range(shape[0]):
            stay = mine[x] * regulariser(weights[x][x] - mine[x])
            for y in range(shape[0]):
                if y != x:
                    go = mine[y] * regulariser(weights[y][x] + mine[y])
                    with np.errstate(divide="ignore", invalid="ignore"):
                        ratio = np.where(stay > 0, go / stay, np.inf)
                    np.minimum(found[x], ratio, out=found[x])
    return least
