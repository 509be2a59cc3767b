"""Frames that cost more to decode than messages of their kind do: refused undecoded."""

import struct

import msgspec
import pytest

from agent.wire import market
from agent.wire import node_messages as nm
from agent.wire.codec import (
    JSON,
    MAX_BULK_VALUES,
    MAX_JSON_COMMAS,
    MAX_RESULT_BYTES,
    MAX_RESULT_VALUES,
    MAX_SUBTASK_RESULT_BYTES,
    MAX_VALUES,
    MESSAGEPACK,
    Decoder,
    WireError,
    encode,
)
from agent.wire.derived import Derived, DerivedValues
from agent.wire.directory import DirectoryRequest
from agent.wire.messages import (
    Aggregate,
    AreaResult,
    ChannelAggregate,
    Query,
    Series,
    Slo,
    TaskResult,
    Window,
)
from agent.wire.packed import Float32Column, Int64Column
from agent.wire.predicates import Predicate
from agent.wire.push import Subscribe
from agent.wire.unions import (
    OPERATOR_BULK,
    PEER_BULK,
    PUBLIC_BULK,
    OperatorRequest,
    PeerReply,
    PublicRequest,
)
from tests.wire.samples import SAMPLES

PUBLIC = Decoder(PublicRequest, bounded=True, bulk=PUBLIC_BULK)
NODES = Decoder(nm.NodeMessage, MAX_SUBTASK_RESULT_BYTES, bounded=True, bulk=nm.NODE_BULK)
MASTER = Decoder(nm.MasterMessage, bounded=True)
PEERS = Decoder(PeerReply, MAX_RESULT_BYTES, bounded=True, bulk=PEER_BULK)
AREAS = tuple(f"b1/f{n}" for n in range(1_024))
QUERY = Query("q", AREAS, Window(last_s=60.0), Slo(99.0, 500.0))


def repeated(message, key, times):
    """The frame of `message` in MessagePack, whose map has one key so many times more."""
    pack = msgspec.msgpack.encode
    fields = [*msgspec.msgpack.decode(encode(message)[3:]).items()]
    fields += [(key, dict(fields)[key])] * times
    body = b"".join(pack(name) + pack(value) for name, value in fields)
    return b"10M\xdf" + struct.pack(">I", len(fields)) + body


def in_json(message, key, times):
    """The same in JSON."""
    fields = msgspec.json.decode(encode(message, JSON)[3:])
    more = b"," + msgspec.json.encode(key) + b":" + msgspec.json.encode(fields[key])
    return b"10J" + msgspec.json.encode(fields)[:-1] + more * times + b"}"


@pytest.mark.parametrize(
    ("decoder", "name", "key"),
    [
        (PUBLIC, "query", "areas"),
        (PUBLIC, "subscribe", "filter"),
        (PUBLIC, "publish", "attributes"),
        (PUBLIC, "watch", "slo"),
        (PUBLIC, "join", "service"),
        (Decoder(DirectoryRequest, bounded=True), "discover", "areas"),
        (Decoder(DirectoryRequest, bounded=True), "register", "offerings"),
        (Decoder(OperatorRequest, bounded=True, bulk=OPERATOR_BULK), "create_topic", "topic"),
        (NODES, "hello", "areas"),
        (NODES, "subtask_result", "series"),
        (NODES, "node_events", "events"),
        (PEERS, "members", "known"),
        (PEERS, "grant_told", "facts"),
        (PEERS, "task_result", "results"),
    ],
)
def test_a_key_that_is_repeated_does_not_pass_the_limit(decoder, name, key):
    message = SAMPLES[name]
    assert decoder.decode(repeated(message, key, 1))[0] == message
    one = len(repeated(message, key, 2)) - len(repeated(message, key, 1))
    with pytest.raises(WireError, match="values in one message are over the limit") as error:
        decoder.decode(repeated(message, key, 900_000 // one), bulk=False)
    assert error.value.codec == MESSAGEPACK
    one = len(in_json(message, key, 2)) - len(in_json(message, key, 1))
    with pytest.raises(WireError, match="elements is over the limit"):
        decoder.decode(in_json(message, key, 900_000 // one), bulk=False)


def test_what_is_repeated_within_a_message_counts():
    pack = msgspec.msgpack.encode
    inner = b"\xdf" + struct.pack(">I", 60_000) + (pack("last_s") + pack(1)) * 60_000
    fields = msgspec.msgpack.decode(encode(SAMPLES["query"])[3:])
    body = b"".join(pack(name) + pack(value) for name, value in fields.items())
    frame = b"10M" + bytes([0x80 | len(fields) + 1]) + body + pack("window") + inner
    with pytest.raises(WireError, match="values in one message"):
        PUBLIC.decode(frame)


LARGEST = [
    (PUBLIC, QUERY),
    (PUBLIC, Subscribe("s", ((Predicate("temperature", ">", (1.0,)),) * 32,) * 64)),
    (
        NODES,
        nm.Hello(
            "n1", "i", "h", AREAS, tuple(f"c{n}" for n in range(64)), 256, "1.0",
            running=tuple(range(512)), masters=tuple(f"m{n}" for n in range(16)),
            units={f"c{n}": "°C" for n in range(64)},
        ),
    ),
    (
        NODES,
        nm.NodeEvents(
            "i", "h",
            tuple(
                nm.NodeEvent(n, "raised", 1, True, "s", "c", "t", "t", 1.0, AREAS[:16])
                for n in range(128)
            ),
            1, 1, 1,
        ),
    ),
    (
        MASTER,
        Derived(
            "i", "s",
            tuple(
                DerivedValues(n + 1, 1, {f"c{k}": 1.0 for k in range(16)}) for n in range(128)
            ),
        ),
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("decoder", "message"), [pytest.param(*each, id=type(each[1]).__name__) for each in LARGEST]
)
def test_the_largest_messages_are_within_the_limit(decoder, message):
    frame = encode(message)
    assert type(decoder.decode(frame, bulk=False)[0]) is type(message)
    assert encode(decoder.decode(frame)[0]) == frame


def test_only_masters_send_more_and_only_of_some_kinds():
    members = tuple(market.Member(f"iad{n}", "tcp://h:1", AREAS[:100]) for n in range(200))
    pool = market.Service("s", "iad1", 1, members)
    frame = encode(market.Join("p", pool))
    assert PUBLIC.decode(frame)[0].service == pool
    with pytest.raises(WireError, match=f"more than {MAX_VALUES} values"):
        PUBLIC.decode(frame, bulk=False)
    # A type that does not come first is not seen.
    fields = msgspec.msgpack.decode(frame[3:])
    last = {**{k: v for k, v in fields.items() if k != "type"}, "type": "join"}
    with pytest.raises(WireError, match=f"more than {MAX_VALUES} values"):
        PUBLIC.decode(b"10M" + msgspec.msgpack.encode(last))
    with pytest.raises(WireError, match=f"more than {MAX_BULK_VALUES} values"):
        PUBLIC.decode(repeated(SAMPLES["join"], "id", 70_000))
    with pytest.raises(WireError, match=f"more than {MAX_JSON_COMMAS} elements"):
        PUBLIC.decode(encode(market.Join("p", pool), JSON))


def test_a_result_of_very_many_rooms_is_taken_and_one_of_more_than_there_are_is_not():
    found = ChannelAggregate(9, 1.0, 2.0, 3.0, 1, 1, 2.0, 1)
    aggregate = Aggregate(1, 2, {f"c{n}": found for n in range(8)})
    rooms = tuple(AreaResult(f"b1/r{n}", None, aggregate, 1, name="a") for n in range(10_000))
    result = TaskResult("t", "complete", 1.0, rooms)
    assert PEERS.decode(encode(result))[0] == result
    many = tuple(AreaResult("b1") for _ in range(MAX_RESULT_VALUES // 3))
    with pytest.raises(WireError, match=f"more than {MAX_RESULT_VALUES} values"):
        PEERS.decode(encode(TaskResult("t", "complete", 1.0, many)))


def test_of_a_node_that_speaks_json_readings_may_be_many():
    readings = range(20_000)
    series = Series(Int64Column.of(readings), {"temperature": Float32Column.of(readings)})
    message = nm.SubtaskResult(1, "ok", 0.0, 0.0, series)
    frame = encode(message, JSON)
    assert NODES.decode(frame)[0] == message
    with pytest.raises(WireError, match="elements is over the limit"):
        NODES.decode(frame.replace(b'"type":"subtask_result"', b'"type":"hello"'))
