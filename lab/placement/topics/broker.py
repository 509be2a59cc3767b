"""A simulated broker with the k-TCP paper's topics: its messages, its runs, what they cost.

This is a simulation. Its form is what the authors' broker is (a thread a topic, and a program
started for every message), its numbers are those that their r_max and Fig. 1d imply.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from _core.simulator import simulate_broker
from fleet.placement.latency import Run, Topic

if TYPE_CHECKING:
    import numpy as np

# Label p of the paper in ms: the CPU time that its r_max implies, and r_max.
SERVICE_S: Final = {10: 0.0126, 20: 0.0262, 30: 0.0398, 40: 0.0466}
MAX_RATE: Final = {10: 78, 20: 37, 30: 24, 40: 20}
TAU_S: Final = 1.0
QUANTILE: Final = 0.9
RUN_S: Final = 120.0
WARM_S: Final = 24.0  # the first 24 of a publisher's 120 messages do not count


class Broker(Struct, frozen=True):
    """Hardware and discipline. `shared`: one queue by deadline and a worker a core."""

    shared: bool = False
    cores: int = 4
    interference: float = 0.08
    service_cv: float = 0.1  # of a topic's service times: standard deviation over mean

    def run(self, topics: Sequence[Topic], draw: np.random.Generator) -> list[np.ndarray]:
        """The latencies (s) of each topic's messages after the warm-up; publishers stop after
        RUN_S, and what is queued then is served."""
        import numpy as np

        arrivals = [_arrivals(topic, draw) for topic in topics]
        topic = np.repeat(np.arange(len(topics), dtype=np.int32), [len(each) for each in arrivals])
        arrived = np.concatenate(arrivals)
        order = np.argsort(arrived, kind="stable")
        topic, arrived = topic[order], arrived[order]
        mean = np.array([each.service_s for each in topics])
        shape = 1.0 / self.service_cv**2
        service = mean[topic] * draw.gamma(shape, 1.0 / shape, len(topic))
        finished = np.empty_like(arrived)
        budgets = np.array([each.objective_s for each in topics])
        simulate_broker(
            topic.data,
            arrived.data,
            service.data,
            finished.data,
            topics=len(topics),
            cores=self.cores,
            interference=self.interference,
            budget_s=budgets.data if self.shared else None,
        )
        counted = arrived >= WARM_S
        return [(finished - arrived)[counted & (topic == number)] for number in range(len(topics))]

    def measured(self, topics: Sequence[Topic], draw: np.random.Generator) -> Run:
        """The same, as a run of a training campaign."""
        import numpy as np

        latencies = self.run(topics, draw)
        return Run(tuple(topics), tuple(float(np.quantile(each, QUANTILE)) for each in latencies))


def _arrivals(topic: Topic, draw: np.random.Generator) -> np.ndarray:
    import numpy as np

    if topic.publishers:
        period_s = topic.publishers / topic.rate
        phases = draw.uniform(0.0, period_s, topic.publishers)
        return (phases[:, None] + period_s * np.arange(int(RUN_S / period_s))).ravel()
    return draw.uniform(0.0, RUN_S, draw.poisson(topic.rate * RUN_S))


def drawn(
    draw: np.random.Generator, *, periodic: bool, least: float = 0.0, most: float = 1.0
) -> Topic:
    """A random topic of the paper, with a rate between these shares of its r_max."""
    label = int(draw.choice(list(SERVICE_S)))
    low = max(int(least * MAX_RATE[label]), 1)
    rate = int(draw.integers(low, int(most * MAX_RATE[label]) + 1))
    return topic_of(label, rate, periodic=periodic)


def topic_of(label: int, rate: int, *, periodic: bool = True) -> Topic:
    """A topic of the paper: `rate` publishers with a message a second each."""
    return Topic(SERVICE_S[label], float(rate), rate if periodic else 0, TAU_S, QUANTILE)
