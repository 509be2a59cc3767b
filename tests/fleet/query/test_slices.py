"""Which slices of a long window are asked for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.query.slices import MAX_MS, SHORTEST_MS, WANTED, Slices


@given(
    length_ms=st.integers(1, 400 * 86_400_000),
    per_s=st.floats(0, 5_000),
    refuses=st.lists(st.booleans(), max_size=5),
)
def test_slices_lie_side_by_side_and_hold_few_values(length_ms, per_s, refuses):
    start_ms = 1_795_000_000_000
    slices = Slices(start_ms, start_ms + length_ms)
    asked, at_ms = 0, start_ms
    refusals = iter(refuses)
    while not slices.is_done:
        window = slices.window
        assert window.start_ms == at_ms
        assert window.end_ms <= start_ms + length_ms
        if next(refusals, False) and slices.is_too_long(None):
            assert slices.window.end_ms < window.end_ms
            continue
        values = int(window.length_s * per_s)
        # The first is a guess; afterwards a slice is as large as wanted, or the shortest.
        assert values <= max(WANTED, per_s * 60) + 1
        slices.answered(values)
        at_ms, asked = window.end_ms, asked + 1
    assert at_ms == start_ms + length_ms
    assert slices.share == 1.0
    assert asked <= 20 + length_ms / MAX_MS + length_ms / 1e3 * per_s / (WANTED / 4)


def test_a_slice_that_does_not_fit_is_halved_or_as_long_as_would_fit():
    slices = Slices(0, 10_000_000, first_ms=100_000)
    assert slices.is_too_long(None)
    assert slices.window.end_ms == 50_000
    assert slices.is_too_long(3.5)
    assert slices.window.end_ms == 3_000
    assert slices.is_too_long(0.001)
    assert slices.window.end_ms == SHORTEST_MS
    assert not slices.is_too_long(None)


def test_slices_are_whole_steps_and_no_longer_than_the_longest():
    slices = Slices(0, 70_000, first_ms=3_000, step_ms=3_000, longest_ms=24_000)
    ends = []
    while not slices.is_done:
        ends.append(slices.window.end_ms)
        slices.answered(1)
    assert ends == [3_000, 27_000, 51_000, 70_000]


def test_a_window_without_length_is_none():
    with pytest.raises(ValueError, match="ends after it begins"):
        Slices(5, 5)
