"""A stand-in for `_core.matching.Conjunctions`: looks at every conjunction."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

Plain = tuple[str, str, tuple[Any, ...]]


def _kind(value: Any) -> str:
    return "b" if isinstance(value, bool) else "s" if isinstance(value, str) else "n"


def _equal(a: Any, b: Any) -> bool:
    return _kind(a) == _kind(b) and a == b


def _ordered(compare: Callable[[Any, Any], bool]) -> Callable[[Any, tuple[Any, ...]], bool]:
    def holds(value: Any, operands: tuple[Any, ...]) -> bool:
        kind = _kind(value)
        return kind == _kind(operands[0]) and kind != "b" and compare(value, operands[0])

    return holds


_HOLDS: dict[str, Callable[[Any, tuple[Any, ...]], bool]] = {
    "=": lambda v, o: _equal(v, o[0]),
    "!=": lambda v, o: not _equal(v, o[0]),
    "<": _ordered(lambda v, o: v < o),
    "<=": _ordered(lambda v, o: v <= o),
    ">": _ordered(lambda v, o: v > o),
    ">=": _ordered(lambda v, o: v >= o),
    "prefix": lambda v, o: isinstance(v, str) and v.startswith(o[0]),
    "under": lambda v, o: isinstance(v, str) and (v + "/").startswith(o[0] + "/"),
    "in": lambda v, o: any(_equal(v, each) for each in o),
    "present": lambda v, o: True,
}


def _satisfies(conjunction: Iterable[Plain], event: Mapping[str, Any]) -> bool:
    return all(a in event and _HOLDS[op](event[a], operands) for a, op, operands in conjunction)


class Conjunctions:
    def __init__(self) -> None:
        self._all: dict[int, tuple[Plain, ...]] = {}

    def insert(self, id: int, conjunction: Iterable[Plain]) -> None:  # noqa: A002
        self._all[id] = tuple(conjunction)

    def remove(self, id: int) -> None:  # noqa: A002
        del self._all[id]

    def match(self, event: Mapping[str, Any]) -> list[int]:
        return [key for key, each in self._all.items() if _satisfies(each, event)]

    def intersecting(self, conjunction: Iterable[Plain]) -> list[int]:
        wanted = tuple(conjunction)
        return [key for key, each in self._all.items() if _meet((*wanted, *each))]


def _meet(both: tuple[Plain, ...]) -> bool:
    """Whether some value of each attribute satisfies all its predicates: of those tried."""
    for attribute in {each[0] for each in both}:
        mine = [each for each in both if each[0] == attribute]
        tried: list[Any] = [True, False, "", "~", 0.0]
        for _, _, operands in mine:
            for o in operands:
                tried += (
                    [o]
                    if isinstance(o, bool)
                    else [o, o + "~"]
                    if isinstance(o, str)
                    else [o, o - 0.5, o + 0.5]
                )
        if not any(_satisfies(mine, {attribute: value}) for value in tried):
            return False
    return True
