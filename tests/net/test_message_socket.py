"""Messages over a DEALER in an event loop, against a ROUTER of the same context."""

import pytest
import zmq

from agent.net.message_socket import TURN, MessageSocket
from agent.wire.codec import Decoder, encode
from agent.wire.directory import Denied, DirectoryReply, ListAccounts


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


def denied(number):
    return Denied(str(number), "not_ready", "")


class Receiver:
    def __init__(self, socket):
        self.loop, self.taken, self.malformed = Loop(), [], 0
        self.closes = False
        decoder = Decoder(DirectoryReply)
        self.messages = MessageSocket(self.loop, socket, decoder, self.take, self.count)

    def take(self, message):
        self.taken.append(message)
        if self.closes:
            self.messages.close()

    def count(self):
        self.malformed += 1

    def turn(self):
        self.loop.turns[self.messages.socket]()


def test_messages_are_sent_and_taken_and_what_is_none_is_counted(ends):
    router, socket = ends
    receiver = Receiver(socket)
    receiver.turn()
    assert receiver.taken == []
    for frames in (
        [encode(denied(1))],
        [b"nonsense"],
        [encode(denied(2))] * 2,
        [encode(denied(3))],
    ):
        router.send_multipart([b"here", *frames])
    receiver.turn()
    assert receiver.taken == [denied(1), denied(3)]
    assert receiver.malformed == 2
    assert receiver.messages.send(ListAccounts("1"))
    assert router.recv_multipart() == [b"here", encode(ListAccounts("1"))]


def test_the_loops_other_sockets_are_served_in_between(ends):
    router, socket = ends
    receiver = Receiver(socket)
    for number in range(TURN + 1):
        router.send_multipart([b"here", encode(denied(number))])
    receiver.turn()
    assert receiver.taken == [denied(number) for number in range(TURN)]
    receiver.turn()
    assert receiver.taken[-1] == denied(TURN)


def test_what_takes_a_message_may_close_the_socket(ends):
    router, socket = ends
    receiver = Receiver(socket)
    receiver.closes = True
    for number in range(2):
        router.send_multipart([b"here", encode(denied(number))])
    receiver.turn()
    assert receiver.taken == [denied(0)]
    assert not receiver.loop.turns


def test_nothing_is_sent_while_nobody_is_connected():
    with zmq.Context() as context, context.socket(zmq.DEALER) as socket:
        receiver = Receiver(socket)
        assert not receiver.messages.connected
        assert not receiver.messages.send(ListAccounts("1"))
