"""The link status table and the windows that fill it, by hand and beside a plain count."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.overlay.events import LinkMeasured
from agent.overlay.link_congestion import LinkMonitor, LinkStatus
from agent.overlay.scot import BrokerId

A, B, C = BrokerId("a", 0), BrokerId("b", 0), BrokerId("c", 0)


def test_a_link_of_which_nothing_is_known_is_free() -> None:
    status = LinkStatus()
    assert not status.congested(A)
    assert status.load(A) == (0.0, 0)


@pytest.mark.parametrize(
    ("entered", "left", "length", "element", "congested"),
    [
        (0, 0, 0, 1.0, False),
        (99, 0, 0, 100.0, False),  # all of it is gone again
        (0, 0, 10, 1.0, False),  # at the threshold is not above it
        (0, 0, 11, 1.0, True),
        (9, 0, 1, 10.0, False),
        (10, 0, 1, 11.0, True),  # nothing left
        (83, 83, 10, 1.0, False),  # steady
        (84, 83, 10, 85 / 84, True),  # growing
        (10, 21, 20, 0.5, False),  # long, and getting shorter
        (10, 21, 21, 0.5, True),
    ],
)
def test_congested_when_the_element_times_the_length_is_above_ten(
    entered: int, left: int, length: int, element: float, congested: bool
) -> None:
    status = LinkStatus()
    status.measured(LinkMeasured(A, entered, left, length))
    assert status.congested(A) == congested
    assert status.any_congested == congested
    assert status.load(A) == (element * length, length)
    assert not status.congested(B)


def test_another_threshold() -> None:
    status = LinkStatus(threshold=100.0)
    status.measured(LinkMeasured(A, 0, 0, 100))
    assert not status.congested(A)
    status.measured(LinkMeasured(A, 1, 0, 100))
    assert status.congested(A)


@pytest.mark.parametrize("threshold", [0.0, -1.0, float("nan")])
def test_a_threshold_is_above_zero(threshold: float) -> None:
    with pytest.raises(ValueError, match="above 0"):
        LinkStatus(threshold)


def test_the_last_window_counts_until_the_link_is_forgotten() -> None:
    status = LinkStatus()
    status.measured(LinkMeasured(A, 0, 0, 50))
    status.measured(LinkMeasured(B, 0, 0, 50))
    status.measured(LinkMeasured(A, 0, 50, 0))
    status.give(A, 3)
    assert status.any_congested
    status.measured(LinkMeasured(A, 0, 0, 0))
    status.forget(B)
    status.forget(C)
    assert not status.any_congested
    assert [status.load(each) for each in (A, B, C)] == [(0.0, 0)] * 3


def test_less_loaded_is_less_waiting_times_growth() -> None:
    status = LinkStatus()
    status.measured(LinkMeasured(A, 9, 0, 2))
    status.measured(LinkMeasured(B, 1, 3, 8))
    assert min((A, B), key=status.load) == B
    assert min((A, B, C), key=status.load) == C


def test_what_was_given_counts_until_the_next_window() -> None:
    status = LinkStatus()
    status.measured(LinkMeasured(A, 9, 4, 2))
    status.give(A, 3)
    status.give(B, 1)
    status.give(B, 2)
    assert (status.load(A), status.load(B)) == ((10.0, 5), (3.0, 3))
    # It is no queue: Eq. 10 speaks of what was measured.
    status.give(A, 100)
    status.give(B, 100)
    assert not status.any_congested
    status.measured(LinkMeasured(A, 9, 4, 2))
    assert (status.load(A), status.load(B)) == ((4.0, 2), (103.0, 103))
    status.forget(B)
    assert status.load(B) == (0.0, 0)


# --- windows ---


def test_windows_by_hand() -> None:
    monitor = LinkMonitor(window_s=0.05)
    assert monitor.next_sample is None
    assert monitor.sample(9.9) == []
    monitor.entered(A, 3, 10.0)
    monitor.left(A, 1, 10.01)
    monitor.entered(B, 1, 10.02)
    assert monitor.next_sample == 10.05
    assert monitor.sample(10.04) == []
    assert monitor.sample(10.05) == [LinkMeasured(A, 3, 1, 2), LinkMeasured(B, 1, 0, 1)]
    assert (monitor.length(A), monitor.length(B), monitor.length(C)) == (2, 1, 0)
    monitor.left(A, 2, 10.06)
    monitor.left(B, 1, 10.07)
    # Late, and so longer.
    assert monitor.sample(10.5) == [LinkMeasured(A, 0, 2, 0), LinkMeasured(B, 0, 1, 0)]
    # What is empty and idle is told once.
    assert monitor.sample(10.55) == [LinkMeasured(A, 0, 0, 0), LinkMeasured(B, 0, 0, 0)]
    assert monitor.next_sample is None
    monitor.entered(B, 1, 20.0)
    assert monitor.next_sample == 20.05
    assert monitor.sample(20.05) == [LinkMeasured(B, 1, 0, 1)]


def test_what_was_taken_back_never_entered() -> None:
    monitor = LinkMonitor(window_s=1.0)
    monitor.entered(A, 2, 0.0)
    monitor.took_back(A, 1)
    assert monitor.length(A) == 1
    assert monitor.sample(1.0) == [LinkMeasured(A, 1, 0, 1)]
    with pytest.raises(ValueError, match="1 cannot be taken back"):
        monitor.took_back(A, 1)


def test_what_waits_and_does_not_move_is_told_again() -> None:
    monitor = LinkMonitor(window_s=1.0)
    monitor.entered(A, 5, 0.0)
    assert monitor.sample(1.0) == [LinkMeasured(A, 5, 0, 5)]
    assert monitor.sample(2.0) == [LinkMeasured(A, 0, 0, 5)]
    assert monitor.sample(3.0) == [LinkMeasured(A, 0, 0, 5)]


def test_a_queue_thrown_away_is_not_told() -> None:
    monitor = LinkMonitor(window_s=1.0)
    monitor.entered(A, 5, 0.0)
    monitor.forget(A)
    monitor.forget(B)
    assert monitor.length(A) == 0
    assert monitor.sample(1.0) == []
    assert monitor.next_sample is None


def test_no_more_can_leave_than_wait() -> None:
    monitor = LinkMonitor()
    with pytest.raises(ValueError, match=r"1 cannot leave .* 0 wait"):
        monitor.left(A, 1, 0.0)
    monitor.entered(A, 2, 0.0)
    with pytest.raises(ValueError, match=r"3 cannot leave .* 2 wait"):
        monitor.left(A, 3, 0.0)


@pytest.mark.parametrize("window_s", [0.0, -1.0, float("nan")])
def test_a_window_has_a_length(window_s: float) -> None:
    with pytest.raises(ValueError, match="longer than 0 s"):
        LinkMonitor(window_s)


STEP = st.tuples(st.sampled_from([A, B, C]), st.sampled_from(["in", "out", "sample"]))


@settings(deadline=None)
@given(st.lists(st.tuples(STEP, st.integers(1, 4)), max_size=60))
def test_windows_add_up(steps: list[tuple[tuple[BrokerId, str], int]]) -> None:
    monitor = LinkMonitor(window_s=3.0)
    lengths = dict.fromkeys((A, B, C), 0)
    told = dict.fromkeys((A, B, C), 0)
    windows: dict[BrokerId, LinkMeasured] = {}
    for now, ((neighbour, what), count) in enumerate(steps):
        if what == "in":
            monitor.entered(neighbour, count, now)
            lengths[neighbour] += count
        elif what == "out" and lengths[neighbour] >= count:
            monitor.left(neighbour, count, now)
            lengths[neighbour] -= count
        else:
            due = monitor.next_sample is not None and now >= monitor.next_sample
            sample = monitor.sample(now)
            assert due or not sample
            for window in sample:
                told[window.neighbour] += window.entered - window.left
                assert window.length == told[window.neighbour]
            if due:
                # Who reads only what is told knows all lengths.
                windows.update((window.neighbour, window) for window in sample)
                assert {each: w.length for each, w in windows.items() if w.length} == {
                    each: length for each, length in lengths.items() if length
                }
        assert {each: monitor.length(each) for each in lengths} == lengths
