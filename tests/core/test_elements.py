"""The count of MessagePack's values, against a decoder."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from _core.wire.elements import elements

NUMBERS = st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False)
LEAVES = st.none() | st.booleans() | NUMBERS | st.text(max_size=300) | st.binary(max_size=300)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=40) | st.dictionaries(st.text(), inner, max_size=40),
    max_leaves=200,
)
MOST = 1 << 40


def number_of(value):
    """Values in a decoded one, itself included."""
    if isinstance(value, list):
        return 1 + sum(map(number_of, value))
    if isinstance(value, dict):
        return 1 + sum(1 + number_of(each) for each in value.values())
    return 1


@given(VALUES, st.binary(max_size=5))
def test_as_many_are_counted_as_a_decoder_finds(value, before):
    frame = before + msgspec.msgpack.encode(value)
    assert elements(frame, len(before), MOST) == number_of(value)
    assert elements(memoryview(frame + b"\x01"), len(before), MOST) == number_of(value)


@pytest.mark.parametrize("size", [0, 15, 16, 255, 256, 65_535, 65_536])
def test_each_form_of_a_length_is_read(size):
    for value, expected in (
        ("a" * size, 1),
        (b"a" * size, 1),
        ([1] * size, 1 + size),
        (dict.fromkeys(map(str, range(size)), 1), 1 + 2 * size),
        (msgspec.msgpack.Ext(5, b"a" * size), 1),
    ):
        assert elements(msgspec.msgpack.encode([value, 1]), 0, MOST) == 2 + expected


def test_extensions_of_fixed_lengths_are_passed_over():
    for size in (1, 2, 4, 8, 16):
        value = [msgspec.msgpack.Ext(7, b"\x91" * size), "after"]
        assert elements(msgspec.msgpack.encode(value), 0, MOST) == 3


@given(VALUES, st.integers(0, 50))
def test_counting_ends_above_the_most(value, most):
    found = elements(msgspec.msgpack.encode(value), 0, most)
    assert found == min(number_of(value), most + 1)


@given(st.binary(max_size=200), st.integers(0, 250))
def test_whatever_the_bytes_are_no_more_is_counted_than_there_is(frame, start):
    assert elements(frame, start, MOST) <= max(0, len(frame) - start)


@given(VALUES, st.data())
def test_of_a_frame_that_is_cut_off_what_is_there_is_counted(value, data):
    frame = msgspec.msgpack.encode(value)
    cut = data.draw(st.integers(0, len(frame)))
    assert elements(frame[:cut], 0, MOST) <= number_of(value)
