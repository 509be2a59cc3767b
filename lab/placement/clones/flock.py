"""Our rule in virtual rounds: the product's prices, drift and grants, under old facts and lost
messages."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from math import inf
from typing import Final

from msgspec import Struct

from agent.placement.congestion import Waiting
from agent.placement.drift import Drift, peers
from agent.placement.grants import Grants
from agent.placement.moves import Move
from agent.placement.placement import Placement
from agent.placement.price import Price
from agent.placement.world import PlacementError, Unit

# A grant that nobody released ends after so many rounds.
LASTS: Final = 3.0
# What is not answered is sent again, so often a round.
TRIES: Final = 8
# By this share of the cost a sum of gains may be off, by rounding.
ROUNDING: Final = 1e-6


class Conditions(Struct, frozen=True):
    """What masters know of each other is `age` rounds old; of messages between them the share
    `lost` is lost. A master is part of at most `moves` moves a round, one after the other."""

    age: int = 0
    lost: float = 0.0
    moves: int = 1


class Outcome(Struct, frozen=True):
    """How a run ended. `rounds` is the last in which a clone moved; the cost is half of Flock's
    social cost, after each round."""

    settled: bool
    rounds: int
    moves: int
    # Moves that gain nothing; one more if the cost at the end is not that at the start less gains.
    rose: int
    costs: list[float]


class Flock:
    """Masters that look at their clones round by round. A round: each hears what the others have
    told; then, one after the other, each begins the move with the greatest gain that is granted."""

    def __init__(
        self,
        placement: Placement,
        delta: float,
        moving_cost: float,
        conditions: Conditions | None = None,
        seed: int = 1,
    ) -> None:
        self.placement = placement
        self.price = Price(placement, Waiting(delta))
        self.conditions = conditions or Conditions()
        self.moves = self.rose = 0
        self.now = 0.0
        self.k: Callable[[Unit], float] = lambda _: moving_cost
        self._drift = Drift(self.price, self.k)
        self._rng = random.Random(seed)
        masters = placement.world.masters
        self.alive = list(range(len(masters)))
        self._grants = [Grants(LASTS) for _ in masters]
        self.here: list[dict[Unit, None]] = [{} for _ in masters]
        for unit, at in placement.items():
            self.here[at][unit] = None
        self._begun = [0] * len(masters)
        self._told = _Told(self) if self.conditions.age or self.conditions.lost else None

    def run(self, rounds: int = 500) -> Outcome:
        """Until no clone wants to move, by what is true."""
        costs = [self.price.total()]
        cost = costs[0]
        last = 0
        for number in range(1, rounds + 1):
            before = self.moves
            cost -= self.round()
            if cost == inf or cost != cost:  # Something was or is overloaded.
                cost = self.price.total()
            costs.append(cost)
            if self.moves > before:
                last = number
            elif self.settled():
                break
        self._check(cost)
        return Outcome(self.settled(), last, self.moves, self.rose, costs)

    def _check(self, cost: float) -> None:
        """Count if the true cost is another than this, which is by the gains that moves had when
        they were checked. While a cloud is overloaded there is nothing to compare."""
        if cost < inf:
            self.rose += abs(self.price.total() - cost) > ROUNDING * cost

    def settled(self) -> bool:
        """Whether no clone would move if it knew everything."""
        return all(self._drift.wanted(unit) is None for here in self.here for unit in here)

    def leave(self, at: int) -> list[Unit]:
        """A master dies: its clones are nowhere, and nobody goes there any more."""
        world = self.placement.world
        world.drain(world.masters[at].name)
        self.alive.remove(at)
        gone = list(self.here[at])
        self.here[at] = {}
        for unit in gone:
            self.placement.remove(unit)
        return gone

    def arrive(self, unit: Unit) -> None:
        """A clone comes, to where its price is least; if all are full, to the most room."""
        try:
            at = self.price.arrive(unit)
        except PlacementError:
            masters, accounts = self.placement.world.masters, self.placement.accounts
            at = max(self.alive, key=lambda x: masters[x].compute - accounts[x].load)
            self.placement.put(unit, at)
        self.here[at][unit] = None

    # -- one round -------------------------------------------------------------------------------

    def round(self) -> float:
        """By how much the cost has fallen."""
        self.now += 1.0
        if self._told is not None:
            self._told.exchange(self._rng)
        self._begun = [0] * len(self.here)
        order = self._rng.sample(self.alive, len(self.alive))
        return sum(self._turn(at) for at in order)

    def _turn(self, at: int) -> float:
        most = self.conditions.moves
        if self._begun[at] >= most:
            return 0.0
        drift = self._drift if self._told is None else self._told.drifts[at]
        wanted = (drift.wanted(unit) for unit in self.here[at])
        found = [move for move in wanted if move is not None]
        found.sort(key=lambda move: (-move.gain, move.unit))
        fallen = 0.0
        for move in found:
            if self._begun[at] >= most:
                break
            gain = self._try(move, at)
            if gain is not None:
                fallen += gain
        return fallen

    def _try(self, move: Move, source: int) -> float | None:
        """Ask for grants, check with what is true, and move; the gain, or None."""
        target = self.placement.world.number[move.target]
        if self._begun[target] >= self.conditions.moves:
            return None
        homes: dict[int, list[Unit]] = {}
        for unit in peers(self.placement, move.unit):
            at = self.placement.where(unit)
            assert at is not None
            homes.setdefault(at, []).append(unit)
        checked = None
        if (
            self._grants[source].admit(move, self.now)
            and self._ask(source, target, move, None)
            and all(self._ask(source, at, move, units) for at, units in homes.items())
        ):
            checked = self._drift.checked(move)
            if self._told is not None:  # Grants come with fresh facts.
                self._told.asked(source, [target, *homes])
        if checked is None:
            self._release(move, source, [target, *homes])
            return None
        for at in (source, target):
            self._begun[at] += 1
        self._handed(checked, source, target)
        for at in {source, target, *homes}:
            self._grants[at].release(move.unit)
        return checked.gain

    def _ask(self, source: int, at: int, move: Move, held: list[Unit] | None) -> bool:
        """Whether a master grants the move, or holds its clones, and the mover hears so."""
        grants, lost = self._grants[at], 0.0 if at == source else self.conditions.lost
        for _ in range(TRIES if lost else 1):
            if self._rng.random() < lost:
                continue
            if held is None:
                granted = grants.admit(move, self.now)
            else:
                granted = grants.hold(move.unit, held, self.now)
            if self._rng.random() < lost:
                continue
            return granted
        return False

    def _release(self, move: Move, source: int, asked: list[int]) -> None:
        self._grants[source].release(move.unit)
        for at in asked:
            if at == source or self._rng.random() >= self.conditions.lost**TRIES:
                self._grants[at].release(move.unit)

    def _handed(self, move: Move, source: int, target: int) -> None:
        unit = move.unit
        self.placement.move(unit, target)
        del self.here[source][unit]
        self.here[target][unit] = None
        self.moves += 1
        self.rose += not move.gain > 0.0
        if self._told is not None:
            self._told.moved(unit, source, target)


class _Told:
    """What each master believes: its own clones as they are, the others' as they were told."""

    def __init__(self, flock: Flock) -> None:
        self._flock = flock
        # The last facts of each master with their number, by round.
        self._facts: list[tuple[int, tuple[Unit, ...]]] = [(0, tuple(here)) for here in flock.here]
        self._past = deque([list(self._facts)], maxlen=flock.conditions.age + 1)
        masters = range(len(self._facts))
        self._heard = [[0] * len(self._facts) for _ in masters]
        self._since: list[dict[Unit, float]] = [{} for _ in masters]
        self._round = 0
        self._views = [flock.placement.copy() for _ in masters]
        self.drifts = [Drift(Price(view, flock.price.congestion), flock.k) for view in self._views]

    def exchange(self, rng: random.Random) -> None:
        """Each tells the others what it has; they hear what it told `age` rounds ago."""
        flock = self._flock
        self._round += 1
        for at, here in enumerate(flock.here):
            number, before = self._facts[at]
            if tuple(here) != before:
                self._facts[at] = (self._round, tuple(here))
        self._past.append(list(self._facts))
        for teller, (number, units) in enumerate(self._past[0]):
            for hearer in flock.alive:
                if hearer == teller or self._heard[hearer][teller] >= number:
                    continue
                if rng.random() < flock.conditions.lost:
                    continue
                self._heard[hearer][teller] = number
                for unit in units:
                    self._hear(hearer, unit, teller, number)

    def asked(self, hearer: int, tellers: list[int]) -> None:
        """These have told a master what they have at this moment."""
        for teller in tellers:
            for unit in self._flock.here[teller]:
                self._hear(hearer, unit, teller, self._round + 0.25)

    def _hear(self, hearer: int, unit: Unit, at: int, number: float) -> None:
        since = self._since[hearer]
        if since.get(unit, -1.0) >= number or self._flock.placement.where(unit) == hearer:
            return
        since[unit] = number
        self._put(hearer, unit, at)

    def moved(self, unit: Unit, source: int, target: int) -> None:
        """Both masters of a move know of it at once. What others have told of the unit, at this
        moment or before, is older."""
        for hearer in (source, target):
            self._since[hearer][unit] = self._round + 0.5
            self._put(hearer, unit, target)

    def _put(self, hearer: int, unit: Unit, at: int) -> None:
        view = self._views[hearer]
        if view.where(unit) is None:
            view.put(unit, at)
        elif view.where(unit) != at:
            view.move(unit, at)
