"""Runs from the intervals of masters' records."""

import pytest

from fleet.placement.campaign.stays import Interval, Processed, runs_of


def topic(name, processed=100, latency_ms=20.0, **more):
    given = {"arrived": processed, "cpu_ms": 5.0, "slo_ms": 500.0} | more
    return Processed(name, processed=processed, latency_ms=latency_ms, **given)


def interval(start_s, *topics, iad="iad1", seconds=10.0, cores=2, workers=2):
    return Interval(iad, start_s, seconds, cores, workers, topics)


def test_the_first_interval_of_a_stay_does_not_count_and_the_others_are_replicates():
    found = runs_of(
        [
            interval(10.0, topic("a", latency_ms=30.0), topic("b", 50)),
            interval(0.0, topic("a", latency_ms=999.0), topic("b")),
            interval(20.0, topic("a", 300, 40.0, cpu_ms=7.0), topic("b", 150, 60.0)),
        ],
        0.9,
    )
    [[first, second]] = found
    assert first.topics == second.topics  # one configuration, by what was measured in all of it
    a, b = first.topics
    assert (a.rate, a.objective_s, a.quantile, a.publishers) == (20.0, 0.5, 0.9, 0)
    assert a.service_s == pytest.approx((100 * 5.0 + 300 * 7.0) / 400 / 1e3)
    assert b.rate == 10.0
    assert first.latency_s == pytest.approx((0.03, 0.02))
    assert second.latency_s == pytest.approx((0.04, 0.06))


@pytest.mark.parametrize(
    "other",
    [
        interval(10.0, topic("a"), topic("b")),  # one came
        interval(10.0, topic("b")),  # another one
        interval(12.0, topic("a")),  # later: it was away
        interval(10.0, topic("a"), iad="iad2"),
        interval(10.0, topic("a"), workers=6),
    ],
    ids=["came", "other", "later", "elsewhere", "workers"],
)
def test_whatever_changes_begins_another_stay(other):
    assert runs_of([interval(0.0, topic("a")), other], 0.9) == []


@pytest.mark.parametrize(
    "bad",
    [
        topic("a", processed=9),
        topic("a", latency_ms=None),
        topic("a", cpu_ms=None),
    ],
    ids=["few", "no latency", "no CPU time"],
)
def test_an_interval_without_latencies_of_all_topics_does_not_count(bad):
    good = topic("a")
    first = interval(0.0, good, topic("b"))
    found = runs_of([first, interval(10.0, bad, topic("b")), interval(20.0, good, topic("b"))], 0.9)
    assert [len(stay) for stay in found] == [1]


def test_a_short_rest_does_not_count():
    rest = interval(20.0, topic("a"), seconds=4.0)
    [stay] = runs_of([interval(0.0, topic("a")), interval(10.0, topic("a")), rest], 0.9)
    assert len(stay) == 1


def test_more_workers_than_cores_are_threads():
    assert interval(0.0, workers=2).discipline == "shared-queue"
    assert interval(0.0, workers=3).discipline == "thread-a-topic"
