"""Validation and simplification of filters: contradictions, duplicates, subsumed conjunctions."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple, TypeVar

from agent.wire.areas import AREA_PATTERN
from agent.wire.predicate_values import Condition, Key, condition, key, some_value
from agent.wire.predicates import (
    Conjunction,
    Filter,
    FilterError,
    Predicate,
    write_conjunction,
)

ORDER: Final = ("<", "<=", ">", ">=")
MAX_SHOWN: Final = 120
# Of so many on one attribute it is found out which two contradict each other.
MAX_PAIRED: Final = 12

T = TypeVar("T")

_AREA: Final = re.compile(AREA_PATTERN)
_EXPECTED: Final = {
    "present": "nothing",
    "in": "at least one value",
    "prefix": "one string",
    "under": 'one area, such as "b1/f4",',
} | dict.fromkeys(ORDER, "one number or string")


def check(disjunction: Filter) -> Filter:
    """The filter without duplicate predicates and operands, and without conjunctions that contain
    all predicates of another. `FilterError` for a meaningless predicate, such as ``value < true``,
    and for a conjunction that no notification can match.

    For filters with valid types, as after decoding. O(operands + conjunctions² + predicates² of
    each conjunction).
    """
    known, alternatives = Vocabulary(), Alternatives()
    for conjunction in disjunction:
        for predicate in conjunction:
            if not _makes_sense(predicate):
                expected = _EXPECTED.get(predicate.operator, "one value")
                shown = _shown((predicate,))
                raise FilterError(f"{shown}: expected {expected} after {predicate.operator}")
        terms = known.terms(conjunction)
        if never := known.never(terms):
            raise FilterError(contradiction(never))
        alternatives.add(terms)
    return alternatives.filter()


def is_area(text: str) -> bool:
    """Whether the text is a valid area path."""
    return _AREA.match(text) is not None


class Terms(NamedTuple):
    """A conjunction: its predicates, each once, by their bits in a vocabulary."""

    bits: int
    attributes: int  # bits, too
    predicates: dict[int, Predicate]

    def __or__(self, other: Terms) -> Terms:
        return Terms(
            self.bits | other.bits,
            self.attributes | other.attributes,
            self.predicates | other.predicates,
        )


class Vocabulary:
    """The different predicates of a filter, one bit each, so that conjunctions are compared and
    joined as sets of bits.

    It finds out which predicates on one attribute can hold together, and remembers that by a value
    for which they do: more predicates are mostly fulfilled by the same value.
    """

    def __init__(self) -> None:
        self._bits: dict[Hashable, int] = {}
        self._predicates: dict[int, Predicate] = {}
        self._conditions: dict[int, Condition] = {}
        self._attributes: dict[str, int] = {}
        # All predicates of each attribute, by its bit.
        self._of: dict[int, int] = {}
        # A value for predicates on one attribute, by their bits; None: there is none.
        self._fulfilled_by: dict[int, Key | None] = {}
        # What was done: values tried on predicates.
        self.tried = 0

    def terms(self, conjunction: Iterable[Predicate]) -> Terms:
        """The conjunction's terms, in order. O(operands)."""
        bits = attributes = 0
        predicates: dict[int, Predicate] = {}
        for each in conjunction:
            name, one = _identity(each)
            bit = self._bit((each.attribute, each.operator, name), one)
            bits |= bit
            attributes |= self._attributes[each.attribute]
            predicates[bit] = one
        return Terms(bits, attributes, predicates)

    def never(self, conjunction: Terms) -> list[Predicate]:
        """Those that never hold together, all on one attribute; empty if all can."""
        attributes = conjunction.attributes
        while attributes:
            attribute = attributes & -attributes
            attributes -= attribute
            bits = conjunction.bits & self._of[attribute]
            if self._value(bits, 0) is None:
                return self._all(self._predicates, bits)
        return []

    def impossible(self, one: Terms, other: Terms) -> list[Predicate]:
        """Predicates of the two that never hold together, all on one attribute; empty if the two
        can. Each of them alone can match."""
        common = one.attributes & other.attributes
        while common:
            attribute = common & -common
            common -= attribute
            of = self._of[attribute]
            mine, its = one.bits & of, other.bits & of
            if mine & its not in (mine, its) and self._value(mine, its) is None:
                return self._all(self._predicates, mine | its)
        return []

    def _bit(self, name: Hashable, predicate: Predicate) -> int:
        if (bit := self._bits.get(name)) is None:
            bit = self._bits[name] = 1 << len(self._bits)
            self._predicates[bit] = predicate
            self._conditions[bit] = condition(predicate)
            count = len(self._attributes)
            attribute = self._attributes.setdefault(predicate.attribute, 1 << count)
            self._of[attribute] = self._of.get(attribute, 0) | bit
        return bit

    def _value(self, mine: int, its: int) -> Key | None:
        """A value for both."""
        if (bits := mine | its) in self._fulfilled_by:
            return self._fulfilled_by[bits]
        for some, others in ((mine, its & ~mine), (its, mine & ~its)):
            value = self._fulfilled_by.get(some)
            if value is not None and self._holds(others, value):
                break
        else:
            conditions = self._all(self._conditions, bits)
            value, tried = some_value(self._all(self._predicates, bits), conditions)
            self.tried += tried
        self._fulfilled_by[bits] = value
        return value

    def _holds(self, bits: int, value: Key) -> bool:
        while bits:
            self.tried += 1
            bit = bits & -bits
            if not self._conditions[bit](value):
                return False
            bits -= bit
        return True

    def _all(self, of: dict[int, T], bits: int) -> list[T]:
        found = []
        while bits:
            bit = bits & -bits
            found.append(of[bit])
            bits -= bit
        return found


def _identity(predicate: Predicate) -> tuple[Hashable, Predicate]:
    """Normal form of its operands, in any order, and the predicate with each of them once."""
    if len(predicate.operands) == 1:
        return key(predicate.operands[0]), predicate
    operands = {key(operand): operand for operand in predicate.operands}
    if len(operands) == len(predicate.operands):
        return frozenset(operands), predicate
    once = Predicate(predicate.attribute, predicate.operator, tuple(operands.values()))
    return next(iter(operands)) if len(operands) == 1 else frozenset(operands), once


class Alternatives:
    """Conjunctions of which none contains all predicates of another, in insertion order."""

    def __init__(self) -> None:
        self._all: list[Terms] = []
        self._bits: list[int] = []

    def __len__(self) -> int:
        return len(self._all)

    def __iter__(self) -> Iterator[Terms]:
        return iter(self._all)

    def add(self, conjunction: Terms) -> None:
        """Add a conjunction. O(conjunctions)."""
        bits, more = conjunction.bits, False
        for each in self._bits:
            common = each & bits
            if common == each:
                return
            more = more or common == bits
        if more:
            self._all = [each for each in self._all if each.bits & bits != bits]
            self._bits = [each.bits for each in self._all]
        self._all.append(conjunction)
        self._bits.append(bits)

    def filter(self) -> Filter:
        """The filter in wire form."""
        return tuple(tuple(each.predicates.values()) for each in self._all)


def contradiction(conjunction: Iterable[Predicate]) -> str:
    """Why no notification can match the conjunction, in a sentence; "" if one can.

    Exact for strings of unlimited length. O(operands + predicates²).
    """
    by_attribute = defaultdict(list)
    for predicate in conjunction:
        by_attribute[predicate.attribute].append(predicate)
    for predicates in by_attribute.values():
        if not _possible(predicates):
            return _why_not(predicates)
    return ""


def _possible(predicates: Sequence[Predicate]) -> bool:
    return some_value(predicates, [condition(each) for each in predicates])[0] is not None


def _why_not(predicates: Sequence[Predicate]) -> str:
    # If two predicates contradict each other, naming just these is clearer.
    for at, one in enumerate(predicates[:MAX_PAIRED]):
        if not _possible([one]):
            return f"{_shown([one])} never holds"
        for other in predicates[:at]:
            if not _possible([other, one]):
                return f"{_shown([other, one])} never hold together"
    return f"{_shown(predicates)} never hold together"


def _shown(conjunction: Conjunction | Sequence[Predicate]) -> str:
    text = write_conjunction(conjunction)
    return text if len(text) <= MAX_SHOWN else text[:MAX_SHOWN] + "…"


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
