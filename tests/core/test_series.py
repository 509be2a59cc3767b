"""What compiled code tells of a column of readings, against plain Python."""

import math
import struct
from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from _core.columns.series import summary, those_there

# Bit 7 is no reason to leave a value out.
BAD = 0b0111_1111
readings = st.lists(
    st.tuples(st.floats(width=32), st.sampled_from([0, 0, 0, 1, 4, 128])), max_size=30
)


@given(readings, st.booleans())
def test_a_summary_is_that_of_the_values_that_are_there(rows, flagged):
    values = array("f", [value for value, _ in rows]).tobytes()
    flags = bytes(flag for _, flag in rows) if flagged else None
    places = [
        i for i, (x, flag) in enumerate(rows) if math.isfinite(x) and not (flagged and flag & BAD)
    ]
    there = [rows[i][0] for i in places]
    found = summary(values, flags, BAD)
    if there:
        expected = (len(there), places[0], places[-1], min(there), max(there))
        # 0.0 and -0.0 are equal, and the first of equal values is told.
        assert repr(found) == repr(expected)
    else:
        assert found == (0, 0, 0, 0.0, 0.0)
    assert those_there(values, flags, BAD) == struct.pack(f"={len(there)}f", *there)


def test_flags_for_other_values_are_refused():
    for flags in (b"", b"\0", bytes(3)):
        with pytest.raises(ValueError, match="not as many flags"):
            summary(bytes(8), flags, BAD)
        with pytest.raises(ValueError, match="not as many flags"):
            those_there(bytes(8), flags, BAD)
