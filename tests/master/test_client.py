"""The Python client: answers to their queries, and one clear error when there is none."""

import threading

import pytest
import zmq

from agent.client import Client, NoReplyError, Operator
from agent.connection import Connection
from agent.wire.codec import Decoder, encode
from agent.wire.messages import Answer, Coverage
from agent.wire.operator import OperatorError
from agent.wire.standing import Cancel
from agent.wire.unions import ClientReply, PublicRequest
from fleet.lab.ports import free_address


def answer(query_id: str) -> bytes:
    return encode(Answer(query_id, "complete", 1.0, True, Coverage(0, 0)))


@pytest.fixture
def scripted(context):
    """A master that answers each request with the given frames; yields its address."""
    threads = []

    def start(*rounds):
        socket = context.socket(zmq.ROUTER)
        port = socket.bind_to_random_port("tcp://127.0.0.1")

        def serve():
            for frames in rounds:
                identity, request = socket.recv_multipart()
                for frame in frames(request) if callable(frames) else frames:
                    socket.send_multipart([identity, frame])

        threads.append(threading.Thread(target=serve))
        threads[-1].start()
        return f"tcp://127.0.0.1:{port}"

    yield start
    for thread in threads:
        thread.join()


def test_a_late_answer_to_an_earlier_query_is_skipped(scripted):
    address = scripted([answer("q1"), answer("stray")], [answer("q1"), answer("q2")])
    with Client(address) as client:
        assert client.query(["b1"], last_s=1).id == "q1"
        assert client.query(["b1"], last_s=1).id == "q2"


def test_without_the_key_that_a_master_wants_nothing_waits_for_ever(context):
    server = context.socket(zmq.ROUTER)
    server.curve_secretkey = zmq.curve_keypair()[1]
    server.curve_server = True
    port = server.bind_to_random_port("tcp://127.0.0.1")
    with Connection(f"tcp://127.0.0.1:{port}", ClientReply, None) as connection:
        for _ in range(2):
            connection.send_message(Cancel("w1"))
            while connection.socket.poll(0, zmq.POLLOUT):  # until libzmq has given it up
                connection.socket.poll(10)
        with pytest.raises(NoReplyError):
            connection.receive_message(10)


def test_a_refusal_without_an_id_is_the_answer(scripted):
    refusal = encode(
        Answer("", "refused", 0.0, False, Coverage(0, 0), reason="malformed", message="no")
    )
    with Client(scripted([refusal])) as client:
        assert client.query(["b1"], last_s=1).message == "no"


def test_what_a_query_asks_is_what_is_sent(scripted):
    seen = []

    def reply(request):
        query, _ = Decoder(PublicRequest).decode(request)
        seen.append(query)
        return [answer(query.id)]

    with Client(scripted(reply)) as client:
        client.query(["b1/f4"], last_s=60, percentile=95, latency_ms=40, channels=["temperature"])
    [query] = seen
    assert (query.areas, query.channels, query.slo.percentile) == (("b1/f4",), ("temperature",), 95)
    assert (query.window.last_s, query.slo.latency_ms, query.form) == (60, 40, "series")


def test_a_very_long_slo_gives_a_timeout_that_a_message_may_say(scripted):
    seen = []

    def reply(request):
        query, _ = Decoder(PublicRequest).decode(request)
        seen.append(query.timeout_ms)
        return [answer(query.id)]

    with Client(scripted(reply)) as client:
        client.query(["b1"], last_s=1, latency_ms=3_000_000)
    assert seen == [3_600_000]


def test_silence_is_one_clear_error():
    address = free_address()
    with Client(address) as client, pytest.raises(NoReplyError, match=f"no reply from {address}"):
        client.receive(1.0)
    with Operator(address) as operator, pytest.raises(NoReplyError, match="is a master running"):
        operator.status(1.0)


class Masters:
    """Masters at one address, one after the other; each reads one request."""

    def __init__(self):
        self.address = free_address()
        self.asked = []

    def serve(self, *endings):
        """Answer each request that is read with its ending; "cut" closes the connection instead,
        and the next master takes over."""
        for ending in endings:
            # The end of a context waits until the address is free again.
            with zmq.Context() as context, context.socket(zmq.ROUTER) as socket:
                socket.bind(self.address)
                identity, request = socket.recv_multipart()
                query, _ = Decoder(PublicRequest).decode(request)
                self.asked.append(query)
                if ending == "answered":
                    socket.send_multipart([identity, answer(query.id)])


@pytest.fixture
def masters():
    """Starts masters."""
    made = Masters()
    threads = []

    def start(*endings):
        threads.append(threading.Thread(target=made.serve, args=endings))
        threads[-1].start()
        return made

    yield start
    for thread in threads:
        thread.join()


def test_a_query_under_way_at_a_master_that_restarts_is_asked_once_more(masters):
    running = masters("cut", "answered")
    with Client(running.address) as client:
        assert client.query(["b1"], last_s=1, timeout_ms=60_000).status == "complete"
    first, again = running.asked
    assert first == again


def test_a_query_whose_connections_are_cut_twice_is_not_asked_for_ever(masters):
    running = masters("cut", "cut")
    with Client(running.address) as client, pytest.raises(NoReplyError, match="no reply"):
        client.query(["b1"], last_s=1, timeout_ms=1.0)
    assert len(running.asked) == 2


def test_an_address_that_is_none():
    with pytest.raises(ValueError, match="cannot use address 'nonsense'"):
        Client("nonsense")


def test_an_operators_refusal_is_raised(scripted):
    address = scripted([encode(OperatorError("not today"))])
    with Operator(address) as operator, pytest.raises(ValueError, match="not today"):
        operator.set_policy("fifo")
