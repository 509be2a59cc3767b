"""The checks of one channel: held against naive twins that keep every reading."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sensors.base import Channel
from sensors.quality.channel import (
    FLAT_GAP,
    SETTLE_READINGS,
    SETTLE_S,
    ChannelCheck,
    SensorQuality,
)
from sensors.quality.flags import FLATLINE, GOOD, NO_RESPONSE, OUT_OF_RANGE, SPIKE
from sensors.quality.limits import INFINITY, Limits, limits_for

LIMITS = Limits(low=0.0, high=50.0, max_step=2.0, max_rate_per_s=0.01, flat_s=600.0)
TEMPERATURE = limits_for("temperature", "celsius", {})

# Few values and few distances in time, so that runs, jumps and gaps come up.
steps = st.sampled_from([0.5, 1.0, 20.0, 60.0, 61.0, 100.0, 5_000.0])
values = st.sampled_from([20.0, 20.1, 21.9, 22.1, 25.0, 30.0, 0.0, 50.0, -1.0, 50.1, math.nan])
readings = st.lists(st.tuples(steps, values), max_size=60)


def run(limits, pairs):
    check = ChannelCheck(limits)
    time_s, flags = 0.0, []
    for step, value in pairs:
        time_s += step
        flags.append(check.check(time_s, value))
    return flags


def at(step_s, values_):
    return [(step_s, value) for value in values_]


def naive(limits, pairs):
    """The same by looking back over all readings each time."""
    flags, time_s = [], 0.0
    seen = []  # (time, value) of plausible readings
    good = []  # of those, the ones that were no spike
    jump = []  # the readings since the level was left that agree among themselves
    for step, value in pairs:
        time_s += step
        if math.isnan(value):
            flags.append(NO_RESPONSE)
            continue
        if value < limits.low or value > limits.high:
            flags.append(OUT_OF_RANGE)
            continue
        flag = GOOD
        seen.append((time_s, value))
        since = time_s
        for (before, _), (now, _) in reversed(list(zip([(0, None), *seen], seen, strict=False))):
            same = [v for t, v in seen if t >= now]
            if any(v != value for v in same):
                break
            since = now
            if now - before > FLAT_GAP * limits.flat_s:
                break
        if time_s - since >= limits.flat_s and limits.low < value < limits.high:
            flag |= FLATLINE

        def far(then, old, now=time_s, new=value):
            return abs(new - old) > limits.max_step + limits.max_rate_per_s * (now - then)

        if good and far(*good[-1]):
            median = sorted(v for _, v in good[-3:])[1] if len(good) >= 3 else None
            if median is None or far(good[-1][0], median):
                agrees = jump and not far(*jump[-1])
                jump = [*jump, (time_s, value)] if agrees else [(time_s, value)]
                if len(jump) < SETTLE_READINGS or time_s - jump[0][0] < SETTLE_S:
                    flags.append(flag | SPIKE)
                    continue
                good = []
        jump = []
        good.append((time_s, value))
        flags.append(flag)
    return flags


@given(readings)
def test_every_flag_is_that_of_the_naive_twin(pairs):
    assert run(LIMITS, pairs) == naive(LIMITS, pairs)


@given(st.lists(st.floats(20.0, 22.0), min_size=1, max_size=80), st.floats(0.1, 600.0))
def test_what_moves_within_a_step_is_never_a_spike(values_, step_s):
    assert not any(flag & SPIKE for flag in run(LIMITS, at(step_s, values_)))


@pytest.mark.parametrize("step_s", [0.5, 1.0, 60.0])
def test_a_single_spike_is_flagged_and_nothing_around_it(step_s):
    series = [20.0, 20.1, 20.0, 45.0, 20.1, 20.0, 20.1]
    assert run(TEMPERATURE, at(step_s, series)) == [0, 0, 0, SPIKE, 0, 0, 0]


@pytest.mark.parametrize("step_s", [0.5, 1.0, 60.0])
def test_a_small_spike_that_passes_is_no_level(step_s):
    """Within the limit on the way up, beyond it on the way back."""
    series = [20.0, 20.0, 20.0, 21.9, *[19.2] * 10]
    assert not any(run(TEMPERATURE, at(step_s, series)))
    assert not any(run(TEMPERATURE, [(1.0, 20.0)] * 3 + [(20_000.0, 58.0)] + [(1.0, 20.0)] * 9))


@pytest.mark.parametrize(("step_s", "flagged"), [(0.5, 120), (1.0, 60), (60.0, 3)])
def test_a_jump_that_stays_is_the_new_level(step_s, flagged):
    series = [20.0] * 10 + [30.0] * 200
    flags = run(TEMPERATURE, at(step_s, series))
    assert flags == [0] * 10 + [SPIKE] * flagged + [0] * (200 - flagged)


def test_after_a_jump_the_old_level_counts_no_more():
    series = [20.0] * 3 + [30.0] * 4 + [20.0]
    assert run(TEMPERATURE, at(60.0, series)) == [0, 0, 0, SPIKE, SPIKE, SPIKE, 0, SPIKE]


def test_the_median_is_that_of_the_last_values():
    climb = [20.0 + n for n in range(11)]
    assert not any(run(TEMPERATURE, at(1.0, [*climb, 31.9, 29.2])))


def test_values_that_do_not_agree_are_no_new_level():
    noise = [20.0, *[30.0, 40.0, 50.0] * 100]
    assert run(TEMPERATURE, at(1.0, noise)) == [0] + [SPIKE] * 300


@pytest.mark.parametrize(("gap_s", "flag"), [(60.0, SPIKE), (600.0, GOOD)])
def test_after_a_gap_the_time_that_went_by_counts(gap_s, flag):
    assert run(TEMPERATURE, [(1.0, 20.0), (gap_s, 25.0)]) == [0, flag]


@pytest.mark.parametrize("step_s", [1.0, 60.0])
def test_a_flatline_begins_after_flat_s_and_ends_with_the_first_change(step_s):
    n = round(LIMITS.flat_s / step_s)
    series = [20.0] * (n + 5) + [20.1, 20.1]
    assert run(LIMITS, at(step_s, series)) == [0] * n + [FLATLINE] * 5 + [0, 0]


def test_nobody_saw_that_the_value_stayed_the_same_over_a_gap():
    before, gap, after = at(60.0, [20.0] * 9), [(61.0, 20.0)], at(60.0, [20.0] * 11)
    assert run(LIMITS, before + gap + after) == [0] * 19 + [FLATLINE] * 2


@pytest.mark.parametrize("end", [0.0, 50.0])
def test_the_end_of_the_plausible_range_is_no_flatline(end):
    assert not any(run(LIMITS, at(60.0, [end] * 1_000)))


def test_a_dark_room_is_no_flatline():
    assert not any(run(limits_for("light", "lux", {}), at(60.0, [0.0] * 3_000)))


def test_what_is_out_of_range_leaves_the_level_where_it_was():
    assert run(LIMITS, at(1.0, [20.0, 50.1, 20.0, math.nan, 20.0])) == [0, 4, 0, 1, 0]


def test_without_limits_nothing_is_checked():
    wild = random.Random(1)
    series = [wild.uniform(-1e9, 1e9) for _ in range(100)] + [5.0] * 100
    assert not any(run(Limits(), at(1e5, series)))
    assert run(Limits(), [(1.0, math.nan)]) == [NO_RESPONSE]
    assert Limits().high == INFINITY


def test_a_sensor_holds_raw_values_against_its_range_and_the_rest_against_the_limits():
    channels = [Channel("temperature", "celsius", -40.0, 80.0), Channel("dust", "g", 0.0, 9.0)]
    quality = SensorQuality(channels, [TEMPERATURE, Limits(high=5.0)])
    assert quality.check(0.0, (20.0, 1.0), (20.0, 1.0)) == (0, 0)
    # Beyond the sensor, though plausible once calibrated; and the other way round.
    assert quality.check(1.0, (81.0, 6.0), (20.0, 6.0)) == (OUT_OF_RANGE, OUT_OF_RANGE)
    assert quality.check(2.0, (20.0, 8.0), (70.0, 2.0)) == (OUT_OF_RANGE, 0)
    assert quality.check(3.0, (math.nan, math.nan), (math.nan, math.nan)) == (1, 1)
    assert quality.check(4.0, (20.0, 1.0), (40.0, 1.0)) == (SPIKE, 0)


def test_a_sensor_wants_limits_for_each_channel():
    with pytest.raises(ValueError):
        SensorQuality([Channel("temperature", "celsius", -40.0, 80.0)], [])
