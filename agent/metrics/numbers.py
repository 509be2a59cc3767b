"""Counters and histograms that a scrape copies, and bounded sets of label values.

They belong to one thread. The page works on copies (`agent.metrics.page`).
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
    """A histogram's data: the number of values per bucket (not cumulative; one bucket more than
    bounds), and the sum of the values."""

    counts: tuple[int, ...]
    total: float


class Samples(NamedTuple):
    """The samples of one family on the page."""

    family: Family
    values: dict[Labels, float]
    distributions: dict[Labels, Distribution]


class Count:
    """A counter, by labels."""

    def __init__(self, family: Family) -> None:
        self._family = family
        self._values: dict[Labels, float] = {}

    def add(self, labels: Labels, number: float = 1) -> None:
        """Add `number`; 0 makes the sample appear."""
        self._values[labels] = self._values.get(labels, 0) + number

    def samples(self) -> Samples:
        """A copy."""
        return Samples(self._family, dict(self._values), {})


class Histogram:
    """A histogram, by labels."""

    def __init__(self, family: Family) -> None:
        self._family = family
        # A value equal to a bound belongs to the bucket below it (`le`).
        self._bucket = partial(bisect_left, family.bounds)
        self._counts: defaultdict[Labels, Counter[int]] = defaultdict(Counter)
        self._totals: defaultdict[Labels, float] = defaultdict(float)

    def observe(self, labels: Labels, seconds: Sequence[float]) -> None:
        """Add values; O(log buckets) each, without Python bytecode per value."""
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
    """Label values from names of external origin: the first `most` names, then `other`.

    Prometheus keeps a series for every label value for ever, so clients must not create them
    without bound.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._known: set[str] = set()

    def __call__(self, name: str, *, new: bool = True) -> str:
        """The label value of `name`; an unknown name is added only if `new`."""
        if not name:
            return UNNAMED
        if name not in self._known:
            if not new or len(self._known) >= self._most:
                return OTHER
            self._known.add(name)
        return name


def gauge(family: Family, values: Iterable[tuple[Labels, float]]) -> Samples:
    """The current samples of a gauge, or of a counter kept elsewhere."""
    return Samples(family, dict(values), {})


def known(family: Family, value: float | None) -> Samples:
    """A gauge without labels; no sample if its value is unknown."""
    return gauge(family, [] if value is None else [((), value)])
