"""Quality and age of readings on their way up, against plain lists of readings."""

import math
from dataclasses import dataclass, field
from functools import reduce

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from agent.scheduling.aggregation import merge_aggregates, merge_series
from agent.scheduling.watches.rounds import aggregate_of, as_asked
from agent.wire import messages as m
from agent.wire.base import MAX_COUNTED
from agent.wire.packed import Float32Column, Int64Column, UInt8Column, UInt32Column
from agent.wire.quality import BAD
from agent.wire.watches import Watch

CHANNELS = ("x", "y", "z")


@dataclass
class Plain:
    """A reading: values with their flags by channel; None is a value that is missing."""

    time_ms: int
    age_ms: int = 0
    values: dict[str, tuple[float | None, int]] = field(default_factory=dict)


half = st.integers(-200, 200).map(lambda n: n / 2)
# Mostly good, and every flag, alone or with others.
flagged = st.one_of(st.just(0), st.integers(0, 63))


@st.composite
def sources(draw):
    """Channels of a source and its readings in time order: at least one."""
    channels = draw(st.lists(st.sampled_from(CHANNELS), min_size=1, unique=True))
    ages = draw(st.sampled_from([st.just(0), st.integers(0, 2**32 - 1)]))
    flags = draw(st.sampled_from([st.just(0), flagged]))
    times = sorted(draw(st.lists(st.integers(0, 50), min_size=1, max_size=12)))
    value = st.tuples(half, flags) | st.just((None, 1))
    return channels, [
        Plain(time, draw(ages), {channel: draw(value) for channel in channels}) for time in times
    ]


def packed(source):
    """The series that a node would make of the readings: no column that says nothing."""
    channels, readings = source
    values, quality = {}, {}
    for channel in channels:
        column = [reading.values[channel] for reading in readings]
        values[channel] = Float32Column.of([math.nan if v is None else v for v, _ in column])
        if any(flags for _, flags in column):
            quality[channel] = UInt8Column.of([flags for _, flags in column])
    ages = [reading.age_ms for reading in readings]
    return m.Series(
        Int64Column.of([reading.time_ms for reading in readings]),
        values,
        quality=quality,
        age_ms=UInt32Column.of(ages) if any(ages) else None,
    )


def plain(series):
    """The readings of a series, with what a missing column stands for."""
    n = len(series.time_ms)
    none = bytes(n)
    flags = {c: series.quality[c].data if c in series.quality else none for c in series.values}
    ages = series.age_ms.numbers() if series.age_ms is not None else [0] * n
    values = {c: column.numbers() for c, column in series.values.items()}
    return [
        Plain(
            time,
            ages[i],
            {c: (None if math.isnan(v[i]) else v[i], flags[c][i]) for c, v in values.items()},
        )
        for i, time in enumerate(series.time_ms.numbers())
    ]


@given(sources(), sources())
def test_merged_readings_keep_their_quality_and_age(a, b):
    merged = merge_series(packed(a), packed(b))
    channels = dict.fromkeys([*a[0], *b[0]])
    # A channel that a source lacks was not asked for there: missing, without a flag.
    expected = [
        Plain(r.time_ms, r.age_ms, {c: r.values.get(c, (None, 0)) for c in channels})
        for r in sorted([*a[1], *b[1]], key=lambda reading: reading.time_ms)
    ]
    assert plain(merged) == expected
    assert set(merged.quality) == {c for c in channels if any(r.values[c][1] for r in expected)}
    assert (merged.age_ms is None) == all(not reading.age_ms for reading in expected)


def counted(channels, readings):
    """What an aggregate says, one reading after another."""
    found = {}
    for channel in channels:
        values, bad, suspect = [], 0, 0
        for value, flags in (r.values[channel] for r in readings if channel in r.values):
            if flags & BAD:
                bad += 1
            else:
                assert value is not None
                values.append(value)
                suspect += flags != 0
        if values:
            mean = sum(values) / len(values)
            found[channel] = (len(values), min(values), mean, max(values), bad, suspect)
        elif bad:
            found[channel] = (0, None, None, None, bad, 0)
    return found


def numbers_of(aggregate):
    return {
        name: (c.count, c.min, pytest.approx(c.mean, abs=1e-9), c.max, c.bad, c.suspect)
        for name, c in aggregate.channels.items()
    }


def newest(channels, readings):
    """By channel the time of the newest value that is there and not bad, and what was read then."""
    found = {}
    for channel in channels:
        good = [
            (r.time_ms, value)
            for r in readings
            if channel in r.values
            and not (r.values[channel][1] & BAD)
            and (value := r.values[channel][0]) is not None
        ]
        if good:
            last_ms = max(time_ms for time_ms, _ in good)
            found[channel] = last_ms, {value for time_ms, value in good if time_ms == last_ms}
    return found


def tells_the_newest(aggregate, channels, readings):
    expected = newest(channels, readings)
    told = {name: c for name, c in aggregate.channels.items() if c.last_ms is not None}
    assert told.keys() == expected.keys()
    for name, (last_ms, values) in expected.items():
        assert told[name].last_ms == last_ms
        assert told[name].last in values
    return True


@given(st.lists(sources(), min_size=1, max_size=4), st.randoms())
def test_the_newest_value_is_that_of_all_sensors_in_any_order(parts, random):
    channels = dict.fromkeys(name for names, _ in parts for name in names)
    readings = [reading for _, some in parts for reading in some]
    aggregates = [aggregate_of(packed(part)) for part in parts]
    assert tells_the_newest(aggregate_of(merge_series(*map(packed, parts))), channels, readings)
    assert tells_the_newest(merged := reduce(merge_aggregates, aggregates), channels, readings)
    random.shuffle(aggregates)
    other = reduce(merge_aggregates, aggregates)
    assert {n: (c.last, c.last_ms) for n, c in other.channels.items()} == {
        n: (c.last, c.last_ms) for n, c in merged.channels.items()
    }


def test_a_node_of_an_earlier_version_leaves_the_newest_value_unknown():
    """Its own may be newer than what the others tell."""
    old, new, dead = (
        one(2, 1.0, 1.5, 2.0),
        one(1, 1.0, 1.0, 1.0, 0, 0, 1.0, 1),
        one(0, None, None, None, 3),
    )
    for parts in ((old, new, new), (new, old, new), (new, new, old, dead), (dead, old)):
        merged = reduce(merge_aggregates, parts).channels["x"]
        assert (merged.last, merged.last_ms) == (None, None)
    for parts in ((dead, new), (new, dead), (dead, new, dead)):
        merged = reduce(merge_aggregates, parts).channels["x"]
        assert (merged.last, merged.last_ms) == (1.0, 1)


def test_a_time_that_no_node_can_mean_is_not_told():
    series = m.Series(Int64Column.of([1, 2**60, 3]), {"x": Float32Column.of([1.0, 2.0, math.nan])})
    assert aggregate_of(series).channels["x"].last_ms is None


@given(sources())
def test_an_aggregate_of_a_series_leaves_out_what_is_bad_and_counts_it(source):
    assert numbers_of(aggregate_of(packed(source))) == counted(*source)


@given(sources(), sources())
def test_merging_and_aggregating_come_to_the_same_in_any_order(a, b):
    parts = aggregate_of(packed(a)), aggregate_of(packed(b))
    expected = counted(dict.fromkeys([*a[0], *b[0]]), [*a[1], *b[1]])
    assert numbers_of(aggregate_of(merge_series(packed(a), packed(b)))) == expected
    assert numbers_of(merge_aggregates(*parts)) == expected


def test_infinite_readings_are_none():
    """The sum of both infinities raises, and a node may send anything."""
    values = Float32Column.of([math.inf, 1.0, -math.inf, 3.0])
    series = m.Series(Int64Column.of([1, 2, 3, 4]), {"x": values})
    found = m.ChannelAggregate(2, 1.0, 2.0, 3.0, last=3.0, last_ms=4)
    assert aggregate_of(series).channels == {"x": found}


def one(*numbers):
    return m.Aggregate(0, 1, {"x": m.ChannelAggregate(*numbers)})


def test_a_channel_with_nothing_but_bad_readings_is_told_without_numbers():
    broken = packed((["x", "y"], [Plain(n, 0, {"x": (85.0, 8), "y": (n, 0)}) for n in (1, 2)]))
    dead = m.ChannelAggregate(0, bad=2)
    alive = m.ChannelAggregate(2, 1.0, 1.5, 2.0, last=2.0, last_ms=2)
    assert aggregate_of(broken).channels == {"x": dead, "y": alive}
    good = m.ChannelAggregate(1, 20.0, 20.0, 20.0)
    parts = [m.Aggregate(0, 1, {"x": channel}) for channel in (dead, good, dead)]
    assert reduce(merge_aggregates, parts).channels == {"x": replace(good, bad=4)}
    assert merge_aggregates(parts[0], parts[2]).channels == {"x": m.ChannelAggregate(0, bad=4)}


def test_an_area_that_keeps_no_channel_is_missing_for_want_of_data():
    spike = packed((["y"], [Plain(1, 0, {"y": (9.0, 0)})]))
    good = packed((["x"], [Plain(1, 0, {"x": (20.0, 0)})]))
    answer = m.Answer(
        "q",
        "partial",
        1.0,
        False,
        m.Coverage(2, 3),
        (m.AreaResult("a", spike), m.AreaResult("b", good)),
        (m.Missing("c", "timeout"),),
    )
    asked = {"form": "aggregate", "trigger": "y > 3", "channels": ("x",)}
    watch = Watch("w", ("a",), m.Slo(99, 500), "event", 1.0, **asked)
    told = as_asked(answer, watch)
    assert [result.area for result in told.results] == ["b"]
    assert told.missing == (m.Missing("a", "no_data"), m.Missing("c", "timeout"))
    assert told.coverage == m.Coverage(1, 3)
    whole = replace(answer, status="complete", slo_met=True, coverage=m.Coverage(2, 2), missing=())
    told = as_asked(whole, watch)
    assert (told.status, told.slo_met, told.coverage) == ("partial", False, m.Coverage(1, 2))
    assert as_asked(whole, replace(watch, channels=())).status == "complete"


def test_counts_and_means_stay_within_what_a_message_may_hold():
    most = one(MAX_COUNTED, 1e300, 1e300, 1e300, MAX_COUNTED, MAX_COUNTED)
    assert merge_aggregates(most, most) == most
    least = one(MAX_COUNTED, -1e300, -1e300, -1e300)
    assert merge_aggregates(most, least).channels["x"].mean == 0.0
    assert merge_aggregates(one(1, -1e300, -1e300, -1e300), most).channels["x"].mean <= 1e300


def test_channels_that_only_the_trigger_needed_go_with_their_quality():
    source = (["x", "y"], [Plain(1, 7, {"x": (1.0, 8), "y": (2.0, 32)})])
    answer = m.Answer(
        "q", "complete", 1.0, True, m.Coverage(1, 1), (m.AreaResult("a", packed(source)),)
    )
    watch = Watch("w", ("a",), m.Slo(99, 500), "event", 1.0, trigger="x > 3", channels=("y",))
    [result] = as_asked(answer, watch).results
    assert result.series == packed((["y"], [Plain(1, 7, {"y": (2.0, 32)})]))
    [result] = as_asked(answer, replace(watch, form="aggregate")).results
    there = m.ChannelAggregate(1, 2.0, 2.0, 2.0, suspect=1, last=2.0, last_ms=1)
    assert result.aggregate.channels == {"y": there}
