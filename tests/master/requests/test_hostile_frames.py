"""Hostile frames at every socket: each gets one clear error or silence, and nothing changes."""

import itertools
import random

import msgspec
import pytest
import zmq

from agent.client import Client, Operator
from agent.wire import messages as m
from agent.wire import node_messages as nm
from agent.wire import unions as u
from agent.wire.codec import JSON, MAX_REQUEST_BYTES, MESSAGEPACK, Decoder, WireError, encode
from tests.examples import examples
from tests.master.rig import PATIENCE_MS
from tests.wire.samples import SAMPLES
from tests.wire.test_codec import mutated

# Frames that are in order would do something: here only those that are not.
DECODERS = {"public": u.PublicRequest, "nodes": nm.NodeMessage, "operator": u.OperatorRequest}
# Of each series; the longer one begins with the shorter.
FRAMES = [examples(1_000), pytest.param(4_000, marks=pytest.mark.long)]


def bad_frames(union, count, seed):
    draw = random.Random(seed)
    good = [encode(s, c) for s, c in itertools.product(SAMPLES.values(), (JSON, MESSAGEPACK))]
    decoder = Decoder(union)
    found = []
    while len(found) < count:
        frame = mutated(draw.choice(good), draw)
        try:
            decoder.decode(frame)
        except WireError:
            found.append(frame)
    return found


@pytest.fixture
def intact(master, join):
    """After the attack the master is the same process, holds nothing, and answers."""
    node = join(master)
    before = master.status()
    pid = master.process.pid
    yield node
    after = master.status()
    assert master.process.poll() is None
    assert master.process.pid == pid
    assert [(n.node, n.state, n.pods, n.idle_pods, n.queued) for n in after.nodes[:1]] == [
        (n.node, n.state, n.pods, n.idle_pods, n.queued) for n in before.nodes
    ]
    assert (after.open_queries, after.open_tasks) == (0, 0)
    with Client(master.public) as client:
        client.send(m.Query("q", ("b1/f4/r1",), m.Window(last_s=60), m.Slo(99.0, 60_000.0)))
        node.serve()
        assert client.receive(PATIENCE_MS).status == "complete"


@pytest.mark.parametrize("count", FRAMES)
@pytest.mark.parametrize("name", DECODERS)
@pytest.mark.usefixtures("intact")
def test_every_mutated_frame_gets_one_clear_error(master, context, name, count):
    socket = context.socket(zmq.DEALER)
    socket.setsockopt(zmq.SNDHWM, 0)
    socket.setsockopt(zmq.RCVHWM, 0)
    socket.connect(getattr(master, name))
    replies = {
        "public": Decoder(u.PublicReply),
        "nodes": Decoder(nm.MasterMessage),
        "operator": Decoder(u.OperatorReply),
    }[name]
    frames = bad_frames(DECODERS[name], count, seed=name)
    for start in range(0, count, 500):
        for frame in frames[start : start + 500]:
            socket.send(frame)
        for frame in frames[start : start + 500]:
            assert socket.poll(PATIENCE_MS), frame
            reply, _ = replies.decode(socket.recv())
            assert reply.message, frame
            assert "\n" not in reply.message
            if isinstance(reply, m.Answer):
                assert (reply.status, reply.reason) == ("refused", "malformed")
    assert not socket.poll(0)


@pytest.mark.usefixtures("intact")
def test_without_keys_and_a_market_nobody_trades(master, context):
    socket = context.socket(zmq.DEALER)
    socket.connect(master.public)
    for name in ("leave", "join", "propose", "release"):
        [sample] = [s for s in SAMPLES.values() if s.__struct_config__.tag == name][:1]
        socket.send(encode(sample))
    for _ in range(3):
        assert socket.poll(PATIENCE_MS)
        reply, _ = Decoder(u.PublicReply).decode(socket.recv())
        assert "knows no party of the market at your address" in reply.message
    with Operator(master.operator) as operator:
        assert operator.services(PATIENCE_MS) == ()


@pytest.mark.parametrize("count", FRAMES)
@pytest.mark.parametrize("name", DECODERS)
def test_mutated_frames_that_still_say_something_do_not_end_the_master(
    master, context, join, name, count
):
    """Hostile but well-formed: other areas, budgets, windows, ids, results nobody asked for."""
    node = join(master, "honest")
    sockets = [context.socket(zmq.DEALER) for _ in range(4)]
    for socket in sockets:
        socket.setsockopt(zmq.SNDHWM, 0)
        socket.setsockopt(zmq.RCVHWM, 0)
        socket.connect(getattr(master, name))
    draw = random.Random(f"decodable {name}")
    decoder = Decoder(DECODERS[name])
    samples = [s for s in SAMPLES.values() if isinstance(s, DECODERS[name])]
    good = [encode(s, c) for s, c in itertools.product(samples, (JSON, MESSAGEPACK))]
    sent = 0
    while sent < count:
        frame = mutated(draw.choice(good), draw)
        try:
            decoder.decode(frame)
        except WireError:
            continue
        draw.choice(sockets).send(frame)
        sent += 1
        if sent % 50 == 0:
            master.status()
            node.answer_all()

    def quiet(status):
        node.answer_all()
        return not status.open_queries and not status.open_tasks

    master.wait_until(quiet)
    assert master.process.poll() is None
    node.send(nm.Heartbeat(node.hello.incarnation))
    assert isinstance(node.receive(), nm.Heartbeat)
    with Client(master.public) as client:
        client.send(m.Query("q", ("b1/f4/r1",), m.Window(last_s=60), m.Slo(99.0, 60_000.0)))
        node.serve()
        assert client.receive(PATIENCE_MS).status == "complete"


@pytest.mark.usefixtures("intact")
def test_messages_of_many_frames_are_refused(master, context):
    socket = context.socket(zmq.DEALER)
    socket.connect(master.public)
    good = encode(SAMPLES["query"])
    for frames in ([good, good], [b"", good, good], [b"", b""], [b""], [good, b""]):
        socket.send_multipart(frames)
        assert socket.poll(PATIENCE_MS)
        reply = socket.recv_multipart()[-1]
        assert Decoder(u.PublicReply).decode(reply)[0].reason == "malformed"


@pytest.mark.usefixtures("intact")
@pytest.mark.parametrize("name", ["public", "nodes", "operator"])
def test_a_message_of_very_many_frames_closes_its_connection_and_no_other(master, context, name):
    socket = context.socket(zmq.DEALER)
    socket.setsockopt(zmq.LINGER, 0)
    monitor = socket.get_monitor_socket(zmq.EVENT_DISCONNECTED)
    socket.connect(getattr(master, name))
    # The master may not know of the connection yet, whose first message comes with it.
    for _ in range(20):
        socket.send_multipart([b""] * 20_000)
        if monitor.poll(PATIENCE_MS // 20):
            break
    else:
        raise AssertionError("the master did not close the link")
    socket.disable_monitor()
    monitor.close(0)
    with Client(master.public) as client:
        client.send(m.Query("next", ("b9",), m.Window(last_s=1), m.Slo(99.0, 500.0)))
        assert client.receive(PATIENCE_MS).id == "next"


@pytest.mark.usefixtures("intact")
def test_a_frame_over_the_limit_is_refused_and_a_huge_one_closes_the_link(master, context):
    socket = context.socket(zmq.DEALER)
    socket.connect(master.public)
    socket.send(b"10J" + b" " * MAX_REQUEST_BYTES)
    assert socket.poll(PATIENCE_MS)
    answer, _ = Decoder(u.PublicReply).decode(socket.recv())
    assert "over the limit of 1048576" in answer.message
    huge = context.socket(zmq.DEALER)
    huge.setsockopt(zmq.LINGER, 0)
    monitor = huge.get_monitor_socket(zmq.EVENT_DISCONNECTED)
    huge.connect(master.public)
    huge.send(b"10J" + b" " * (16 * MAX_REQUEST_BYTES))
    assert monitor.poll(PATIENCE_MS), "the master did not close the link"
    huge.disable_monitor()
    monitor.close(0)


def test_a_node_that_lies_harms_only_its_own_areas(master, join, intact):
    """Results for subtasks of others, of nobody, twice, from a link without a hello."""
    liar = join(master, "n2", ("b1/f4/r2",))
    with Client(master.public) as client:
        client.send(m.Query("q", ("b1/f4",), m.Window(last_s=60), m.Slo(99.0, 60_000.0)))
        theirs = intact.receive()
        for subtask_id in (theirs.id, 0, 10**9):
            liar.send(nm.SubtaskResult(subtask_id, "ok", 0.0, 0.0))
        liar.send(nm.Heartbeat("somebody else"))
        liar.send(nm.Goodbye("somebody else"))
        own = liar.receive()
        assert isinstance(own, nm.Subtask)
        liar.send(nm.SubtaskResult(own.id, "error", 0.0, 0.0, message="broken"))
        intact.send(nm.SubtaskResult(theirs.id, "no_data", 0.0, 0.0))
        answer = client.receive(PATIENCE_MS)
    assert answer.missing == (
        m.Missing("b1/f4/r1", "no_data"),
        m.Missing("b1/f4/r2", "node_error"),
    )
    liar.send(nm.Goodbye("boot-n2"))
    master.wait_until(lambda s: s.nodes[1].state == "left")
    assert master.status().counters["duplicate_or_unknown_results"] == 3


def test_numbers_no_message_may_hold(master, context, join):
    join(master)
    socket = context.socket(zmq.REQ)
    socket.connect(master.public)
    for change in (
        {"slo": {"percentile": float("nan"), "latency_ms": 500}},
        {"slo": {"percentile": 99, "latency_ms": float("inf")}},
        {"window": {"last_s": float("nan")}},
        {"timeout_ms": float("-inf")},
        {"window": {"start_ms": 0, "end_ms": 2**80}},
        {"areas": ["b1"] * 2_000},
    ):
        body = msgspec.msgpack.decode(encode(SAMPLES["query"])[3:]) | change
        try:
            packed = b"10M" + msgspec.msgpack.encode(body)
        except OverflowError:
            packed = b"10J" + msgspec.json.encode(body)
        socket.send(packed)
        assert socket.poll(PATIENCE_MS), change
        answer, _ = Decoder(u.PublicReply).decode(socket.recv())
        assert (answer.status, answer.reason, answer.id) == ("refused", "malformed", "q1"), change


@pytest.mark.usefixtures("intact")
def test_a_message_of_several_parts_is_refused_in_words(master, context):
    client = context.socket(zmq.DEALER)
    client.linger = 0
    client.connect(master.public)
    whole = encode(m.Query("q", ("b1",), m.Window(last_s=60), m.Slo(99.0, 100.0)), JSON)
    for parts in ([whole[:20], whole[20:]], [whole] * 5, [b"", whole, b""]):
        client.send_multipart(parts)
        assert client.poll(PATIENCE_MS)
        answer = Decoder(u.PublicReply).decode(client.recv_multipart()[-1])[0]
        assert (answer.status, answer.reason) == ("refused", "malformed")
        assert answer.message == "empty frame, or a message of several: a message here is one frame"
    client.close()
