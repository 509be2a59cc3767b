"""Content filters of subscriptions and advertisements.

A filter is a disjunction of conjunctions of predicates on the attributes of a notification.
Predicates hold as follows:

- ``=`` the attribute is present, of the same kind (number, string, boolean), and equal
- ``!=`` it is present, and ``=`` does not hold: a value of another kind is another value
- ``<`` ``<=`` ``>`` ``>=`` it is a number, compared with a number; or a string with a string, by
  code points
- ``prefix`` it is a string that begins with the operand
- ``under`` it is that area or one below it, by whole segments (`agent.wire.areas.covers`)
- ``in`` it is ``=`` one of the operands
- ``present`` it has any value

Integers and floating-point numbers are one kind, compared as doubles; NaN, which no message can
have, is only ``present``. A conjunction without predicates holds for everything.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Annotated, Literal

from msgspec import Meta

from agent.wire.base import Channel, Finite, Text, WireStruct

# Named like channels, which most attributes are.
Attribute = Channel
Value = bool | Finite | Text
Operator = Literal["=", "!=", "<", "<=", ">", ">=", "prefix", "under", "in", "present"]

MAX_OPERANDS = 64
MAX_PREDICATES = 32
MAX_CONJUNCTIONS = 64
MAX_ATTRIBUTES = 32
# In MessagePack; a filter is stored and sent to all masters of the cluster, a hundred per message
# of at most 1 MiB.
MAX_FILTER_BYTES = 8_192

Attributes = Annotated[dict[Attribute, Value], Meta(max_length=MAX_ATTRIBUTES)]


class FilterError(ValueError):
    """The filter is invalid; one line gives the reason."""


class Predicate(WireStruct, frozen=True, array_like=True):
    """One condition on one attribute: ``present`` has no `operands`, ``in`` several, all others
    one."""

    attribute: Attribute
    operator: Operator
    operands: Annotated[tuple[Value, ...], Meta(max_length=MAX_OPERANDS)] = ()

    def __eq__(self, other: object) -> bool:
        # In Python 1 and true are equal, but a change from one to the other changes the filter.
        return (
            isinstance(other, Predicate)
            and self.attribute == other.attribute
            and self.operator == other.operator
            and self.operands == other.operands
            and self._booleans() == other._booleans()
        )

    def __hash__(self) -> int:
        return hash((self.attribute, self.operator, self.operands))

    def _booleans(self) -> list[bool]:
        return [isinstance(each, bool) for each in self.operands]


Conjunction = Annotated[tuple[Predicate, ...], Meta(max_length=MAX_PREDICATES)]
Filter = Annotated[tuple[Conjunction, ...], Meta(min_length=1, max_length=MAX_CONJUNCTIONS)]

# A predicate as `_core.matching.engine` takes it: attribute, operator, operands.
Plain = tuple[str, str, tuple[bool | float | str, ...]]


def plain(conjunction: Iterable[Predicate]) -> tuple[Plain, ...]:
    """The conjunction as plain tuples; O(predicates)."""
    return tuple((each.attribute, each.operator, each.operands) for each in conjunction)


def write_filter(disjunction: Filter) -> str:
    """The filter in the language of `agent.wire.predicate_language`, on one line; O(length)."""
    return " or ".join(write_conjunction(each) for each in disjunction)


def write_conjunction(conjunction: Iterable[Predicate]) -> str:
    """One conjunction of a filter; ``*`` is the one that matches everything."""
    return " and ".join(map(_written, conjunction)) or "*"


def _written(predicate: Predicate) -> str:
    values = ", ".join(map(_value, predicate.operands))
    if predicate.operator == "in":
        values = f"({values})"
    return " ".join(filter(None, (predicate.attribute, predicate.operator, values)))


def _value(value: Value) -> str:
    if isinstance(value, str):
        text = json.dumps(value, ensure_ascii=False)
        # On one line, with everything that a terminal might interpret as a command escaped.
        return "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in text)
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(float(value)).removesuffix(".0")
