"""What the results of `fleet lab simulate` come to: loads, gains and binding classes over seeds."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from statistics import fmean
from typing import Final, get_args

from msgspec import Struct

from agent.wire.base import Policy
from fleet.lab.policies import POLICIES
from fleet.lab.simulate_points import Result
from fleet.lab.simulate_run import Setting
from fleet.lab.simulate_statistics import Interval, gain_percent, interval
from fleet.lab.table_v import CLASSES, SIZES, OutOfRange, Reading, Size

# The policies of the literature; further ones are this project's.
KNOWN: Final[tuple[Policy, ...]] = ("fifo", "spr", "tedfq", "edfq")
# Table VI: EDFQ's gain in percent by nodes of the fleet.
PAPER_GAINS: Final[dict[Policy, dict[int, float]]] = {
    "fifo": {100: 31.25, 1_000: 53.36, 4_000: 79.89, 12_000: 110.19, 18_000: 144.51},
    "spr": {100: 38.68, 1_000: 43.38, 4_000: 43.25, 12_000: 22.37, 18_000: 28.61},
}


class Variant(Struct, frozen=True):
    """A reading of what the paper leaves open about fanouts."""

    reading: Reading
    out_of_range: OutOfRange

    @property
    def name(self) -> str:
        """``one k_t a query, drawn again``."""
        reading = {"query": "one k_t a query", "task": "a k_t for each task"}[self.reading]
        rule = {"clip": "clipped", "resample": "drawn again"}[self.out_of_range]
        return f"{reading}, {rule}"


VARIANTS: Final = tuple(
    Variant(reading, rule) for rule in get_args(OutOfRange) for reading in get_args(Reading)
)


def variant_of(setting: Setting) -> Variant:
    """How the setting's fanouts are drawn."""
    return Variant(setting.reading, setting.out_of_range)


class Report:
    """Results by fleet, variant and policy, in the order of the seeds."""

    def __init__(self, results: Sequence[Result]) -> None:
        self.results = results
        self._searches: dict[tuple[Size, Variant, str], list[Result]] = {}
        self._curves: dict[tuple[Variant, str], list[Result]] = {}
        for result in sorted(results, key=lambda result: result.key.setting.seed):
            setting, policy = result.key.setting, result.key.policy
            variant = variant_of(setting)
            if result.key.loads_per_s is None:
                at = (setting.size, variant, policy)
                self._searches.setdefault(at, []).append(result)
            else:
                self._curves.setdefault((variant, policy), []).append(result)

    @cached_property
    def sizes(self) -> list[Size]:
        """The fleets, small ones first."""
        return [size for size in SIZES if any(at[0] == size for at in self._searches)]

    @cached_property
    def variants(self) -> list[Variant]:
        """The readings of the fanout draw."""
        return [variant for variant in VARIANTS if any(at[1] == variant for at in self._searches)]

    @cached_property
    def policies(self) -> list[Policy]:
        """The policies in the order of results."""
        return [policy for policy in POLICIES if any(at[2] == policy for at in self._searches)]

    @cached_property
    def own(self) -> list[Policy]:
        """This project's policies among them."""
        return [policy for policy in self.policies if policy not in KNOWN]

    @cached_property
    def seeds(self) -> list[int]:
        """All seeds."""
        return sorted({result.key.setting.seed for result in self.results})

    def loads(self, size: Size, variant: Variant, policy: Policy) -> list[float]:
        """The highest sustained load of every seed, queries/s."""
        return [found.load_per_s or 0.0 for found in self._searches[size, variant, policy]]

    def load(self, size: Size, variant: Variant, policy: Policy) -> Interval:
        """The highest sustained load, queries/s."""
        return interval(self.loads(size, variant, policy))

    def gain(self, size: Size, variant: Variant, ours: Policy, theirs: Policy) -> Interval | None:
        """By how many percent `ours` sustains more, from pairs of the same seed; None if one of
        them is missing or sustains nothing."""
        if not {ours, theirs} <= set(self.policies):
            return None
        base = self.loads(size, variant, theirs)
        return gain_percent(self.loads(size, variant, ours), base) if all(base) else None

    def better(self, size: Size, variant: Variant) -> Policy | None:
        """EDFQ or T-EDFQ, whichever sustains more on average; None unless both are there."""
        rivals: tuple[Policy, ...] = ("edfq", "tedfq")
        if not set(rivals) <= set(self.policies):
            return None
        return max(rivals, key=lambda policy: fmean(self.loads(size, variant, policy)))

    def ratios(self, size: Size, variant: Variant, policy: Policy) -> list[float]:
        """p99 / SLO of each class at the point nearest to the sustained load, mean over seeds."""
        nearest = [found.nearest.ratios for found in self._searches[size, variant, policy]]
        return [fmean(of_class) for of_class in zip(*nearest, strict=True)]

    def utilisation(self, size: Size, variant: Variant, policy: Policy) -> float:
        """Of the busiest node at the point nearest to the sustained load, mean over seeds."""
        found = self._searches[size, variant, policy]
        return fmean(result.nearest.busiest_utilisation for result in found)

    def curve(self, variant: Variant, policy: Policy) -> dict[float, list[Interval]]:
        """p99 in s of each class by load, at the largest fleet."""
        by_load: dict[float, list[tuple[float, ...]]] = {}
        for result in self._curves.get((variant, policy), []):
            for point in result.points:
                by_load.setdefault(point.load_per_s, []).append(point.p99_s)
        return {
            load: [interval([p99_s[k] for p99_s in rows]) for k in range(len(CLASSES))]
            for load, rows in by_load.items()
        }

    @cached_property
    def seconds(self) -> float:
        """Of one processor, for all points."""
        return sum(point.seconds for result in self.results for point in result.points)

    @cached_property
    def subtasks(self) -> int:
        """Simulated in all points."""
        return sum(point.subtasks for result in self.results for point in result.points)
