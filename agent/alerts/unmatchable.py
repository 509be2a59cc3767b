"""Valid filters that no alert can match: the subscriber gets a warning."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import cache, partial
from typing import Final

from agent.alerts.notifications import CLEARED, LOST, RAISED
from agent.wire.areas import AreaSet
from agent.wire.listing import alike, few, hint
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
# What comes from topics; `agent.topics.contents` has the words.
TOPICS: Final = Predicate("kind", "in", ("input", "output", "trouble"))
TEXTS: Final = ("iad", "trigger", "metric", "area", "history")

NAMED: Final = {
    "iad": "no alert comes of {}: no IAD in the overlay is",
    "trigger": "no alert here named a trigger {} so far",
    "metric": "no node known here gives {}",
}
OTHERS: Final = "; those of other IADs may"
MAX_LISTED: Final = 4
# Among more topics none is sought that may have been meant.
MAX_TOPICS: Final = 256
# Those that people write in filters.
ATTRIBUTES: Final = AreaSet(("iad", "kind", "trigger", "metric", "area", "value"))

# The area among these that is most like another; empty if there is none.
Nearest = Callable[[str, AreaSet], str]
# The values of an attribute that are known; empty if there may be any.
Names = Callable[[str], Collection[str]]
# Words why a conjunction matches no alert: only those of the first are needed, and to find what may
# have been meant takes long.
Reason = Callable[[Nearest], str]


def doubt(
    disjunction: Filter,
    known: Sequence[AreaSet] = (),
    nearest: Nearest = lambda *_: "",
    names: Names = lambda _: (),
) -> str:
    """Why the filter matches no alert of the current kinds, or of these known areas and names, in
    words for the operator; empty if an alert may match. Alerts of later versions, and areas and
    names added later, may match all the same. O(operands · (depth + names) + predicates² of each
    conjunction)."""
    known = [areas for areas in known if areas]
    names = cache(names)
    reasons: list[Reason] = []
    of_topics: list[Reason] = []
    for conjunction in disjunction:
        if _of_topics(conjunction):  # their attributes are whatever is published
            why = _unknown_topic(conjunction, names)
            found = of_topics
        else:
            why = _never(conjunction) or _nobody(conjunction, known)
            why = why or _nameless(conjunction, names)
            found = reasons
        if why is None:
            return ""
        found.append(why)
    # A topic may be created later, whatever else never matches: its reason decides.
    return (of_topics or reasons)[0](nearest)[:500]


def _nameless(conjunction: Conjunction, names: Names) -> Reason | None:
    """The name in the filter that none known has."""
    for predicate in conjunction:
        if predicate.attribute not in NAMED or predicate.operator not in ("=", "in", "prefix"):
            continue
        known = names(predicate.attribute)
        wanted = [name for name in predicate.operands if isinstance(name, str)]
        if known and not any(_is_one(name, predicate.operator, known) for name in wanted):
            return partial(_told_nameless, predicate.attribute, wanted[0], names)
    return None


def _unknown_topic(conjunction: Conjunction, names: Names) -> Reason | None:
    """The topic in the filter that none known has."""
    for predicate in conjunction:
        if predicate.attribute != "topic" or predicate.operator not in ("=", "in"):
            continue
        known = names("topic")
        wanted = [name for name in predicate.operands if isinstance(name, str)]
        if wanted and not any(name in known for name in wanted):
            return partial(_told_misspelt, wanted[0], known)
    return None


def _told_misspelt(name: str, known: Collection[str], _nearest: Nearest) -> str:
    """Nothing unless a known name is similar: a topic may be created later, or be kept by a master
    that is not known here."""
    near = alike(name, known) if len(known) <= MAX_TOPICS else ""
    return f"no topic {name} is known here{hint(near)}" if near else ""


def _told_nameless(attribute: str, name: str, names: Names, nearest: Nearest) -> str:
    known = names(attribute)
    near = nearest(name, AreaSet(known))
    # Nodes of other IADs, if there are any, may well give what is like nothing here.
    is_all = near or attribute != "metric" or len(names("iad")) == 1
    others = "" if is_all else OTHERS
    return NAMED[attribute].format(name) + _alternative(near, known) + others


def _is_one(name: str, operator: str, known: Collection[str]) -> bool:
    if operator == "prefix":
        return any(each.startswith(name) for each in known)
    return name in known


def _alternative(near: str, known: Collection[str]) -> str:
    return hint(near) or f", only {few(sorted(known), MAX_LISTED)}"


def _of_topics(conjunction: Conjunction) -> bool:
    return any(
        predicate.attribute == "topic"
        or (
            (predicate.attribute == "kind" and not contradiction((predicate, TOPICS)))
            and contradiction((predicate, ALERTS["kind"]))
        )
        for predicate in conjunction
    )


def _nobody(conjunction: Conjunction, known: Sequence[AreaSet]) -> Reason | None:
    """The area in the filter that none of these overlaps; without known areas, none can be
    ruled out."""
    for predicate in conjunction if known else ():
        if predicate.attribute != "area" or predicate.operator not in ("=", "in", "under"):
            continue
        wanted = [area for area in predicate.operands if isinstance(area, str)]
        if any(areas.covers(area) for area in wanted for areas in known):
            continue
        above = [area for area in wanted if any(areas.has_within(area) for areas in known)]
        if not above:
            return partial(_told_nobody, wanted[0], known)
        if predicate.operator != "under":
            return partial(_told_below, above[0])
    return None


def _told_nobody(area: str, known: Sequence[AreaSet], nearest: Nearest) -> str:
    near = next((meant for areas in known if (meant := nearest(area, areas))), "")
    return f"no alert comes until somebody covers {area}: nobody known here does{hint(near)}"


def _told_below(area: str, _nearest: Nearest) -> str:
    below = write_conjunction((Predicate("area", "under", (area,)),))
    return f"no alert comes of {area} itself: {below} takes what lies below it"


def _meant(predicate: Predicate, nearest: Nearest) -> str:
    """The attribute, or channel, that may have been meant by one that no alert has."""
    if near := nearest(predicate.attribute, ATTRIBUTES):
        return hint(near)
    if predicate.operator in ("in", "prefix", "under", "present"):
        return ""
    if isinstance(predicate.operands[0], bool | str):
        return ""
    metric = Predicate("metric", "=", (predicate.attribute,))
    value = Predicate("value", predicate.operator, predicate.operands)
    return f"; of a channel, write {write_conjunction((metric, value))}"


def _never(conjunction: Conjunction) -> Reason | None:
    """The predicate that no alert of the current kinds fulfils."""
    for predicate in conjunction:
        known = ALERTS.get(predicate.attribute)
        if known is None or contradiction((predicate, known)):
            return partial(_told_never, predicate)
    return None


def _told_never(predicate: Predicate, nearest: Nearest) -> str:
    name = predicate.attribute
    if name not in ALERTS:
        why = f"alerts have no {name}, only iad, kind, trigger, metric, area and value"
        why += _meant(predicate, nearest)
    else:
        why = f"{write_conjunction((predicate,))}, and "
        if name == "kind":
            why += f"a kind is {RAISED} or {CLEARED}"
        else:
            why += f"{name} is a {'text' if name in TEXTS else 'number'}"
    return f"no alert will fulfil this: {why}"
