"""Plans for units that talk to each other: clones, and processors with flows. All units are drawn
anew again and again, colder and colder; then parts are taken away and placed anew."""

from __future__ import annotations

import random
from collections.abc import Sequence
from math import exp, inf
from typing import Final

from msgspec import Struct

from agent.placement.congestion import DELEGATED_S, Congestion
from agent.placement.moves import Move, check_plan
from agent.placement.placement import Placement
from agent.placement.price import Price
from agent.placement.world import Unit

# Units that are placed anew together, at most.
RUINED: Final = 12
# Temperatures in mean prices of a unit, the first and the last: of drawing anew, and of parts.
DRAWN: Final = (0.05, 0.0025)
PARTS: Final = (0.02, 0.0002)
# Places that are so many temperatures dearer than the cheapest are not drawn.
COLDER: Final = 12.0
PASSES: Final = 20
ROUNDING: Final = 1e-9


class Flows(Struct, frozen=True):
    """The planner `flows`: annealing, then ruin and recreate, by the same prices as drift.

    It begins twice: from where the units are, and from where they would be had they arrived by
    load, the greatest first. A move is made only where it brings more than `move_cost`, given the
    others.
    """

    congestion: Congestion
    move_cost: float = 0.0
    sweeps: int = 100
    tries: int = 20  # parts, for each unit
    seed: int = 1

    def plan(self, placement: Placement) -> list[Move]:
        """Moves, the greatest gain first; the placement stays as it is. O((sweeps + 5 · tries) ·
        units · degree · masters)."""
        units = movable(placement)
        starts = [_Search(placement, self.congestion, units, self.seed) for _ in range(2)]
        if not starts[1].arrive():
            del starts[1]
        if len(units) > 1:
            for search in starts:
                search.anneal(self.sweeps)
                search.ruin(self.tries * len(units))
                search.descend()
        best = min(starts, key=lambda search: search.price.total())
        best.settle(placement, self.move_cost)
        return check_plan(placement, _moves(placement, best.price, units))


def movable(placement: Placement) -> list[Unit]:
    """The placed units with flows, and clones, that neither a pin nor a frozen master keeps."""
    world = placement.world
    return [
        unit
        for unit, at in placement.items()
        if unit.kind != "home"
        and (unit.kind == "clone" or world.peers.get(unit))
        and unit not in world.pins
        and at not in world.frozen
    ]


class _Search:
    """A placement that is improved in place. Costs are differences: a unit's price when it goes is
    what its absence saves."""

    def __init__(
        self, placement: Placement, congestion: Congestion, units: list[Unit], seed: int
    ) -> None:
        self.placement = placement.copy()
        self.price = Price(self.placement, congestion)
        self.units = units
        self._rng = random.Random(seed)
        self._movable = set(units)
        self._at: dict[int, dict[Unit, None]] = {}
        for unit in units:
            self._put(unit, self._where(unit))

    def arrive(self) -> bool:
        """Place all units anew, those with the greatest load first. False, and nothing changes, if
        one finds no place."""
        order = sorted(self.units, key=lambda unit: (-self.placement.world.load_of(unit), unit))
        before = [self._where(unit) for unit in order]
        if self._recreate(order) < inf:
            return True
        self._restore(order, before)
        return False

    def anneal(self, sweeps: int) -> None:
        """Each unit in turn is drawn anew, by exp(−price / temperature)."""
        rng, mean = self._rng, self._mean()
        if not mean:
            return
        for n in range(sweeps):
            heat = mean * DRAWN[0] * (DRAWN[1] / DRAWN[0]) ** (n / sweeps)
            for unit in rng.sample(self.units, len(self.units)):
                prices = self.price.all(unit)
                least = min(prices)
                if least == inf:
                    continue
                limit = least + COLDER * heat
                near = [at for at, price in enumerate(prices) if price <= limit]
                if len(near) > 1:
                    near = rng.choices(near, [exp((least - prices[at]) / heat) for at in near])
                self._move(unit, near[0])

    def ruin(self, tries: int) -> None:
        """Take some units away that talk to each other or live together, and let them arrive again
        in random order. What that costs more is kept now and then, less and less often; it ends at
        the best that was seen."""
        mean = self._mean()
        if not mean:
            return
        best, cost, least = self._places(), 0.0, 0.0
        for n in range(tries):
            heat = mean * PARTS[0] * (PARTS[1] / PARTS[0]) ** (n / tries)
            ruined = self._ruined()
            before = [self._where(unit) for unit in ruined]
            change = self._recreate(ruined)
            if change > 0 and self._rng.random() >= exp(-change / heat):
                self._restore(ruined, before)
                continue
            cost += change
            if cost < least - ROUNDING:
                best, least = self._places(), cost
        for unit, at in best.items():
            self._move(unit, at)

    def descend(self) -> None:
        """Each unit goes to its cheapest master, until nobody gains."""
        for _ in range(PASSES):
            moved = False
            for unit in self.units:
                target = self.price.best(unit)
                if target is not None and target != self._where(unit):
                    self._move(unit, target)
                    moved = True
            if not moved:
                return

    def settle(self, present: Placement, move_cost: float) -> None:
        """Units go back whose move brings no more than it costs, given the others."""
        for _ in range(PASSES):
            back = False
            for unit in self.units:
                home, here = present.where(unit), self._where(unit)
                if home is None or home == here:
                    continue
                if self.price.at(unit, home) - self.price.at(unit, here) <= move_cost:
                    self._move(unit, home)
                    back = True
            if not back:
                return

    def _mean(self) -> float:
        """The mean price of a unit that has one."""
        prices = [self.price.at(unit, self._where(unit)) for unit in self.units]
        # What no other master has room for is dear at the delegate, and says nothing of the others.
        finite = [price for price in prices if price < DELEGATED_S]
        return sum(finite) / max(1, len(finite))

    def _ruined(self) -> list[Unit]:
        """A random unit with some of its peers and of those that live with it or with them."""
        rng, world = self._rng, self.placement.world
        most = rng.randint(2, min(RUINED, max(2, len(self.units))))
        found = {rng.choice(self.units): None}
        queue = list(found)
        while queue and len(found) < most:
            unit = queue.pop(rng.randrange(len(queue)))
            near = [each for each in world.peers.get(unit, ()) if each in self._movable]
            near += self._at[self._where(unit)]
            for each in rng.sample(near, len(near)):
                if len(found) >= most:
                    break
                if each not in found and rng.random() < 0.5:
                    found[each] = None
                    queue.append(each)
        return rng.sample(list(found), len(found))

    def _recreate(self, ruined: Sequence[Unit]) -> float:
        """By how much the cost rises; infinite if a unit found no place, and stays nowhere."""
        change = 0.0
        for unit in ruined:
            price = self.price.at(unit, self._where(unit))
            change -= price if price < inf else 0.0
            self._take(unit)
        for unit in ruined:
            prices = self.price.all(unit)
            least = min(prices)
            if least == inf:
                return inf
            change += least
            target = prices.index(least)
            self.placement.put(unit, target)
            self._put(unit, target)
        return change

    def _restore(self, ruined: Sequence[Unit], before: Sequence[int]) -> None:
        for unit, at in zip(ruined, before, strict=True):
            if self.placement.where(unit) is not None:
                self._take(unit)
            self.placement.put(unit, at)
            self._put(unit, at)

    def _move(self, unit: Unit, target: int) -> None:
        if self._where(unit) != target:
            self._take(unit)
            self.placement.put(unit, target)
            self._put(unit, target)

    def _take(self, unit: Unit) -> None:
        del self._at[self.placement.remove(unit)][unit]

    def _put(self, unit: Unit, at: int) -> None:
        self._at.setdefault(at, {})[unit] = None

    def _where(self, unit: Unit) -> int:
        at = self.placement.where(unit)
        assert at is not None
        return at

    def _places(self) -> dict[Unit, int]:
        return {unit: self._where(unit) for unit in self.units}


def _moves(placement: Placement, price: Price, units: list[Unit]) -> list[Move]:
    masters = placement.world.masters
    found = []
    for unit in units:
        here, there = placement.where(unit), price.placement.where(unit)
        assert here is not None
        assert there is not None
        if here != there:
            gain = price.at(unit, here) - price.at(unit, there)
            names = masters[here].name, masters[there].name
            found.append(Move(unit, *names, gain=gain if gain < inf else 0.0))
    return sorted(found, key=lambda move: (-move.gain, move.unit))
