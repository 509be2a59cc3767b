"""Accuracy of latency models on runs that they were not trained on, beside a replicate run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from _core.colocation.model_file import Discipline
from fleet.placement.latency import ColocationModel, LatencyModel, Run
from fleet.placement.paper_models import PaperModel
from fleet.placement.training import train

if TYPE_CHECKING:
    import numpy as np

FOLDS: Final = 3
RESAMPLES: Final = 300
REPLICATE: Final = "a replicate run"
Train = Callable[[Sequence[Run]], LatencyModel]


class Score(Struct, frozen=True):
    """R² of the logarithm of the latency quantile over the topics of `runs` runs with `topics`
    topics each, and its 95 % interval (runs resampled)."""

    model: str
    topics: int
    runs: int
    r2: float
    low: float
    high: float


def models(discipline: Discipline, seed: int = 0) -> dict[str, Train]:
    """Each of the models, by what trains it; masters process a topic's messages one at a time."""
    return {
        "the paper's models": lambda runs: PaperModel(runs, seed),
        "ours, formulas alone": lambda runs: ColocationModel(
            train(runs, discipline, trees=False, serial=True).model()
        ),
        "ours": lambda runs: ColocationModel(train(runs, discipline, serial=True).model()),
    }


def scores(stays: Sequence[Sequence[Run]], trained: dict[str, Train], seed: int = 0) -> list[Score]:
    """Each model's score for each number of topics. A stay is left out in turn, a third of them at
    a time, so every run is predicted by models of other configurations; only stays with a replicate
    are predicted, and the replicate's latencies are a prediction, too. A model that knows no set of
    that size has no score for it."""
    pairs: dict[str, list[tuple[Run, Sequence[float]]]] = {REPLICATE: []}
    # So that each third has sets of every size.
    stays = sorted(stays, key=lambda stay: len(stay[0].topics))
    for fold in range(FOLDS):
        rest = [run for number, stay in enumerate(stays) if number % FOLDS != fold for run in stay]
        held = [stay for stay in stays[fold::FOLDS] if len(stay) > 1]
        pairs[REPLICATE] += [(stay[0], stay[1].latency_s) for stay in held]
        for name, make in trained.items():
            model = make(rest)
            guessed = pairs.setdefault(name, [])
            for stay in held:
                with suppress(KeyError):
                    guessed.append((stay[0], model.latencies(stay[0].topics)))
    return [
        _score(name, size, [pair for pair in guessed if len(pair[0].topics) == size], seed)
        for name, guessed in pairs.items()
        for size in sorted({len(run.topics) for run, _ in guessed})
    ]


def r2(measured: np.ndarray, predicted: np.ndarray) -> float:
    """The share of the variance that is explained; NaN if there is none."""
    import numpy as np

    spread = float(((measured - measured.mean()) ** 2).sum())
    return 1.0 - float(((measured - predicted) ** 2).sum()) / spread if spread else float(np.nan)


def _score(name: str, size: int, pairs: Sequence[tuple[Run, Any]], seed: int) -> Score:
    import numpy as np

    measured = np.log(np.array([run.latency_s for run, _ in pairs]))
    predicted = np.log(np.array([guess for _, guess in pairs]))
    draw = np.random.default_rng([seed, size])
    resampled = [
        r2(measured[rows], predicted[rows])
        for rows in (draw.integers(0, len(pairs), len(pairs)) for _ in range(RESAMPLES))
    ]
    low, high = np.nanquantile(resampled, (0.025, 0.975)) if len(pairs) > 1 else (np.nan, np.nan)
    return Score(name, size, len(pairs), r2(measured, predicted), float(low), float(high))
