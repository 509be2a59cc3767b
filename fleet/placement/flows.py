"""Plans for units that talk to each other: clones, and processors with flows. All units are drawn
anew again and again, colder and colder; then parts are taken away and placed anew."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
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
# Of parts: how often all of one goes to one master, and how many masters that have none of it are
# tried for it.
GATHERED: Final = 0.2
OTHERS: Final = 3
# Worlds of at most so many placements are searched to the end, in at most so many looks at a unit.
FEW: Final = 1e6
LOOKS: Final = 60_000
ROUNDING: Final = 1e-9


class Flows(Struct, frozen=True):
    """The planner `flows`: annealing, then ruin and recreate, by the same prices as drift.

    It begins three times: from where the units are; from where they would be had they arrived by
    load, the greatest first; and from where those that talk to each other, directly or by way of
    others, are all at one master if one has room for them. Single moves rarely bring together what
    is apart in two groups. A few units on a few masters are then searched to the end. A move is
    made only where it brings more than `move_cost`, given the others.
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
        present, arrived, gathered = [
            _Search(placement, self.congestion, units, self.seed) for _ in range(3)
        ]
        starts = [present]
        if len(units) > 1:
            starts += [arrived] if arrived.arrive() else []
            for search in starts:
                search.anneal(self.sweeps)
            # Heat would take this one apart again.
            starts += [gathered] if gathered.gather() else []
            for search in starts:
                search.ruin(self.tries * len(units))
                search.descend()
        best = min(starts, key=lambda search: search.price.total())
        if len(placement.world.masters) ** len(units) <= FEW:
            best.exhaust(LOOKS)
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

    def gather(self) -> bool:
        """Place all units anew, those that are connected by flows at one master: the greatest load
        first, each group where it costs least, one for which no master has room by price alone.
        False, and nothing changes, if a unit finds no place. O(units · degree · masters)."""
        before = [self._where(unit) for unit in self.units]
        self._take_all(self.units)
        masters = range(len(self.placement.world.masters))
        for group in self._groups():
            if self._place_together(group, masters) == inf and self._arrive_all(group) == inf:
                self._restore(self.units, before)
                return False
        return True

    def _groups(self) -> list[list[Unit]]:
        """Units that are connected by flows, each after a neighbour; the greatest load first."""
        load, peers = self.placement.world.load_of, self.placement.world.peers
        left = dict.fromkeys(self.units)
        groups = []
        while left:
            group = [next(iter(left))]
            del left[group[0]]
            for unit in group:  # which grows
                near = [each for each in peers.get(unit, ()) if each in left]
                group += near
                for each in near:
                    del left[each]
            groups.append(group)
        return sorted(groups, key=lambda group: -sum(map(load, group)))

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
            together = self._rng.random() < GATHERED
            ruined = self._ruined(together=together)
            before = [self._where(unit) for unit in ruined]
            change = self._recreate(ruined, together=together)
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

    def exhaust(self, looks: int) -> bool:
        """Put all units where they cost least together, by branch and bound: one that comes later
        costs at least what it would now, since those that come before it only make it dearer (but
        where messages are delegated; then a better one may be missed). Whether that many looks at
        a unit were enough; if not, it is the best that was seen. Never dearer than before."""
        order = [unit for group in self._groups() for unit in group]
        best, least = self._places(), self._take_all(order)
        left = looks

        def descend(depth: int, paid: float) -> None:
            nonlocal best, least, left
            if depth == len(order):
                if paid < least - ROUNDING:
                    best, least = self._places(), paid
                return
            left -= len(order) - depth
            if left < 0:
                return
            prices = self.price.all(order[depth])
            rest = sum(min(self.price.all(unit)) for unit in order[depth + 1 :])
            for price, at in sorted(zip(prices, range(len(prices)), strict=True)):
                if paid + price + rest >= least - ROUNDING:
                    break
                self._place(order[depth], at)
                descend(depth + 1, paid + price)
                self._take(order[depth])

        descend(0, 0.0)
        for unit in order:
            self._place(unit, best[unit])
        return left >= 0

    def _take_all(self, units: Sequence[Unit]) -> float:
        """Take them away; what they cost together."""
        paid = 0.0
        for unit in units:
            paid += self.price.at(unit, self._where(unit))
            self._take(unit)
        return paid

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

    def _ruined(self, *, together: bool) -> list[Unit]:
        """A random unit with some of its peers and of those that live with it or with them; if they
        are to come together, with as many of its peers and of theirs as there may be."""
        rng, world = self._rng, self.placement.world
        most = rng.randint(2, min(RUINED, max(2, len(self.units))))
        found = {rng.choice(self.units): None}
        queue = list(found)
        while queue and len(found) < most:
            unit = queue.pop(rng.randrange(len(queue)))
            near = [each for each in world.peers.get(unit, ()) if each in self._movable]
            if not together:
                near += self._at[self._where(unit)]
            for each in rng.sample(near, len(near)):
                if len(found) >= most:
                    break
                if each not in found and (together or rng.random() < 0.5):
                    found[each] = None
                    queue.append(each)
        return rng.sample(list(found), len(found))

    def _recreate(self, ruined: Sequence[Unit], *, together: bool = False) -> float:
        """By how much the cost rises; infinite if a unit found no place, and stays nowhere. If they
        go `together`, to one of their masters or of a few others, if one has room for all."""
        change = 0.0
        lived = {self._where(unit): None for unit in ruined}
        for unit in ruined:
            price = self.price.at(unit, self._where(unit))
            change -= price if price < inf else 0.0
            self._take(unit)
        if together:
            masters = len(self.placement.world.masters)
            lived |= dict.fromkeys(self._rng.sample(range(masters), min(OTHERS, masters)))
            if (paid := self._place_together(ruined, lived)) < inf:
                return change + paid
        return change + self._arrive_all(ruined)

    def _arrive_all(self, units: Iterable[Unit]) -> float:
        """Put units that are nowhere where each costs least, in order; what that costs. Infinite if
        one found no place, and stays nowhere."""
        paid = 0.0
        for unit in units:
            prices = self.price.all(unit)
            least = min(prices)
            if least == inf:
                return inf
            paid += least
            self._place(unit, prices.index(least))
        return paid

    def _place_together(self, units: Sequence[Unit], masters: Iterable[int]) -> float:
        """Put units that are nowhere at that one of these masters where all of them cost least;
        what that costs. Infinite, and they stay nowhere, if none has room for all."""
        tried = [(self._cost_of_all(units, at), at) for at in masters]
        least, target = min(tried)
        if least < inf:
            for unit in units:
                self._place(unit, target)
        return least

    def _cost_of_all(self, units: Sequence[Unit], at: int) -> float:
        paid = 0.0
        put = []
        for unit in units:
            price = self.price.at(unit, at)
            paid += price
            if price == inf:
                break
            self._place(unit, at)
            put.append(unit)
        for unit in put:
            self._take(unit)
        return paid

    def _restore(self, ruined: Sequence[Unit], before: Sequence[int]) -> None:
        for unit, at in zip(ruined, before, strict=True):
            if self.placement.where(unit) is not None:
                self._take(unit)
            self._place(unit, at)

    def _move(self, unit: Unit, target: int) -> None:
        if self._where(unit) != target:
            self._take(unit)
            self._place(unit, target)

    def _place(self, unit: Unit, at: int) -> None:
        self.placement.put(unit, at)
        self._put(unit, at)

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
