"""Satisfiability of predicates on one attribute: whether a single value can match them all."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from agent.wire.areas import covers
from agent.wire.predicates import Predicate, Value

# A value and its kind, equal exactly for values that are ``=`` to each other; in Python, 1 and true
# are equal.
Key = tuple[str, Value]
# Whether a predicate holds for a value of its attribute.
Condition = Callable[[Key], bool]

# Relations between a value and an operand of the same kind.
_FULFILS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "prefix": str.startswith,
    "under": lambda value, area: covers(area, value),
}


def key(value: Value) -> Key:
    """The value with its kind."""
    if isinstance(value, bool):
        return "boolean", value
    return ("string", value) if isinstance(value, str) else ("number", float(value))


def some_value(
    predicates: Sequence[Predicate], conditions: Sequence[Condition]
) -> tuple[Key | None, int]:
    """Some value that all `predicates` match, or None; their attributes are ignored. The second is
    how many of their `conditions` were tried to find it.

    Exact for strings of unlimited length and all doubles but NaN. Predicates allow booleans, and
    intervals except some points. An interval of strings or doubles has a least value, and each
    value has a successor; so it is enough to step up from the least value as many times as points
    may be excluded, counting an open end. O(operands + predicates²).
    """
    tried = len(predicates)
    for value in _candidates(predicates):
        for number, holds in enumerate(conditions, start=1):
            if not holds(value):
                tried += number
                break
        else:
            return value, tried
    return None, tried


def _candidates(predicates: Sequence[Predicate]) -> Iterator[Key]:
    finite = [each.operands for each in predicates if each.operator in ("=", "in")]
    if finite:
        fewest = min(finite, key=len)
        yield from map(key, fewest)
        return
    number, string = -math.inf, ""
    for each in predicates:
        operand = each.operands[0] if each.operands else None
        if isinstance(operand, str):
            string = max(string, _least_string(each.operator, operand))
            if each.operator == "under":
                yield "string", operand
        elif each.operator in (">", ">=") and operand is not None:
            number = max(number, float(operand))
    for _ in range(len(predicates) + 1):
        yield "number", number
        yield "string", string
        number = math.nextafter(number, math.inf)
        string += "\0"


def _least_string(relation: str, operand: str) -> str:
    # No smaller value matches the predicate, except the operand of `under` itself.
    least = {">": operand, ">=": operand, "prefix": operand, "under": operand + "/"}
    return least.get(relation, "")


def condition(predicate: Predicate) -> Condition:
    """Whether the predicate holds, as a function of the value. O(operands)."""
    relation = predicate.operator
    if relation == "present":
        return lambda _: True
    if relation == "in":
        return frozenset(map(key, predicate.operands)).__contains__
    (operand,) = predicate.operands
    kind, number = wanted = key(operand)
    if relation == "=":
        return wanted.__eq__
    if relation == "!=":
        return wanted.__ne__
    fulfils = _FULFILS[relation]
    return lambda value: value[0] == kind and fulfils(value[1], number)
