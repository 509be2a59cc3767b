"""Which pair of keys a node tries, while either end rotates its key."""

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

    def getsockopt(self, _option):
        return int(zmq.POLLIN) * bool(self.frames)


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
