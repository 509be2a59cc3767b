"""Configurations of a campaign, and the arrivals of their messages."""

from random import Random

import pytest

from fleet.placement.campaign.cases import FEWEST, MAX_OF_A_CORE, arrivals, cases


def test_configurations_stay_within_the_loads_and_are_the_same_for_a_seed():
    found = cases(60, (1, 2, 3), 2, 0.9, seed=7)
    assert found == cases(60, (1, 2, 3), 2, 0.9, seed=7)
    assert [len(case) for case in found] == [1, 2, 3] * 20
    for case in found:
        least = sum(FEWEST * load.cpu_ms / 1e3 for load in case)
        assert sum(load.cores for load in case) <= max(1.8, least) + 1e-9
        for load in case:
            assert load.rate >= FEWEST
            assert load.cores <= MAX_OF_A_CORE + 1e-9
    assert len(set(found)) == 60


def test_messages_of_each_topic_come_at_its_rate_in_order():
    (case,) = cases(1, (3,), 4, 0.5, seed=1)
    came = list(arrivals(case, 500.0, Random(2)))
    times = [at_s for at_s, _ in came]
    assert times == sorted(times)
    assert 0.0 < times[0] <= times[-1] < 500.0
    for number, load in enumerate(case):
        count = sum(topic == number for _, topic in came)
        assert count == pytest.approx(500.0 * load.rate, rel=0.1)
