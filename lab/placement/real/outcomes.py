"""What became of a packing's topics: shares of topics and of messages over τ, and how two ways of
running the same sets agree. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import inf, isfinite
from random import Random
from statistics import median
from typing import Final

from msgspec import Struct

from fleet.placement.campaign.scores import r2

TAU_S: Final = 0.2
QUANTILE: Final = 0.9
RESAMPLES: Final = 300
# Of messages, one in so many may be over τ where the topic's 90th percentile is not.
ONE_IN: Final = 10


class Outcome(Struct, frozen=True):
    """How a topic did: its 90th percentile, infinite if nothing of it was processed; messages sent,
    and those over τ. A prediction has no messages."""

    p90_s: float
    sent: int | None = None
    over: int = 0

    @property
    def missed(self) -> bool:
        """Whether the topic's 90th percentile is over τ: by its messages, if they were counted."""
        return self.p90_s > TAU_S if self.sent is None else ONE_IN * self.over > self.sent


def outcome(sent: int, processed: int, late: int, p90_s: float | None) -> Outcome:
    """Of what was counted; what was not processed in the end is over τ, too."""
    return Outcome(inf if p90_s is None else p90_s, sent, late + max(0, sent - processed))


def topics_over(outcomes: Sequence[Outcome]) -> int:
    """How many topics miss."""
    return sum(each.missed for each in outcomes)


def messages_over(outcomes: Iterable[Outcome]) -> float:
    """The share of all messages that are over τ."""
    counted = [(each.sent or 0, each.over) for each in outcomes]
    return sum(over for _, over in counted) / max(sum(sent for sent, _ in counted), 1)


class Agreement(Struct, frozen=True):
    """Two ways of running the same sets. R² of the logarithm of the one's 90th percentiles by the
    other's, and its 95 % interval (sets resampled); the median of their ratio; topics that miss
    both ways, and in one way only."""

    r2: float
    low: float
    high: float
    ratio: float
    both: int
    only_real: int
    only_other: int


def agreement(
    real: Sequence[Sequence[Outcome]], other: Sequence[Sequence[Outcome]], seed: int
) -> Agreement:
    """How well `other` tells what `real` did, set by set."""
    import numpy as np

    topics = [list(zip(*pair, strict=True)) for pair in zip(real, other, strict=True)]
    known = [
        [(one.p90_s, two.p90_s) for one, two in each if isfinite(one.p90_s + two.p90_s)]
        for each in topics
    ]
    sets = [pairs for pairs in known if pairs]

    def score(some: Iterable[Sequence[tuple[float, float]]]) -> float:
        logs = np.log([pair for each in some for pair in each])
        return r2(logs[:, 0], logs[:, 1])

    draw = Random(seed)
    resampled = [score(draw.choices(sets, k=len(sets))) for _ in range(RESAMPLES)]
    low, high = np.nanquantile(resampled, (0.025, 0.975))
    missed = [(one.missed, two.missed) for each in topics for one, two in each]
    return Agreement(
        score(sets),
        float(low),
        float(high),
        median(two / one for each in sets for one, two in each),
        missed.count((True, True)),
        missed.count((True, False)),
        missed.count((False, True)),
    )
