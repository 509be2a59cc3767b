"""The experiments: the paper's setting as printed, games with scaled capacities, equilibria of a
few clones, faults and changes, and many clones."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import product
from math import inf, nan
from typing import Final

import numpy as np
from msgspec import Struct

from agent.placement.congestion import Waiting
from agent.placement.placement import Placement
from agent.placement.world import Flow
from fleet.placement.flows import Flows
from fleet.placement.homes.case import Ints
from lab.placement.clones import paper
from lab.placement.clones.anarchy import ETAS, every
from lab.placement.clones.central import anneal, best_response, greedy
from lab.placement.clones.draw import (
    DELAYS,
    NOWHERE,
    Game,
    Setting,
    clone,
    draw,
    placed,
    places,
    scattered,
    world_of,
)
from lab.placement.clones.flock import Conditions, Flock, Outcome

PAPER: Final = "the paper's rule"
OURS: Final = "ours"
ARRIVED: Final = "ours, arrivals by price"
ONLY: Final = "arrivals by price, no drift"
PLANNED: Final = "ours, after a plan"
GREEDY: Final = "greedy"
CENTRAL: Final = "central best response"
ANNEALED: Final = "annealing"
METHODS: Final = (PAPER, OURS, ARRIVED, ONLY, PLANNED, GREEDY, CENTRAL, ANNEALED)
# What a move has to gain: this share of a clone's mean demand times the mean delay.
MOVING: Final = 0.01
LONGEST: Final = 500  # rounds
# Moves that a live master begins between two tellings of its facts: it looks each 0.25 s while it
# has moves to make, and tells each 5 s.
LOOKS: Final = 20


class Row(Struct, frozen=True):
    """One run. `moves` is a clone; `ratio` is the cost over annealing's, not a number without it,
    infinite where a cloud is overloaded."""

    experiment: str
    clones: int
    clouds: int
    peers: float
    scaled: bool  # capacities; else as printed
    utilisation: float
    method: str
    age: int
    lost: float
    seed: int
    settled: bool
    rounds: int
    moves: float
    rose: int
    ratio: float = nan
    cpu_s: float = nan


class Worst(Struct, frozen=True):
    """A small game: costs over the optimum. `worst` is the dearest of all equilibria; `reached`
    those that runs from random starts end in."""

    share: float
    delta: float
    seed: int
    method: str
    eta: float
    worst: float
    reached: list[float]


class Extent(Struct, frozen=True):
    """How much is run."""

    seeds: int = 4
    clouds: int = 37
    printed: tuple[int, ...] = (8, 16, 24, 32, 48)
    scaled: tuple[int, ...] = (50, 100, 200, 400)
    annealed: tuple[int, ...] = (8, 16, 24, 32, 48, 50, 100, 200)
    utilisations: tuple[float, ...] = (0.5, 0.7)
    few: tuple[tuple[float, float], ...] = ((0.3, 1.0), (0.3, 10.0), (0.6, 10.0), (0.6, 50.0))
    games: int = 16
    starts: int = 5
    ages: tuple[int, ...] = (0, 1, 3, 10)
    lost: tuple[float, ...] = (0.0, 0.25, 0.5)
    clones: int = 100  # with faults and changes
    many: tuple[tuple[int, int], ...] = ((100, 3), (300, 3), (1_000, 3), (3_000, 2), (10_000, 1))
    masters: int = 100
    slow: int = 3_000  # clones, up to which a master makes one move a round, too
    sweeps: int = 100  # of a plan


class Results(Struct, frozen=True):
    """Everything that was found."""

    rows: list[Row]
    worst: list[Worst]


def run(extent: Extent, seed: int, say: Callable[[str], None]) -> Results:
    """All experiments; games have the seeds from `seed` on."""
    rows: list[Row] = []
    seeds = range(seed, seed + extent.seeds)
    points: list[tuple[int, float | None]] = [(n, None) for n in extent.printed]
    points += product(extent.scaled, extent.utilisations)
    for n, utilisation in points:
        say(f"{n} clones, capacities {_capacities(utilisation)} …")
        for each in seeds:
            rows += compare(Setting(n, extent.clouds, utilisation=utilisation), each, extent)
    say("a few clones, all placements …")
    worst = [
        found
        for (share, delta), each in product(extent.few, range(seed, seed + extent.games))
        for found in anarchy(share, delta, each, extent)
    ]
    say("old facts, lost messages …")
    for each in seeds:
        rows += faults(extent, each)
    say("a master dies; clones arrive …")
    for each in seeds:
        rows += changes(extent, each)
    for n, games in extent.many:
        say(f"{n} clones at {extent.masters} masters …")
        for each in range(seed, seed + games):
            rows += many(n, extent.masters, each, slow=n <= extent.slow)
    return Results(rows, worst)


def _capacities(utilisation: float | None) -> str:
    return "as printed" if utilisation is None else f"for a utilisation of {utilisation:g}"


def moving_cost(game: Game) -> float:
    """K of every clone."""
    return MOVING * float(game.load.mean()) * sum(DELAYS) / 2


def arrived(game: Game, seed: int) -> Flock:
    """Clones come in random order, each to the cheapest master for those that are there."""
    flock = Flock(Placement(world_of(game)), game.delta, moving_cost(game), seed=seed)
    for i in np.random.default_rng(seed).permutation(game.clones).tolist():
        flock.arrive(clone(i))
    return flock


def compare(setting: Setting, seed: int, extent: Extent) -> Iterator[Row]:
    """Every method on one game."""
    game = draw(setting, seed)
    random = scattered(game, seed)
    began = time.process_time()
    theirs = paper.run(game, random, seed, rounds=LONGEST)
    ours = Flock(placed(game, random), game.delta, moving_cost(game), seed=seed)
    drifted = ours.run(LONGEST)
    come = arrived(game, seed)
    only = places(come.placement, game.clones)
    settled = come.run(LONGEST)
    found: dict[str, tuple[Ints, Outcome | paper.Outcome | None]] = {
        PAPER: (theirs.at, theirs),
        OURS: (places(ours.placement, game.clones), drifted),
        ARRIVED: (places(come.placement, game.clones), settled),
        ONLY: (only, None),
    }
    reference = nan
    if setting.clones in extent.annealed:
        start = greedy(game)
        found |= {
            PLANNED: (planned(come, game, extent, moving_cost(game)), None),
            GREEDY: (start, None),
            CENTRAL: (best_response(game, random), None),
            ANNEALED: (anneal(game, start, seed), None),
        }
        reference = game.cost(found[ANNEALED][0])
    took = time.process_time() - began
    for method, (at, outcome) in found.items():
        yield Row(
            "compare",
            setting.clones,
            setting.clouds,
            2 * len(game.one) / game.clones,
            setting.utilisation is not None,
            float(game.load.sum() / game.capacity.sum()),
            method,
            0,
            0.0,
            seed,
            outcome is None or outcome.settled,
            0 if outcome is None else outcome.rounds,
            0.0 if outcome is None else outcome.moves / game.clones,
            0 if outcome is None else outcome.rose,
            game.cost(at) / reference,
            took,
        )


def planned(flock: Flock, game: Game, extent: Extent, move_cost: float) -> Ints:
    """Where clones live after a plan was carried out; the flock's placement stays as it is."""
    placement = flock.placement.copy()
    plan = Flows(Waiting(game.delta), move_cost, extent.sweeps).plan(placement)
    for move in plan:
        placement.move(move.unit, placement.world.master(move.target))
    return places(placement, game.clones)


def anarchy(share: float, delta: float, seed: int, extent: Extent) -> Iterator[Worst]:
    """All equilibria of 8 clones and 5 clouds with the printed capacities, and those reached."""
    game = draw(Setting(8, 5, share, delta=delta), seed)
    if not game.rate.size:
        return
    all_ = every(game)
    if all_.least == inf:
        return
    starts = [scattered(game, 1_000 * seed + n) for n in range(extent.starts)]
    for eta in ETAS:
        runs = [paper.run(game, at, n, eta=eta) for n, at in enumerate(starts)]
        reached = [float(all_.social[tuple(each.at)] / all_.social.min()) for each in runs]
        yield Worst(share, delta, seed, PAPER, eta, all_.paper(eta), reached)
    cost = moving_cost(game)
    ended, after = [], []
    for n in range(extent.starts):
        flock = arrived(game, 1_000 * seed + n)
        flock.run(LONGEST)
        ended.append(game.cost(places(flock.placement, 8)) / all_.least)
        after.append(game.cost(planned(flock, game, extent, 0.0)) / all_.least)
    yield Worst(share, delta, seed, ARRIVED, 1.0, all_.ours(cost), ended)
    yield Worst(share, delta, seed, PLANNED, 1.0, nan, after)


def faults(extent: Extent, seed: int) -> Iterator[Row]:
    """Old facts and lost messages, at the first utilisation: both rules from random clouds, ours
    also from where arrivals by price put the clones."""
    setting = Setting(extent.clones, extent.clouds, utilisation=extent.utilisations[0])
    game = draw(setting, seed)
    random = scattered(game, seed)
    starts = {OURS: placed(game, random), ARRIVED: arrived(game, seed).placement}
    reference = game.cost(anneal(game, greedy(game), seed))
    for age, lost in product(extent.ages, extent.lost):
        conditions = Conditions(age, lost)
        for method, start in starts.items():
            flock = Flock(start.copy(), game.delta, moving_cost(game), conditions, seed)
            outcome = flock.run(LONGEST)
            ratio = flock.price.total() / reference
            yield _row("faults", game, method, conditions, seed, outcome, ratio)
        theirs = paper.run(game, random, seed, rounds=LONGEST, age=age, lost=lost)
        ratio = game.cost(theirs.at) / reference
        yield _row("faults", game, PAPER, conditions, seed, theirs, ratio)


def changes(extent: Extent, seed: int) -> Iterator[Row]:
    """The fullest master dies; a fifth of the clones, with their demand, arrive later. By the
    paper's rule, clones that are nowhere come to random clouds that have room."""
    for utilisation in extent.utilisations:
        setting = Setting(extent.clones, extent.clouds, utilisation=utilisation)
        game = draw(setting, seed)
        yield _dies(game, seed)
        yield _dies_by_paper(game, seed)
        first = _first(game, int(extent.clones / 1.2))
        reference = game.cost(anneal(game, greedy(game), seed))
        yield _arrive(game, first, seed, reference)
        yield _arrive_by_paper(game, first, seed, reference)


def _dies(game: Game, seed: int) -> Row:
    flock = arrived(game, seed)
    flock.run(LONGEST)
    dead = _fullest(places(flock.placement, game.clones))
    flock.moves = 0
    for unit in flock.leave(dead):
        flock.arrive(unit)
    outcome = flock.run(LONGEST)
    smaller = _without(game, dead)
    ratio = flock.price.total() / smaller.cost(anneal(smaller, greedy(smaller), seed))
    return _row("a master dies", smaller, ARRIVED, Conditions(), seed, outcome, ratio)


def _dies_by_paper(game: Game, seed: int) -> Row:
    at = paper.run(game, scattered(game, seed), seed, rounds=LONGEST).at
    dead = _fullest(at)
    smaller = _without(game, dead)
    at = scattered(smaller, seed, np.where(at == dead, NOWHERE, at - (at > dead)))
    outcome = paper.run(smaller, at, seed, rounds=LONGEST)
    ratio = smaller.cost(outcome.at) / smaller.cost(anneal(smaller, greedy(smaller), seed))
    return _row("a master dies", smaller, PAPER, Conditions(), seed, outcome, ratio)


def _fullest(at: Ints) -> int:
    return int(np.argmax(np.bincount(at)))


def _without(game: Game, dead: int) -> Game:
    left = np.delete(np.arange(game.clouds), dead)
    return replace(game, delay=game.delay[np.ix_(left, left)], capacity=game.capacity[left])


def _first(game: Game, clones: int) -> Game:
    """Only these many clones, with the demand between them."""
    inside = (game.one < clones) & (game.other < clones)
    pairs = game.one[inside], game.other[inside], game.rate[inside]
    return Game(game.delay, game.capacity, game.delta, *pairs, clones)


def _arrive(game: Game, first: Game, seed: int, reference: float) -> Row:
    flock = arrived(first, seed)
    flock.run(LONGEST)
    flock.moves = 0
    for i in range(first.clones, game.clones):
        flock.placement.put_flow(Flow(clone(i), clone(0), 0.0))
        for j in game.peers[i][game.peers[i] < i].tolist():
            flock.placement.put_flow(Flow(clone(i), clone(j), float(game.demand[i, j])))
        flock.arrive(clone(i))
    outcome = flock.run(LONGEST)
    ratio = flock.price.total() / reference
    return _row("a fifth arrive", game, ARRIVED, Conditions(), seed, outcome, ratio)


def _arrive_by_paper(game: Game, first: Game, seed: int, reference: float) -> Row:
    at = np.full(game.clones, NOWHERE)
    at[: first.clones] = paper.run(first, scattered(first, seed), seed, rounds=LONGEST).at
    outcome = paper.run(game, scattered(game, seed, at), seed, rounds=LONGEST)
    ratio = game.cost(outcome.at) / reference
    return _row("a fifth arrive", game, PAPER, Conditions(), seed, outcome, ratio)


def many(n: int, masters: int, seed: int, *, slow: bool) -> Iterator[Row]:
    """Arrivals by price, then drift, with LOOKS moves a master a round; if `slow` also with one."""
    game = draw(Setting(n, masters, utilisation=0.5), seed)
    come = arrived(game, seed)
    for most in (1, LOOKS) if slow else (LOOKS,):
        placement, conditions = come.placement.copy(), Conditions(moves=most)
        flock = Flock(placement, game.delta, moving_cost(game), conditions, seed)
        began = time.process_time()
        outcome = flock.run(LONGEST)
        took = time.process_time() - began
        name = f"many, {most} a round"
        yield _row(name, game, ARRIVED, conditions, seed, outcome, nan, took)


def _row(
    name: str,
    game: Game,
    method: str,
    conditions: Conditions,
    seed: int,
    outcome: Outcome | paper.Outcome,
    ratio: float,
    cpu_s: float = nan,
) -> Row:
    return Row(
        name,
        game.clones,
        game.clouds,
        2 * len(game.one) / game.clones,
        True,
        float(game.load.sum() / game.capacity.sum()),
        method,
        conditions.age,
        conditions.lost,
        seed,
        outcome.settled,
        outcome.rounds,
        outcome.moves / game.clones,
        outcome.rose,
        ratio,
        cpu_s,
    )
