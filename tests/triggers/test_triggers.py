"""The language of triggers, against an evaluator that works on plain lists."""

import math
import re
from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.scheduling.watches.rounds import aggregate_of
from agent.triggers.language import TriggerError, read_trigger
from agent.wire.messages import Aggregate, AreaResult, ChannelAggregate, Series
from agent.wire.packed import Float32Column, Int64Column, UInt8Column
from agent.wire.quality import BAD
from agent.wire.tokens import MAX_NESTED

CHANNELS = ("temperature", "humidity", "co2")
OPERATORS = {
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
}
UNITS = {"s": 1, "min": 60, "h": 3600}
# Numbers that 32-bit floats hold, so that plain comparisons are exact.
numbers = st.integers(-40, 40).map(lambda n: n / 4)


def f32(value):
    return array("f", [value])[0]


# --- a naive twin: tuples and lists -------------------------------------------------------------

comparisons = st.tuples(
    st.sampled_from(["", "min", "max", "mean", "last", "rate"]),
    st.sampled_from(CHANNELS),
    st.sampled_from(sorted(OPERATORS)),
    numbers,
    st.sampled_from(sorted(UNITS)),
)
trees = st.recursive(
    comparisons,
    lambda inner: st.tuples(
        st.sampled_from(["and", "or"]), st.lists(inner, min_size=2, max_size=3)
    ),
    max_leaves=6,
)


def text_of(tree):
    if len(tree) == 2:
        word, parts = tree
        return "(" + f" {word} ".join(map(text_of, parts)) + ")"
    function, channel, operator, number, unit = tree
    quantity = f"{function}({channel})" if function else channel
    return f"{quantity} {operator} {number}" + (f"/{unit}" if function == "rate" else "")


def twin(tree, readings):
    """`readings`: channel → list of (seconds, value or None)."""
    if len(tree) == 2:
        word, parts = tree
        found = [twin(part, readings) for part in parts]
        return all(found) if word == "and" else any(found)
    function, channel, operator, number, unit = tree
    there = [(at, value) for at, value in readings.get(channel, []) if value is not None]
    if not there:
        return False
    compare, values = OPERATORS[operator], [value for _, value in there]
    if function == "":
        return any(compare(value, number) for value in values)
    if function == "rate":
        (t0, v0), (t1, v1) = there[0], there[-1]
        return t1 > t0 and compare((v1 - v0) / (t1 - t0), number / UNITS[unit])
    functions = {"min": min, "max": max, "last": lambda v: v[-1]}
    functions["mean"] = lambda v: math.fsum(v) / len(v)
    return compare(functions[function](values), number)


@st.composite
def windows(draw):
    n = draw(st.integers(1, 5))
    times = sorted(draw(st.lists(st.integers(0, 600), min_size=n, max_size=n)))
    values = st.lists(st.none() | numbers, min_size=n, max_size=n)
    names = draw(st.lists(st.sampled_from(CHANNELS), unique=True))
    return {name: list(zip(times, draw(values), strict=True)) for name in names}, times


# Flags of the values of a window by channel; () for a channel whose values are all good.
flags = st.fixed_dictionaries(
    {name: st.just(()) | st.lists(st.integers(0, 63), min_size=5, max_size=5) for name in CHANNELS}
)


def series_of(readings, times, quality):
    columns = {
        name: Float32Column.of([math.nan if v is None else v for _, v in column])
        for name, column in readings.items()
    }
    flagged = {
        name: UInt8Column.of(quality[name][: len(times)]) for name in columns if quality[name]
    }
    return Series(Int64Column.of([1000 * at for at in times]), columns, quality=flagged)


def without_bad(readings, quality):
    """The readings with None for each bad value."""
    return {
        name: [
            (at, None if quality[name] and quality[name][i] & BAD else value)
            for i, (at, value) in enumerate(column)
        ]
        for name, column in readings.items()
    }


@given(trees, windows(), flags)
def test_a_trigger_holds_where_the_plain_evaluator_says_so(tree, window, quality):
    readings, times = window
    trigger = read_trigger(text_of(tree))
    series = series_of(readings, times, quality)
    expected = twin(tree, without_bad(readings, quality))
    assert trigger.holds(AreaResult("a", series)) == expected
    if not trigger.needs_series:
        aggregate = AreaResult("a", aggregate=aggregate_of(series))
        assert trigger.holds(aggregate) == expected


@given(trees)
def test_a_trigger_knows_its_channels(tree):
    def channels(tree):
        return {tree[1]} if len(tree) == 5 else set().union(*map(channels, tree[1]))

    assert set(read_trigger(text_of(tree)).channels) == channels(tree)


@given(st.text(max_size=80) | st.text("ab<>=()/. 0123456789andorinmx", max_size=80))
def test_any_text_is_a_trigger_or_one_line_that_says_where(text):
    try:
        assert read_trigger(text).channels
    except TriggerError as error:
        said = str(error)
    else:
        return
    where = re.fullmatch(r"at character (\d+): expected .+; got .+", said)
    assert 1 <= int(where[1]) <= len(text) + 1


# --- by hand ------------------------------------------------------------------------------------


def holds(text, *values, channel="temperature", every_s=10):
    times = [every_s * 1000 * i for i in range(len(values))]
    return read_trigger(text).holds(
        AreaResult("a", Series(Int64Column.of(times), {channel: Float32Column.of(values)}))
    )


def test_a_bare_channel_means_any_reading():
    assert holds("temperature > 30", 20, 31, 20)
    assert not holds("min(temperature) > 30", 20, 31, 20)
    assert holds("temperature < 0", 20, -1, 20)


def test_a_threshold_is_reached_by_the_reading_of_the_same_name():
    assert f32(23.46) < 23.46
    assert holds("temperature >= 23.46", 23.46)
    assert not holds("temperature > 23.46", 23.46)
    assert holds("last(temperature) <= 23.47", 1.0, 23.47)


def test_a_rate_is_the_slope_from_the_first_to_the_last_reading():
    # 3 degrees in 20 s are 9 a minute; the reading between them does not matter.
    assert holds("rate(temperature) >= 9/min", 20, 5, 23)
    assert holds("rate(temperature) <= 0.15/s", 20, 5, 23)
    assert not holds("rate(temperature) > 540/h", 20, 5, 23)
    assert not holds("rate(temperature) >= 0/s", 20)
    assert holds("rate(temperature) > 0/s", math.nan, 20, math.nan, 21)


def test_readings_that_are_missing_never_fire():
    for text in ("temperature < 100", "mean(temperature) >= -100", "last(temperature) < 1e9"):
        assert holds(text, 5.0)
        assert not holds(text, math.nan, math.nan)
        assert not holds(text, 5.0, channel="humidity")
        assert not read_trigger(text).holds(AreaResult("a"))


def test_bad_readings_never_fire_and_suspect_ones_do():
    spike, flatline = 8, 16
    times, values = Int64Column.of([0, 1000, 2000]), Float32Column.of([20, 85, 21])
    for flag, fires in ((spike, False), (flatline, True)):
        quality = {"temperature": UInt8Column.of([0, flag, 0])}
        result = AreaResult("a", Series(times, {"temperature": values}, quality=quality))
        assert read_trigger("temperature > 80").holds(result) == fires
        assert read_trigger("mean(temperature) > 40").holds(result) == fires
        assert read_trigger("last(temperature) >= 21").holds(result)
    all_bad = {"x": ChannelAggregate(0, bad=9)}
    for channels in (all_bad, {"y": ChannelAggregate(1, 0, 0, 0)}):
        silent = AreaResult("a", aggregate=Aggregate(0, 1, channels))
        assert not read_trigger("x < 1 or x > -1").holds(silent)
        assert not read_trigger("min(x) < 1 or max(x) > -1 or mean(x) < 1").holds(silent)


def test_and_binds_closer_than_or():
    assert holds("temperature > 0 or temperature > 9 and temperature > 99", 5)
    assert not holds("(temperature > 0 or temperature > 9) and temperature > 99", 5)


QUANTITY = "expected a channel, such as temperature, or one of min max mean last rate"


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", f"at character 1: {QUANTITY}; got the end"),
        ("temperature = 3", "at character 13: expected one of > >= < <=; got '='"),
        ("median(co2) > 3", "at character 1: expected one of min max mean last rate; got 'median'"),
        (
            "rate(x) > 3",
            "at character 12: expected the unit of a rate: /s, /min or /h; got the end",
        ),
        ("rate(co2) > 3/d", "at character 15: expected the unit of a rate: s, min or h; got 'd'"),
        ("co2 > 3)", "at character 8: expected and, or or the end; got ')'"),
        ("(co2 > 3", "at character 9: expected ); got the end"),
        ("co2 > 3 and", f"at character 12: {QUANTITY}; got the end"),
        ("co2 > 1e999", "at character 7: expected a number that is not so large; got '1e999'"),
        ("co2 > 30°C", "at character 9: expected and, or or the end; got '°C'"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(text, error):
    with pytest.raises(TriggerError) as caught:
        read_trigger(text)
    assert str(caught.value) == error


def test_parentheses_nest_as_deep_as_said():
    read_trigger("(" * MAX_NESTED + "co2 > 3" + ")" * MAX_NESTED)
    with pytest.raises(TriggerError, match="at most 32 parentheses"):
        read_trigger("(" * (MAX_NESTED + 1) + "co2 > 3" + ")" * (MAX_NESTED + 1))
