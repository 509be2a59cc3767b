"""Attempts of a client with keys to connect."""

import itertools
from concurrent.futures import ThreadPoolExecutor

import pytest
import zmq
from zmq.utils.monitor import recv_monitor_message

from agent.client import Client, Operator, connection
from agent.client.connection import Connection
from agent.net.keys import KeyFiles, new, read_secrets
from agent.wire.codec import encode
from agent.wire.operator import IadStatus
from testkit.waiting import PATIENCE_MS, PATIENCE_S

STATUS = encode(IadStatus("iad1", "edfq", (), (), 0, 0, {}))


@pytest.fixture
def keys(tmp_path):
    for name in ("own", "server"):
        new(str(tmp_path / name))
    return KeyFiles(str(tmp_path / "own.secret"), str(tmp_path / "server.public"))


@pytest.fixture
def bound(context, tmp_path, keys):
    """Make a ROUTER with the server's keys; it, and its address."""

    def bind():
        socket = context.socket(zmq.ROUTER)
        [pair] = read_secrets(str(tmp_path / "server.secret"))
        socket.curve_server = True
        socket.curve_secretkey, socket.curve_publickey = pair.secret.encode(), pair.public.encode()
        port = socket.bind_to_random_port("tcp://127.0.0.1")
        return socket, f"tcp://127.0.0.1:{port}"

    return bind


def test_a_handshake_gets_more_time_with_each_round_of_all_pairs(keys, monkeypatch):
    ticks = itertools.count()
    waited_ms = []
    with Client("tcp://127.0.0.1:9", keys) as client:
        monkeypatch.setattr(zmq.Socket, "poll", lambda _self, ms, _events: waited_ms.append(ms))
        monkeypatch.setattr(connection.time, "monotonic", lambda: next(ticks))
        monkeypatch.setattr(connection.other_peers, "at", lambda _address: "")
        assert not client.is_connected(3)
        assert not client.is_connected(3)  # another call begins again
    assert waited_ms == [n * connection.HANDSHAKE_MS for n in (1, 2, 3, 1, 2, 3)]


def test_a_request_is_not_lost_though_a_handshake_ends_as_another_begins(bound, keys, monkeypatch):
    """The first attempt of each client is given up as soon as the master has accepted it."""
    socket, address = bound()
    accepted = socket.get_monitor_socket(zmq.EVENT_HANDSHAKE_SUCCEEDED)

    def look(_self):
        recv_monitor_message(accepted)
        monkeypatch.setattr(connection, "HANDSHAKE_MS", PATIENCE_MS)

    monkeypatch.setattr(Connection, "_look_who_is_there", look)
    with ThreadPoolExecutor() as threads:
        for _ in range(20):
            monkeypatch.setattr(connection, "HANDSHAKE_MS", 0)
            with Operator(address, keys) as operator:
                asked = threads.submit(operator.status, PATIENCE_MS)
                assert socket.poll(PATIENCE_MS)
                identity, _ = socket.recv_multipart()
                socket.send_multipart([identity, STATUS])
                assert asked.result().iad == "iad1"


def test_a_client_leaves_a_master_whose_key_is_none_of_its_keys_any_more(
    bound, keys, monkeypatch, tmp_path
):
    monkeypatch.setattr(connection, "LOOK_S", 0.0)
    monkeypatch.setattr(connection, "HANDSHAKE_MS", 100)
    _, address = bound()
    with Client(address, keys) as client:
        assert client.is_connected(PATIENCE_S)
        (tmp_path / "server.public").write_text(f"{new(str(tmp_path / 'other')).public}\n")
        assert not client.is_connected(0.2)
