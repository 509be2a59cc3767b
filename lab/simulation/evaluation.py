"""Evaluation of the results of `fleet lab simulate`: loads, gains and binding classes over
seeds."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from statistics import fmean
from typing import Final, get_args

from msgspec import Struct

from fleet.simulation.statistics import (
    Interval,
    Spread,
    gain_percent,
    interval,
    spread,
)
from lab.simulation.contenders import MAIN, OWN, PARTS
from lab.simulation.points import Result
from lab.simulation.run import Setting
from lab.simulation.table_v import CLASSES, SIZES, OutOfRange, Reading, Size
from lab.simulation.training import is_training

# Table VI: EDFQ's gain in percent by nodes of the fleet.
PAPER_GAINS: Final[dict[str, dict[int, float]]] = {
    "fifo": {100: 31.25, 1_000: 53.36, 4_000: 79.89, 12_000: 110.19, 18_000: 144.51},
    "spr": {100: 38.68, 1_000: 43.38, 4_000: 43.25, 12_000: 22.37, 18_000: 28.61},
}


class Variant(Struct, frozen=True):
    """One interpretation of the paper's unspecified fanout draw."""

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
    """The setting's variant of the fanout draw."""
    return Variant(setting.reading, setting.out_of_range)


class Evaluation:
    """Results by fleet, variant and contender, seed by seed."""

    def __init__(self, results: Sequence[Result]) -> None:
        self.results = results
        self.measured = [result for result in results if not is_training(result.key.setting)]
        self._searches: dict[tuple[Size, Variant, str], dict[int, Result]] = {}
        self._curves: dict[tuple[Variant, str], list[Result]] = {}
        self._trainings: dict[tuple[Size, str], Result] = {}
        for result in sorted(results, key=lambda result: result.key.setting.seed):
            setting, name = result.key.setting, result.key.contender
            variant = variant_of(setting)
            at = (setting.size, variant, name)
            if is_training(setting):
                self._trainings[setting.size, name] = result
            elif result.key.loads_per_s is None:
                self._searches.setdefault(at, {})[setting.seed] = result
            else:
                self._curves.setdefault((variant, name), []).append(result)

    @cached_property
    def sizes(self) -> list[Size]:
        """The fleets, small ones first."""
        return [size for size in SIZES if any(at[0] == size for at in self._searches)]

    @cached_property
    def variants(self) -> list[Variant]:
        """The variants of the fanout draw."""
        return [variant for variant in VARIANTS if any(at[1] == variant for at in self._searches)]

    @cached_property
    def names(self) -> list[str]:
        """The main contenders in the order of results."""
        return [name for name in MAIN if any(at[2] == name for at in self._searches)]

    @cached_property
    def own(self) -> list[str]:
        """This project's among them."""
        return [name for name in self.names if name in OWN]

    @cached_property
    def part_sizes(self) -> list[Size]:
        """The fleets where sanderling's parts were measured."""
        return [
            size
            for size in self.sizes
            if any(at[0] == size and at[2] in PARTS for at in self._searches)
        ]

    @cached_property
    def seeds(self) -> list[int]:
        """All seeds that were measured."""
        return sorted({result.key.setting.seed for result in self.measured})

    def seeds_of(self, size: Size, variant: Variant) -> int:
        """How many seeds all main contenders have there."""
        return min(len(self.loads(size, variant, name)) for name in self.names)

    def queries(self, size: Size) -> int:
        """Of a run."""
        return next(r.key.setting.queries for r in self.measured if r.key.setting.size == size)

    def loads(self, size: Size, variant: Variant, name: str) -> dict[int, float]:
        """The highest sustained load by seed, queries/s; empty where it was not measured."""
        found = self._searches.get((size, variant, name), {})
        return {seed: result.load_per_s or 0.0 for seed, result in found.items()}

    def load(self, size: Size, variant: Variant, name: str) -> Interval | None:
        """The highest sustained load, queries/s; None where it was not measured."""
        loads = list(self.loads(size, variant, name).values())
        return interval(loads) if loads else None

    def gain(self, size: Size, variant: Variant, ours: str, theirs: str) -> Interval | None:
        """Gain in sustained load of `ours`, in percent, from pairs of the same seed; None if one of
        them is missing or sustains nothing."""
        our_loads = self.loads(size, variant, ours)
        their_loads = self.loads(size, variant, theirs)
        seeds = [seed for seed in our_loads if seed in their_loads]
        base = [their_loads[seed] for seed in seeds]
        return (
            gain_percent([our_loads[seed] for seed in seeds], base) if seeds and all(base) else None
        )

    def advances(self, size: Size, name: str) -> tuple[float, ...] | None:
        """The advances learnt in a contender's training run, in s by class."""
        found = self._trainings.get((size, name))
        return None if found is None else found.advance_s

    def better(self, size: Size, variant: Variant) -> str | None:
        """EDFQ or T-EDFQ, whichever sustains more on average; None unless both are there."""
        rivals = [self.loads(size, variant, name) for name in ("edfq", "tedfq")]
        if not all(rivals):
            return None
        edfq, tedfq = (fmean(loads.values()) for loads in rivals)
        return "edfq" if edfq >= tedfq else "tedfq"

    def ratios(self, size: Size, variant: Variant, name: str) -> list[float]:
        """p99 / SLO of each class at the point nearest to the sustained load, mean over seeds;
        empty where it was not measured."""
        found = self._searches.get((size, variant, name), {}).values()
        nearest = [result.nearest.ratios for result in found]
        return [fmean(of_class) for of_class in zip(*nearest, strict=True)]

    def utilisation(self, size: Size, variant: Variant, name: str) -> float | None:
        """Utilisation of the busiest node at the point nearest to the sustained load, mean over
        seeds."""
        found = self._searches.get((size, variant, name), {}).values()
        busiest = [result.nearest.busiest_utilisation for result in found]
        return fmean(busiest) if busiest else None

    def curve_seeds(self, variant: Variant) -> int:
        """Number of seeds of the curves."""
        return max((len(of) for at, of in self._curves.items() if at[0] == variant), default=0)

    def curve(self, variant: Variant, name: str) -> dict[float, list[Spread]]:
        """p99 in s of each class by load, at the largest fleet."""
        by_load: dict[float, list[tuple[float, ...]]] = {}
        for result in self._curves.get((variant, name), []):
            for point in result.points:
                by_load.setdefault(point.load_per_s, []).append(point.p99_s)
        return {
            load: [spread([p99_s[k] for p99_s in rows]) for k in range(len(CLASSES))]
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
