"""Messages over a DEALER in an event loop, against a ROUTER of the same context."""

import math
from functools import partial

import pytest
import zmq

from agent.net import message_socket
from agent.net.dealer import PlainLink, unconnected
from agent.net.message_socket import TURN, MessageSocket
from agent.net.receive_backlog import IN_A_ROW, MAX_BYTES, MAX_MESSAGES, ReceiveBacklog
from agent.wire.codec import Decoder, encode
from agent.wire.config import ConfigError
from agent.wire.directory import Denied, DirectoryReply, ListAccounts
from testkit.waiting import PATIENCE_MS, wait_until


class Loop:
    """Calls a socket's turn when the test says so."""

    def __init__(self):
        self.turns = {}

    def listen(self, source, turn, *, brief=False):
        self.turns[source] = turn

    def ignore(self, source):
        del self.turns[source]


@pytest.fixture
def ends():
    """A ROUTER and a DEALER that is connected to it: messages arrive as soon as they are sent."""
    with zmq.Context() as context:
        router, socket = context.socket(zmq.ROUTER), context.socket(zmq.DEALER)
        router.bind("inproc://there")
        socket.setsockopt(zmq.IDENTITY, b"here")
        socket.setsockopt(zmq.RCVHWM, 0)
        router.setsockopt(zmq.ROUTER_MANDATORY, 1)
        socket.connect("inproc://there")
        yield router, socket
        router.close(0)
        socket.close(0)


def connected(context, address):
    return PlainLink(unconnected(context, 1 << 20), address).socket


def denied(number):
    return Denied(str(number), "not_ready", "")


class Receiver:
    def __init__(self, connect):
        self.loop, self.taken, self.malformed, self.floods = Loop(), [], 0, 0
        self.closes = False
        decoder = Decoder(DirectoryReply)
        self.messages = MessageSocket(
            self.loop, connect, decoder, self.take, self.count, flooded=self.count_flood
        )

    def take(self, message):
        self.taken.append(message)
        if self.closes:
            self.messages.close()

    def count(self):
        self.malformed += 1

    def count_flood(self):
        self.floods += 1

    def turn(self):
        if turn := self.loop.turns.get(self.messages.socket):
            turn()


def test_messages_are_sent_and_taken_and_what_is_none_is_counted(ends):
    router, socket = ends
    receiver = Receiver(lambda: socket)
    receiver.turn()
    assert receiver.taken == []
    for frame in (
        encode(denied(1)),
        b"nonsense",
        encode(denied(2)),
    ):
        router.send_multipart([b"here", frame])
    receiver.turn()
    assert receiver.taken == [denied(1), denied(2)]
    assert receiver.malformed == 1
    assert receiver.messages.send(ListAccounts("1"))
    assert router.recv_multipart() == [b"here", encode(ListAccounts("1"))]


def test_the_loops_other_sockets_are_served_in_between(ends, monkeypatch):
    monkeypatch.setattr(message_socket, "SLICE_S", math.inf)
    router, socket = ends
    receiver = Receiver(lambda: socket)
    for number in range(TURN + 1):
        router.send_multipart([b"here", encode(denied(number))])
    receiver.turn()
    assert receiver.taken == [denied(number) for number in range(TURN)]
    receiver.turn()
    assert receiver.taken[-1] == denied(TURN)


def test_messages_that_take_long_end_a_turn_before(ends, monkeypatch):
    monkeypatch.setattr(message_socket, "SLICE_S", 0.0)
    router, socket = ends
    receiver = Receiver(lambda: socket)
    for number in range(3):
        router.send_multipart([b"here", encode(denied(number))])
    for taken in (1, 2, 3, 3):
        receiver.turn()
        assert receiver.taken == [denied(number) for number in range(taken)]


def test_what_takes_a_message_may_close_the_socket(ends):
    router, socket = ends
    receiver = Receiver(lambda: socket)
    receiver.closes = True
    for number in range(2):
        router.send_multipart([b"here", encode(denied(number))])
    receiver.turn()
    assert receiver.taken == [denied(0)]
    assert not receiver.loop.turns


def test_nothing_is_sent_while_nobody_is_connected():
    with zmq.Context() as context, context.socket(zmq.DEALER) as socket:
        receiver = Receiver(lambda: socket)
        assert not receiver.messages.connected
        assert not receiver.messages.send(ListAccounts("1"))


class Flood:
    """A ROUTER that a DEALER is connected to by TCP, and may send any number of messages to."""

    def __init__(self, context):
        self.router = context.socket(zmq.ROUTER)
        self.router.setsockopt(zmq.SNDHWM, 0)
        self.router.setsockopt(zmq.ROUTER_MANDATORY, 1)
        self.router.setsockopt(zmq.LINGER, 0)
        port = self.router.bind_to_random_port("tcp://127.0.0.1")
        self.receiver = Receiver(partial(connected, context, f"tcp://127.0.0.1:{port}"))

    def hear(self):
        """Wait until the link is there, and has said something: the identity of its connection."""
        messages = self.receiver.messages
        # What is given to a connection that is just being dropped is lost with it.
        wait_until(lambda: messages.send(ListAccounts("1")) and self.router.poll(100))
        while self.router.poll(0):
            identity = self.router.recv_multipart()[0]
        return identity

    def send(self, identity, number, count, *more):
        frame = encode(denied(number))
        for _ in range(count):
            self.router.send_multipart([identity, frame, *more])

    def close(self):
        self.receiver.messages.close()
        self.router.close()


@pytest.fixture
def flood():
    with zmq.Context() as context:
        made = Flood(context)
        yield made
        made.close()


def test_of_a_flood_a_bounded_number_waits_and_the_link_goes_on(flood):
    receiver = flood.receiver
    identity = flood.hear()
    flood.send(identity, 1, TURN + 1)
    wait_until(lambda: receiver.messages.socket.poll(0))
    receiver.turn()
    assert receiver.floods == 0
    flood.send(identity, 2, 2 * MAX_MESSAGES)

    def turned():
        receiver.turn()
        return receiver.floods

    wait_until(turned)
    # What waited went with the connection.
    taken = len(receiver.taken)
    assert taken < MAX_MESSAGES
    flood.send(flood.hear(), 3, 1)
    assert receiver.messages.socket.poll(PATIENCE_MS)
    receiver.turn()
    assert receiver.taken[taken:] == [denied(3)]
    assert (receiver.floods, receiver.malformed) == (1, 0)


@pytest.mark.parametrize("parts", [2, 3_000])
def test_a_message_of_several_parts_is_not_read_on_and_the_link_is_made_anew(flood, parts):
    receiver = flood.receiver
    identity = flood.hear()
    flood.send(identity, 1, 1)
    flood.send(identity, 2, 1, *[b""] * (parts - 1))
    flood.send(identity, 3, 1)

    def turned():
        receiver.turn()
        return receiver.floods

    wait_until(turned)
    assert (receiver.floods, receiver.malformed, receiver.taken) == (1, 1, [denied(1)])
    flood.send(flood.hear(), 4, 1)
    assert receiver.messages.socket.poll(PATIENCE_MS)
    receiver.turn()
    assert receiver.taken == [denied(1), denied(4)]


def test_where_no_connection_can_be_made_now_the_next_message_tries_it_again(flood, monkeypatch):
    monkeypatch.setattr(message_socket, "AGAIN_S", 0.0)
    messages = flood.receiver.messages
    connect, fails = messages._connect, [OSError("no files"), ConfigError("no key")]

    def failing():
        if fails:
            raise fails.pop()
        return connect()

    messages._connect, messages._again_s = failing, 0.0
    messages._begin_anew()
    assert messages.socket.closed
    assert not messages.send(ListAccounts("1"))
    assert not fails
    flood.hear()


def test_what_was_closed_is_not_connected_again(ends, monkeypatch):
    monkeypatch.setattr(message_socket, "AGAIN_S", 0.0)
    receiver = Receiver(lambda: ends[1])
    receiver.messages.close()
    assert not receiver.messages.connected
    assert not receiver.messages.send(ListAccounts("1"))
    assert not receiver.loop.turns


def test_what_waits_is_bounded_in_bytes_and_in_messages():
    backlog, turn = ReceiveBacklog(largest=1 << 20), 64 << 10
    most = MAX_BYTES + (1 << 20)
    backlog.took(7, turn)
    assert not backlog.exceeds(turn + most, turn, 64)
    assert backlog.exceeds(turn + most + 1, turn, 64)
    # Another connection, with another descriptor or the same one, has another count.
    backlog.took(8, 64 * 100)
    few = 100 * (64 + MAX_MESSAGES)
    assert not backlog.exceeds(few, 64 * 100, 64)
    for _ in range(IN_A_ROW // 64 - 1):
        assert not backlog.exceeds(few + 2, 64 * 100, 64)
    assert backlog.exceeds(few + 2, 64 * 100, 64)
    backlog.emptied(1 << 40, 0.0)
    backlog.took(8, 64 * 100)
    assert not backlog.exceeds(few, 64 * 100, 64)


def test_a_large_message_behind_small_ones_is_awaited():
    backlog, large = ReceiveBacklog(largest=256 << 20), 100 << 20
    read = 0
    for turn in range(100):
        backlog.took(7, 64 * 100)
        read += 64 * 100
        assert not backlog.exceeds(read + large, 64 * 100, 64)
        if turn % 10 == 9:
            backlog.took(7, large)
            read += large
            assert not backlog.exceeds(read + large, large, 1)


def test_heartbeats_are_written_off_and_a_sender_that_is_followed_never_exceeds_it():
    backlog, read = ReceiveBacklog(largest=1 << 20), 0
    for turn in range(10_000):
        backlog.took(7, 64 * 100)
        read += 64 * 100 + (1 << 20) * (turn % 10 == 9)
        assert not backlog.exceeds(read, 64 * 100, 64)
        if turn % 10 == 9:
            assert backlog.empty_is_due(float(turn))
            backlog.emptied(read, float(turn))
            assert not backlog.empty_is_due(float(turn))


def test_a_message_that_is_read_in_part_when_nothing_else_waits_counts_once():
    backlog, mib = ReceiveBacklog(largest=256 << 20), 1 << 20
    backlog.took(7, 100)
    backlog.emptied(200 * mib, 0.0)
    backlog.took(7, 255 * mib)
    assert not backlog.exceeds(256 * mib, 256 * mib, 64)
    # The same descriptor, another connection.
    backlog.took(7, 6_400)
    assert not backlog.exceeds(6_400, 6_400, 64)
    assert backlog.exceeds(6_400 + 289 * mib, 6_400, 64)
