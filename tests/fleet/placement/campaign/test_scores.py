"""Scores of models on configurations that they were not trained on."""

import math

import pytest

from fleet.placement.campaign.scores import REPLICATE, models, scores
from fleet.placement.latency import Run, Topic


class Knows:
    """A model whose error is a factor."""

    def __init__(self, factor, most=9):
        self.factor = factor
        self.most = most

    def latencies(self, topics):
        if len(topics) > self.most:
            raise KeyError(len(topics))
        return [law(topic) * self.factor for topic in topics]


def law(topic):
    return topic.service_s / (1.0 - topic.load)


def stay(size, number, noise):
    topics = tuple(Topic(0.01, 5.0 + 10 * each + number) for each in range(size))
    run = Run(topics, tuple(law(topic) for topic in topics))
    return [run, Run(topics, tuple(each * noise for each in run.latency_s))]


STAYS = [stay(size, number, 1.1) for number in range(6) for size in (1, 2)]


def test_a_model_is_scored_by_what_it_says_of_sets_that_it_has_not_seen():
    seen = []

    def make(runs):
        seen.append(runs)
        return Knows(1.0)

    found = scores([*STAYS, STAYS[0][:1]], {"right": make, "one": lambda _: Knows(2.0, most=1)})
    by_name = {(each.model, each.topics): each for each in found}
    assert [(score.topics, score.runs) for score in found if score.model == "right"] == [
        (1, 6),
        (2, 6),
    ]
    assert by_name["right", 2].r2 == pytest.approx(1.0)
    assert by_name["right", 2].low == pytest.approx(1.0)
    assert by_name[REPLICATE, 2].r2 < 1.0
    assert by_name["one", 1].r2 < by_name[REPLICATE, 1].r2
    assert ("one", 2) not in by_name  # it knows no such set
    for rest in seen:
        assert len(rest) < 2 * len(STAYS)


def test_all_models_can_be_trained_and_scored():
    found = scores([stay(1, number / 3, 1.05) for number in range(36)], models("shared-queue"))
    assert {each.model for each in found} == {
        REPLICATE,
        "the paper's models",
        "ours, formulas alone",
        "ours",
    }
    assert all(math.isfinite(each.r2) for each in found)
