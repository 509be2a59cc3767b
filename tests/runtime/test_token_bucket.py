"""Token buckets: no more than burst and rate, and who waits as told is served."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.runtime.token_bucket import TokenBucket


@given(
    rate_per_s=st.floats(0.1, 1_000.0),
    burst=st.floats(1.0, 50.0),
    gaps=st.lists(st.floats(0.0, 3.0), max_size=60),
)
def test_a_bucket_lets_no_window_exceed_burst_and_rate(rate_per_s, burst, gaps):
    bucket, now, taken = TokenBucket(rate_per_s, burst, 0.0), 0.0, []
    for gap in gaps:
        now += gap
        if not bucket.wait_s(now):
            bucket.take()
            taken.append(now)
    for i, start in enumerate(taken):
        for j in range(i, len(taken)):
            assert j - i + 1 <= burst + (taken[j] - start) * rate_per_s + 1e-6


@given(rate_per_s=st.floats(0.1, 1_000.0), burst=st.floats(1.0, 20.0), now=st.floats(0.0, 1e6))
def test_who_waits_as_long_as_told_is_served(rate_per_s, burst, now):
    bucket = TokenBucket(rate_per_s, burst, now)
    while not bucket.wait_s(now):
        bucket.take()
    wait_s = bucket.wait_s(now)
    assert bucket.wait_s(now + 0.5 * wait_s) > 0
    # A clock near 1e6 s tells moments 1e-10 s apart.
    assert bucket.wait_s(now + wait_s) <= 1e-9 + 1e-9 / rate_per_s


def test_a_clock_that_stands_still_gives_no_tokens():
    bucket = TokenBucket(10.0, 1.0, 5.0)
    bucket.take()
    assert bucket.wait_s(5.0) == pytest.approx(0.1)
    assert bucket.wait_s(4.0) == pytest.approx(0.1)


def test_a_rate_of_nothing_ends_with_its_burst():
    bucket = TokenBucket(0.0, 1.0, 0.0)
    bucket.take()
    assert bucket.wait_s(1e9) == math.inf
