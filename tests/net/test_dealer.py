"""Which pair of keys a link tries, while either end rotates its key; and that it comes back."""

import errno
import socket

import pytest
import zmq

from agent.net.dealer import KeyedLink
from agent.net.keys import Pair
from agent.net.secure_sockets import SecureSockets
from agent.wire.config import Trust
from testkit.waiting import PATIENCE_S, wait_until
from tests.net import raw_zmtp
from tests.net.conftest import destroyed
from tests.net.raw_zmtp import GREETING, READY

SERVER = "s" * 40
NEW, OLD = (Pair(*(half.decode() for half in zmq.curve_keypair())) for _ in range(2))


class Socket:
    """A DEALER that notes with which key it connects."""

    def __init__(self):
        self.connected = self.closed = False
        self.shown = []
        self.expected = []

    def close(self):
        self.closed = True

    def setsockopt(self, option, value):
        if option == zmq.CURVE_PUBLICKEY:
            self.shown.append(value.decode())
        elif option == zmq.CURVE_SERVERKEY:
            self.expected.append(value.decode())

    def getsockopt(self, _option):
        if self.closed:
            raise zmq.ZMQError(zmq.ENOTSOCK)
        return int(zmq.POLLOUT) * self.connected

    def connect(self, _address):
        pass

    def disconnect(self, _address):
        self.connected = False


def test_a_link_that_was_connected_begins_with_the_first_pair_again_then_tries_the_next():
    socket = Socket()
    link = KeyedLink(socket, "tcp://127.0.0.1:1", lambda: (NEW, OLD), lambda: (SERVER,))
    socket.connected = True
    link.look(1.0)
    socket.connected = False
    for now in (2.0, 3.0, 4.0):  # longer than EARLY_REDIAL_S apart
        link.look(now)
    assert socket.shown == [NEW.public, NEW.public, OLD.public]


def test_a_link_that_had_to_take_another_pair_returns_to_the_first_with_back_off():
    socket = Socket()
    link = KeyedLink(socket, "tcp://127.0.0.1:1", lambda: (NEW, OLD), lambda: (SERVER,))
    accepted = OLD.public
    tried = []
    for now in range(60):
        before = len(socket.shown)
        link.look(float(now))
        if len(socket.shown) > before and socket.shown[-1] == NEW.public:
            tried.append(now)
        if now == 30:
            accepted = NEW.public
        socket.connected = socket.shown[-1] == accepted
    # Four seconds after it was connected, eight, and a second after that pair is refused.
    assert tried == [6, 16, 32]
    assert socket.connected


def test_a_link_that_its_owner_renews_stays_connected_meanwhile():
    socket, asked = Socket(), []
    link = KeyedLink(
        socket,
        "tcp://127.0.0.1:1",
        lambda: (NEW, OLD),
        lambda: (SERVER,),
        renew=lambda: asked.append(now),
    )
    for now in range(60):
        link.look(float(now))
        socket.connected = socket.shown[-1] == OLD.public
    assert socket.shown == [NEW.public, OLD.public]
    assert asked == [6, 15, 32]
    assert socket.connected


def test_a_link_leaves_whose_key_is_none_of_the_other_ends_any_more():
    socket, keys = Socket(), [SERVER]
    link = KeyedLink(socket, "tcp://127.0.0.1:1", lambda: (NEW,), lambda: keys)
    socket.connected = True
    link.look(1.0)
    keys[:] = ["t" * 40, SERVER]  # a rotation is announced, and switched
    link.look(2.0)
    assert socket.connected
    keys[:] = ["t" * 40]
    link.look(3.0)
    assert not socket.connected
    assert socket.expected == [SERVER, "t" * 40]


def test_a_link_that_its_owner_replaces_leaves_such_a_key_if_no_other_one_succeeds():
    socket, keys, renewed = Socket(), [SERVER], []
    link = KeyedLink(
        socket,
        "tcp://127.0.0.1:1",
        lambda: (NEW,),
        lambda: keys,
        renew=lambda: renewed.append(now),
    )
    socket.connected = True
    keys[:] = ["t" * 40]
    for now in range(30):
        link.look(float(now))
        if not socket.connected:
            break
    assert renewed == [0]
    assert now == 15
    assert socket.expected == [SERVER, "t" * 40]


@pytest.mark.parametrize("closed", ["itself", "the next one"])
def test_a_link_that_its_owner_closes_as_it_renews_is_looked_at_no_more(tmp_path, closed):
    """A master closes the connection that was to replace this one, and makes another; both are
    looked at in one round, and it ended."""
    sockets, renewed = [Socket(), Socket()], []

    def renew():
        renewed.append(now)
        sockets[closed == "the next one"].close()

    with destroyed(zmq.Context()) as context:
        looking = SecureSockets(context, Trust(), tmp_path, clock=lambda: 0.0, warn=pytest.fail)
        looking._links = [
            KeyedLink(each, "tcp://127.0.0.1:1", lambda: (NEW, OLD), lambda: (SERVER,), renew=renew)
            for each in sockets
        ]
        for now in range(60):
            looking.tick(float(now))
            for each in sockets:
                each.connected = each.shown[-1] == OLD.public
            if renewed:
                break
    assert renewed


def test_a_link_that_cannot_be_made_any_more_waits_and_the_others_are_looked_at(tmp_path):
    """Such as by an interface that is gone; it ended the process."""
    sockets, told = [Socket(), Socket()], []
    with destroyed(zmq.Context()) as context:
        looking = SecureSockets(context, Trust(), tmp_path, clock=lambda: 0.0, warn=told.append)
        looking._links = [
            KeyedLink(each, "tcp://127.0.0.1:1", lambda: (NEW, OLD), lambda: (SERVER,))
            for each in sockets
        ]

        def refuse(_address):
            raise zmq.ZMQError(errno.ENODEV)

        sockets[0].connect = refuse
        for now in range(3):
            looking.tick(float(now))
    assert told[0] == "cannot connect to tcp://127.0.0.1:1: No such device; the link waits\n"
    assert len(sockets[1].shown) > 1


def test_a_link_without_keys_connects_again_to_whom_broke_the_rules_of_zmtp(tmp_path):
    now = 0.0
    with (
        destroyed(zmq.Context()) as context,
        socket.create_server(("127.0.0.1", 0)) as listening,
    ):
        listening.settimeout(PATIENCE_S)
        secure_sockets = SecureSockets(context, Trust(), tmp_path, clock=lambda: now, warn=print)
        assert secure_sockets.next_due is None
        port = listening.getsockname()[1]
        link = secure_sockets.dealer(f"tcp://127.0.0.1:{port}", 1 << 20)
        first, _ = listening.accept()
        with first:  # libzmq never connects again to who says this
            first.sendall(GREETING + READY.replace(b"DEALER", b"PUSHER"))
            while first.recv(1_024):
                pass
        wait_until(lambda: link.poll(0, zmq.POLLOUT), lambda connected: not connected)
        for _ in range(2):
            assert secure_sockets.next_due <= now + 1.0
            now = secure_sockets.next_due
            secure_sockets.tick(now)
        with raw_zmtp.accepted(listening):
            assert link.poll(PATIENCE_S * 1e3, zmq.POLLOUT)
            now += 1.0
            secure_sockets.tick(now)
            link.close(0)
            secure_sockets.tick(now)
            assert secure_sockets.next_due is None
