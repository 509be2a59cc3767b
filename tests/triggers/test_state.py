"""Triggers at the node: by hand, and against a twin that looks at the whole past each time."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.triggers.condition import read_condition
from agent.triggers.language import TriggerError
from agent.triggers.state import STALE_INTERVALS, SensorTriggers, Trigger
from agent.wire.quality import BAD
from tests.examples import examples

CHANNELS = ("temperature", "humidity")
NAN = math.nan
SPIKE, FLATLINE = 8, 16


def trigger(condition, clear="", name="t", **settings):
    read_clear = read_condition(clear) if clear else None
    return Trigger(name, read_condition(condition), read_clear, **settings)


# --- by hand ------------------------------------------------------------------------------------


def told(made, *readings, every_s=1.0, interval_s=1.0):
    """What a trigger on temperature tells of readings that come every so often: '+31' and '-27'
    with the value that did it, '-' where it is not known."""
    triggers = SensorTriggers([made], ("temperature",), interval_s, 0.0)
    found = []
    for n, reading in enumerate(readings):
        value, flags = reading if isinstance(reading, tuple) else (reading, 0)
        for change in triggers.take(n * every_s, (value,), (flags,) if flags else ()):
            shown = "" if change.value is None else f"{change.value:g}"
            found.append((n, ("+" if change.raised else "-") + shown))
            triggers.took(change, n * every_s)
    return found


def test_without_hysteresis_it_follows_the_condition():
    made = trigger("temperature > 30")
    assert told(made, 29, 30, 31, 32, 30, 31, 29) == [
        (2, "+31"),
        (4, "-30"),
        (5, "+31"),
        (6, "-29"),
    ]


def test_with_hysteresis_it_does_not_flap():
    made = trigger("temperature > 30", "temperature < 28")
    assert told(made, 29, 31, 29, 31, 28, 31, 27, 29, 31) == [(1, "+31"), (6, "-27"), (8, "+31")]


def test_it_must_hold_so_long_without_a_break():
    made = trigger("temperature > 30", for_s=3)
    assert told(made, 31, 32, 33, 29, 31, 32, 33, 34, 35) == [(7, "+34")]


def test_it_must_be_clear_so_long_without_a_break():
    made = trigger("temperature > 30", "temperature < 28", clear_for_s=2)
    assert told(made, 31, 27, 26, 29, 27, 27, 27, 27) == [(0, "+31"), (6, "-27")]


def test_where_both_conditions_hold_it_is_not_cleared():
    made = trigger("temperature > 30", "temperature < 40")
    assert told(made, 31, 35, 39, 29, 35, 41) == [(0, "+31"), (3, "-29"), (4, "+35")]


def test_bad_readings_do_not_count_and_suspect_ones_do():
    made = trigger("temperature > 30")
    assert told(made, 29, (85, SPIKE), 29, (31, FLATLINE), (NAN, 1), 31) == [(3, "+31")]
    assert told(made, 31, (20, SPIKE), 31, 29) == [(0, "+31"), (3, "-29")]
    assert told(made, math.inf, 1e301, NAN, 29) == []


def test_a_silent_sensor_neither_raises_nor_clears_until_the_stated_time():
    missing = (NAN, 1)
    made = trigger("temperature > 30", unknown_s=10)
    # The value of second 0 is known up to second 5; it is unknown for 10 s at second 15.
    assert told(made, 31, *[missing] * 30) == [(0, "+31"), (15, "-")]
    assert told(made, 31, *[missing] * 14, 29) == [(0, "+31"), (15, "-29")]
    assert told(made, 31, *[missing] * 14, 32, *[missing] * 14, 29) == [(0, "+31"), (30, "-29")]
    assert told(made, 29, *[missing] * 30) == []
    # It is raised anew when the sensor is back.
    assert told(made, 31, *[missing] * 20, 31) == [(0, "+31"), (15, "-"), (21, "+31")]


def test_a_duration_ends_with_what_is_known():
    made = trigger("temperature > 30", for_s=8)
    assert told(made, 31, *[(NAN, 1)] * 5, 31, 31, 31) == [(8, "+31")]
    assert told(made, 31, *[(NAN, 1)] * 6, 31, 31) == []
    # A sensor that is not read at all for longer than its values count.
    assert told(made, 31, 31, every_s=9.0) == []
    assert told(made, 31, 31, 31, every_s=5.0) == [(2, "+31")]


def test_a_rate_needs_half_its_window():
    made = trigger("rate(temperature) > 6/min", "rate(temperature) <= 3/min", window_s=10)
    # 0.2 a second are 12 a minute; for the first 5 s nobody knows.
    rising = [20 + 0.2 * n for n in range(12)]
    assert told(made, *rising) == [(5, "+21")]
    # 12 a minute, then nothing: after 8 s at rest it was 0.4 in 10 s, which are 2.4 a minute.
    assert told(made, *rising, *[rising[-1]] * 9) == [(5, "+21"), (19, "-22.2")]
    assert told(made, *rising[::-1]) == []
    assert told(trigger("rate(temperature) < -0.1/s", window_s=10), *rising[::-1])[0][0] == 5


def test_rates_do_not_mind_missing_readings():
    made = trigger("rate(temperature) > 6/min", window_s=10)
    values = [20 + 0.2 * n if n % 3 == 0 else (NAN, 1) for n in range(12)]
    assert told(made, *values) == [(6, "+21.2")]


def both(made, *readings):
    """Changes as (reading, raised, channel, value), of a sensor with two channels."""
    triggers = SensorTriggers([made], CHANNELS, 1.0, 0.0)
    found = []
    for n, reading in enumerate(readings):
        flags = tuple([1 if value != value else 0 for value in reading])
        for change in triggers.take(n, reading, flags):
            found.append((n, change.raised, change.channel, change.value))
            triggers.took(change, n)
    return found


def test_the_first_comparison_that_did_it_is_told():
    made = trigger("temperature > 30 or humidity > 80")
    assert both(made, (20, 90), (31, 90), (31, 50), (20, 50)) == [
        (0, True, "humidity", 90),
        (3, False, "temperature", 20),
    ]
    made = trigger("temperature > 30 and humidity > 80", "humidity < 70 or temperature < 25")
    assert both(made, (31, 70), (32, 81), (20, 81)) == [
        (1, True, "temperature", 32),
        (2, False, "temperature", 20),
    ]


def test_what_one_channel_decides_needs_no_other():
    one, missing = trigger("temperature > 30 or humidity > 80"), NAN
    assert both(one, (missing, 90)) == [(0, True, "humidity", 90)]
    assert both(one, (31, 50), *[(20, missing)] * 7) == [
        (0, True, "temperature", 31),
        (1, False, "temperature", 20),  # the humidity is still known
    ]
    assert both(one, (20, 90), *[(20, missing)] * 9) == [(0, True, "humidity", 90)]
    two = trigger("temperature > 30 and humidity > 80")
    assert both(two, (31, missing)) == []
    assert both(two, (31, 90), (29, missing)) == [
        (0, True, "temperature", 31),
        (1, False, "temperature", 29),
    ]


def test_what_is_not_stored_is_told_again_and_counts_from_then():
    triggers = SensorTriggers([trigger("temperature > 30", for_s=1)], ("temperature",), 1.0, 0.0)
    assert triggers.take(0.0, (31.0,), ()) == []
    [first] = triggers.take(1.0, (32.0,), ())
    [again] = triggers.take(2.0, (33.0,), ())
    assert (first.value, again.value, again.after_s) == (32.0, 33.0, 2.0)
    assert triggers.raised == ()
    triggers.took(again, 2.0)
    assert triggers.raised == ("t",)
    assert triggers.take(3.0, (33.0,), ()) == []
    [cleared] = triggers.take(12.0, (29.0,), ())
    assert cleared.after_s == 10.0


def test_what_was_raised_before_a_restart_is_not_raised_again():
    made = trigger("temperature > 30", "temperature < 28")
    for values, expected in (((31, 29, 27), [2]), ((20,), [0]), ((31, 31), [])):
        triggers = SensorTriggers([made], ("temperature",), 1.0, 0.0)
        triggers.restore(["t"])
        changes = [(n, c) for n, v in enumerate(values) for c in triggers.take(n, (v,), ())]
        assert [n for n, _ in changes] == expected
        assert all(not c.raised and c.after_s is None for _, c in changes)


def test_a_sensor_that_says_nothing_after_a_restart_does_not_stay_raised():
    triggers = SensorTriggers([trigger("temperature > 30")], ("temperature",), 1.0, 100.0)
    triggers.restore(["t"])
    assert triggers.tick(399.9) == []
    [change] = triggers.tick(400.0)
    assert (change.raised, change.verdict, change.value) == (False, "unknown", None)


def test_a_slow_sensor_is_known_between_its_readings():
    triggers = SensorTriggers([trigger("temperature > 30")], ("temperature",), 600.0, 0.0)
    [change] = triggers.take(0.0, (31.0,), ())
    triggers.took(change, 0.0)
    assert not any(triggers.tick(float(now)) for now in range(0, 3_300, 10))
    assert triggers.tick(3_300.0), "five intervals, and 300 s of not knowing"


@pytest.mark.parametrize("function", ["min", "max", "mean"])
def test_what_needs_a_window_of_readings_is_for_queries(function):
    with pytest.raises(TriggerError, match=rf"{function}\(co2\) is for queries; a node compares"):
        read_condition(f"co2 > 3 or (rate(co2) > 1/s and {function}(co2) > 900)")


# --- a twin that looks at the whole past each time ----------------------------------------------

COMPARE = {
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
}
INTERVAL_S = 2.0
STALE_S = STALE_INTERVALS * INTERVAL_S

comparisons = st.tuples(
    st.sampled_from(["", "last", "rate"]),
    st.sampled_from(CHANNELS),
    st.sampled_from(sorted(COMPARE)),
    st.integers(-2, 2),
)
trees = st.recursive(
    comparisons,
    lambda inner: st.tuples(
        st.sampled_from(["and", "or"]), st.lists(inner, min_size=2, max_size=3)
    ),
    max_leaves=4,
)


@dataclass
class Step:
    """A reading, or with none of `values` a look at the clock; what changes is `stored`, or not."""

    at_s: float
    values: tuple[float, ...] | None
    flags: tuple[int, ...]
    stored: bool


@st.composite
def histories(draw):
    at_s, steps = 0.0, []
    for _ in range(draw(st.integers(1, 40))):
        at_s += draw(st.sampled_from([0.5, 2.0, 2.0, 2.0, 4.0, 10.0, 11.0]))
        number = st.integers(-2, 2).map(float) | st.just(NAN)
        values = draw(st.none() | st.tuples(number, number)) if draw(st.booleans()) else (1.0, 1.0)
        flags = draw(st.sampled_from([(), (), (0, 16), (8, 0), (1, 2)]))
        steps.append(Step(at_s, values, flags, draw(st.integers(0, 5)) > 0))
    return steps


def text_of(tree):
    if len(tree) == 2:
        word, parts = tree
        return "(" + f" {word} ".join(map(text_of, parts)) + ")"
    function, channel, operator, number = tree
    quantity = f"{function}({channel})" if function else channel
    return f"{quantity} {operator} {number}" + ("/s" if function == "rate" else "")


def leaves(tree):
    return [tree] if len(tree) == 4 else [leaf for part in tree[1] for leaf in leaves(part)]


def good(steps, channel):
    """(time, value) of all good readings of a channel."""
    i = CHANNELS.index(channel)
    return [
        (step.at_s, step.values[i])
        for step in steps
        if step.values is not None
        and not (step.flags and step.flags[i] & BAD)
        and math.isfinite(step.values[i])
    ]


def truth(tree, steps, window_s):
    """1, 0 or, where it is not known, ½."""
    if len(tree) == 2:
        found = [truth(part, steps, window_s) for part in tree[1]]
        return min(found) if tree[0] == "and" else max(found)
    function, channel, operator, number = tree
    there = good(steps, channel)
    if not there or steps[-1].at_s - there[-1][0] > STALE_S:
        return 0.5
    if function != "rate":
        return float(COMPARE[operator](there[-1][1], number))
    inside = [(at, value) for at, value in there if at >= there[-1][0] - window_s]
    (t0, v0), (t1, v1) = inside[0], inside[-1]
    if t1 - t0 < window_s / 2:
        return 0.5
    return float(COMPARE[operator]((v1 - v0) / (t1 - t0), number))


def verdict(condition, clear, steps, window_s):
    holds = truth(condition, steps, window_s)
    if holds == 1:
        return "holds"
    cleared = 1 - holds if clear is None else truth(clear, steps, window_s)
    if cleared == 1:
        return "clear"
    return "unknown" if 0.5 in (holds, cleared) else "between"


def twin(condition, clear, made, steps):
    """What is told at which step: (step, raised, channel, value or None)."""
    found = []
    verdicts = [verdict(condition, clear, steps[: n + 1], made.window_s) for n in range(len(steps))]
    raised, since = False, 0  # steps from `since` on count for the next change
    for n, step in enumerate(steps):
        goal = "clear" if raised else "holds"
        known = [s.at_s for s, v in zip(steps[: n + 1], verdicts, strict=False) if v != "unknown"]
        run = []
        for i in range(n, since - 1, -1):
            if steps[i].values is None:
                continue
            if verdicts[i] != goal or (run and run[-1] - steps[i].at_s > STALE_S):
                break
            run.append(steps[i].at_s)
        change = None
        if step.values is not None and run:
            if run[0] - run[-1] >= (made.clear_for_s if raised else made.for_s):
                change = verdicts[n]
        elif raised and step.at_s - max([0.0, *known]) >= made.unknown_s:
            change = "unknown"
        if change is None:
            continue
        by_clear = change == "clear" and clear is not None
        told = leaves(clear if by_clear else condition)
        wanted = 0.5 if change == "unknown" else float(change == "holds" or by_clear)
        past = steps[: n + 1]
        causes = [leaf for leaf in told if truth(leaf, past, made.window_s) == wanted]
        channel = (causes or told)[0][1]
        there = good(past, channel)
        fresh = there and step.at_s - there[-1][0] <= STALE_S
        found.append((n, not raised, channel, there[-1][1] if fresh else None))
        if step.stored:
            raised, since = not raised, n + 1
    return found


@settings(max_examples=examples(200), deadline=None)
@given(
    trees,
    st.none() | trees,
    histories(),
    st.sampled_from([0.0, 4.0, 9.0]),
    st.sampled_from([0.0, 3.0]),
    st.sampled_from([4.0, 12.0]),
    st.sampled_from([1.0, 15.0]),
)
def test_it_tells_what_the_twin_tells(
    condition, clear, steps, for_s, clear_for_s, window_s, unknown_s
):
    made = trigger(
        text_of(condition),
        "" if clear is None else text_of(clear),
        for_s=for_s,
        clear_for_s=clear_for_s,
        window_s=window_s,
        unknown_s=unknown_s,
    )
    triggers = SensorTriggers([made], CHANNELS, INTERVAL_S, 0.0)
    found, stored = [], []
    for n, step in enumerate(steps):
        if step.values is None:
            changes = triggers.tick(step.at_s)
        else:
            changes = triggers.take(step.at_s, step.values, step.flags)
        for change in changes:
            found.append((n, change.raised, change.channel, change.value))
            if step.stored:
                stored.append(change.raised)
                triggers.took(change, step.at_s)
    assert found == twin(condition, clear, made, steps)
    # Raised and cleared take turns.
    assert stored[:1] != [False]
    assert all(before != after for before, after in pairwise(stored))


@given(st.lists(st.integers(-2, 2), max_size=30), st.sampled_from([0.0, 3.0]))
def test_triggers_do_not_touch_each_other(values, for_s):
    def run(names):
        made = [trigger(f"temperature > {n}", name=f"t{n}", for_s=for_s + n) for n in range(2)]
        triggers = SensorTriggers(
            [each for each in made if each.name in names], ("temperature",), 1.0, 0.0
        )
        found = []
        for n, value in enumerate(values):
            for change in triggers.take(float(n), (float(value),), ()):
                found.append((n, change))
                triggers.took(change, float(n))
        return found

    together = run(("t0", "t1"))
    for name in ("t0", "t1"):
        assert [each for each in together if each[1].trigger == name] == run((name,))
