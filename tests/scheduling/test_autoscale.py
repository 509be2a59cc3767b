"""The auto-scaler's rules: windows, evidence, limits, cool-down."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from agent.scheduling.tasks.autoscale import (
    BUCKETS,
    FALSE_ALARM,
    Autoscaler,
    Looked,
    NodeLoad,
    ScalePods,
    SubtaskFinished,
    Window,
    exceeds,
    finished,
)
from agent.wire.master_config import MasterAutoscale
from agent.wire.records import SubtaskRecord
from tests.examples import examples

RULES = MasterAutoscale(enabled=True, window_s=10.0, cool_down_s=15.0)
MAX_PODS = 6


def finish(
    at_s: float, missed: bool, busy_s: float | None = 0.1, slack_s: float = 0.3
) -> SubtaskFinished:
    return SubtaskFinished("n1", at_s, slack_s, missed, busy_s)


class Rig:
    """An auto-scaler of one node that obeys at once, looked at once a second."""

    def __init__(self, pods: int = 1, floor: int = 1) -> None:
        self.scaler = Autoscaler(RULES, MAX_PODS)
        self.now = 1_000.0
        self.pods = pods
        self.floor = floor
        self.changes: list[tuple[float, int]] = []
        self.look()

    def look(self, queued: int = 0) -> list[ScalePods]:
        load = NodeLoad("n1", self.pods, self.floor, queued)
        scaled = self.scaler.handle(Looked((load,)), self.now)
        for scale in scaled:
            assert scale.node == "n1"
            self.pods = scale.count
            self.changes.append((self.now, scale.count))
        return scaled

    def second(
        self, hits: int, misses: int = 0, *, busy_s: float = 0.1, queued: int = 0
    ) -> list[ScalePods]:
        """A second in which so many subtasks finish, then a look."""
        for n in range(hits + misses):
            event = finish(self.now, n < misses, busy_s)
            self.scaler.handle(event, self.now + n / (hits + misses))
        self.now += 1.0
        return self.look(queued)

    def seconds(self, count: int, hits: int, misses: int = 0, **settings: float) -> None:
        for _ in range(count):
            self.second(hits, misses, **settings)  # type: ignore[arg-type]  # of the right kinds


@given(
    arrivals=st.lists(
        st.tuples(st.floats(0.0, 4.0), st.booleans(), st.floats(0.0, 1.0)), max_size=60
    ),
    buckets=st.integers(1, BUCKETS),
)
def test_a_window_adds_up_its_buckets(
    arrivals: list[tuple[float, bool, float]], buckets: int
) -> None:
    """Against all subtasks kept and counted."""
    window, now, kept = Window(10.0, 0.0), 0.0, []
    for pause_s, missed, busy_s in arrivals:
        now += pause_s
        window.add(finish(now, missed, busy_s), now)
        kept.append((int(now), missed, busy_s))
        there = [item for item in kept if item[0] > int(now) - buckets]
        sums = window.sums(now, buckets)
        assert sums.subtasks == sums.served == len(there)
        assert sums.missed == sum(item[1] for item in there)
        assert sums.busy_s == pytest.approx(sum(item[2] for item in there))
        assert 0.0 <= window.seconds(now, buckets) <= buckets


@given(subtasks=st.integers(1, 60), share=st.floats(0.005, 0.5), part=st.floats(0.0, 1.0))
def test_evidence_is_the_binomial_tail(subtasks: int, share: float, part: float) -> None:
    """Against the sum of all its terms."""
    missed = round(part * subtasks)
    tail = sum(
        math.comb(subtasks, k) * share**k * (1 - share) ** (subtasks - k)
        for k in range(missed, subtasks + 1)
    )
    if abs(tail - FALSE_ALARM) > 1e-9:
        assert exceeds(missed, subtasks, share) == (tail < FALSE_ALARM)


def test_one_miss_of_twenty_is_no_evidence_and_five_are() -> None:
    assert not exceeds(1, 20, 0.02)
    assert exceeds(5, 20, 0.02)
    assert not exceeds(0, 0, 0.02)
    assert not exceeds(20, 20, 1.0)


def test_violations_add_pods_within_a_window() -> None:
    rig = Rig()
    rig.seconds(20, hits=5)
    assert rig.pods == 1
    rig.seconds(3, hits=6, misses=4)
    assert rig.pods >= 2


def test_a_large_step_is_met_with_several_pods_at_once() -> None:
    rig = Rig()
    rig.seconds(12, hits=3)
    rig.second(hits=0, misses=6, busy_s=0.2, queued=60)
    [(_, pods)] = rig.changes
    assert pods >= 3


def test_an_idle_node_gives_pods_back_one_by_one_down_to_its_floor() -> None:
    rig = Rig(pods=5, floor=2)
    rig.seconds(100, hits=0)
    assert [pods for _, pods in rig.changes] == [4, 3, 2]
    for (before_s, _), (after_s, _) in pairwise(rig.changes):
        assert after_s - before_s >= RULES.cool_down_s


def test_a_pod_that_is_needed_stays() -> None:
    """Two pods busy by 1.2 on average, no violation: one alone could not do that."""
    rig = Rig(pods=2)
    rig.seconds(100, hits=12)
    assert rig.changes == []


def test_what_was_queued_before_a_change_says_nothing_after_it() -> None:
    rig = Rig()
    rig.seconds(12, hits=5)
    asked_s = rig.now
    rig.second(hits=0, misses=10, queued=50)
    [(_, pods)] = rig.changes
    for _ in range(40):
        for n in range(10):
            rig.scaler.handle(finish(asked_s, True), rig.now + n / 10)
        rig.now += 1.0
        rig.look(queued=0)
    assert max(count for _, count in rig.changes) == pods


def test_a_number_that_failed_is_tried_less_and_less() -> None:
    """One pod always fails, two never: reversals get rarer however long it lasts."""
    rig = Rig()
    for _ in range(6_000):
        misses = 4 if rig.pods < 2 else 0
        rig.second(hits=5 - misses, misses=misses, busy_s=0.05)
    assert rig.pods == 2
    assert 3 <= len(rig.changes) <= 9
    pauses = [b - a for (a, _), (b, pods) in pairwise(rig.changes) if pods == 1]
    assert pauses[2:] == sorted(pauses[2:])
    assert pauses[-1] > 30 * RULES.window_s


def test_a_number_that_failed_is_tried_at_once_when_the_demand_is_clearly_lower() -> None:
    rig = Rig()
    rig.seconds(5, hits=2, misses=8)
    assert rig.pods > 1
    changed_s = rig.now
    rig.seconds(100, hits=1)
    assert rig.pods == 1
    assert rig.changes[-1][0] - changed_s <= 6 * RULES.cool_down_s


def test_a_node_that_was_away_is_counted_afresh() -> None:
    rig = Rig()
    rig.seconds(3, hits=5)
    rig.scaler.handle(finish(rig.now, True), rig.now)
    assert rig.scaler.violation_percent("n1", rig.now) > 0.0
    rig.scaler.handle(Looked(()), rig.now)
    rig.scaler.handle(finish(rig.now, True), rig.now)
    assert rig.scaler.violation_percent("n1", rig.now) == 0.0


@given(
    seconds=st.lists(
        st.tuples(
            st.integers(0, 12),
            st.integers(0, 12),
            st.floats(0.001, 0.5),
            st.integers(0, 60),
            st.one_of(st.none(), st.integers(1, 9)),
        ),
        max_size=120,
    ),
    floor=st.integers(1, 4),
)
@settings(max_examples=examples(100), deadline=None)
def test_limits_and_cool_down_hold_whatever_happens(
    seconds: list[tuple[int, int, float, int, int | None]], floor: int
) -> None:
    """Somebody else may set pods too, even beyond the limits: then they only come nearer."""
    rig = Rig(pods=floor, floor=floor)
    for hits, misses, busy_s, queued, foreign in seconds:
        if foreign is not None:
            rig.pods = foreign
        before = rig.pods
        scaled = rig.second(hits, misses, busy_s=busy_s, queued=queued)
        assert len(scaled) <= 1
        for scale in scaled:
            assert scale.count != before
            assert scale.count >= max(before - 1, floor)
            assert scale.count <= MAX_PODS or scale.count < before
    for (before_s, _), (after_s, _) in pairwise(rig.changes):
        assert after_s - before_s >= RULES.cool_down_s


RECORD = SubtaskRecord(
    "iad1", 0, 50.0, "q-1", "", "edfq", 60.0, 2.0, 302.0, "n1", 12.0, 112.0, 0.1, 99.0,
    False, 1, "ok",
)  # fmt: skip


def test_what_a_record_says() -> None:
    event = finished(RECORD)
    assert event is not None
    assert event.enqueued_s == pytest.approx(50.002)
    assert event.slack_s == pytest.approx(0.3)
    assert event.busy_s == pytest.approx(0.1)
    assert not event.missed
    waiting = finished(replace(RECORD, dispatched_ms=None, result_ms=None, outcome="timeout"))
    assert waiting is not None
    assert waiting.busy_s is None
    assert finished(replace(RECORD, outcome="node_down")) is None
    # No number of pods meets a deadline that has passed before the subtask is enqueued.
    assert finished(replace(RECORD, deadline_ms=1.0)) is None
