"""Drift: who moved among co-located channels, and when that is said."""

from __future__ import annotations

import itertools
import math
import random

import pytest

from sensors.quality.colocated import DAY_S, HOUR_S, Colocated
from sensors.quality.flags import DRIFT, FLATLINE, GOOD, SPIKE
from sensors.quality.limits import Limits

LIMITS = Limits(drift=1.5)
STEP_S = 60.0


def follow(colocated, days, value_of, step_s=STEP_S, flags=GOOD):
    """What each name is told at each time: `value_of` gives {name: value} at a time."""
    told = {}
    for n in range(round(days * DAY_S / step_s)):
        time_s = n * step_s
        for name, value in value_of(time_s).items():
            told.setdefault(name, []).append(colocated.check(name, time_s, value, flags))
    return told


def group(names="abc", fresh_s=300.0):
    return Colocated(list(names), [LIMITS] * len(names), fresh_s)


def room(time_s):
    """A day's temperature."""
    return 22.0 + 2.0 * math.sin(2 * math.pi * time_s / DAY_S)


def first(flags, step_s=STEP_S):
    """Days until the first flag, None without one."""
    return next((n * step_s / DAY_S for n, flag in enumerate(flags) if flag), None)


def test_rooms_that_differ_for_good_are_no_drift():
    noise = random.Random(1)

    def values(time_s):
        sun = max(0.0, 3.0 * math.sin(2 * math.pi * time_s / DAY_S - 1.0))
        base = room(time_s)
        return {
            "a": base + noise.gauss(0, 0.1),
            "b": base + 2.5 + noise.gauss(0, 0.1),
            "c": base - 1.0 + sun,
        }

    assert not any(map(any, follow(group(), 8, values).values()))


def test_of_three_the_one_that_moved_is_flagged_alone():
    def values(time_s):
        drift = max(0.0, (time_s / DAY_S - 2) * 1.0)
        return {"a": room(time_s), "b": room(time_s) + drift, "c": room(time_s) + 0.5}

    told = follow(group(), 9, values)
    assert not any(told["a"] + told["c"])
    # 1.5 °C at 1 °C a day, smoothed over a day: after two and a half days or so.
    assert 4.0 < first(told["b"]) < 5.5
    assert all(flag == DRIFT for flag in told["b"][-100:])


def test_of_two_nobody_knows_who_moved_and_both_are_flagged():
    def values(time_s):
        return {"a": room(time_s), "b": room(time_s) + max(0.0, time_s / DAY_S - 2)}

    told = follow(group("ab"), 9, values)
    assert 4.0 < first(told["a"]) < 5.5  # as among three: the other one is the reference
    assert first(told["a"]) == pytest.approx(first(told["b"]), abs=0.01)


def test_a_wild_first_reading_is_no_drift():
    told = follow(group(), 1, lambda t: {"a": 20.0, "b": 20.0 if t else 50.0, "c": 20.0})
    assert not any(told["b"])


def test_near_the_bound_the_flag_does_not_flicker():
    """Once flagged at 1.5, it takes less than 80 % of that to be good again."""
    for back, stays in ((1.4, True), (1.0, False)):

        def values(time_s, back=back):
            off = 0.0 if time_s < 2 * DAY_S else 2.0 if time_s < 4 * DAY_S else back
            return {"a": room(time_s), "b": room(time_s) + off, "c": room(time_s)}

        told = follow(group(), 12, values)["b"]
        assert told[round(4 * DAY_S / STEP_S)] == DRIFT
        assert (told[-1] == DRIFT) is stays


def test_one_that_is_broken_from_the_first_reading_is_flagged_within_hours():
    told = follow(group(), 1, lambda t: {"a": room(t), "b": room(t) + 20.0, "c": room(t)})
    assert first(told["b"]) * DAY_S <= HOUR_S
    assert not any(told["a"] + told["c"])


def test_the_flag_goes_when_the_channel_is_back():
    def values(time_s):
        off = 5.0 if 2 * DAY_S < time_s < 4 * DAY_S else 0.0
        return {"a": room(time_s), "b": room(time_s) + off, "c": room(time_s)}

    told = follow(group(), 9, values)["b"]
    assert first(told) == pytest.approx(2.36, abs=0.02)  # 5·(1 − e^−x) = 1.5
    cleared = len(told) - first(told[::-1]) * DAY_S / STEP_S
    assert 4.5 * DAY_S < cleared * STEP_S < 6.5 * DAY_S
    changes = sum(x != y for x, y in itertools.pairwise(told))
    assert changes == 2


def test_a_fault_does_not_become_the_baseline():
    told = follow(
        group(),
        60,
        lambda t: dict.fromkeys("ac", room(t)) | {"b": room(t) + 3.0 * (t > DAY_S * 2)},
        600.0,
    )["b"]
    assert told[-1] == DRIFT


def test_a_slow_season_is_no_drift():
    def values(time_s):
        return dict.fromkeys("ac", room(time_s)) | {"b": room(time_s) + 0.03 * time_s / DAY_S}

    assert not any(follow(group(), 120, values, 600.0)["b"])


def test_bad_values_are_neither_judged_nor_a_reference():
    colocated = group("ab")
    for n in range(5_000):
        time_s = n * STEP_S
        assert colocated.check("a", time_s, 90.0, SPIKE) == GOOD
        assert colocated.check("b", time_s, 20.0, GOOD) == GOOD
        assert colocated.check("a", time_s, math.nan, GOOD) == GOOD


def test_suspect_values_are_judged():
    told = follow(group(), 1, lambda t: {"a": 20.0, "b": 40.0, "c": 20.0}, flags=FLATLINE)
    assert any(told["b"])


def test_who_fell_silent_is_no_reference():
    colocated = group("abc")

    def values(time_s):
        return {"a": 20.0, "b": 20.0, "c": 20.0} if time_s < DAY_S else {"c": 30.0}

    assert not any(follow(colocated, 8, values)["c"])


def test_readings_may_come_at_different_times_and_intervals():
    colocated, flags, noise = group(), [], random.Random(2)
    events = [("a", t * 1.0) for t in range(90_000)] + [("b", t * 2.0) for t in range(45_000)]
    events += [("c", 0.3 + t * 60.0) for t in range(1_500)]
    for name, time_s in sorted(events, key=lambda event: event[1]):
        value = 20.0 + noise.gauss(0, 0.1) + 10.0 * (name == "c")
        flags.append((name, colocated.check(name, time_s, value, GOOD)))
    assert {name for name, flag in flags if flag} == {"c"}
