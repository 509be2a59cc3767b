"""When readings are told: deadband, heartbeat, and never more than 120 times an hour."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.gateway.outputs.state_pace import HOUR_S, Rules, StatePace

UNITS = {"temperature": "°C", "humidity": "%", "co2": "ppm"}


def told(readings, *, asked=(), until_s=4 * HOUR_S):
    """When readings (time, value) are told, looked at whenever something is due."""
    pace, found, now = StatePace(Rules()), [], 0.0
    happens = sorted([*readings, *((at, None) for at in asked)], key=lambda each: each[0])
    for at, value in [*happens, (until_s, None)]:
        while (due := pace.next_due) is not None and due <= at:
            now = max(now, due)
            found += [now for _ in pace.take(now, 10)]
        now = at
        if value is not None:
            pace.changed("b1", {"temperature": value}, UNITS, now)
        elif at < until_s:
            pace.again("b1", now)
    return found


def test_a_change_within_the_deadband_waits_for_the_heartbeat():
    steady = [(at, 20.0 + at % 2 / 10) for at in range(0, 300, 5)]
    assert told(steady, until_s=299.0) == [0, 60, 120, 180, 240]


def test_a_change_beyond_it_is_told_after_thirty_seconds():
    assert told([(0, 20.0), (5, 20.3), (10, 20.5)], until_s=300.0) == [0, 30]


def test_a_value_that_came_back_waits_for_the_heartbeat():
    assert told([(0, 20.0), (5, 25.0), (10, 20.0)], until_s=299.0) == [0, 60]


def test_no_reading_no_heartbeat():
    assert told([(0, 20.0)], until_s=HOUR_S) == [0]


def test_who_asks_is_told_at_once_and_once_more_but_no_oftener():
    found = told([(0, 20.0)], asked=(1.0, 2.0), until_s=60.0)
    assert found == [0, 1.0, pytest.approx(30.0, abs=1.0)]


def test_bad_is_a_change_and_so_is_another_channel():
    pace = StatePace(Rules())
    for now, values in ((0.0, {"temperature": 1.0}), (1.0, {"temperature": None})):
        pace.changed("b1", values, UNITS, now)
        pace.take(now, 10)
    assert pace.take(30.0, 10) == ["b1"]
    pace.changed("b1", {"temperature": None, "humidity": 40.0}, UNITS, 31.0)
    assert pace.take(61.0, 10) == ["b1"]


@pytest.mark.parametrize(
    ("unit", "before", "after", "left"),
    [
        ("°C", 20.0, 20.2, False),
        ("°C", 20.0, 20.21, True),
        ("%", 40.0, 39.0, False),
        ("%", 40.0, 38.9, True),
        ("ppm", 400.0, 404.0, False),
        ("ppm", 400.0, 405.0, True),
        ("°C", None, 20.0, True),
        ("°C", None, None, False),
        ("°C", 20.0, None, True),
    ],
)
def test_the_deadband_of_each_unit(unit, before, after, left):
    assert Rules().has_left(unit, before, after) is left


@given(
    st.lists(st.tuples(st.floats(0.0, 3 * HOUR_S), st.floats(-50.0, 50.0)), max_size=60),
    st.lists(st.floats(0.0, 3 * HOUR_S), max_size=400),
)
def test_never_more_than_120_in_any_hour(readings, asked):
    times = told([*readings, *[(float(at), at % 7) for at in range(0, 9_000, 5)]], asked=asked)
    assert len(times) > 120
    assert all(b - a >= HOUR_S for a, b in zip(times, times[120:], strict=False))


def test_what_is_not_measured_is_not_told_and_forgetting_leaves_nothing():
    pace = StatePace(Rules())
    pace.changed("b1", {"temperature": 1.0}, UNITS, 0.0)
    pace.pause("b1")
    pace.again("b1", 1.0)
    assert pace.take(100.0, 10) == []
    pace.changed("b1", {"temperature": 1.0}, UNITS, 101.0)
    pace.forget("b1")
    assert pace.take(200.0, 10) == []
    assert pace.next_due is None


def test_readings_that_nobody_takes_do_not_pile_up():
    pace = StatePace(Rules())
    for number in range(1_000):
        pace.changed("b1", {"temperature": float(number)}, UNITS, float(number))
    assert len(pace._due) < 5
