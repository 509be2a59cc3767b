"""A stuck sampler starves the watchdog; nothing else does."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.edge.sampling.counters import SensorCounters
from agent.edge.watchdog import (
    LEAST_LATE_S,
    LOOK_S,
    PATIENCE_S,
    Watchdog,
    late_after_s,
    watchdog_s,
)
from sensors.quality.flags import NO_RESPONSE


def sensor(name="a", interval_s=1.0, now=0.0):
    return SensorCounters(name, ("temperature",), interval_s, now)


@pytest.mark.parametrize(("watchdog", "pause_s"), [(12.0, 6.0), (60.0, LOOK_S)])
def test_it_pings_twice_in_the_time_that_systemd_waits(watchdog, pause_s):
    counters = sensor()
    dog = Watchdog([counters], watchdog, 0.0)
    for now in (pause_s, 2 * pause_s, 3 * pause_s):
        counters.ends((), 0, now)
        assert dog.wake_at == now
        assert dog.look(now) == (True, {})
        assert dog.wake_at == now + pause_s


@pytest.mark.parametrize(
    ("interval_s", "after_s"),
    [(0.1, LEAST_LATE_S), (2.5, LEAST_LATE_S), (10.0, 30.0), (60.0, 120.0), (3_600.0, 3_660.0)],
)
def test_a_late_sensor_is_told_before_it_is_given_up(interval_s, after_s):
    assert late_after_s(interval_s) == after_s
    dog = Watchdog([sensor(interval_s=interval_s)], 60.0, 0.0)
    assert dog.look(after_s) == (True, {})
    late = {"a": after_s + 0.5}
    assert dog.look(after_s + 0.5)[1] == late
    assert dog.look(interval_s + PATIENCE_S)[0]
    assert not dog.look(interval_s + PATIENCE_S + 0.5)[0]


def test_without_systemd_it_looks_and_does_not_ping():
    dog = Watchdog([sensor()], None, -LOOK_S)
    assert dog.wake_at == 0.0
    assert dog.look(0.0) == (False, {})
    assert dog.wake_at == LOOK_S
    assert dog.look(1.0 + PATIENCE_S + 1.0) == (False, {"a": 62.0})


def test_a_failing_sensor_is_alive():
    counters = sensor()
    dog = Watchdog([counters], 60.0, 0.0)
    for now in range(0, 100_000, 30):
        counters.begins(now)
        counters.ends((NO_RESPONSE,), 0, now + 0.5)
        assert dog.look(now + 1)[0]


def test_one_stuck_sensor_of_two_starves_it_until_it_comes_back():
    good, bad = sensor("good"), sensor("bad", 2.0)
    dog = Watchdog([good, bad], 60.0, 0.0)
    bad.begins(10.0)
    good.ends((), 0, 10.0 + 2.0 + PATIENCE_S)
    assert dog.look(10.0 + 2.0 + PATIENCE_S) == (True, {"bad": 62.0})
    good.ends((), 0, 73.0)
    assert dog.look(73.0) == (False, {"bad": 63.0})
    bad.ends((), 0, 74.0)
    assert dog.look(74.0) == (True, {})


@given(
    st.lists(st.tuples(st.floats(0.01, 86_400.0), st.floats(0.0, 1.0)), min_size=1, max_size=8),
    st.integers(1, 50),
)
def test_a_sensor_that_keeps_its_contract_is_never_stuck(sensors, turns):
    """Whatever part of its interval a driver blocks for."""
    counters = [sensor(str(n), interval_s) for n, (interval_s, _) in enumerate(sensors)]
    dog = Watchdog(counters, 60.0, 0.0)
    events = []
    for n, (interval_s, part) in enumerate(sensors):
        for tick in range(turns):
            events.append((tick * interval_s, n, False))
            events.append((tick * interval_s + part * interval_s, n, True))
    last_s = min(interval_s * (turns - 1) for interval_s, _ in sensors)
    for now, n, over in sorted(events):
        if now > last_s:
            break
        assert dog.late(now) == {}
        counters[n].ends((), 0, now) if over else counters[n].begins(now)


def test_what_systemd_asks_for():
    assert watchdog_s({"WATCHDOG_USEC": "60000000", "WATCHDOG_PID": "7"}, 7) == 60.0
    assert watchdog_s({"WATCHDOG_USEC": "60000000"}, 7) == 60.0
    assert watchdog_s({"WATCHDOG_USEC": "60000000", "WATCHDOG_PID": "8"}, 7) is None
    for wrong in ("", "0", "-1", "1e9", "²"):
        assert watchdog_s({"WATCHDOG_USEC": wrong}, 7) is None
    assert watchdog_s({}, 7) is None
