"""Merging results of an area, against a plain list of readings."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from agent.scheduling import aggregation
from agent.scheduling.aggregation import (
    merge_aggregates,
    merge_missing,
    merge_results,
    merge_series,
    unaccounted,
)
from agent.wire import messages as m
from agent.wire.areas import overlaps
from agent.wire.base import MAX_COUNTED
from agent.wire.packed import Float32Column, Int64Column, UInt8Column, UInt32Column
from tests.oracles import series as oracle

half = st.integers(-200, 200).map(lambda n: n / 2)
rows = st.lists(st.tuples(st.integers(0, 50), half), min_size=1, max_size=20).map(
    lambda r: sorted(r, key=lambda row: row[0])
)


def series(readings, channel="x"):
    return m.Series(
        Int64Column.of([t for t, _ in readings]),
        {channel: Float32Column.of([v for _, v in readings])},
    )


def aggregate(readings, channel="x"):
    values = [v for _, v in readings]
    return m.Aggregate(
        readings[0][0],
        readings[-1][0],
        {
            channel: m.ChannelAggregate(
                len(values), min(values), sum(values) / len(values), max(values)
            )
        },
    )


@given(rows, rows)
def test_series_are_interleaved_by_time_with_the_first_first(a, b):
    merged = merge_series(series(a), series(b))
    expected = sorted(a + b, key=lambda row: row[0])
    got = list(zip(merged.time_ms.numbers(), merged.values["x"].numbers(), strict=True))
    assert got == expected


@given(rows, rows)
def test_a_channel_that_one_source_lacks_is_missing_there(a, b):
    merged = merge_series(series(a, "x"), series(b, "y"))
    x, y = merged.values["x"].numbers(), merged.values["y"].numbers()
    assert len(x) == len(y) == len(a) + len(b)
    assert sum(not math.isnan(v) for v in x) == len(a)
    assert all(math.isnan(p) != math.isnan(q) for p, q in zip(x, y, strict=True))


@given(rows, rows)
def test_what_is_no_replay_was_first_recorded_when_it_was_taken(a, b):
    recorded = replace(series(a), source_time_ms=Int64Column.of([t - 1000 for t, _ in a]))
    expected = [t - 1000 for t, _ in a] + [t for t, _ in b]
    for merged in (merge_series(recorded, series(b)), merge_series(series(b), recorded)):
        assert sorted(merged.source_time_ms.numbers()) == sorted(expected)
        pairs = zip(merged.time_ms.numbers(), merged.source_time_ms.numbers(), strict=True)
        assert {t - source for t, source in pairs} == {0, 1000}
    assert merge_series(series(a), series(b)).source_time_ms is None


@st.composite
def any_series(draw):
    """With or without source times, ages, flags; mostly in order of time, but not always."""
    readings = draw(st.lists(st.tuples(st.integers(0, 30), half), max_size=12))
    if draw(st.booleans()):
        readings.sort(key=lambda row: row[0])
    one = series(readings, draw(st.sampled_from("xy")))
    count = len(readings)
    flags = st.binary(min_size=count, max_size=count)
    return replace(
        one,
        source_time_ms=draw(st.sampled_from([None, Int64Column.of(range(count))])),
        age_ms=draw(st.sampled_from([None, UInt32Column.of(range(100, 100 + count))])),
        quality={name: UInt8Column(draw(flags)) for name in one.values if draw(st.booleans())},
    )


@given(st.lists(any_series(), min_size=1, max_size=4))
def test_series_are_merged_as_reading_by_reading(parts):
    merged = merge_series(*parts)
    # NaN is not equal to itself.
    assert repr(oracle.rows(merged)) == repr(oracle.merged(*parts))
    assert bool(merged.source_time_ms) == any(part.source_time_ms for part in parts)
    assert (merged.age_ms is None) == (not any(part.age_ms for part in parts))


@given(rows, rows)
def test_aggregates_combine_to_the_aggregate_of_all(a, b):
    merged = merge_aggregates(aggregate(a), aggregate(b))
    expected = aggregate(sorted(a + b, key=lambda row: row[0]))
    assert (merged.first_ms, merged.last_ms) == (expected.first_ms, expected.last_ms)
    got, want = merged.channels["x"], expected.channels["x"]
    assert (got.count, got.min, got.max) == (want.count, want.min, want.max)
    assert got.mean == pytest.approx(want.mean, abs=1e-9)


def test_results_and_gaps_come_once_an_area_sorted():
    results = merge_results(
        [m.AreaResult(a, aggregate=aggregate([(1, 2.0)])) for a in ("b/2", "b/1", "b/2")]
    )
    assert [r.area for r in results] == ["b/1", "b/2"]
    assert results[1].aggregate.channels["x"].count == 2
    gaps = [m.Missing("b/3", "timeout"), m.Missing("b/1", "no_data"), m.Missing("b/3", "no_node")]
    assert merge_missing(gaps, results) == (m.Missing("b/3", "timeout"),)


def test_nobody_for_an_area_is_no_gap_where_rooms_below_it_are_known():
    answered = [m.AreaResult("b/1/x", aggregate=aggregate([(1, 2.0)]))]
    gaps = [m.Missing("b/1", "no_node"), m.Missing("b/2", "no_node"), m.Missing("b/3", "timeout")]
    assert merge_missing(gaps, answered) == (gaps[1], gaps[2])
    below = [m.Missing("b/1/x/desk", "no_node")]
    assert merge_missing(below, answered) == tuple(below), "a room does not answer for a desk"


paths = st.lists(st.sampled_from("ab"), min_size=1, max_size=4).map("/".join)


@given(st.lists(paths, max_size=6), st.lists(paths, max_size=6))
def test_unaccounted_are_the_areas_that_overlap_nothing_known(expected, known):
    naive = [e for e in expected if not any(overlaps(e, k) for k in known)]
    assert unaccounted(expected, known) == naive


def test_areas_that_are_known_themselves_are_not_looked_for(monkeypatch):
    monkeypatch.setattr(aggregation, "AreaSet", None)
    assert unaccounted(["b1/r2", "b1/r1"], ["b1/r1", "b1/r2", "b1/r3"]) == []


def test_counts_stay_within_what_a_message_may_hold():
    most = m.Aggregate(0, 1, {"x": m.ChannelAggregate(MAX_COUNTED, 1.0, 1.0, 1.0)})
    merged = merge_aggregates(most, most)
    assert merged.channels["x"].count == MAX_COUNTED
    assert merged.channels["x"].mean == 1.0
