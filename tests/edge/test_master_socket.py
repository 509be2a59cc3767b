"""A node's socket: the pair of keys that it tries, and messages of several parts."""

from unittest.mock import Mock

import zmq

from agent.edge.master_socket import MasterSocket
from agent.net.keys import KeyFiles, new
from agent.wire.codec import encode
from agent.wire.edge_config import EdgeMaster
from agent.wire.node_messages import HelloWanted


class Heard:
    """A connection on which one message came."""

    def __init__(self):
        self.frames = [encode(HelloWanted())]

    def recv(self, _flags):
        if not self.frames:
            raise zmq.Again
        return self.frames.pop()

    def getsockopt(self, option):
        return option == zmq.EVENTS and int(zmq.POLLIN) * bool(self.frames)


def test_a_node_that_heard_its_master_begins_with_the_first_pair_again_else_with_the_next(tmp_path):
    first, last = (new(str(tmp_path / name)) for name in ("new", "old"))
    new(str(tmp_path / "master"))
    own = tmp_path / "new.secret"
    own.write_text(f"{first.secret}\n{last.secret}\n")
    keys = {"": KeyFiles(str(own), str(tmp_path / "master.public"))}
    socket = MasterSocket(EdgeMaster(address="tcp://127.0.0.1:1"), keys, Mock(), Mock())
    used = []

    def connect():
        socket.open()
        used.append(socket._handshake.own)
        socket.close(0.0)

    connect()
    socket._socket = Heard()
    assert list(socket.messages()) == [HelloWanted()]
    socket._socket = None
    connect()
    connect()
    socket.end()
    assert used == [first, first, last]


def test_a_node_leaves_a_master_whose_key_is_none_of_its_keys_any_more(tmp_path):
    _, server, other = (new(str(tmp_path / name)) for name in ("own", "master", "other"))
    public = tmp_path / "master.public"
    keys = {"": KeyFiles(str(tmp_path / "own.secret"), str(public))}
    socket = MasterSocket(EdgeMaster(address="tcp://127.0.0.1:1"), keys, Mock(), Mock())
    socket.open()

    def reconnects():
        socket._look_at_s = 0.0
        return socket.keyed_anew()

    public.write_text(f"{other.public}\n{server.public}\n")
    assert not reconnects()
    public.write_text(f"{other.public}\n")
    assert reconnects()
    assert socket._handshake.server == other.public
    assert not reconnects()
    socket.close(0.0)
    socket.end()


def test_a_message_of_several_parts_is_one_that_is_malformed_and_is_not_read_on():
    with zmq.Context() as context, context.socket(zmq.ROUTER) as master:
        address = f"tcp://127.0.0.1:{master.bind_to_random_port('tcp://127.0.0.1')}"
        poller = zmq.Poller()
        socket = MasterSocket(EdgeMaster(address=address), {}, poller, Mock())
        socket.open()
        socket.send(b"hello")
        sender, _ = master.recv_multipart()
        welcome = encode(HelloWanted())
        master.send_multipart([sender, welcome, welcome, welcome])
        assert socket.ready(dict(poller.poll(10_000)))
        assert list(socket.messages()) == []
        assert socket.malformed == 1
        socket.send(b"hello")
        again, _ = master.recv_multipart()
        assert again != sender
        master.send_multipart([again, welcome])
        assert socket.ready(dict(poller.poll(10_000)))
        assert list(socket.messages()) == [HelloWanted()]
        socket.close(0.0)
        socket.end()
