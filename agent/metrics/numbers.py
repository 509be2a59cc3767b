"""Numbers that add up until somebody asks: counters and histograms, and names with a bound.

They belong to one thread. A page takes copies of them (`agent.metrics.page`).
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Final, NamedTuple

from agent.metrics.families import Family

Labels = tuple[str, ...]
OTHER: Final = "other"
UNNAMED: Final = "none"


class Distribution(NamedTuple):
    """Of a histogram: how many values each bucket has (not cumulative; one more than there are
    bounds), and their sum."""

    counts: tuple[int, ...]
    total: float


class Samples(NamedTuple):
    """What a page shows of one family."""

    family: Family
    values: dict[Labels, float]
    distributions: dict[Labels, Distribution]


class Count:
    """A counter, by its labels."""

    def __init__(self, family: Family) -> None:
        self._family = family
        self._values: dict[Labels, float] = {}

    def add(self, labels: Labels, number: float = 1) -> None:
        """Count `number` more; 0 makes the sample appear."""
        self._values[labels] = self._values.get(labels, 0) + number

    def samples(self) -> Samples:
        """A copy."""
        return Samples(self._family, dict(self._values), {})


class Histogram:
    """A histogram, by its labels."""

    def __init__(self, family: Family) -> None:
        self._family = family
        # A value on a bound belongs to the bucket below it: `le`.
        self._bucket = partial(bisect_left, family.bounds)
        self._counts: defaultdict[Labels, Counter[int]] = defaultdict(Counter)
        self._totals: defaultdict[Labels, float] = defaultdict(float)

    def observe(self, labels: Labels, seconds: Sequence[float]) -> None:
        """Add values. O(log buckets) each, without a line of Python per value."""
        if seconds:
            self._counts[labels].update(map(self._bucket, seconds))
            self._totals[labels] += sum(seconds)

    def samples(self) -> Samples:
        """A copy."""
        buckets = range(len(self._family.bounds) + 1)
        return Samples(
            self._family,
            {},
            {
                labels: Distribution(tuple(map(counts.__getitem__, buckets)), self._totals[labels])
                for labels, counts in self._counts.items()
            },
        )


class BoundedNames:
    """Names that come from outside, as label values: the first `most`, then `other`.

    Every label value is a series that Prometheus keeps for ever: a client may not make them up.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._known: set[str] = set()

    def __call__(self, name: str, *, new: bool = True) -> str:
        """The label value of `name`; it takes one of the places unless it is not to be `new`."""
        if not name:
            return UNNAMED
        if name not in self._known:
            if not new or len(self._known) >= self._most:
                return OTHER
            self._known.add(name)
        return name


def gauge(family: Family, values: Iterable[tuple[Labels, float]]) -> Samples:
    """What a gauge, or a counter kept elsewhere, shows now."""
    return Samples(family, dict(values), {})


def known(family: Family, value: float | None) -> Samples:
    """A gauge without labels; without a sample where its value is not known."""
    return gauge(family, [] if value is None else [((), value)])
