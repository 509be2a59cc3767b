"""Frames: round trips, golden bytes, versions, and what is refused."""

import itertools
import random
from pathlib import Path
from typing import get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.wire.codec import JSON, MESSAGEPACK, Decoder, WireError, encode, glimpse, glimpse_areas
from agent.wire.messages import Query, Series, Slo, Window
from agent.wire.packed import Float32Column, Int64Column
from agent.wire.unions import PublicRequest
from tests.wire.samples import SAMPLES, UNIONS

GOLDEN = Path(__file__).parent / "golden"
CODECS = {"json": JSON, "msgpack": MESSAGEPACK}


def decoder_for(message):
    for union in UNIONS:
        if type(message) in get_args(union):
            return Decoder(union)
    raise LookupError(type(message))


def test_every_message_has_a_sample():
    kinds = {kind for union in UNIONS for kind in get_args(union)}
    assert kinds == {type(message) for message in SAMPLES.values()}


@pytest.mark.parametrize("name", SAMPLES)
@pytest.mark.parametrize("codec", CODECS)
def test_golden_frames_of_every_released_version_are_understood(name, codec):
    versions = sorted(GOLDEN.iterdir())
    assert versions
    for version in versions:
        path = version / f"{name}.{codec}"
        if path.exists():
            message, found = decoder_for(SAMPLES[name]).decode(path.read_bytes())
            assert message == SAMPLES[name]
            assert found == CODECS[codec]


@pytest.mark.parametrize("name", SAMPLES)
@pytest.mark.parametrize("codec", CODECS)
def test_the_current_version_writes_its_golden_frames(name, codec):
    written = encode(SAMPLES[name], CODECS[codec])
    golden = (GOLDEN / f"1.0/{name}.{codec}").read_bytes()
    if codec == "json":
        assert written == golden
    else:
        # Of a kind with sixteen fields the map has another header, which means the same.
        bodies = [msgspec.msgpack.decode(frame[3:]) for frame in (written, golden)]
        assert written[:3] == golden[:3]
        assert msgspec.msgpack.encode(bodies[0]) == msgspec.msgpack.encode(bodies[1])


@pytest.mark.parametrize("codec", [JSON, MESSAGEPACK])
def test_a_later_minor_version_with_unknown_fields_is_understood(codec):
    frame = encode(SAMPLES["query"], codec)
    body = msgspec.json.decode(frame[3:]) if codec == JSON else msgspec.msgpack.decode(frame[3:])
    body["urgency"] = {"colour": "red"}
    packed = msgspec.json.encode(body) if codec == JSON else msgspec.msgpack.encode(body)
    message, _ = decoder_for(SAMPLES["query"]).decode(b"11" + codec + packed)
    assert message == SAMPLES["query"]


finite32 = st.floats(width=32, allow_nan=False, allow_infinity=False)


@given(
    st.lists(st.tuples(st.integers(0, 2**53), finite32), max_size=50),
    st.sampled_from([JSON, MESSAGEPACK]),
)
def test_a_series_survives_both_codecs_to_seven_digits(rows, codec):
    series = Series(
        Int64Column.of([t for t, _ in rows]), {"x": Float32Column.of([v for _, v in rows])}
    )
    result = msgspec.structs.replace(SAMPLES["subtask_result"], series=series)
    message, _ = decoder_for(result).decode(encode(result, codec))
    assert message.series.time_ms == series.time_ms
    got = message.series.values["x"].numbers()
    if codec == MESSAGEPACK:
        assert got.tobytes() == series.values["x"].numbers().tobytes()
    else:
        assert list(got) == pytest.approx(list(series.values["x"].numbers()), rel=1e-6, abs=1e-44)


@given(
    st.builds(
        Query,
        id=st.text(min_size=1, max_size=64),
        areas=st.lists(st.from_regex(r"[a-z0-9]{1,8}(/[a-z0-9]{1,8}){0,3}", fullmatch=True),
                       min_size=1, max_size=5).map(tuple),
        window=st.builds(Window, last_s=st.floats(0.001, 1e6), ago_s=st.floats(0, 1e6)),
        slo=st.builds(Slo, st.floats(0.1, 99.99), st.floats(1, 1e5)),
        label=st.text(max_size=32),
    ),
    st.sampled_from([JSON, MESSAGEPACK]),
)  # fmt: skip
def test_any_query_survives_both_codecs(query, codec):
    assert decoder_for(query).decode(encode(query, codec)) == (query, codec)


QUERY = Decoder(UNIONS[0], max_bytes=1_000)


@pytest.mark.parametrize(
    ("frame", "line"),
    [
        (b"", "empty frame, or a message of several: a message here is one frame"),
        (b"GET / HTTP/1.1", "not a Sanderling frame"),
        (b"20J{}", "version 2.0 is not spoken here; this is version 1.0"),
        (b"10X{}", "and a codec, b'10J' for JSON or b'10M' for MessagePack; got b'10X'"),
        (b"1xJ{}", "two version digits"),
        (b"10J", "Input data was truncated"),
        (b"10J" + b" " * 1_000, "over the limit of 1000"),
        (b'10J{"type":"answer"}', "Invalid value 'answer' - at `$.type`"),
        (b'10J{"type":"query"}', "missing required field `id`"),
        (b"10J" + b"[" * 900, "Expected `object`"),
        (b"10M\xc1", "MessagePack data is malformed"),
        (b'10J{"type":"query","id":"\xff"}', "text is not valid UTF-8"),
    ],
)
def test_what_cannot_be_read_is_refused_in_one_line(frame, line):
    with pytest.raises(WireError) as refused:
        QUERY.decode(frame)
    assert line in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"areas": []}, "length >= 1 - at `$.areas`"),
        ({"areas": ["b1//r1"]}, "areas[0] is no area: 'b1//r1'"),
        ({"areas": ["b1"] * 1_025}, "length <= 1024"),
        ({"window": {}}, "a window has either last_s"),
        ({"window": {"last_s": 0}}, "> 0"),
        ({"window": {"start_ms": 2, "end_ms": 2}}, "start_ms must be before its end_ms"),
        ({"window": {"start_ms": 2}}, "needs both start_ms and end_ms"),
        ({"slo": {"percentile": 100, "latency_ms": 5}}, "<= 99.9999"),
        ({"slo": {"percentile": 99, "latency_ms": float("inf")}}, "latency_ms"),
        ({"form": "picture"}, "Invalid enum value 'picture'"),
        ({"timeout_ms": -1}, "$.timeout_ms"),
    ],
)
def test_a_wrong_field_is_named_and_the_query_is_identified(change, line):
    frame = encode(SAMPLES["query"], MESSAGEPACK)
    body = msgspec.msgpack.decode(frame[3:]) | change
    with pytest.raises(WireError) as refused:
        Decoder(UNIONS[0]).decode(frame[:3] + msgspec.msgpack.encode(body))
    assert line in str(refused.value)
    assert refused.value.sender_id == "q1"
    assert refused.value.codec == MESSAGEPACK


def test_series_columns_of_different_length_are_refused():
    frame = encode(SAMPLES["subtask_result"], JSON).replace(b"[23.46,23.5]", b"[23.46]")
    with pytest.raises(WireError, match="differ in length"):
        decoder_for(SAMPLES["subtask_result"]).decode(frame)


def test_packed_bytes_that_are_no_whole_numbers_are_refused():
    frame = encode(SAMPLES["subtask_result"], MESSAGEPACK)
    body = msgspec.msgpack.decode(frame[3:])
    body["series"]["time_ms"] = b"1234567"
    with pytest.raises(WireError, match="8-byte numbers has 7 bytes"):
        decoder_for(SAMPLES["subtask_result"]).decode(frame[:3] + msgspec.msgpack.encode(body))


def mutated(frame: bytes, draw: random.Random) -> bytes:
    """A hostile neighbour of a good frame."""
    data = bytearray(frame)
    for _ in range(draw.randint(1, 4)):
        kind = draw.randrange(5)
        at = draw.randrange(len(data) + 1)
        if kind == 0 and data:
            data[at % len(data)] ^= 1 << draw.randrange(8)
        elif kind == 1:
            del data[at:]
        elif kind == 2:
            data[at:at] = draw.randbytes(draw.randint(1, 9))
        elif kind == 3:
            other = draw.choice(list(SAMPLES.values()))
            data[at:] = encode(other, draw.choice([JSON, MESSAGEPACK]))[at:]
        else:
            data[at : at + draw.randint(1, 9)] = b""
    return bytes(data)


def test_mutated_frames_are_decoded_or_refused_never_worse():
    draw = random.Random(20_261_121)
    frames = [encode(s, c) for s, c in itertools.product(SAMPLES.values(), CODECS.values())]
    decoders = [Decoder(union) for union in UNIONS]
    refused = 0
    for _ in range(20_000):
        frame = mutated(draw.choice(frames), draw)
        for decoder in decoders:
            try:
                message, codec = decoder.decode(frame)
            except WireError:
                refused += 1
            else:
                encode(message, codec)
    assert refused > 20_000


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("subtask_result", {"id": 2**53}),
        ("subtask_result", {"id": -1}),
        ("subtask_result", {"execution_ms": float("nan")}),
        ("subtask_result", {"aggregate": {"first_ms": 2**60, "last_ms": 0, "channels": {}}}),
        ("hello", {"running": [2**53]}),
        ("hello", {"node": "n1\n"}),
        ("hello", {"areas": ["b1/f4\n"]}),
        ("task", {"percentile": 100.0}),
        ("query", {"slo": {"percentile": 99.99999999999999, "latency_ms": 5}}),
        ("query", {"slo": {"percentile": 5e-324, "latency_ms": 5}}),
    ],
)
def test_numbers_and_names_out_of_bounds_are_refused(name, change):
    body = msgspec.msgpack.decode(encode(SAMPLES[name])[3:]) | change
    with pytest.raises(WireError):
        decoder_for(SAMPLES[name]).decode(b"10M" + msgspec.msgpack.encode(body))


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_an_aggregate_is_finite(value):
    aggregate = {"count": 1, "min": value, "mean": 0.0, "max": 0.0}
    body = msgspec.msgpack.decode(encode(SAMPLES["subtask_result"])[3:])
    body["aggregate"] = {"first_ms": 0, "last_ms": 0, "channels": {"x": aggregate}}
    with pytest.raises(WireError):
        decoder_for(SAMPLES["subtask_result"]).decode(b"10M" + msgspec.msgpack.encode(body))


def what(decoder, frame):
    try:
        return decoder.decode(frame)
    except WireError as error:
        return str(error), error.codec, error.sender_id


def test_a_frame_that_is_not_copied_out_of_its_socket_says_the_same():
    draw = random.Random(16)
    frames = [encode(s, c) for s, c in itertools.product(SAMPLES.values(), CODECS.values())]
    frames += [mutated(draw.choice(frames), draw) for _ in range(2_000)]
    frames.append(b'10J{"id":"a","x":[' + b"," * 10_000)
    decoder = Decoder(PublicRequest, bounded=True)
    for frame in frames:
        # Equal as text: a mutated number may be none, which is not equal to itself.
        assert repr(what(decoder, memoryview(frame))) == repr(what(decoder, frame))
        assert glimpse(memoryview(frame)) == glimpse(frame)


@pytest.mark.parametrize("codec", CODECS.values())
def test_a_large_frame_is_decoded_once_though_it_is_wrong(codec):
    query = Query("seen", ("b1",), Window(last_s=60.0), Slo(99.0, 500.0))
    frame = encode(query, codec)[:-1] + b'"' * (1 << 16)
    assert what(Decoder(Query), frame)[2] == "seen"


def test_json_of_more_elements_than_any_message_has_is_refused_before_it_is_decoded():
    decoder = Decoder(Query, bounded=True)
    body = b'{"type":"query","id":"big","areas":[' + b",".join([b'"b1"'] * 5_000)
    # Cut short: a decoder that looked at it would say that the JSON is incomplete.
    with pytest.raises(WireError, match="JSON of more than 4096 elements") as error:
        decoder.decode(b"10J" + body)
    assert (error.value.codec, error.value.sender_id) == (JSON, "big")


def test_the_largest_query_is_within_the_limit_of_json():
    areas = tuple(f"{n}/" + "/".join(["a" * 64] * 7) for n in range(1_024))
    query = Query("q", areas, Window(last_s=60.0), Slo(99.0, 500.0))
    decoder = Decoder(Query, bounded=True)
    assert decoder.decode(encode(query, JSON))[0] == query


@pytest.mark.parametrize("codec", [JSON, MESSAGEPACK])
@pytest.mark.parametrize("name", ["q", "a-name.of_31:characters-000000000", "x" * 64])
def test_the_id_of_a_message_is_seen_without_decoding(name, codec):
    query = Query(name, ("b1",), Window(last_s=60.0), Slo(99.0, 500.0))
    assert glimpse(encode(query, codec)) == (codec, name)
    assert glimpse(b"10J") == (JSON, "")
    assert glimpse(b"") == (JSON, "")


@pytest.mark.parametrize("codec", [JSON, MESSAGEPACK])
def test_the_areas_of_a_query_are_counted_without_decoding(codec):
    many = tuple(f"b1/f{n}" for n in range(1_024))
    channels = tuple(f"c{n}" for n in range(64))
    query = Query("q", many, Window(last_s=1.0), Slo(99.0, 1.0), channels=channels)
    assert 1_000 <= glimpse_areas(encode(query, codec)) <= 1_024
    few = msgspec.structs.replace(query, areas=("b1",))
    assert glimpse_areas(encode(few, codec)) == 1
    for name, sample in SAMPLES.items():
        seen = glimpse_areas(encode(sample, codec))
        assert seen <= len(sample.areas) if name.startswith("query") else seen == 0, name
