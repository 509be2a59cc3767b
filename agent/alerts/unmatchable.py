"""Valid filters that no alert can match: the subscriber gets a warning."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from agent.alerts.notifications import CLEARED, LOST, RAISED
from agent.wire.areas import AreaSet
from agent.wire.predicate_logic import contradiction
from agent.wire.predicates import Conjunction, Filter, Predicate, write_conjunction

# For each attribute that every alert has: its possible words, a text, or a number.
ALERTS: Final = {
    "iad": Predicate("iad", "prefix", ("",)),
    "kind": Predicate("kind", "in", (RAISED, CLEARED, LOST)),
    "trigger": Predicate("trigger", "prefix", ("",)),
    "metric": Predicate("metric", "prefix", ("",)),
    "area": Predicate("area", "prefix", ("",)),
    "value": Predicate("value", "<=", (float("inf"),)),
    "history": Predicate("history", "prefix", ("",)),
} | {name: Predicate(name, ">=", (0,)) for name in ("first", "last", "count")}
TEXTS: Final = ("iad", "trigger", "metric", "area", "history")


# The area among these that is most like another; empty if there is none.
Nearest = Callable[[str, AreaSet], str]


def doubt(
    disjunction: Filter, known: Sequence[AreaSet] = (), nearest: Nearest = lambda *_: ""
) -> str:
    """Why the filter matches no alert of the current kinds, or of these known areas, in words for
    the operator; empty if an alert may match. Alerts of later versions, and areas added later, may
    match all the same. O(operands · depth + predicates² of each conjunction)."""
    known = [areas for areas in known if areas]
    found = ""
    for conjunction in disjunction:
        if why := _never(conjunction):
            why = f"no alert will fulfil this: {why}"
        # Only the first reason is told, and to find an area like another takes long.
        elif not (why := _nobody(conjunction, known, _unknown if found else nearest)):
            return ""
        found = found or why
    return found[:500]


def _unknown(_area: str, _known: AreaSet) -> str:
    return ""


def _nobody(conjunction: Conjunction, known: Sequence[AreaSet], nearest: Nearest) -> str:
    """Which area the filter names that none of these overlaps; without known areas, none can be
    ruled out."""
    for predicate in conjunction if known else ():
        if predicate.attribute != "area" or predicate.operator not in ("=", "in", "under"):
            continue
        wanted = [area for area in predicate.operands if isinstance(area, str)]
        if any(areas.covers(area) for area in wanted for areas in known):
            continue
        above = [area for area in wanted if any(areas.has_within(area) for areas in known)]
        if not above:
            near = next((meant for areas in known if (meant := nearest(wanted[0], areas))), "")
            hint = f"; did you mean {near}?" if near else ""
            return f"no alert comes until somebody covers {wanted[0]}: nobody known here does{hint}"
        if predicate.operator != "under":
            below = write_conjunction((Predicate("area", "under", (above[0],)),))
            return f"no alert comes of {above[0]} itself: {below} takes what lies below it"
    return ""


def _never(conjunction: Conjunction) -> str:
    for predicate in conjunction:
        name = predicate.attribute
        if name not in ALERTS:
            return f"alerts have no {name}, only iad, kind, trigger, metric, area and value"
        if contradiction((predicate, ALERTS[name])):
            shown = write_conjunction((predicate,))
            if name == "kind":
                return f"{shown}, and a kind is {RAISED} or {CLEARED}"
            return f"{shown}, and {name} is a {'text' if name in TEXTS else 'number'}"
    return ""
