"""Which pair of keys a link tries, while either end rotates its key."""

import zmq

from agent.net.dealer import KeyedLink
from agent.net.keys import Pair

SERVER = "s" * 40
NEW, OLD = (Pair(*(half.decode() for half in zmq.curve_keypair())) for _ in range(2))


class Socket:
    """A DEALER that notes with which key it connects."""

    def __init__(self):
        self.connected = False
        self.shown = []

    def setsockopt(self, option, value):
        if option == zmq.CURVE_PUBLICKEY:
            self.shown.append(value.decode())

    def getsockopt(self, _option):
        return int(zmq.POLLOUT) * self.connected

    def connect(self, _address):
        pass

    disconnect = connect


def test_a_link_that_was_connected_begins_with_the_first_pair_again_then_tries_the_next():
    socket = Socket()
    link = KeyedLink(socket, "tcp://127.0.0.1:1", lambda: (NEW, OLD), lambda: (SERVER,))
    socket.connected = True
    link.look(1.0)
    socket.connected = False
    for now in (2.0, 3.0, 4.0):  # longer than EARLY_REDIAL_S apart
        link.look(now)
    assert socket.shown == [NEW.public, NEW.public, OLD.public]
