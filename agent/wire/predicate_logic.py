"""Validation and simplification of filters: contradictions, duplicates, subsumed conjunctions."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import Final

from agent.wire.areas import AREA_PATTERN
from agent.wire.predicate_values import key, some_value
from agent.wire.predicates import (
    Conjunction,
    Filter,
    FilterError,
    Predicate,
    write_conjunction,
)

ORDER: Final = ("<", "<=", ">", ">=")
LONGEST_SHOWN: Final = 120

_AREA: Final = re.compile(AREA_PATTERN)
_EXPECTED: Final = {
    "present": "nothing",
    "in": "at least one value",
    "prefix": "one string",
    "under": 'one area, such as "b1/f4",',
} | dict.fromkeys(ORDER, "one number or string")


def check(disjunction: Filter) -> None:
    """`FilterError` for a meaningless predicate, such as ``value < true``, and for a conjunction
    that no notification can match.

    For filters with valid types, as after decoding. O(operands + predicates² of each conjunction).
    """
    for conjunction in disjunction:
        for predicate in conjunction:
            if not _makes_sense(predicate):
                expected = _EXPECTED.get(predicate.operator, "one value")
                shown = _shown((predicate,))
                raise FilterError(f"{shown}: expected {expected} after {predicate.operator}")
        if reason := contradiction(conjunction):
            raise FilterError(reason)


def is_area(text: str) -> bool:
    """Whether the text is a valid area path."""
    return _AREA.match(text) is not None


def simplified(disjunction: Filter) -> Filter:
    """The filter without duplicate predicates and operands, and without conjunctions that contain
    all predicates of another. O(conjunctions² · predicates)."""
    alternatives = Alternatives()
    for conjunction in disjunction:
        alternatives.add(terms(conjunction))
    return alternatives.filter()


# The predicates of a conjunction, each once, by an identity key: 1 and true are equal in Python.
Terms = dict[Hashable, Predicate]


def terms(conjunction: Iterable[Predicate]) -> Terms:
    """The distinct predicates, in order. O(operands)."""
    found: Terms = {}
    for each in conjunction:
        operands = {key(operand): operand for operand in each.operands}
        one = each
        if len(operands) < len(each.operands):
            one = Predicate(each.attribute, each.operator, tuple(operands.values()))
        found[each.attribute, each.operator, frozenset(operands)] = one
    return found


class Alternatives:
    """Conjunctions of which none contains all predicates of another, in insertion order."""

    def __init__(self) -> None:
        self._all: list[Terms] = []

    def __len__(self) -> int:
        return len(self._all)

    def __iter__(self) -> Iterator[Terms]:
        return iter(self._all)

    def add(self, conjunction: Terms) -> None:
        """Add a conjunction. O(conjunctions · predicates)."""
        keys = conjunction.keys()
        if not any(each.keys() <= keys for each in self._all):
            self._all = [each for each in self._all if not keys <= each.keys()]
            self._all.append(conjunction)

    def filter(self) -> Filter:
        """The filter in wire form."""
        return tuple(tuple(each.values()) for each in self._all)


def shared(one: Terms, other: Terms) -> list[Predicate]:
    """The predicates of both on attributes that both have: if each alone can match, only these may
    contradict each other. O(predicates)."""
    names = {each.attribute for each in one.values()} & {each.attribute for each in other.values()}
    if not names:
        return []
    return [each for each in (one | other).values() if each.attribute in names]


def contradiction(conjunction: Iterable[Predicate]) -> str:
    """Why no notification can match the conjunction, in a sentence; "" if one can.

    Exact for strings of unlimited length. O(operands + predicates²).
    """
    by_attribute = defaultdict(list)
    for predicate in conjunction:
        by_attribute[predicate.attribute].append(predicate)
    for predicates in by_attribute.values():
        if some_value(predicates):
            continue
        # If two predicates contradict each other, naming just these is clearer.
        for at, one in enumerate(predicates):
            if not some_value([one]):
                return f"{_shown([one])} never holds"
            for other in predicates[:at]:
                if not some_value([other, one]):
                    return f"{_shown([other, one])} never hold together"
        return f"{_shown(predicates)} never hold together"
    return ""


def _shown(conjunction: Conjunction | Sequence[Predicate]) -> str:
    text = write_conjunction(conjunction)
    return text if len(text) <= LONGEST_SHOWN else text[:LONGEST_SHOWN] + "…"


def _makes_sense(predicate: Predicate) -> bool:
    operator, operands = predicate.operator, predicate.operands
    if operator in ("present", "in"):
        return bool(operands) == (operator == "in")
    if len(operands) != 1:
        return False
    (operand,) = operands
    if operator == "under":
        return isinstance(operand, str) and is_area(operand)
    if operator == "prefix":
        return isinstance(operand, str)
    return operator not in ORDER or not isinstance(operand, bool)
