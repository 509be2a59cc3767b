"""Accuracy of latency models on the simulated broker, beside a second run of the same sets."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from _core.colocation.model_file import Discipline, ModelFile
from fleet.placement.latency import ColocationModel, LatencyModel, Run
from fleet.placement.paper_models import ITERATIONS, PaperModel
from fleet.placement.training import train
from lab.placement.topics.broker import TAU_S, Broker, drawn

if TYPE_CHECKING:
    import numpy as np

RESAMPLES: Final = 300
SECOND: Final = "a second run"
OURS: Final = "ours"


class Extent(Struct, frozen=True):
    """How many runs of each number of topics."""

    ours: int = 30
    fewest: int = 10
    paper: int = 300
    held: int = 150
    iterations: int = ITERATIONS  # of a network's training, at most


class Score(Struct, frozen=True):
    """Of a model for sets of `topics` topics: R² of the logarithm of the 90th percentile with its
    95 % interval (resampled sets), and the share of accepted sets in which some topic misses τ."""

    model: str
    runs: int
    topics: int
    r2: float
    low: float
    high: float
    accepted: int
    missed: int


class Trained(Struct, frozen=True):
    """The models that the experiments of packing ask."""

    paper: PaperModel
    ours: ModelFile


def campaign(
    broker: Broker, sizes: Iterable[int], count: int, draw: np.random.Generator, *, periodic: bool
) -> list[Run]:
    """`count` measured runs of random topics for each size."""
    return [
        broker.measured([drawn(draw, periodic=periodic) for _ in range(size)], draw)
        for size in sizes
        for _ in range(count)
    ]


def discipline(broker: Broker) -> Discipline:
    """The name that model files have for it."""
    return "shared-queue" if broker.shared else "thread-a-topic"


def measure(
    sizes: Sequence[int], extent: Extent, seed: int, *, periodic: bool
) -> tuple[list[Score], Trained]:
    """Train the models on runs with a thread a topic, and score them on others."""
    import numpy as np

    broker = Broker()
    draw = np.random.default_rng([seed, periodic])
    many = campaign(broker, sizes, extent.paper, draw, periodic=periodic)
    some = campaign(broker, sizes, extent.ours, draw, periodic=periodic)
    few = campaign(broker, sizes, extent.fewest, draw, periodic=periodic)
    ours = train(some, discipline(broker))
    paper = PaperModel(many, seed, extent.iterations)
    models: dict[str, tuple[int, LatencyModel]] = {
        "the paper's models": (len(many), paper),
        "the paper's models, fewer runs": (len(some), PaperModel(some, seed, extent.iterations)),
        "ours, formulas alone": (
            len(few),
            ColocationModel(train(few, discipline(broker), trees=False).model()),
        ),
        OURS: (len(some), ColocationModel(ours.model())),
    }
    scores = []
    for size in sizes:
        held = campaign(broker, [size], extent.held, draw, periodic=periodic)
        again = [broker.measured(run.topics, draw) for run in held]
        guesses = [(SECOND, 0, [run.latency_s for run in again])]
        guesses += [
            (name, runs, [tuple(model.latencies(run.topics)) for run in held])
            for name, (runs, model) in models.items()
        ]
        scores += [_score(name, runs, held, guess, draw) for name, runs, guess in guesses]
    return scores, Trained(paper, ours)


def _score(
    name: str,
    runs: int,
    held: Sequence[Run],
    guessed: Sequence[Sequence[float]],
    draw: np.random.Generator,
) -> Score:
    import numpy as np

    measured = np.log([run.latency_s for run in held])
    predicted = np.log(np.array(guessed))
    resampled = []
    for _ in range(RESAMPLES):
        rows = draw.integers(0, len(held), len(held))
        resampled.append(_r2(measured[rows], predicted[rows]))
    low, high = np.quantile(resampled, (0.025, 0.975))
    accepted = (predicted <= np.log(TAU_S)).all(axis=1)
    missed = accepted & (measured > np.log(TAU_S)).any(axis=1)
    return Score(
        name,
        runs,
        measured.shape[1],
        _r2(measured, predicted),
        float(low),
        float(high),
        int(accepted.sum()),
        int(missed.sum()),
    )


def _r2(measured: np.ndarray, predicted: np.ndarray) -> float:
    return float(
        1.0 - ((measured - predicted) ** 2).sum() / ((measured - measured.mean()) ** 2).sum()
    )
