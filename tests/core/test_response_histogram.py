"""The moving-window histogram against a list of its samples."""

import math
import random
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from _core.deadlines.histogram import (
    BUCKETS,
    MAX_S,
    MIN_S,
    ResponseHistogram,
    bucket_bounds,
    bucket_of,
)
from tests.examples import examples
from tests.oracles.histogram import NaiveHistogram

VALUES = st.one_of(st.floats(0.0, 1e4), st.floats(0.001, 2.0), st.sampled_from([0.0, 1e-5, 600.0]))


def test_buckets_cover_the_range_without_gaps() -> None:
    assert BUCKETS == 1024
    assert bucket_bounds(0)[0] == MIN_S == 10e-6
    assert bucket_bounds(BUCKETS - 1)[1] == MAX_S == 600.0
    for i in range(BUCKETS - 1):
        assert bucket_bounds(i)[1] == bucket_bounds(i + 1)[0]
    for i in (-1, BUCKETS):
        with pytest.raises(IndexError):
            bucket_bounds(i)


def test_bounds_belong_to_their_bucket() -> None:
    for i in range(BUCKETS):
        low, high = bucket_bounds(i)
        assert bucket_of(low) == i
        assert bucket_of(math.nextafter(high, 0.0)) == i
        assert bucket_of(high) == min(i + 1, BUCKETS - 1)
        assert math.sqrt(high / low) <= 1.01


@given(st.floats(1e-5, 600.0))
def test_a_value_lies_within_the_bounds_of_its_bucket(value: float) -> None:
    low, high = bucket_bounds(bucket_of(value))
    assert low <= value < high or value == MAX_S


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, -1e-9])
def test_impossible_values_are_refused(value: float) -> None:
    histogram = ResponseHistogram()
    with pytest.raises(ValueError, match="response time"):
        histogram.insert(value, 0.0)
    with pytest.raises(ValueError, match="response time"):
        bucket_of(value)
    assert (histogram.count, histogram.version) == (0, 0)


@pytest.mark.parametrize("now", [math.nan, math.inf, -math.inf, 1e300])
def test_impossible_times_are_refused(now: float) -> None:
    histogram = ResponseHistogram()
    with pytest.raises(ValueError, match="time"):
        histogram.insert(1.0, now)
    with pytest.raises(ValueError, match="time"):
        histogram.expire(now)
    assert histogram.count == 0


@pytest.mark.parametrize(
    ("max_count", "max_age_s"), [(0, 1.0), (-1, 1.0), (1, 0.0), (1, math.nan), (1, 1e9), (2**40, 1)]
)
def test_impossible_windows_are_refused(max_count: int, max_age_s: float) -> None:
    with pytest.raises(ValueError, match="max_"):
        ResponseHistogram(max_count, max_age_s)


def test_clamped_samples_are_counted() -> None:
    histogram = ResponseHistogram()
    for value in (0.0, 1e-9, 1e-5, 1.0, 600.0, 601.0, 1e9):
        histogram.insert(value, 0.0)
    assert histogram.clamped == 4
    assert histogram.counts()[0] == 3
    assert histogram.counts()[BUCKETS - 1] == 3


def test_empty_window() -> None:
    histogram = ResponseHistogram()
    for call in (histogram.mean, lambda: histogram.quantile(0.5)):
        with pytest.raises(ValueError, match="empty"):
            call()
    assert histogram.cdf(1.0) == 0.0
    assert histogram.expire(1e6) == 0


@pytest.mark.parametrize("p", [-0.1, 1.1, math.nan])
def test_impossible_quantiles(p: float) -> None:
    histogram = ResponseHistogram()
    histogram.insert(1.0, 0.0)
    with pytest.raises(ValueError, match="p ="):
        histogram.quantile(p)


def agree(histogram: ResponseHistogram, twin: NaiveHistogram) -> None:
    """Both windows hold the same samples, and every answer is within its promise."""
    values = twin.values()
    assert histogram.count == len(values) == sum(histogram.counts())
    if not values:
        return
    assert histogram.mean() == pytest.approx(twin.mean(), rel=0.01)
    for p in (0.0, 0.01, 0.5, 0.9, 0.999, 1.0):
        assert histogram.quantile(p) == pytest.approx(twin.quantile(p), rel=0.01)
    for t in (values[0], values[-1], 0.05):
        low, high = bucket_bounds(bucket_of(t))
        below = sum(value < low for value in values) / len(values)
        upto = sum(value < high or high == MAX_S for value in values) / len(values)
        assert below - 1e-9 <= histogram.cdf(t) <= upto + 1e-9


class HistogramAgainstTwin(RuleBasedStateMachine):
    @initialize(max_count=st.integers(1, 40), max_age=st.sampled_from([0.001, 0.5, 3.0, 2e6]))
    def make(self, max_count: int, max_age: float) -> None:
        self.histogram = ResponseHistogram(max_count, max_age)
        self.twin = NaiveHistogram(max_count, max_age)
        self.now = 0.0

    def move(self, step: float) -> None:
        self.now += step

    @rule(value=VALUES, step=st.sampled_from([0.0, 0.001, 0.1, 1.0, -5.0]))
    def insert(self, value: float, step: float) -> None:
        self.move(step)
        version = self.histogram.version
        self.histogram.insert(value, self.now)
        self.twin.insert(value, self.now)
        assert self.histogram.version > version

    @rule(step=st.sampled_from([0.0, 0.25, 3.0, -1.0, 1e6, 5e6, 1e9]))
    def expire(self, step: float) -> None:
        self.move(step)
        version = self.histogram.version
        gone = self.histogram.expire(self.now)
        assert gone == self.twin.expire(self.now)
        assert (self.histogram.version > version) == (gone > 0)

    @invariant()
    def same(self) -> None:
        if hasattr(self, "twin"):
            agree(self.histogram, self.twin)


TestHistogramAgainstTwin = HistogramAgainstTwin.TestCase
TestHistogramAgainstTwin.settings = settings(
    max_examples=examples(60), stateful_step_count=50, deadline=None
)


@pytest.mark.parametrize("seed", range(4))
def test_long_random_run(seed: int) -> None:
    draw = random.Random(seed)
    histogram = ResponseHistogram(500, 20.0)
    twin = NaiveHistogram(500, 20.0)
    now = draw.uniform(-1e6, 1e6)
    for step in range(2_000):
        now += draw.expovariate(20.0)
        value = draw.lognormvariate(-2.3, 1.5)
        histogram.insert(value, now)
        twin.insert(value, now)
        if draw.random() < 0.01:
            now += draw.choice([5.0, 15.0, 25.0])
        if step % 200 == 0:
            assert histogram.expire(now) == twin.expire(now)
            agree(histogram, twin)


def test_window_survives_the_wrap_of_its_32_bit_times() -> None:
    wrap_s = 2**32 / 1000.0
    histogram = ResponseHistogram(100, 10.0)
    histogram.insert(1.0, wrap_s - 4.0)
    histogram.insert(2.0, wrap_s + 2.0)
    assert histogram.expire(wrap_s + 5.0) == 0
    assert histogram.expire(wrap_s + 6.001) == 1
    assert histogram.quantile(1.0) == pytest.approx(2.0, rel=0.01)
    assert histogram.expire(2 * wrap_s + 2.0) == 1  # looks like no time at all, modulo 2**32


def test_memory_of_a_full_window_is_small() -> None:
    # 1,000 nodes must fit a Pi: nothing per sample is a Python object.
    histogram = ResponseHistogram(10_000, 600.0)
    for i in range(20_000):
        histogram.insert(0.1, i * 1e-3)
    assert histogram.count == 10_000
    assert sys.getsizeof(histogram) < 300
