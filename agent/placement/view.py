"""The placement as a master sees it: a world made of its own facts and of what others told."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import inf
from typing import Final

from agent.placement.congestion import DELEGATED_S, Congestion, congestion_of
from agent.placement.latency_model import LatencyModel, Tail
from agent.placement.moves import Move
from agent.placement.placement import Placement
from agent.placement.price import Price
from agent.placement.told import Told, is_fixed
from agent.placement.world import Pin, PlacementError, Unit
from agent.wire.listing import did_you_mean, few
from agent.wire.placement import PlacementFacts, PlannedMove, UnitName

KINDS: Final = ("home:", "processor:", "clone:")
MAX_NAMED: Final = 5  # masters in a refusal
MAX_REASONS: Final = 3  # of masters without room that are told


class View(Told):
    """What masters told, with what it costs, and the questions that operators and plans have."""

    def __init__(self, facts: Iterable[PlacementFacts], model: LatencyModel | None = None) -> None:
        """`model`: of latencies at every master; by default one that nobody has trained, with the
        master's cores."""
        super().__init__(facts)
        self.model = model
        self.price = Price(self.placement, self.congestion())

    def congestion(self) -> Congestion:
        """Cost of a full master, for prices in this world."""
        return congestion_of(self.world, self.model, self.delegate)

    def delegated(self) -> list[Unit]:
        """The topics that live at the delegate because no other master had room, or has not given
        them back yet."""
        if not self.delegate:
            return []
        pins = self.world.pins
        here = self.units(self.delegate)
        return [unit for unit in here if unit.kind == "processor" and unit not in pins]

    def cost(self) -> float:
        """The cost of the placement, in seconds of delay a second, without what delegation adds to
        prices."""
        return net(self.price.total(), processors_at(self.placement, self.delegate))

    def units(self, iad: str = "") -> list[Unit]:
        """All units that may move, or those of one master."""
        found = sorted(unit for unit, _ in self.placement.items() if not is_fixed(unit))
        return [unit for unit in found if not iad or self.where(unit) == iad]

    def unit(self, text: str) -> Unit:
        """The unit that `comfort`, `processor:comfort` or `home:node/n1` names. PlacementError with
        the nearest name if there is none."""
        # A client's subscription may have any name.
        kind, _, name = text.partition(":") if text.startswith(KINDS) else ("", "", text)
        units = self.units()
        found = [each for each in units if each.name == name and kind in ("", each.kind)]
        if len(found) > 1:
            both = " and ".join(f"{each.kind}:{each.name}" for each in found)
            raise PlacementError(f"{text} may be {both}: say which")
        if not found:
            raise PlacementError(_no("unit", name, [each.name for each in units]))
        return found[0]

    def master(self, iad: str, silent: Sequence[str] = ()) -> int:
        """A master's number. PlacementError if it is silent or not known, with the nearest name."""
        if iad in silent:
            raise PlacementError(f"master {iad} is silent, and takes no units")
        if iad not in self.world.number:
            raise PlacementError(self._no_master(iad, silent))
        return self.world.number[iad]

    def _no_master(self, iad: str, silent: Sequence[str]) -> str:
        text = _no("master", iad, [*self.world.number, *silent])
        own, *others = self.facts
        if not others or not text.endswith("?"):  # all are named already
            return text
        return f"{text} {own} moves units only to {few(sorted(others), MAX_NAMED)}"

    # -- questions -------------------------------------------------------------------------------

    def check_pin(self, unit: Unit, iad: str) -> None:
        """PlacementError if this pin would contradict a limit, a mode or another pin."""
        world, before = self.world, dict(self.world.pins)
        pins = [Pin(each, world.masters[at].name) for each, at in before.items() if each != unit]
        try:
            world.pin([*pins, Pin(unit, iad)])
        finally:
            world.pins = before

    def alone_s(self, unit: Unit, at: int) -> float | None:
        """The latency that a topic gets on this master alone, at the quantile of its objective, if
        that is more than the objective."""
        topic = self.world.topics.get(unit.name)
        if unit.kind != "processor" or topic is None or topic.objective is None:
            return None
        tail = Tail(self.world, self.model)
        latency_s = tail.latency_s(self.world.masters[at], topic.name)
        return latency_s if latency_s > topic.objective.seconds else None

    def infeasible(self, unit: Unit) -> str:
        """The latency of a topic that no master could keep alone; empty if one could."""
        masters = range(len(self.world.masters))
        found = [self.alone_s(unit, at) for at in masters]
        least = min((each for each in found if each is not None), default=None)
        goal = self.world.topics[unit.name].objective if unit.kind == "processor" else None
        if None in found or least is None or goal is None:
            return ""
        return (
            f"topic {unit.name} is infeasible alone: it would get p{goal.quantile * 100:g} = "
            f"{_seconds(least)}, its objective is {_seconds(goal.seconds)}"
        )

    def no_room(self, unit: Unit) -> str:
        """Why no master may have a unit; empty if one may."""
        rows = self.price.why(unit)
        if any(row.price < inf for row in rows):
            return ""
        told = "; ".join(f"{row.master} {row.reason}" for row in rows[:MAX_REASONS])
        more = "" if self.delegate else "; no master is named that takes the rest"
        return f"no master has room for {unit}: {told}{more}"


def net(cost: float, delegated: int) -> float:
    """A cost without what it has for so many processors at the delegate."""
    return max(0.0, cost - DELEGATED_S * delegated)


def processors_at(placement: Placement, iad: str) -> int:
    """How many processors live at a master; 0 if it is not in this world."""
    at = placement.world.number.get(iad)
    return 0 if at is None else len(placement.accounts[at].processors)


def believed(facts: Iterable[PlacementFacts], first: Sequence[str]) -> list[PlacementFacts]:
    """Facts of masters for a view: first those of `first`, in that order. O(n log n)."""
    order = {iad: n for n, iad in enumerate(first)}
    return sorted(facts, key=lambda each: order.get(each.iad, len(order)))


def moves_of(planned: Iterable[PlannedMove]) -> list[Move]:
    """The moves of a plan as they come by wire."""
    return [
        Move(Unit(each.unit.kind, each.unit.name), each.source, each.target, gain=each.gain)
        for each in planned
    ]


def named(unit: Unit) -> UnitName:
    """A unit as it goes by wire."""
    return UnitName(unit.kind, unit.name)


def _no(what: str, name: str, known: Sequence[str]) -> str:
    there = f"known are {few(known, 5)}" if known else "none are"
    return f"no {what} {name} is known here; {did_you_mean(name, known, there)}"


def _seconds(seconds: float) -> str:
    return f"{seconds:.3g} s" if seconds >= 1 else f"{seconds * 1e3:.3g} ms"
