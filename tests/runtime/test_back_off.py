"""Pauses that grow, against the plain arithmetic."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.runtime.back_off import BackOff, pause_after

SECONDS = st.floats(0.001, 1_000.0)


@given(SECONDS, SECONDS, st.integers(0, 80))
def test_pauses_double_up_to_the_longest(first_s, longest_s, failures):
    back_off = BackOff(first_s, longest_s)
    expected = first_s
    for _ in range(failures):
        assert back_off.next() == min(longest_s, expected)
        expected *= 2.0
    assert back_off.failures == failures
    assert pause_after(failures, first_s, longest_s) == min(longest_s, expected)


def test_after_a_success_they_begin_anew():
    back_off = BackOff(0.5, 3.0)
    assert [back_off.next() for _ in range(5)] == [0.5, 1.0, 2.0, 3.0, 3.0]
    back_off.reset()
    assert (back_off.failures, back_off.next(), back_off.next()) == (0, 0.5, 1.0)


def test_another_factor():
    back_off = BackOff(1.0, 50.0, factor=3.0)
    assert [back_off.next() for _ in range(5)] == [1.0, 3.0, 9.0, 27.0, 50.0]


@pytest.mark.parametrize(("drawn", "share"), [(0.0, 0.5), (0.5, 0.75), (1.0, 1.0)])
def test_jitter_leaves_between_half_and_all_of_each(drawn, share):
    back_off = BackOff(1.0, 4.0, jitter=lambda: drawn)
    assert [back_off.next() for _ in range(4)] == [share, 2 * share, 4 * share, 4 * share]


def test_however_many_failures_there_were_there_is_a_pause():
    assert pause_after(10**9, 0.25, 30.0) == 30.0
