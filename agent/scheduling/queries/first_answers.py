"""Redundant tasks: the first answer for each area counts and ends the wait for the other."""

from __future__ import annotations

from collections.abc import Iterable

from agent.scheduling.queries.entry import Share
from agent.wire.areas import AreaSet
from agent.wire.messages import AreaResult, Missing, TaskResult


class FirstAnswers:
    """The answers so far to a query whose areas went to two IADs each.

    `open` are the expected areas without a complete answer: one IAD's results without a gap.
    """

    __slots__ = ("_by_area", "open")

    def __init__(self, expected: Iterable[str]) -> None:
        self.open = set(expected)
        self._by_area: dict[str, AreaResult] = {}

    @property
    def results(self) -> list[AreaResult]:
        """The first result of each area."""
        return list(self._by_area.values())

    def __contains__(self, area: object) -> bool:
        """Whether that area has its first result."""
        return area in self._by_area

    def take(self, share: Share, result: TaskResult) -> None:
        """Record an IAD's result. O(results + areas)."""
        for area_result in result.results:
            self._by_area.setdefault(area_result.area, area_result)
        answered = AreaSet(r.area for r in result.results)
        gaps = AreaSet(gap.area for gap in result.missing)
        self.open -= {a for a in share.areas if answered.overlaps(a) and not gaps.overlaps(a)}

    def unsettled(self, gaps: Iterable[Missing]) -> list[Missing]:
        """The gaps that no other IAD's answer has filled."""
        still_open = AreaSet(self.open)
        return [gap for gap in gaps if still_open.overlaps(gap.area)]

    def beyond(self, refused: Share, others: Iterable[Share]) -> bool:
        """Whether an area of an IAD that refused can be answered by no other IAD."""
        coming = {area for share in others for area in share.areas}
        return any(area in self.open and area not in coming for area in refused.areas)
