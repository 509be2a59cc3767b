"""Query classes at the query scheduler: learns by how much to advance each
(docs/understand/policy.md)."""

from __future__ import annotations

from typing import Final

from _core.deadlines.class_advance import ClassBalance
from agent.wire.messages import Query

# A query's least permitted latency, in seconds, rounds to 0, which is no SLO.
LEAST_SLO_S: Final = 1e-9

QueryClass = tuple[str, float, float]
"""Service, percentile and latency (ms): queries of one class have one SLO at one service."""


class QueryClasses:
    """Learns from each finished query whether its class gets too little or too much.

    It knows as many classes as `ClassBalance` has; a new class replaces the least recently used
    one.
    """

    def __init__(self) -> None:
        self._balance = ClassBalance()
        # The most recently used class is last.
        self._numbers: dict[QueryClass, int] = {}

    def advance_ms(self, query: Query) -> float:
        """The advance of a query that arrives now, in milliseconds."""
        known = _class_of(query)
        number = self._numbers.pop(known, None)
        if number is None:
            number = len(self._numbers)
            if number == ClassBalance.MAX_CLASSES:
                number = self._numbers.pop(next(iter(self._numbers)))
            slo = query.slo
            slo_s = max(slo.latency_ms / 1e3, LEAST_SLO_S)
            self._balance.set_class(number, slo_s, 1.0 - slo.percentile / 100.0)
        self._numbers[known] = number
        return self._balance.advance(number) * 1e3

    def ended(self, query: Query, *, missed: bool) -> None:
        """An accepted query was answered, in time or not."""
        number = self._numbers.get(_class_of(query))
        if number is not None:
            self._balance.finished(number, missed)


def _class_of(query: Query) -> QueryClass:
    return query.service, query.slo.percentile, query.slo.latency_ms
