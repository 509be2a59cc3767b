"""Training of the latency model: the formulas' parameters, then trees where they help.

Seven numbers are fitted to the logarithms of the measured latencies by robust least squares, the
number of cores among them: three that work and four that are believed are a usual mistake. What
the formulas leave over goes to boosted trees; they are kept only if they lower the error of runs
that they were not trained on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from msgspec import structs

from _core.colocation.model import Candidates, Colocation
from _core.colocation.model_file import VERSION, Discipline, ModelFile, Tree
from fleet.placement.latency import Run, candidates

# service_scale, overhead_s, cores, interference, service_variance, speed_variance, window_s
LOW: Final = (0.2, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0)
HIGH: Final = (5.0, 1.0, 512.0, 2.0, 10.0, 100.0, 10_000.0)
STEP: Final = (0.1, 0.001, 0.5, 0.05, 0.1, 0.5, 20.0)
CORES: Final = (2.0, 4.0, 8.0)  # where the search begins
OUTLIER: Final = 0.3  # of a logarithm: larger errors count by their size, not its square
FOLDS: Final = 5
TREES: Final = 40
DEPTH: Final = 3
LEARNING_RATE: Final = 0.08
LEAF: Final = 12  # topics, at least
FEWEST_RUNS: Final = 10
FEWEST_FOR_TREES: Final = 60


class TrainingError(ValueError):
    """Runs that no model can be trained on; one line says why."""


def train(
    runs: Sequence[Run], discipline: Discipline, *, trees: bool = True, serial: bool = False
) -> ModelFile:
    """The model of the runs. TrainingError if they are too few or of several quantiles. `serial`:
    with one queue, a topic's messages are processed one at a time."""
    quantiles = {topic.quantile for run in runs for topic in run.topics}
    if len(runs) < FEWEST_RUNS:
        raise TrainingError(f"{len(runs)} runs; a model takes {FEWEST_RUNS} or more")
    if len(quantiles) > 1:
        raise TrainingError(f"the runs measured several quantiles: {sorted(quantiles)}")
    if any(not latency > 0.0 for run in runs for latency in run.latency_s):
        raise TrainingError("a run has a latency that is not above 0")
    fitted = _formulas(runs, discipline, quantiles.pop(), serial=serial)
    if not trees or len(runs) < FEWEST_FOR_TREES:
        return fitted
    kept = _trees_help(runs, fitted, discipline)
    return structs.replace(fitted, trees=_boosted(fitted.model(), runs)) if kept else fitted


def logs(model: Colocation, runs: Sequence[Run]) -> Any:
    """The logarithms of the predicted latencies of all topics of the runs, one after another."""
    import numpy as np

    asked = candidates(model, [topic for run in runs for topic in run.topics])
    return np.log([each for places in _places(runs) for each in asked.latencies(places)])


def measured_logs(runs: Sequence[Run]) -> Any:
    """The logarithms of the measured latencies, in the same order."""
    import numpy as np

    return np.log([latency for run in runs for latency in run.latency_s])


def _places(runs: Sequence[Run]) -> list[range]:
    """Of the topics of each run, in the list of all topics."""
    places, start = [], 0
    for run in runs:
        places.append(range(start, start + len(run.topics)))
        start += len(run.topics)
    return places


def _formulas(
    runs: Sequence[Run],
    discipline: Discipline,
    quantile: float,
    begin: Sequence[float] = CORES,
    *,
    serial: bool = False,
) -> ModelFile:
    from scipy.optimize import least_squares

    measured = measured_logs(runs)

    def file(x: Any) -> ModelFile:
        scale, overhead_s, cores, interference, service, speed, window_s = map(float, x)
        return ModelFile(
            version=VERSION,
            discipline=discipline,
            quantile=quantile,
            cores=cores,
            interference=interference,
            service_scale=scale,
            overhead_s=overhead_s,
            service_variance=service,
            speed_variance=speed,
            window_s=window_s,
            runs=len(runs),
            serial=serial,
        )

    def errors(x: Any) -> Any:
        return logs(file(x).model(), runs) - measured

    fits = [
        least_squares(
            errors,
            [1.0, 0.001, cores, 0.05, 0.02, 0.5, 90.0],
            bounds=(LOW, HIGH),
            x_scale=STEP,
            loss="soft_l1",
            f_scale=OUTLIER,
            diff_step=1e-4,
        )
        for cores in begin
    ]
    return file(min(fits, key=lambda fit: float(fit.cost)).x)


def _rows(asked: Candidates, runs: Sequence[Run]) -> list[list[float]]:
    return [row for places in _places(runs) for row in asked.features(places)]


def _boosted(model: Colocation, runs: Sequence[Run]) -> list[Tree]:
    """Trees for what `model` leaves over of the runs."""
    import numpy as np
    from sklearn.ensemble import GradientBoostingRegressor

    rows = np.array(_rows(candidates(model, [t for run in runs for t in run.topics]), runs))
    left = measured_logs(runs) - rows[:, 0]
    boosted = GradientBoostingRegressor(
        loss="huber",
        init="zero",
        n_estimators=TREES,
        max_depth=DEPTH,
        learning_rate=LEARNING_RATE,
        subsample=0.7,
        min_samples_leaf=LEAF,
        random_state=0,
    ).fit(rows, left)
    return [_tree(each[0].tree_) for each in boosted.estimators_]


def _tree(tree: Any) -> Tree:
    leaf = tree.children_left < 0
    return Tree(
        feature=[0 if end else int(x) for x, end in zip(tree.feature, leaf, strict=True)],
        threshold=[0.0 if end else float(x) for x, end in zip(tree.threshold, leaf, strict=True)],
        left=[int(x) for x in tree.children_left],
        right=[int(x) for x in tree.children_right],
        value=[LEARNING_RATE * float(x) for x in tree.value[:, 0, 0]],
    )


def _trees_help(runs: Sequence[Run], fitted: ModelFile, discipline: Discipline) -> bool:
    """Whether trees lower the squared error of runs that they, and the formulas, have not seen."""
    without = with_trees = 0.0
    for fold in range(FOLDS):
        rest = [run for number, run in enumerate(runs) if number % FOLDS != fold]
        held = runs[fold::FOLDS]
        formulas = _formulas(
            rest, discipline, fitted.quantile, (fitted.cores,), serial=fitted.serial
        )
        grown = structs.replace(formulas, trees=_boosted(formulas.model(), rest))
        measured = measured_logs(held)
        without += float(((logs(formulas.model(), held) - measured) ** 2).sum())
        with_trees += float(((logs(grown.model(), held) - measured) ** 2).sum())
    return with_trees < without
