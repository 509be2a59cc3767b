"""A unit's next move: its pin's, its plan's, or one that lowers the cost.

Pins come before plans, and plans before drift. Drift is Flock with three changes that make it end:
the price has the toll g(D + D_i) − g(D), both masters grant one move at a time and check the gain
with fresh data, and a move has to gain more than it costs. Half the social cost is then a potential
that every move lowers by its gain, so there are at most (S₀ − S*) / 2K moves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import inf

from msgspec.structs import replace

from agent.placement.moves import Move, Reason
from agent.placement.placement import Placement
from agent.placement.price import Price
from agent.placement.world import Unit


class Drift:
    """The wishes of units, by the prices of one view of the placement."""

    def __init__(
        self,
        price: Price,
        moving_cost: Callable[[Unit], float],
        plan: Mapping[Unit, str] | None = None,
    ) -> None:
        """`moving_cost` is K of a unit: by how much a move of drift has to lower the cost, in
        seconds of delay a second. `plan` has the masters' names by unit."""
        self.price = price
        self.moving_cost = moving_cost
        self.plan = plan or {}

    def wanted(self, unit: Unit) -> Move | None:
        """The move that a unit wants, or None: to its pin, off a draining master, to its plan's
        master, or to the cheapest. A unit of a frozen master stays. O(degree · masters)."""
        placement = self.price.placement
        world = placement.world
        here = placement.where(unit)
        if here is None or here in world.frozen:
            return None
        pinned = world.pins.get(unit)
        if pinned is not None:
            return self.checked(self._move(unit, here, pinned, "pin"))
        if here not in world.draining and unit in self.plan:
            target = world.number.get(self.plan[unit])  # None: that master is gone.
            planned = None if target is None else self._move(unit, here, target, "plan")
            if planned is not None and (planned := self.checked(planned)):
                return planned
            if target == here:
                return None  # Drift does not undo what a plan has done.
        if here in world.draining:
            return self._drained(unit, here)
        best = self.price.best(unit)
        return None if best is None else self.checked(self._move(unit, here, best, "drift"))

    def _drained(self, unit: Unit, here: int) -> Move | None:
        """Off to the cheapest master. Of many homes without messages each is as cheap everywhere:
        they go where the fewest homes are, not all to one master."""
        prices = self.price.all(unit)
        least = min(prices, default=inf)
        if least == inf:
            return None
        cheapest = [at for at, price in enumerate(prices) if price == least]
        accounts = self.price.placement.accounts
        target = min(cheapest, key=lambda at: accounts[at].homes)
        return self.checked(self._move(unit, here, target, "drain"))

    def checked(self, move: Move | None) -> Move | None:
        """The move with its gain by this view, or None if it may not or need not be. To be asked
        again with fresh data once both masters have granted it. O(degree)."""
        placement = self.price.placement
        world = placement.world
        here = placement.where(move.unit) if move is not None else None
        if move is None or here is None or world.masters[here].name != move.source:
            return None
        target = world.number.get(move.target)
        if target is None or here in world.frozen or target in world.frozen:
            return None
        cost = self.price.at(move.unit, target)
        if cost == inf:
            return None
        if move.reason in {"pin", "drain"}:
            return move  # Whatever it gains: it may not stay.
        gain = self.price.at(move.unit, here) - cost
        if move.reason == "drift" and not gain > self.moving_cost(move.unit):
            return None
        return replace(move, gain=gain)

    def _move(self, unit: Unit, here: int, target: int, reason: Reason) -> Move | None:
        masters = self.price.placement.world.masters
        if here == target:
            return None
        return Move(unit, masters[here].name, masters[target].name, reason=reason)


def peers(placement: Placement, unit: Unit) -> list[Unit]:
    """The units whose places are in the price of a unit: they stay while it moves. O(members)."""
    world = placement.world
    found = dict.fromkeys(world.peers.get(unit, {}))
    topics = [unit.name] if unit.kind == "processor" else []
    if unit.kind == "home":
        topics = [*world.published.get(unit.name, {}), *world.subscribed.get(unit.name, {})]
    for name in topics:
        topic = world.topics[name]
        if topic.processor:
            found[Unit("processor", name)] = None
        if unit.kind == "processor" or not topic.processor:
            members = (*topic.publishers, *sorted(topic.subscribers))
            found |= dict.fromkeys(Unit("home", client) for client in members)
    found.pop(unit, None)
    return [each for each in found if placement.where(each) is not None]
