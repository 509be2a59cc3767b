"""Messages between a subscriber and its master: golden frames, and what they refuse."""

from pathlib import Path
from typing import get_args

import pytest

from agent.wire.codec import JSON, MESSAGEPACK, Decoder, WireError, encode
from agent.wire.push import Gap, Lost, PushReply, PushRequest, Subscribe
from tests.wire.samples.push import SAMPLES

GOLDEN = Path(__file__).parent / "golden" / "1.0"
CODECS = {"json": JSON, "msgpack": MESSAGEPACK}
DECODER = Decoder(PushRequest | PushReply)


def test_every_message_has_a_sample():
    kinds = {*get_args(PushRequest), *get_args(PushReply)}
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
