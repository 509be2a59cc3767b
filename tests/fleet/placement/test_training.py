"""Training of the latency model on runs of the simulated broker, and the paper's models."""

import random

import numpy as np
import pytest

from _core.colocation.model_file import decode, encode
from fleet.placement.latency import ColocationModel, Run, Topic
from fleet.placement.paper_models import PaperModel, features
from fleet.placement.training import TrainingError, logs, measured_logs, train

SERVICE_S = (0.0126, 0.0262, 0.0398, 0.0466)


def campaign(seed: int, count: int, *, disturb: bool = False, sizes: int = 6) -> list[Run]:
    """Runs whose latencies are those of a known law: with `disturb` one that the formulas lack."""
    from _core.colocation.model import Colocation
    from fleet.placement.latency import candidates

    law = Colocation(
        shared=False, cores=3.0, interference=0.1, overhead_s=0.004, service_variance=0.1
    )
    draw = random.Random(seed)
    runs = []
    for number in range(count):
        topics = []
        for _ in range(1 + number % sizes):
            service_s = draw.choice(SERVICE_S)
            topics.append(Topic(service_s, draw.uniform(0.02, 0.95) / service_s))
        latencies = candidates(law, topics).latencies(range(len(topics)))
        if disturb:
            latencies = [
                each * (3.0 if topic.rate > 20 else 1.0)
                for each, topic in zip(latencies, topics, strict=True)
            ]
        runs.append(
            Run(tuple(topics), tuple(each * draw.lognormvariate(0, 0.05) for each in latencies))
        )
    return runs


def r2(measured: np.ndarray, predicted: np.ndarray) -> float:
    return float(
        1 - ((measured - predicted) ** 2).sum() / ((measured - measured.mean()) ** 2).sum()
    )


def test_the_formulas_are_found_again() -> None:
    found = train(campaign(1, 90), "thread-a-topic", trees=False)
    assert found.cores == pytest.approx(3.0, rel=0.05)
    assert found.interference == pytest.approx(0.1, abs=0.02)
    assert found.runs == 90
    held = campaign(2, 60)
    assert r2(measured_logs(held), logs(found.model(), held)) > 0.98


@pytest.mark.long
def test_trees_take_over_what_the_formulas_lack_and_come_through_the_file() -> None:
    runs, held = campaign(1, 120, disturb=True), campaign(2, 60, disturb=True)
    plain = train(runs, "thread-a-topic", trees=False)
    full = train(runs, "thread-a-topic")
    assert full.trees
    measured = measured_logs(held)
    _, model = decode(encode(full))
    assert np.var(logs(model, held) - measured) < 0.7 * np.var(logs(plain.model(), held) - measured)


@pytest.mark.parametrize(
    ("runs", "said"),
    [
        (campaign(1, 9), "9 runs; a model takes 10 or more"),
        ([*campaign(1, 10), Run((Topic(0.01, 1.0, quantile=0.5),), (0.01,))], "several quantiles"),
        ([*campaign(1, 10), Run((Topic(0.01, 1.0),), (0.0,))], "not above 0"),
    ],
)
def test_runs_that_no_model_can_be_trained_on(runs: list[Run], said: str) -> None:
    with pytest.raises(TrainingError, match=said):
        train(runs, "thread-a-topic")


def test_the_papers_features() -> None:
    one, two, three = Topic(0.01, 10.0), Topic(0.02, 5.0), Topic(0.04, 1.0)
    assert features([one]) == [[0.01, 10.0]]
    assert features([one, two, three])[0] == pytest.approx([0.01, 10.0, 0.1, 0.06, 6.0, 0.14])


def test_the_papers_models_learn_and_answer_like_ours() -> None:
    runs, held = campaign(3, 120, sizes=3), campaign(4, 30, sizes=3)
    paper, ours = (
        PaperModel(runs),
        ColocationModel(train(runs, "thread-a-topic", trees=False).model()),
    )
    for model in (paper, ours):
        predicted = np.log([x for run in held for x in model.latencies(run.topics)])
        assert r2(measured_logs(held), predicted) > 0.5
    with pytest.raises(KeyError):
        paper.latencies([Topic(0.01, 1.0)] * 7)


def test_a_model_says_which_quantiles_it_was_not_trained_on() -> None:
    found = train(campaign(1, 12), "shared-queue", trees=False)
    assert found.note([0.9, 0.9]) == ""
    assert found.note([0.99, 0.9, 0.5]) == "p50, p99 by the formulas: the model was trained on p90"
