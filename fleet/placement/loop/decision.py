"""Whether to move anything now: what masters say, what the lake has learned, and what moves cost.

Pure: the time is passed in, and nothing is read or sent.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta

from msgspec import Struct

from _core.colocation.model import Colocation
from agent.placement.lifecycle import ENDED
from agent.placement.view import View
from agent.placement.world import PlacementError
from agent.wire.listing import few
from agent.wire.placement import PlacementFacts, PlacementReport
from fleet.placement import plans
from fleet.placement.feedback import missed
from fleet.placement.loop.learned import Learned, groups, renewed
from fleet.placement.plans import Plan


class Caution(Struct, frozen=True):
    """When there is too little to act on: a master's newest record may be `stale_s` old, and there
    must be as many as `fewest` records of each master and each topic."""

    stale_s: float = 300.0
    fewest: int = 3


class Decision(Struct, frozen=True):
    """The decision for one group of masters, and why, in one line. Without a plan: nothing."""

    masters: tuple[str, ...]
    why: str
    plan: Plan | None = None


def decide(
    reports: Sequence[PlacementReport],
    silent: Sequence[str],
    learned: Learned,
    now: datetime,
    caution: Caution,
    model: Colocation | None = None,
) -> list[Decision]:
    """The decision for each group of masters that units can move within. `reports`: what each
    master says now of itself, and of those that it knows; `silent` ones gave none."""
    of = {each.iad: each for each in reports}
    names = [*of, *silent]
    pairs = [
        (each.iad, known.facts.iad)
        for each in reports
        for known in each.known
        if known.facts.iad != each.iad
    ]
    found = []
    for group in groups(names, pairs):
        masters = tuple(sorted(group))
        if away := [iad for iad in masters if iad not in of]:
            found.append(Decision(masters, f"does nothing: {away[0]} does not answer"))
            continue
        found.append(_decided(masters, [of[iad] for iad in masters], learned, now, caution, model))
    return found


def _decided(
    masters: tuple[str, ...],
    reports: Sequence[PlacementReport],
    learned: Learned,
    now: datetime,
    caution: Caution,
    model: Colocation | None,
) -> Decision:
    facts = [each.known[0].facts for each in reports]
    trouble = _moving(reports) or _unknown(facts, learned, now, caution)
    if trouble:
        return Decision(masters, f"does nothing: {trouble}")
    # A move may cost at some master more than at others: the dearest word counts.
    move_cost = max(each.move_cost for each in reports)
    try:
        view = View(renewed(facts, learned), model)
        if view.troubles:
            return Decision(masters, f"does nothing: {view.troubles[0]}")
        if (mended := _mended(masters, view)) is not None:
            return mended
        made = plans.least_price(view, move_cost)
    except PlacementError as error:
        return Decision(masters, f"does nothing: {error}")
    return _worth(masters, made, move_cost)


def _mended(masters: tuple[str, ...], view: View) -> Decision | None:
    """The fewest moves that mend objectives that are not kept, if there are any: what is cheapest
    comes when all are kept."""
    try:
        made = plans.plan(view, "repair")
    except PlacementError:
        return None  # No master has room: the whole may still be placed otherwise.
    if not made.moves:
        return None
    misses = missed(view)
    why = str(misses[0]) if misses else "now an objective is not kept"
    more = f" and {len(misses) - 1} more" if len(misses) > 1 else ""
    return Decision(masters, f"{_named(made)}: {why}{more}", made)


def _named(made: Plan) -> str:
    """How many moves, and the first ones."""
    count = len(made.moves)
    what = [f"{each.unit.name} {each.source} → {each.target}" for each in made.moves]
    return f"{count} move{'s' * (count != 1)}, {few(what, 3)}"


def _moving(reports: Sequence[PlacementReport]) -> str:
    """Moves under way, by these masters themselves."""
    for report in reports:
        if moving := [move for move in report.moves if move.state not in ENDED]:
            what = f"{moving[0].unit.kind} {moving[0].unit.name}"
            return f"{report.iad} still moves {what} to {moving[0].target} ({moving[0].state})"
    return ""


def _unknown(
    facts: Sequence[PlacementFacts], learned: Learned, now: datetime, caution: Caution
) -> str:
    """Data that is stale, or too little, to act on."""
    recorded = {each.iad: each for each in learned.masters}
    for each in facts:
        known = recorded.get(each.iad)
        if known is None:
            return f"{each.iad} has no record of this time"
        age = now - known.time
        if age > timedelta(seconds=caution.stale_s):
            return f"the newest record of {each.iad} is {_age(age)} old"
        if age < -timedelta(seconds=caution.stale_s):
            return f"the newest record of {each.iad} is of {_age(-age)} from now: see its clock"
        if known.records < caution.fewest:
            few = f"{known.records} records of this time, {caution.fewest} are needed"
            return f"{each.iad} has {few}"
    # A row a source; each says how many records its topic has in that hour.
    of_hour = {(row.topic, row.hour): row.records for row in learned.arrivals}
    seen: Counter[str] = Counter()
    for (topic, _), records in of_hour.items():
        seen[topic] += records
    for each in facts:
        for told in each.topics:
            if seen[told.name] < caution.fewest:
                few = f"{seen[told.name]} records of this time, {caution.fewest} are needed"
                return f"topic {told.name} has {few}"
    return ""


def _worth(masters: tuple[str, ...], made: Plan, move_cost: float) -> Decision:
    count = len(made.moves)
    if not count:
        return Decision(masters, "stays: nothing would be cheaper elsewhere")
    before, after = made.cost
    moves = f"{count} move{'s' * (count != 1)}"
    if after is None:
        return Decision(masters, f"stays: {moves} would not keep all limits and objectives")
    costs = move_cost * count
    what = _named(made)
    if before is None:
        return Decision(masters, f"{what}: now a limit or an objective is not kept", made)
    gain = before - after
    if (back := made.delegated[0] - made.delegated[1]) > 0:
        why = f"{what}: {back} topic{'s' * (back != 1)} fewer at the delegate"
        return Decision(masters, why, made)
    if gain <= costs:
        why = f"stays: {moves} would save {_rate(gain)}, and cost {_rate(costs)}"
        return Decision(masters, why)
    return Decision(masters, f"{what}: saves {_rate(gain)}, costs {_rate(costs)}", made)


def _rate(seconds: float) -> str:
    return f"{seconds * 1e3:.3g} ms/s"


def _age(age: timedelta) -> str:
    seconds = age.total_seconds()
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"
