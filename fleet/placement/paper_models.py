"""The k-TCP paper's latency models, of scikit-learn: a model for each number of topics.

One topic: a polynomial of degree 4 in service time and rate. More: a network with ReLU, trained by
L-BFGS with the penalty 0.1, hidden layers of 40 and 40, of 100 and 100 from six topics on.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import exp
from typing import Any, Final

from fleet.placement.latency import Run, Topic

PENALTY: Final = 0.1
DEGREE: Final = 4
ITERATIONS: Final = 1_000  # of L-BFGS, at most
# The logarithm of a latency that is believed: networks go anywhere beyond what they were shown.
LEAST_LOG: Final = -12.0
MAX_LOG: Final = 12.0


def features(topics: Sequence[Topic]) -> list[list[float]]:
    """The paper's six, a row for each topic: p, r and d = p r of it, and their sums over the
    others; p and r alone if there are no others."""
    if len(topics) == 1:
        return [[topics[0].service_s, topics[0].rate]]
    columns = [(topic.service_s, topic.rate, topic.load) for topic in topics]
    sums = [sum(column) for column in zip(*columns, strict=True)]
    return [[*row, *(s - x for s, x in zip(sums, row, strict=True))] for row in columns]


class PaperModel:
    """The paper's models for 1 up to as many topics as the runs have; a LatencyModel."""

    def __init__(self, runs: Sequence[Run], seed: int = 0, iterations: int = ITERATIONS) -> None:
        """Train on the runs; those of n topics make the model for n."""
        import numpy as np

        by_size: dict[int, list[Run]] = {}
        for run in runs:
            by_size.setdefault(len(run.topics), []).append(run)
        self._models: dict[int, Any] = {}
        for size, some in sorted(by_size.items()):
            rows = np.array([row for run in some for row in features(run.topics)])
            logs = np.log([latency for run in some for latency in run.latency_s])
            if size == 1:
                self._models[size] = _polynomial(rows, logs)
            else:
                hidden = (100, 100) if size >= 6 else (40, 40)
                self._models[size] = _Network(rows, logs, hidden, seed, iterations)

    def latencies(self, topics: Sequence[Topic]) -> list[float]:
        """See LatencyModel. KeyError for a number of topics that no run had."""
        found = self._models[len(topics)].predict(features(topics))
        return [exp(min(max(float(each), LEAST_LOG), MAX_LOG)) for each in found]


def _polynomial(rows: Any, logs: Any) -> Any:
    from sklearn.linear_model import LinearRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import PolynomialFeatures, StandardScaler

    model = make_pipeline(StandardScaler(), PolynomialFeatures(DEGREE), LinearRegression())
    return model.fit(rows, logs)


class _Network:
    """A trained network, evaluated without scikit-learn's checks: those cost 400 µs a row."""

    def __init__(
        self, rows: Any, logs: Any, hidden: tuple[int, ...], seed: int, iterations: int
    ) -> None:
        import warnings

        from sklearn.exceptions import ConvergenceWarning
        from sklearn.neural_network import MLPRegressor
        from sklearn.preprocessing import StandardScaler
        from threadpoolctl import threadpool_limits

        scaler = StandardScaler().fit(rows)
        network = MLPRegressor(
            hidden_layer_sizes=hidden,
            activation="relu",
            solver="lbfgs",
            alpha=PENALTY,
            max_iter=iterations,
            random_state=seed,
        )
        # Matrices this small gain nothing from threads, which only wait for each other.
        with warnings.catch_warnings(), threadpool_limits(1):
            # The paper says nothing of convergence; what is reached by then is good enough.
            warnings.simplefilter("ignore", ConvergenceWarning)
            network.fit(scaler.transform(rows), logs)
        self.mean, self.scale = scaler.mean_, scaler.scale_
        self.layers = list(zip(network.coefs_, network.intercepts_, strict=True))

    def predict(self, rows: Any) -> Any:
        """The logarithms of the latencies."""
        import numpy as np

        values = (np.asarray(rows) - self.mean) / self.scale
        for weights, bias in self.layers[:-1]:
            values = np.maximum(values @ weights + bias, 0.0)
        weights, bias = self.layers[-1]
        return (values @ weights + bias)[:, 0]
