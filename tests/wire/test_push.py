"""Messages between a subscriber and its master: golden frames, and what they refuse."""

from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.wire.codec import JSON, MESSAGEPACK, Decoder, WireError, encode
from agent.wire.overlay import Notification, Origin
from agent.wire.push import (
    Gap,
    GivenMaster,
    Lost,
    PushRequest,
    SentPush,
    ShortContent,
    ShortNotified,
    Subscribe,
)
from tests.wire.samples.push import SAMPLES

GOLDEN = Path(__file__).parent / "golden" / "1.0"
CODECS = {"json": JSON, "msgpack": MESSAGEPACK}
DECODER = Decoder(PushRequest | SentPush)


def test_every_message_has_a_sample():
    kinds = {*get_args(PushRequest), *get_args(SentPush)}
    assert kinds == {type(message) for message in SAMPLES.values()}


@pytest.mark.parametrize("name", SAMPLES)
@pytest.mark.parametrize("codec", CODECS)
def test_golden_frames(name, codec):
    frame = (GOLDEN / f"{name}.{codec}").read_bytes()
    assert encode(SAMPLES[name], CODECS[codec]) == frame
    assert DECODER.decode(frame) == (SAMPLES[name], CODECS[codec])


def refusal(body):
    with pytest.raises(WireError) as caught:
        DECODER.decode(b"10J" + body)
    return caught.value


def test_a_filter_is_text_or_its_parts():
    text, _ = DECODER.decode(b'10J{"type":"subscribe","id":"s","filter":"co2 > 900"}')
    assert text == Subscribe("s", "co2 > 900")
    parts, _ = DECODER.decode(
        b'10J{"type":"subscribe","id":"s","filter":[[["co2",">",[900]]]],"durable":true}'
    )
    assert parts.filter[0][0].operands == (900,)
    assert parts.durable


GIVEN = st.builds(
    GivenMaster, st.text(min_size=1, max_size=256), st.none() | st.floats(0.0, 3_600_000.0)
)


@given(st.lists(GIVEN, max_size=16).map(tuple), st.sampled_from(list(CODECS.values())))
def test_the_masters_that_a_client_was_given_survive_both_codecs(masters, codec):
    asked = Subscribe("s", "co2 > 900", durable=True, masters=masters)
    assert DECODER.decode(encode(asked, codec)) == (asked, codec)


def test_a_client_that_names_no_masters_says_what_it_always_said():
    said = encode(Subscribe("s", "co2 > 900", durable=True), JSON)
    assert said == b'10J{"type":"subscribe","id":"s","filter":"co2 > 900","durable":true}'


@pytest.mark.parametrize(
    ("masters", "line"),
    [
        (b'[{"address":""}]', "length >= 1 - at `$.masters[0].address`"),
        (b'[{"address":"a","round_trip_ms":-1}]', ">= 0.0 - at `$.masters[0].round_trip_ms`"),
        (b'[{"address":"a","round_trip_ms":3600001}]', "<= 3600000.0"),
        (b'["tcp://a:5700"]', "Expected `object`"),
        (b"[%s]" % b",".join([b'{"address":"a"}'] * 17), "length <= 16 - at `$.masters`"),
    ],
)
def test_masters_that_no_client_was_given_are_refused(masters, line):
    error = refusal(b'{"type":"subscribe","id":"mine","filter":"co2 > 900","masters":%s}' % masters)
    assert error.sender_id == "mine"
    assert line in str(error)


@pytest.mark.parametrize("wrong", [b"7", b"[]", b'[[["co2","~",[1]]]]', b'[[["CO 2",">",[1]]]]'])
def test_what_is_no_filter_is_refused_with_the_id_of_its_sender(wrong):
    error = refusal(b'{"type":"subscribe","id":"mine","filter":%s}' % wrong)
    assert error.sender_id == "mine"


def test_a_range_does_not_end_before_it_begins():
    with pytest.raises(ValueError, match="first is above last"):
        Gap("s", 3, 2)
    with pytest.raises(ValueError, match="first is above last"):
        Lost("iad1", "h", 3, 2, 1)
    assert "first is above last" in str(refusal(b'{"type":"gap","id":"s","first":3,"last":2}'))


def test_positions_are_counted_from_one():
    refusal(b'{"type":"gap","id":"s","first":0,"last":2}')
    refusal(b'{"type":"acknowledge_notifications","id":"s","position":-1}')


NAMES = st.sampled_from(["iad", "kind", "value", "area", "topic", "x"])
VALUES = st.one_of(
    st.booleans(), st.floats(-1e300, 1e300), st.sampled_from(["", "iad1", "iad2", "b1/f4"])
)


@given(
    st.dictionaries(NAMES, VALUES, max_size=6),
    st.lists(NAMES, max_size=6).map(tuple),
    st.sampled_from(["iad1", "iad2"]),
    st.binary(min_size=8, max_size=8).map(bytes.hex),
    st.sampled_from(list(CODECS.values())),
)
def test_a_notification_in_short_form_is_the_same(attributes, names, publisher, history, codec):
    told = Notification(Origin(publisher, history, 17), 1_000, attributes)
    short = ShortContent.of(told, names)
    frame = encode(ShortNotified(((0, 1),), short), codec)
    found, _ = DECODER.decode(frame)
    assert found.of.notification(names) == told
    assert list(found.of.notification(names).attributes) == list(attributes)


@pytest.mark.parametrize("history", ["4f1d2a", "00C0FFEE00C0FFEE", "x" * 16, "0" * 64])
def test_a_history_of_another_kind_has_no_short_form(history):
    assert ShortContent.of(Notification(Origin("iad1", history, 1), 0, {}), ()) is None


@pytest.mark.parametrize(
    "wrong",
    [
        ShortContent("iad1", bytes(8), 1, 0, (1,), (2.0,)),
        ShortContent("iad1", bytes(8), 1, 0, (0, "x"), (2.0,)),
        ShortContent(None, bytes(8), 1, 0, ("x",), (2.0,)),
    ],
)
def test_a_short_form_of_what_was_not_agreed(wrong):
    with pytest.raises(ValueError, match="in short form"):
        wrong.notification(("iad",))
