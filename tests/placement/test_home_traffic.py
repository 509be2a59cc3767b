"""What nodes exchange with masters, from records."""

from __future__ import annotations

from collections import Counter

import pytest

from agent.placement.home_traffic import MAX_OPEN, HomeTraffic
from agent.wire.records import NodeEventRecord
from tests.metrics.test_from_records import subtask, task


@pytest.fixture
def traffic():
    return HomeTraffic("iad1")


def answered(name, node="n1", result_ms=20.0):
    return subtask(
        task=name, node=node, dispatched_ms=5.0, result_ms=result_ms, node_wait_ms=1.0,
        execution_ms=4.0,
    )  # fmt: skip


def test_questions_and_answers_count_by_who_asked_whichever_record_comes_first(traffic):
    traffic.take(answered("t1"))
    traffic.take(answered("t1", "n2"))
    assert traffic.counts == {}
    traffic.take(task(task="t1", origin="iad2"))
    traffic.take(task(task="t2", origin=""))
    traffic.take(answered("t2"))
    assert traffic.counts == {"n1": Counter(iad2=2, iad1=2), "n2": Counter(iad2=2)}


def test_what_was_never_answered_does_not_count(traffic):
    traffic.take(subtask(task="t1", node="n1", dispatched_ms=5.0, result_ms=None))
    traffic.take(task(task="t1", origin="iad2"))
    assert traffic.counts == {}
    assert traffic.delay_ms("n1") is None


def test_an_event_goes_to_the_homes_master(traffic):
    traffic.take(NodeEventRecord("iad1", 0, 0.0, "n1", "h", 1, "fault_began", 0, True, "", "", ""))
    assert traffic.counts == {"n1": Counter(iad1=1)}


def test_the_delay_is_half_of_the_least_round_trip_without_the_nodes_work(traffic):
    for result_ms in (40.0, 13.0, 20.0):
        traffic.take(answered("t", result_ms=result_ms))
    assert traffic.delay_ms("n1") == pytest.approx((13.0 - 5.0 - 1.0 - 4.0) / 2)


def test_tasks_whose_other_half_never_comes_are_forgotten(traffic):
    for number in range(MAX_OPEN + 10):
        traffic.take(answered(f"a{number}"))
        traffic.take(task(task=f"b{number}", origin="iad2"))
    assert len(traffic._answered) == len(traffic._origins) == MAX_OPEN
