"""The simulated broker against its twin, and cases with known ends."""

import random
from array import array

import pytest

from _core.simulator import simulate_broker
from tests.oracles import broker as oracle


def run(
    topic: list[int],
    arrived_s: list[float],
    service_s: list[float],
    *,
    topics: int,
    cores: int,
    interference: float,
    budget_s: list[float] | None = None,
) -> list[float]:
    finished = array("d", bytes(8 * len(topic)))
    simulate_broker(
        array("i", topic),
        array("d", arrived_s),
        array("d", service_s),
        finished,
        topics=topics,
        cores=cores,
        interference=interference,
        budget_s=None if budget_s is None else array("d", budget_s),
    )
    return finished.tolist()


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("seed", range(8))
def test_against_the_twin(seed: int, shared: bool) -> None:
    draw = random.Random(seed)
    topics, cores = draw.randint(1, 6), draw.randint(1, 4)
    count = 120
    topic = [draw.randrange(topics) for _ in range(count)]
    arrived = sorted(draw.uniform(0.0, 4.0) for _ in range(count))
    service = [draw.uniform(0.01, 0.15) for _ in range(count)]
    budget = [draw.choice([0.1, 1.0, 3.0]) for _ in range(topics)] if shared else None
    slow = draw.choice([0.0, 0.08])
    assert run(
        topic, arrived, service, topics=topics, cores=cores, interference=slow, budget_s=budget
    ) == pytest.approx(
        oracle.simulate(topic, arrived, service, cores=cores, interference=slow, budget_s=budget),
        abs=1e-9,
    )


def test_two_topics_share_one_core() -> None:
    assert run([0, 1], [0.0, 0.0], [1.0, 2.0], topics=2, cores=1, interference=0.0) == [2.0, 3.0]


def test_one_queue_takes_the_most_urgent() -> None:
    ends = run(
        [0, 0, 1], [0.0, 0.1, 0.2], [1.0] * 3, topics=2, cores=1, interference=0.0,
        budget_s=[9.0, 1.0],
    )  # fmt: skip
    assert ends == [1.0, 3.0, 2.0]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"topic": [0, 2]}, "topic 2 is not in 0..1"),
        ({"arrived_s": [1.0, 0.0]}, "ascending"),
        ({"service_s": [0.1, 0.0]}, "not a time above 0"),
        ({"service_s": [0.1]}, "different lengths"),
        ({"cores": 0}, "cores"),
        ({"interference": -1.0}, "interference"),
        ({"budget_s": [1.0]}, "1 entries for 2 topics"),
    ],
)
def test_what_does_not_fit_is_refused(change: dict[str, object], said: str) -> None:
    given: dict[str, object] = {
        "topic": [0, 1],
        "arrived_s": [0.0, 1.0],
        "service_s": [0.1, 0.1],
        "topics": 2,
        "cores": 2,
        "interference": 0.0,
    }
    with pytest.raises(ValueError, match=said):
        run(**{**given, **change})  # type: ignore[arg-type]
