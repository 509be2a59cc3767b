"""The paper's field: a complete graph of clouds, and clones that talk along a binomial graph."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
from msgspec import Struct

from agent.placement.placement import Placement
from agent.placement.world import Flow, Link, Master, Unit, World
from fleet.placement.homes.case import Floats, Ints

DELAYS: Final = (10.0, 100.0)  # τ, ms
CAPACITIES: Final = (50.0, 100.0)  # γ
DEMANDS: Final = (1.0, 10.0)  # d
NOWHERE: Final = -1  # instead of a cloud


class Setting(Struct, frozen=True):
    """What a game is drawn from. Every two clones are peers with probability `share`; without it,
    with the one that gives each `degree` peers on average. Without `utilisation`, capacities are as
    the paper prints them; with it, scaled so that all demand is that share of them."""

    clones: int
    clouds: int = 37
    share: float | None = None
    degree: float = 6.0
    delta: float = 10.0  # δ, ms
    utilisation: float | None = None


@dataclass(frozen=True)
class Game:
    """n clones, m clouds; pairs of clones with the demand between them."""

    delay: Floats  # m × m, ms
    capacity: Floats  # m
    delta: float
    one: Ints  # of a pair, as the two below
    other: Ints
    rate: Floats
    clones: int

    @property
    def clouds(self) -> int:
        """How many clouds there are."""
        return len(self.capacity)

    @cached_property
    def load(self) -> Floats:
        """D of each clone: the demand of all its pairs."""
        ends = np.concatenate([self.one, self.other])
        return of_ends(ends, np.concatenate([self.rate, self.rate]), self.clones)

    @cached_property
    def demand(self) -> Floats:
        """n × n, symmetric."""
        found = np.zeros((self.clones, self.clones))
        found[self.one, self.other] = found[self.other, self.one] = self.rate
        return found

    @cached_property
    def peers(self) -> list[Ints]:
        """The clones that each talks to."""
        return [np.flatnonzero(row) for row in self.demand]

    def waiting(self, load: Floats, capacity: Floats | None = None) -> Floats:
        """g(D) = D · ρ(D) of clouds with these loads; infinite from the capacity on."""
        limit = self.capacity if capacity is None else capacity
        with np.errstate(divide="ignore", invalid="ignore"):
            found = self.delta * load * load / (limit - load)
        return np.where(load < limit, found, np.inf)

    def cost(self, at: Ints) -> float:
        """Half the social cost Σ u: Σ d·τ over pairs, and g of every cloud."""
        ways = self.rate @ self.delay[at[self.one], at[self.other]]
        load = of_ends(at, self.load, self.clouds)
        return float(ways + self.waiting(load).sum())


def of_ends(ends: Ints, values: Floats, size: int) -> Floats:
    """The sum of the values at each end."""
    return np.bincount(ends, values, size).astype(np.float64)


def draw(setting: Setting, seed: int) -> Game:
    """A game of this setting."""
    of = np.random.default_rng(seed)
    n, m = setting.clones, setting.clouds
    half = np.triu(of.uniform(*DELAYS, (m, m)), 1)
    capacity = of.uniform(*CAPACITIES, m)
    share = setting.degree / (n - 1) if setting.share is None else setting.share
    one, other = _pairs(of, n, min(1.0, share))
    rate = of.uniform(*DEMANDS, len(one))
    if setting.utilisation is not None:
        capacity *= 2 * rate.sum() / (setting.utilisation * capacity.sum())
    return Game(half + half.T, capacity, setting.delta, one, other, rate, n)


def _pairs(of: np.random.Generator, n: int, share: float) -> tuple[Ints, Ints]:
    """The edges of a binomial graph, row by row: never all n² at once."""
    ones, others = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for i in range(n - 1):
        found = i + 1 + np.flatnonzero(of.random(n - 1 - i) < share)
        ones.append(np.full(len(found), i))
        others.append(found)
    return np.concatenate(ones), np.concatenate(others)


def scattered(game: Game, seed: int, at: Ints | None = None) -> Ints:
    """Clones at random clouds that have room; where none has any, at the one with the most. Those
    that `at` has at a cloud, and not at NOWHERE, stay there."""
    of = np.random.default_rng(seed)
    at = np.full(game.clones, NOWHERE) if at is None else at.copy()
    here = at != NOWHERE
    load = of_ends(at[here], game.load[here], game.clouds)
    for i in of.permutation(np.flatnonzero(~here)).tolist():
        room = game.capacity - load
        roomy = np.flatnonzero(room > game.load[i])
        at[i] = of.choice(roomy) if len(roomy) else room.argmax()
        load[at[i]] += game.load[i]
    return at


def clone(i: int) -> Unit:
    """The unit of a clone."""
    return Unit("clone", f"{i:05}")


def cloud(x: int) -> str:
    """The name of a cloud's master."""
    return f"m{x:03}"


def world_of(game: Game) -> World:
    """The same for the product: a clone's load is its demand, a master's compute the capacity."""
    masters = [Master(cloud(x), compute=float(c)) for x, c in enumerate(game.capacity)]
    links = [
        Link(cloud(x), cloud(y), float(game.delay[x, y]))
        for x in range(game.clouds)
        for y in range(x)
    ]
    alone = [Flow(clone(i), clone((i + 1) % game.clones), 0.0) for i in range(game.clones)]
    pairs = zip(game.one.tolist(), game.other.tolist(), game.rate.tolist(), strict=True)
    flows = [Flow(clone(i), clone(j), rate) for i, j, rate in pairs]
    return World(masters, links, flows=[*alone, *flows])


def placed(game: Game, at: Ints) -> Placement:
    """The product's placement of clones at these clouds."""
    places = ((clone(i), cloud(int(x))) for i, x in enumerate(at))
    return Placement(world_of(game), places)


def places(placement: Placement, clones: int) -> Ints:
    """Where the clones live, by number."""
    found = [placement.where(clone(i)) for i in range(clones)]
    if None in found:
        raise ValueError("a clone is nowhere")
    return np.array(found, np.int64)
