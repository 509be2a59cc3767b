"""Statistics of readings in buckets, against lists of all values."""

import math
from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from _core.columns.buckets import BucketSums
from _core.columns.series import summary
from agent.wire.packed import Int64Column
from tests.oracles import buckets as oracle

# Bit 7 is no reason to leave a value out.
BAD = 0b0111_1111
FLAGS = [0, 0, 0, 1, 4, 128]
TIMES = st.integers(-20, 40) | st.integers(-(2**63), 2**63 - 1)
# Sums of these are exact, so that means are compared as they are.
VALUES = st.integers(-(2**20), 2**20).map(float) | st.sampled_from([math.nan, math.inf, -0.0])
READINGS = st.lists(st.tuples(TIMES, VALUES, st.sampled_from(FLAGS)), max_size=30)
GRIDS = st.tuples(st.integers(-20, 20), st.integers(1, 9), st.integers(1, 12))
ROWS = ("f", "f", "f")


def packed(readings):
    """Times, values and flags as `BucketSums.add` takes them."""
    times = Int64Column.of([time for time, _, _ in readings]).data
    values = array("f", [value for _, value, _ in readings]).tobytes()
    return times, values, bytes(flags for _, _, flags in readings)


def rows(sums):
    """The columns of a `BucketSums` as those of the oracle."""
    numbers = [array(code) for code in "IfffII"]
    for column, data in zip(numbers, sums.columns(), strict=True):
        column.frombytes(bytes(4 * sums.count) if data is None else data)
    return list(zip(*numbers, strict=True))


def narrowed(found):
    """A row of the oracle with its mean as a 32-bit float."""
    return [(n, low, array("f", [mean])[0], high, *rest) for n, low, mean, high, *rest in found]


@given(GRIDS, st.lists(READINGS, max_size=4), st.booleans(), st.booleans())
def test_buckets_are_those_of_all_values(grid, parts, flagged, gaps_are_bad):
    sums, naive = BucketSums(*grid), oracle.Sums(*grid)
    for readings in parts:
        times, values, flags = packed(readings)
        sums.add(times, values, flags if flagged else None, BAD, gaps_are_bad=gaps_are_bad)
        unflagged = [(time, value, 0) for time, value, _ in readings]
        naive.add(readings if flagged else unflagged, BAD, gaps_are_bad=gaps_are_bad)
    assert repr(rows(sums)) == repr(narrowed(naive.columns())) or rows(sums) == pytest.approx(
        narrowed(naive.columns()), nan_ok=True
    )


@given(GRIDS, st.lists(READINGS, min_size=1, max_size=4))
def test_buckets_of_parts_merge_to_those_of_all(grid, parts):
    """Each part has its own range of the same grid, as nodes whose clocks differ do."""
    start_ms, length_ms, count = grid
    together = BucketSums(start_ms, length_ms, count)
    naive = oracle.Sums(start_ms, length_ms, count)
    for shift, readings in enumerate(parts, -1):
        part = BucketSums(start_ms + shift * length_ms, length_ms, count)
        part.add(*packed(readings), BAD, gaps_are_bad=True)
        together.add_buckets(part.start_ms, *part.columns())
        naive.add([each for each in readings if _within(part, each[0])], BAD, gaps_are_bad=True)
    found, expected = rows(together), narrowed(naive.columns())
    for one, other in zip(found, expected, strict=True):
        assert (one[0], *one[4:]) == (other[0], *other[4:])
        assert one[1:4] == pytest.approx(other[1:4], rel=1e-6, abs=1e-6, nan_ok=True)


def _within(sums, time_ms):
    return 0 <= (time_ms - sums.start_ms) // sums.length_ms < sums.count


@given(GRIDS, READINGS)
def test_a_total_stands_for_the_readings_of_one_bucket(grid, readings):
    sums, whole = BucketSums(*grid), BucketSums(*grid)
    for each in readings:
        times, values, flags = packed([each])
        whole.add(times, values, flags, BAD, gaps_are_bad=True)
        count, _, _, low, high, total, suspect = summary(values, flags, BAD)
        sums.add_total(each[0], count, low, high, total, 1 - count, suspect)
    assert sums.columns() == whole.columns()


def test_a_day_of_readings_loses_no_small_value():
    values = [1e30, 1.0, 1.0, -1e30]
    sums = BucketSums(0, 10, 1)
    sums.add(Int64Column.of(range(4)).data, array("f", values).tobytes(), None, BAD, gaps_are_bad=1)
    assert rows(sums) == [(4, -array("f", [1e30])[0], 0.5, array("f", [1e30])[0], 0, 0)]


def test_columns_of_zeros_are_left_out():
    sums = BucketSums(0, 10, 2)
    assert sums.columns()[4:] == (None, None)
    sums.add(Int64Column.of([3, 4]).data, bytes(8), b"\x01\x80", BAD, gaps_are_bad=True)
    assert sums.columns()[4:] == (bytes([1, 0, 0, 0, 0, 0, 0, 0]),) * 2


def test_counts_do_not_overflow():
    sums = BucketSums(0, 10, 1)
    most = array("I", [2**32 - 1]).tobytes()
    one = array("f", [1.0]).tobytes()
    for _ in range(3):
        sums.add_buckets(0, most, one, one, one, most, most)
    assert rows(sums) == [(2**32 - 1, 1.0, 1.0, 1.0, 2**32 - 1, 2**32 - 1)]


def test_buckets_that_state_no_numbers_are_left_out():
    sums = BucketSums(0, 10, 1)
    some, one, none = (
        array(code, [x]).tobytes() for code, x in (("I", 3), ("f", 1), ("f", math.nan))
    )
    for low, mean, high in ((none, one, one), (one, none, one), (one, one, none)):
        sums.add_buckets(0, some, low, mean, high, some, some)
    assert rows(sums)[0][0] == 0
    assert rows(sums)[0][4:] == (9, 0)


@pytest.mark.parametrize(
    "grid", [(0, 0, 1), (0, 1, 0), (0, -1, 1), (2**61, 1, 1), (-(2**61), 1, 1), (0, 2**60, 2)]
)
def test_grids_that_are_none_are_refused(grid):
    with pytest.raises((ValueError, OverflowError)):
        BucketSums(*grid)


def test_columns_of_different_lengths_are_refused():
    sums = BucketSums(0, 10, 2)
    for times, values, flags in ((8, 8, 1), (8, 4, 2), (16, 8, 1)):
        with pytest.raises(ValueError, match="not as many"):
            sums.add(bytes(times), bytes(values), bytes(flags), BAD, gaps_are_bad=True)
    for lengths in ((4, 8, 4, 4, 4, 4), (4, 4, 0, 4, 4, 4), (4, 4, 4, 4, 4, 3)):
        with pytest.raises(ValueError, match="differ in length"):
            sums.add_buckets(0, *map(bytes, lengths))
