"""The runs of the testbed experiment, and the highest rates that their resamples give."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from agent.wire.base import Policy
from lab.provenance import Provenance
from lab.testbed.measures import (
    Blocks,
    Floats,
    Highest,
    Interval,
    Pair,
    Run,
    blocks_of,
    corrected,
    gain,
    interval,
    measured,
)
from lab.testbed.steps import Steps
from lab.testbed.virtual import Effort

SOURCES: Final = ("real", "real, trace's luck removed", "virtual", "paper")


class PolicyRuns(NamedTuple):
    """One policy: its curve in virtual time, and its real runs, each with the same queries in
    virtual time."""

    policy: Policy
    curve: Sequence[Run]
    pairs: Sequence[Pair]


class Experiment(NamedTuple):
    """The runs of the experiment; `steps` are None if Table III's run was not requested."""

    origin: Provenance
    name: str
    seconds: float
    learning_s: float
    seed: int
    effort: Effort
    policies: Sequence[PolicyRuns]
    steps: Steps | None


class Found(NamedTuple):
    """The highest rates of one policy, by their source."""

    policy: Policy
    sources: dict[str, Highest]


class Analysis:
    """The resamples of an experiment, computed once for all tables."""

    def __init__(self, experiment: Experiment) -> None:
        self.experiment = experiment
        curves = [run for each in experiment.policies for run in each.curve]
        pairs = [pair for each in experiment.policies for pair in each.pairs]
        self.curve_blocks = blocks_of(curves, experiment.seed)
        self.blocks = blocks_of([pair.real for pair in pairs], experiment.seed + 1)
        self.found = [self._found(each) for each in experiment.policies]

    def _found(self, each: PolicyRuns) -> Found:
        real, removed, virtual, _ = SOURCES
        sources = {}
        if each.pairs:
            sources[real] = measured([pair.real for pair in each.pairs], self.blocks)
            sources[removed] = corrected(each.curve, self.curve_blocks, each.pairs, self.blocks)
        sources[virtual] = measured(each.curve, self.curve_blocks)
        return Found(each.policy, sources)

    def blocks_for(self, run: Run) -> Blocks:
        """The blocks for its kind of run."""
        return self.blocks if run.source == "real" else self.curve_blocks

    def gain(self, over: Policy, base: Policy, source: str) -> Interval | None:
        """Gain in sustained rate of `over`, in percent; None if one of them was not run so."""
        rates: dict[Policy, Floats] = {
            each.policy: each.sources[source].overall
            for each in self.found
            if source in each.sources
        }
        if over not in rates or base not in rates:
            return None
        return interval(gain(rates[over], rates[base]))
