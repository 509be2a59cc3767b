"""Merge and statistics of columns of readings, against plain Python."""

import math
from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from _core.columns.series import Merge, bounds, summary
from agent.wire.packed import Float32Column, Int64Column, UInt8Column, UInt32Column
from tests.oracles import series as oracle

# Bit 7 is no reason to leave a value out.
BAD = 0b0111_1111
FLAGS = [0, 0, 0, 1, 4, 128]
readings = st.lists(st.tuples(st.floats(width=32), st.sampled_from(FLAGS)), max_size=30)
some_times = st.lists(st.integers(-5, 20) | st.integers(-(2**63), 2**63 - 1), max_size=20)
KINDS = {
    Int64Column: st.integers(-(2**63), 2**63 - 1),
    Float32Column: st.floats(width=32, allow_nan=False),
    UInt32Column: st.integers(0, 2**32 - 1),
    UInt8Column: st.integers(0, 255),
}


@given(some_times)
def test_the_bounds_are_those_of_the_times_in_any_order(times):
    expected = (min(times), max(times)) if times else (0, 0)
    assert bounds(Int64Column.of(times).data) == Int64Column.of(times).bounds == expected


@given(st.data(), st.lists(some_times, max_size=5), st.booleans(), st.sampled_from([*KINDS]))
def test_a_column_is_merged_as_by_a_stable_sort(data, times, in_order, kind):
    if in_order:
        times = [sorted(part) for part in times]
    items = KINDS[kind]
    parts = [
        data.draw(st.none() | st.lists(items, min_size=len(part), max_size=len(part)))
        for part in times
    ]
    default = data.draw(items)
    merge = Merge([Int64Column.of(part).data for part in times], ascending=in_order)
    assert merge.times == Int64Column.of(sorted(time for part in times for time in part)).data
    columns = [None if part is None else kind.of(part).data for part in parts]
    expected = oracle.merged_column(times, parts, default)
    assert merge.column(columns, kind.of([default]).data) == kind.of(expected).data


@pytest.mark.parametrize("count", [2, 3, 257, 5000])
def test_many_stretches_are_merged(count):
    times = [(7919 * i) % count for i in range(count)]
    merge = Merge([Int64Column.of(times).data])
    assert list(Int64Column(merge.times).numbers()) == sorted(times)
    places = merge.column([UInt32Column.of(range(count)).data], bytes(4))
    assert list(UInt32Column(places).numbers()) == sorted(range(count), key=times.__getitem__)


def test_columns_that_do_not_fit_their_times_are_refused():
    merge = Merge([Int64Column.of([2, 1]).data, Int64Column.of([3]).data])
    for parts in ([bytes(8), bytes(8)], [bytes(4), bytes(4)], [bytes(7), None]):
        with pytest.raises(ValueError, match="differ in length"):
            merge.column(parts, bytes(4))
    with pytest.raises(ValueError, match="items of 2 bytes"):
        merge.column([None, None], bytes(2))
    with pytest.raises(ValueError, match="argument"):
        merge.column([None], bytes(4))
    assert Merge([]).times == Merge([]).column([], bytes(4)) == b""


@given(readings, st.booleans())
def test_a_summary_is_that_of_the_values_that_are_there(rows, flagged):
    values = array("f", [value for value, _ in rows]).tobytes()
    flags = bytes(flag for _, flag in rows) if flagged else None
    places = [
        i for i, (x, flag) in enumerate(rows) if math.isfinite(x) and not (flagged and flag & BAD)
    ]
    there = [rows[i][0] for i in places]
    *found, total, suspect = summary(values, flags, BAD)
    if there:
        expected = [len(there), places[0], places[-1], min(there), max(there)]
        # 0.0 and -0.0 are equal, and the first of equal values is told.
        assert repr(found) == repr(expected)
    else:
        assert found == [0, 0, 0, 0.0, 0.0]
    assert total == pytest.approx(
        math.fsum(there), rel=1e-12, abs=1e-12 * max(map(abs, there), default=0)
    )
    assert suspect == sum(rows[i][1] > 0 for i in places if flagged)


def test_a_total_loses_no_small_value_beside_large_ones():
    values = array("f", [1e30, 1.0, 1.0, -1e30]).tobytes()
    assert summary(values, None, BAD)[5] == 2.0


def test_flags_for_other_values_are_refused():
    for flags in (b"", b"\0", bytes(3)):
        with pytest.raises(ValueError, match="not as many flags"):
            summary(bytes(8), flags, BAD)
