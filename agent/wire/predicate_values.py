"""Satisfiability of predicates on one attribute: whether a single value can match them all."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from agent.wire.areas import covers
from agent.wire.predicates import Predicate, Value

# Relations between a value and an operand of the same kind.
_FULFILS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "prefix": str.startswith,
    "under": lambda value, area: covers(area, value),
}


def key(value: Value) -> tuple[str, Value]:
    """A key that is equal exactly for values that are ``=`` to each other; in Python, 1 and true
    are equal."""
    if isinstance(value, bool):
        return "boolean", value
    return ("string", value) if isinstance(value, str) else ("number", float(value))


def some_value(predicates: Sequence[Predicate]) -> bool:
    """Whether some value matches all `predicates`; their attributes are ignored.

    Exact for strings of unlimited length and all doubles but NaN. Predicates allow booleans, and
    intervals except some points. An interval of strings or doubles has a least value, and each
    value has a successor; so it is enough to step up from the least value as many times as points
    may be excluded, counting an open end. O(operands + predicates²).
    """
    conditions = [_condition(each) for each in predicates]
    return any(all(holds(value) for holds in conditions) for value in _candidates(predicates))


def _candidates(predicates: Sequence[Predicate]) -> Iterator[Value]:
    finite = [each.operands for each in predicates if each.operator in ("=", "in")]
    if finite:
        yield from min(finite, key=len)
        return
    number, string = -math.inf, ""
    for each in predicates:
        operand = each.operands[0] if each.operands else None
        if isinstance(operand, str):
            string = max(string, _least_string(each.operator, operand))
            if each.operator == "under":
                yield operand
        elif each.operator in (">", ">=") and operand is not None:
            number = max(number, float(operand))
    for _ in range(len(predicates) + 1):
        yield number
        yield string
        number = math.nextafter(number, math.inf)
        string += "\0"


def _least_string(relation: str, operand: str) -> str:
    # No smaller value matches the predicate, except the operand of `under` itself.
    least = {">": operand, ">=": operand, "prefix": operand, "under": operand + "/"}
    return least.get(relation, "")


def _condition(predicate: Predicate) -> Callable[[Value], bool]:
    if predicate.operator == "present":
        return lambda _: True
    keys = {key(operand) for operand in predicate.operands}
    if predicate.operator in ("=", "in"):
        return lambda value: key(value) in keys
    if predicate.operator == "!=":
        return lambda value: key(value) not in keys
    (operand,) = predicate.operands
    kind, _ = key(operand)
    fulfils = _FULFILS[predicate.operator]
    return lambda value: key(value)[0] == kind and fulfils(value, operand)
