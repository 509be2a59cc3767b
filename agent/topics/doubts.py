"""Filters that are sound, and that no alert will fulfil: whoever subscribes is told."""

from __future__ import annotations

from typing import Final

from agent.topics.alerts import CLEARED, LOST, RAISED
from agent.wire.predicate_logic import contradiction
from agent.wire.predicates import Conjunction, Filter, Predicate, write_conjunction

# What is so of every alert that has the attribute: the words it may be, a text, or a number.
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


def doubt(disjunction: Filter) -> str:
    """Why no alert of today's kinds fulfils the filter, for people; empty if one may. What later
    versions publish may fulfil it all the same. O(operands + predicates² of each conjunction)."""
    found = ""
    for conjunction in disjunction:
        if not (why := _doubt(conjunction)):
            return ""
        found = found or why
    return f"no alert will fulfil this: {found}"[:500] if found else ""


def _doubt(conjunction: Conjunction) -> str:
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
