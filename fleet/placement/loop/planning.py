"""Plans from what the lake has learned: for the day, for the night, and what each would gain."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from msgspec import Struct

from _core.colocation.model import Colocation
from agent.placement.headroom import NONE
from agent.placement.latency_model import untrained
from agent.placement.placement import Placement
from agent.placement.told import UNKNOWN_CPU_S
from agent.placement.view import View
from agent.placement.world import Objective, PlacementError, Unit
from fleet.placement import latency, plans
from fleet.placement.loop.learned import Learned, groups, recorded_facts, renewed
from fleet.placement.plans import Plan

# What a master recorded last says nothing of now if the newest of all is so much newer.
GONE: Final = timedelta(minutes=10)
MAX_TOGETHER: Final = 32  # that the latency model takes
NO_WORK_S: Final = 1e-6


class Period(Struct, frozen=True):
    """Hours of the day, UTC."""

    name: str
    hours: frozenset[int]


class Expected(Struct, frozen=True):
    """A topic's objective, and which latency the model expects: today, and by the plan."""

    topic: str
    percentile: float
    slo_ms: float | None
    today: str
    planned: str
    today_ms: float | None
    planned_ms: float | None

    def misses(self, ms: float | None) -> bool:
        """Whether this latency is too long."""
        return self.slo_ms is not None and ms is not None and ms > self.slo_ms


class Outlook(Struct, frozen=True):
    """Need and gain of one period. `needed`: masters that keep all objectives; None if
    those there are too few, as `trouble` says. `topics` and `per_s` are what is known of it."""

    period: str
    masters: tuple[str, ...]
    topics: int
    per_s: float
    needed: int | None
    plan: Plan | None
    expected: tuple[Expected, ...] = ()
    trouble: str = ""


def periods(first_hour: int, last_hour: int, now: datetime) -> tuple[Period, Period]:
    """Day and night: the hours from `first_hour` until before `last_hour` by the clock of `now`
    (which knows its zone), and the others."""
    offset_h = round((now.utcoffset() or timedelta()).total_seconds() // 3600)
    local = {(first_hour + n) % 24 for n in range((last_hour - first_hour) % 24)}
    day = frozenset((hour - offset_h) % 24 for hour in local)
    return Period("day", day), Period("night", frozenset(range(24)) - day)


def outlooks(
    learned: Learned,
    wanted: Sequence[Period],
    model: Colocation | None = None,
    move_cost: float = 0.0,
) -> list[Outlook]:
    """Need of each period, for each group of masters that units can move within."""
    newest = max((each.time for each in learned.masters), default=None)
    there = [each.iad for each in learned.masters if newest and each.time >= newest - GONE]
    pairs = [(way.iad, way.other) for way in learned.ways]
    found = []
    for group in groups(there, pairs):
        facts, masters = recorded_facts(learned, group), tuple(sorted(group))
        names = {topic.name for each in facts for topic in each.topics}
        for period in wanted:
            if not names or not learned.hours(names) & period.hours:
                trouble = "no record is of these hours"
                found.append(
                    Outlook(period.name, masters, len(names), 0.0, None, None, (), trouble)
                )
                continue
            try:
                view = View(renewed(facts, learned, period.hours), model)
            except PlacementError as error:
                found.append(
                    Outlook(period.name, masters, len(names), 0.0, None, None, (), str(error))
                )
                continue
            found.append(outlook(view, period.name, move_cost))
    return found


def outlook(view: View, name: str, move_cost: float) -> Outlook:
    """Need of a placement, and the cheapest one that keeps its objectives."""
    topics = view.world.topics
    per_s = sum(view.world.rates[topic] for topic in topics)
    masters = tuple(each.name for each in view.world.masters)
    trouble, needed = "", None
    try:
        needed = plans.fewest_masters(view)
    except PlacementError as error:
        trouble = str(error)
    try:
        made = plans.least_price(view, move_cost)
    except PlacementError as error:
        return Outlook(name, masters, len(topics), per_s, needed, None, (), trouble or str(error))
    after = view.placement.copy()
    for move in made.moves:
        after.move(Unit(move.unit.kind, move.unit.name), after.world.master(move.target))
    return Outlook(name, masters, len(topics), per_s, needed, made, _expected(view, after), trouble)


def _expected(view: View, after: Placement) -> tuple[Expected, ...]:
    before_s, after_s = (_latencies(each, view.model) for each in (view.placement, after))
    found = []
    for name, topic in view.world.topics.items():
        unit = Unit("processor", name)
        goal = topic.objective
        found.append(
            Expected(
                name,
                (goal or Objective()).quantile * 100,
                None if goal is None else goal.seconds * 1e3,
                _where(view.placement, unit),
                _where(after, unit),
                _ms(before_s.get(name)),
                _ms(after_s.get(name)),
            )
        )
    return tuple(found)


def _latencies(placement: Placement, model: Colocation | None) -> dict[str, float]:
    """The latency that each topic is expected to have beside those that live with it, in s."""
    world = placement.world
    found: dict[str, float] = {}
    for master, account in zip(world.masters, placement.accounts, strict=True):
        names = list(account.processors)
        if not 0 < len(names) <= MAX_TOGETHER:
            continue
        seen = []
        for name in names:
            topic, goal = world.topics[name], world.topics[name].objective or Objective()
            service_s = max(topic.service_s or UNKNOWN_CPU_S, NO_WORK_S)
            seen.append(latency.Topic(service_s, world.rates[name], 0, goal.seconds, goal.quantile))
        asked = latency.candidates(model or untrained(master.cores), seen, NONE)
        found.update(zip(names, asked.latencies(range(len(names))), strict=True))
    return found


def _where(placement: Placement, unit: Unit) -> str:
    at = placement.where(unit)
    return "" if at is None else placement.world.masters[at].name


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds * 1e3, 3)
