"""The time base against readings that are kept one by one and moved as it says."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.edge.timebase import SMALL_STEP_MS, STEP_MS, WORST_DRIFT, Correction, TimeBase

TRUE_MS = 1_700_000_000_000  # UTC when the monotonic clock is 0
FORTNIGHT_MS = 14 * 86_400_000


class Node:
    """A boot: each look is a reading, stored with the time that it was stamped with."""

    def __init__(self, reference: tuple[int, int] | None = None) -> None:
        self.base = TimeBase(reference)
        self.stored: list[list[Any]] = []  # [monotonic, time, synchronised]
        self.corrections: list[Correction] = []

    def read(self, monotonic_ms: int, wall_off_ms: int, *, synchronised: bool) -> None:
        wall_ms = TRUE_MS + monotonic_ms + wall_off_ms
        stamp = self.base.look(monotonic_ms, wall_ms, synchronised=synchronised)
        if stamp.correction is not None:
            self.corrections.append(stamp.correction)
            self.correct(stamp.correction)
        assert self.base.time_ms(monotonic_ms, wall_ms) == stamp.time_ms
        self.stored.append([monotonic_ms, stamp.time_ms, stamp.synchronised])

    def correct(self, correction: Correction) -> None:
        """As the history does, a reading being a group."""
        for reading in self.stored:
            began = correction.since_monotonic_ms <= reading[0] < correction.until_monotonic_ms
            if began and (correction.every or not reading[2]):
                reading[1] = reading[0] + correction.offset_ms(reading[0])
                reading[2] = correction.synchronised

    def errors_ms(self) -> list[int]:
        """How far each stored time is from the truth."""
        return [time - (TRUE_MS + monotonic) for monotonic, time, _ in self.stored]


def test_the_first_synchronisation_moves_what_the_boot_took_before() -> None:
    node = Node()
    for n in range(100):
        node.read(n * 1000, -FORTNIGHT_MS, synchronised=False)
    for n in range(100, 110):
        node.read(n * 1000, 3, synchronised=True)
    assert set(node.errors_ms()) == {3}
    assert all(synchronised for _, _, synchronised in node.stored)
    assert len(node.corrections) == 2  # the first look's, and this one


@pytest.mark.parametrize("synchronised", [False, True])
@pytest.mark.parametrize("jump_ms", [FORTNIGHT_MS, -FORTNIGHT_MS])
def test_a_jump_by_two_weeks_and_back_leaves_every_reading_where_it_was(
    synchronised: bool, jump_ms: int
) -> None:
    node = Node()
    for n in range(300):
        off_ms = jump_ms if 100 <= n < 200 else 0
        node.read(n * 1000, off_ms, synchronised=synchronised)
        # Whatever the clock says, the readings keep their distances: a window loses none.
        assert len(set(node.errors_ms())) == 1
    assert set(node.errors_ms()) == {0}


def test_after_a_synchronisation_a_clock_set_by_hand_is_not_believed() -> None:
    node = Node()
    node.read(0, 0, synchronised=True)
    for n in range(1, 50):
        node.read(n * 1000, FORTNIGHT_MS, synchronised=False)
        assert set(node.errors_ms()) == {0}
    node.read(50_000, 0, synchronised=True)
    assert set(node.errors_ms()) == {0}


def test_what_the_crystal_drifted_is_spread_over_the_readings_in_between() -> None:
    hour_ms, drift = 3_600_000, 50e-6
    node = Node()
    # Wall and monotonic clock run on the same crystal: nobody sees it until there is a source.
    for n in range(3 * 24):
        node.read(n * hour_ms, 0, synchronised=n == 0)
    node.read(3 * 24 * hour_ms, round(drift * 3 * 24 * hour_ms), synchronised=True)
    drifted = [round(drift * monotonic) for monotonic, _, _ in node.stored]
    wrong = [abs(a - b) for a, b in zip(node.errors_ms(), drifted, strict=True)]
    assert max(wrong) <= 1
    assert all(synchronised for _, _, synchronised in node.stored)


def test_a_small_step_of_a_synchronised_clock_moves_nothing() -> None:
    node = Node()
    for n in range(10):
        node.read(n * 1000, 0, synchronised=True)
    node.read(10_000, STEP_MS + 200, synchronised=True)
    assert node.errors_ms() == [0] * 10 + [STEP_MS + 200]


def test_slewing_is_followed_without_a_correction() -> None:
    node = Node()
    for n in range(100):
        node.read(n * 1000, n * 10, synchronised=n > 0)
    assert node.errors_ms() == [10, *[n * 10 for n in range(1, 100)]]
    assert len(node.corrections) == 2


def test_a_restarted_agent_goes_on_from_its_own_readings() -> None:
    # The clock was set by hand while the agent was down.
    node = Node(reference=(5_000, TRUE_MS))
    node.read(9_000, FORTNIGHT_MS, synchronised=False)
    assert node.errors_ms() == [0]


@given(
    st.lists(
        st.tuples(
            st.integers(1, 3_600_000),  # ms to the next look
            st.one_of(st.just(0), st.integers(-FORTNIGHT_MS, FORTNIGHT_MS)),  # a clock set wrong
            st.booleans(),
        ),
        max_size=40,
    )
)
def test_once_the_clock_is_right_all_readings_of_the_boot_are(
    looks: list[tuple[int, int, bool]],
) -> None:
    """An unsynchronised clock may say anything; a synchronised one is right, within a second."""
    node = Node()
    now_ms = 0
    for pause_ms, off_ms, synchronised in looks:
        now_ms += pause_ms
        node.read(now_ms, off_ms % 1_000 if synchronised else off_ms, synchronised=synchronised)
    node.read(now_ms + 1, 0, synchronised=True)
    worst_ms = max(map(abs, node.errors_ms()))
    # A step of up to SMALL_STEP_MS or a drift may be believed of a clock without a source.
    assert worst_ms <= max(SMALL_STEP_MS, WORST_DRIFT * now_ms) + 1_000
    times = [time for _, time, _ in node.stored]
    assert all(b >= a - SMALL_STEP_MS - 1_000 for a, b in pairwise(times))


@given(st.lists(st.tuples(st.integers(1, 60_000), st.integers(-(10**10), 10**10)), max_size=30))
def test_without_any_source_the_readings_keep_their_distances(looks: list[tuple[int, int]]) -> None:
    node = Node()
    now_ms = 0
    for pause_ms, off_ms in looks:
        now_ms += pause_ms
        node.read(now_ms, off_ms, synchronised=False)
        last_error = node.errors_ms()[-1]
        slewed = STEP_MS * len(looks)
        assert all(abs(error - last_error) <= slewed for error in node.errors_ms())
