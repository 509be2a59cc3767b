"""Timers against a sorted list: what is due, in which order, and when the first is."""

import math

from hypothesis import given
from hypothesis import strategies as st

from agent.scheduling.timers import Timers

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("set"), st.integers(0, 9)),
        st.tuples(st.just("cancel"), st.integers(0, 30)),
        st.tuples(st.just("due"), st.integers(0, 9)),
        st.tuples(st.just("one due"), st.integers(0, 9)),
    ),
    max_size=40,
)


@given(steps=STEPS)
def test_the_first_time_is_known_after_each_step(steps):
    timers, handles = Timers(), {}
    there: list[tuple[int, int]] = []
    for number, (step, value) in enumerate(steps):
        if step == "set":
            handles[number] = timers.set(float(value), number)
            there.append((value, number))
        elif step == "cancel" and there:
            each = there.pop(value % len(there))
            timers.cancel(handles[each[1]])
        elif step == "due":
            expected = [each for each in sorted(there) if each[0] <= value]
            assert list(timers.due(float(value))) == [item for _, item in expected]
            there = [each for each in there if each not in expected]
        elif step == "one due" and there and min(there)[0] <= value:
            # Whoever stops after one leaves the others where they are.
            assert next(timers.due(float(value))) == min(there)[1]
            there.remove(min(there))
        assert timers.first_s == min([due for due, _ in there], default=math.inf)
        assert len(timers) == len(there)


def test_a_timer_may_be_set_anew_while_what_is_due_is_taken():
    timers = Timers()
    timers.set(1.0, "again")
    timers.set(2.0, "later")
    taken = []
    for item in timers.due(3.0):
        taken.append(item)
        if item == "again" and len(taken) == 1:
            timers.set(1.5, "again")
    assert taken == ["again", "again", "later"]
    assert timers.first_s == math.inf
