"""Size limit on the results of a task or of a query, and the gaps reported for what exceeds it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from msgspec.structs import replace

from agent.wire.base import MAX_COUNTED
from agent.wire.codec import MAX_SERIES_BYTES
from agent.wire.messages import AreaResult, Missing, Series
from agent.wire.node_messages import TooLarge
from agent.wire.too_large import in_words, too_large


class _Area(NamedTuple):
    """Size of the merged series of one area."""

    readings: int = 0
    channels: frozenset[str] = frozenset()
    flagged: frozenset[str] = frozenset()
    aged: bool = False
    replayed: bool = False

    def plus(self, series: Series) -> _Area:
        return _Area(
            self.readings + len(series.time_ms),
            self.channels.union(series.values),
            self.flagged.union(series.quality),
            self.aged or series.age_ms is not None,
            self.replayed or series.source_time_ms is not None,
        )

    @property
    def bytes(self) -> int:
        width = 8 + 8 * self.replayed + 4 * self.aged + 4 * len(self.channels) + len(self.flagged)
        return self.readings * width


NOTHING: Final = _Area()
# Of a result in memory, of each channel of an aggregate, of each that is only named, and of each
# trigger that is raised, beside its words.
RESULT_BYTES: Final = 256
CHANNEL_BYTES: Final = 256
NAMED_BYTES: Final = 64
RAISED_BYTES: Final = 256


def _held(result: AreaResult) -> int:
    """About the memory of a result without columns: too little to be left out of an answer, but as
    long as another IAD is silent thousands of queries may hold thousands of these."""
    if (about := result.about) is not None:
        words = sum([RAISED_BYTES + len(each.text) for each in about.raised])
        return RESULT_BYTES + NAMED_BYTES * len(about.channels) + words
    channels = 0 if result.aggregate is None else len(result.aggregate.channels)
    return RESULT_BYTES + CHANNEL_BYTES * channels


class ResultBudget:
    """Counts the bytes of series as they arrive, in the size that they will have when merged: a
    channel of one sensor takes room in the readings of all sensors of its area."""

    __slots__ = ("_areas", "most", "refused", "taken")

    def __init__(self, most: int = MAX_SERIES_BYTES) -> None:
        self.most = most
        self._areas: dict[str, _Area] = {}
        self.taken = 0
        # Bytes of the series that did not fit.
        self.refused = 0

    def takes(self, area: str, series: Series) -> bool:
        """Count a series of the area if it fits; False: it does not. O(columns)."""
        before = self._areas.get(area, NOTHING)
        after = before.plus(series)
        grown = after.bytes - before.bytes
        if self.taken + grown > self.most:
            self.refused += grown
            return False
        self._areas[area] = after
        self.taken += grown
        return True

    def takes_result(self, result: AreaResult) -> bool:
        """Count a result if it fits; False: it does not. Of several buckets of an area each counts:
        they are small, and their merge is about as large as one. O(columns)."""
        if result.series is not None:
            return self.takes(result.area, result.series)
        grown = _held(result) if result.buckets is None else result.buckets.bytes
        if self.taken + grown > self.most:
            self.refused += grown
            return False
        self.taken += grown
        return True

    def leave_out(self, areas: Iterable[str], size: int) -> None:
        """Count the results of these areas, which took `size` bytes, as refused."""
        for area in areas:
            self._areas.pop(area, None)
        self.taken -= size
        self.refused += size

    def told(self, length_s: float, parts: int, come: int) -> TooLarge:
        """The message for a window of `length_s` seconds of which `come` of `parts` results have
        arrived; the size of all is extrapolated from these."""
        size = round((self.taken + self.refused) * max(1.0, parts / max(1, come)))
        return too_large(min(size, MAX_COUNTED), self.most, length_s)

    def gap(self, area: str, found: TooLarge) -> Missing:
        """The gap of an area that does not fit."""
        return gap_of(area, found, self.most)


def gap_of(area: str, found: TooLarge, most: int, name: str | None = None) -> Missing:
    """The gap of an area whose readings exceed the `most` bytes that fit."""
    text = in_words(found, most)
    return Missing(area, "too_large", message=text, longest_s=found.longest_s, name=name)


def without_parts(results: Iterable[AreaResult], missing: Iterable[Missing]) -> list[AreaResult]:
    """The results without areas of which a part was too large: the rest would look complete."""
    parts = {gap.area for gap in missing if gap.reason == "too_large"}
    return [result for result in results if result.area not in parts]


def as_known(missing: Sequence[Missing], *, takes_too_large: bool) -> tuple[Missing, ...]:
    """The gaps for a client of this version, or of an earlier one that lacks ``too_large``."""
    if takes_too_large:
        return tuple(missing)
    return tuple(
        [replace(g, reason="node_error") if g.reason == "too_large" else g for g in missing]
    )
