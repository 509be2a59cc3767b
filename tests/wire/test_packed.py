"""Packed columns: numbers to bytes and back, through both codecs, and what is refused."""

import random
import struct

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.wire.codec import JSON, MESSAGEPACK, Decoder, WireError, encode
from agent.wire.messages import Series
from agent.wire.node_messages import SubtaskResult
from agent.wire.packed import Float32Column, Int64Column, UInt8Column, UInt32Column
from tests.oracles import json_numbers
from tests.wire.samples import SAMPLES

# The columns of integers: how `struct` writes their numbers, and the least and the most of them.
INTEGERS = {
    UInt8Column: ("<B", 0, 2**8 - 1),
    UInt32Column: ("<I", 0, 2**32 - 1),
    Int64Column: ("<q", -(2**63), 2**63 - 1),
}
DECODER = Decoder(SubtaskResult)
FAULTY = SAMPLES["subtask_faulty"]


@pytest.mark.parametrize("kind", INTEGERS)
@given(st.data())
def test_integers_are_little_endian_bytes_and_come_back(kind, data):
    form, least, most = INTEGERS[kind]
    numbers = data.draw(st.lists(st.integers(least, most)))
    column = kind.of(numbers)
    assert column.data == b"".join(struct.pack(form, number) for number in numbers)
    assert len(column) == len(numbers)
    assert column.numbers().tolist() == msgspec.json.decode(column.json()) == numbers
    assert column.json() == json_numbers.integers(numbers)
    assert kind(column.data) == kind.from_json(numbers) == column


@given(st.lists(st.floats(width=32)))
def test_floats_in_json_are_what_python_makes_of_seven_digits(numbers):
    column = Float32Column.of(numbers)
    assert column.json() == json_numbers.floats(column.data)


def test_floats_of_all_sizes_in_json_are_what_python_makes_of_seven_digits():
    draw = random.Random(5)
    bits = [draw.getrandbits(32) for _ in range(200_000)]
    # Ties of the seventh digit, powers of ten and their neighbours, what sensors tell.
    bits += [n for e in range(-45, 39) for n in _around(float(f"1e{e}"))]
    data = struct.pack(f"<{len(bits)}I", *bits)
    data += struct.pack("<40000f", *[n / 100 for n in range(-20_000, 20_000)])
    data += struct.pack(
        "<20000f", *[draw.randrange(2**24) / 2**k for k in range(20) for _ in range(1_000)]
    )
    column = Float32Column(data)
    assert column.json() == json_numbers.floats(column.data)


def _around(size):
    [bits] = struct.unpack("<I", struct.pack("<f", size))
    return [max(0, bits + off) for off in range(-3, 4)]


@pytest.mark.parametrize("kind", INTEGERS)
def test_what_is_no_integer_in_range_is_refused(kind):
    _, least, most = INTEGERS[kind]
    for wrong in (least - 1, most + 1, 1.5, None, "1", [1], {}):
        with pytest.raises(ValueError, match="expected an array of numbers"):
            kind.from_json([0, wrong])


@given(
    st.lists(st.tuples(st.integers(0, 255), st.integers(0, 2**32 - 1))),
    st.sampled_from([JSON, MESSAGEPACK]),
)
def test_quality_and_age_survive_both_codecs(rows, codec):
    flags, ages = [flags for flags, _ in rows], [age for _, age in rows]
    series = Series(
        Int64Column.of(range(len(rows))),
        {"x": Float32Column.of([0.5] * len(rows))},
        quality={"x": UInt8Column.of(flags)},
        age_ms=UInt32Column.of(ages),
    )
    sent = SubtaskResult(1, "ok", 0.0, 0.0, series=series)
    assert DECODER.decode(encode(sent, codec)) == (sent, codec)
    body = encode(sent, codec)[3:]
    if codec == JSON:
        found = msgspec.json.decode(body)["series"]
        assert (found["quality"]["x"], found["age_ms"]) == (flags, ages)
    else:
        found = msgspec.msgpack.decode(body)["series"]
        packed = b"".join(struct.pack("<I", age) for age in ages)
        assert (found["quality"]["x"], found["age_ms"]) == (bytes(flags), packed)


def changed(codec, **columns):
    """The frame of a result with two faulty readings, and other columns in its series."""
    frame = encode(FAULTY, codec)
    if codec == JSON:
        body = msgspec.json.decode(frame[3:])
        body["series"].update(columns)
        return frame[:3] + msgspec.json.encode(body)
    body = msgspec.msgpack.decode(frame[3:])
    body["series"].update(columns)
    return frame[:3] + msgspec.msgpack.encode(body)


@pytest.mark.parametrize(
    ("codec", "columns", "line"),
    [
        (MESSAGEPACK, {"age_ms": b"12345"}, "4-byte numbers has 5 bytes - at `$.series.age_ms`"),
        (MESSAGEPACK, {"age_ms": b"1234"}, "the columns of a series differ in length"),
        (MESSAGEPACK, {"age_ms": "12345678"}, "expected a packed column"),
        (MESSAGEPACK, {"quality": {"temperature": b"1"}}, "the columns of a series differ"),
        (MESSAGEPACK, {"quality": {"temperature": b"123"}}, "the columns of a series differ"),
        (MESSAGEPACK, {"quality": {"temperature": None}}, "expected a packed column"),
        (MESSAGEPACK, {"quality": {"No Channel": b"12"}}, "regex"),
        (MESSAGEPACK, {"quality": b"12"}, "Expected `object`, got `bytes` - at `$.series.quality`"),
        (JSON, {"quality": {"temperature": [0]}}, "the columns of a series differ in length"),
        (JSON, {"quality": {"temperature": [0, 256]}}, "expected an array of numbers"),
        (JSON, {"quality": {"temperature": [0, -1]}}, "expected an array of numbers"),
        (JSON, {"quality": {"temperature": [0, 1.5]}}, "expected an array of numbers"),
        (JSON, {"quality": {"temperature": [0, None]}}, "expected an array of numbers"),
        (JSON, {"quality": {"temperature": "AAA="}}, "expected a packed column"),
        (JSON, {"age_ms": [0, 2**32]}, "expected an array of numbers"),
        (JSON, {"age_ms": [0, -1]}, "expected an array of numbers"),
        (JSON, {"age_ms": [0, 1e3]}, "expected an array of numbers"),
        (JSON, {"age_ms": [0, "1"]}, "expected an array of numbers"),
        (JSON, {"age_ms": 1}, "expected a packed column"),
    ],
)
def test_malformed_columns_are_refused_in_one_line(codec, columns, line):
    with pytest.raises(WireError) as refused:
        DECODER.decode(changed(codec, **columns))
    assert line in str(refused.value)
    assert "\n" not in str(refused.value)
    assert refused.value.codec == codec
