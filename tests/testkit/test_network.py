"""Links: bytes come later, in order, both ways; none through a cut; resets, and impostors."""

import socket
import threading
import time

import pytest

from testkit.network import ANYBODY, Network
from testkit.waiting import PATIENCE_S

WAY_S = 0.05


@pytest.fixture
def echo():
    """A server that sends back what it gets, until it ends."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve():
            connection, _ = listening.accept()
            with connection:
                while data := connection.recv(1 << 16):
                    connection.sendall(data)

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"tcp://127.0.0.1:{listening.getsockname()[1]}"
        thread.join()


def test_bytes_take_the_way_there_and_back_and_keep_their_order(echo):
    with Network() as network:
        port = int(network.route(ANYBODY, "echo", echo, WAY_S).rpartition(":")[2])
        sent = b"".join(b"%06d" % n for n in range(20_000))
        with socket.create_connection(("127.0.0.1", port)) as client:
            began_s = time.monotonic()
            client.sendall(sent)
            client.shutdown(socket.SHUT_WR)
            got = client.recv(1)
            # A lower bound, which no load of the machine breaks.
            assert time.monotonic() - began_s >= 2 * WAY_S
            while data := client.recv(1 << 16):
                got += data
        assert got == sent


def test_nobody_behind_an_address_ends_the_connection():
    with Network() as network:
        with socket.create_server(("127.0.0.1", 0)) as gone:
            nobody = f"tcp://127.0.0.1:{gone.getsockname()[1]}"
        port = int(network.route(ANYBODY, "nobody", nobody).rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port)) as client:
            assert client.recv(1) == b""


def test_nothing_passes_a_cut_until_the_last_one_through_it_is_joined():
    with Network() as network, socket.create_server(("127.0.0.1", 0)) as server:
        host, port = server.getsockname()
        address = network.route("iad1", "iad2", f"tcp://{host}:{port}")
        _, _, own = address.rpartition(":")
        with socket.create_connection(("127.0.0.1", int(own))) as client:
            there, _ = server.accept()
            with there:
                client.sendall(b"1")
                assert there.recv(1) == b"1"
                network.cut(("iad1",))
                network.cut(("iad2",))
                network.join(("iad1",))
                client.sendall(b"2")
                there.settimeout(0.05)
                with pytest.raises(TimeoutError):
                    there.recv(1)
                network.join(("iad2",))
                there.settimeout(None)
                assert there.recv(1) == b"2"


@pytest.fixture
def linked():
    """A network, the server of a link in it, and what connects through it."""
    with Network() as network, socket.create_server(("127.0.0.1", 0)) as server:
        host, port = server.getsockname()
        _, _, own = network.route("iad1", "iad2", f"tcp://{host}:{port}").rpartition(":")

        def connect():
            client = socket.create_connection(("127.0.0.1", int(own)), PATIENCE_S)
            there, _ = server.accept()
            there.settimeout(PATIENCE_S)
            return client, there

        yield network, connect


def before_the_reset(connection):
    came = b""
    try:
        while part := connection.recv(1_000):
            came += part
    except ConnectionResetError:
        return came
    pytest.fail("it was closed")


def test_a_reset_ends_what_is_open_at_both_ends_and_what_comes_later_within_what_passes(
    linked, monkeypatch
):
    monkeypatch.setattr("testkit.network.RESET", 0.0)
    network, connect = linked
    client, there = connect()
    with client, there:
        client.sendall(b"1")
        assert there.recv(1) == b"1"
        network.reset(("iad1",))
        for each in (client, there):
            with pytest.raises(ConnectionResetError):
                each.recv(1)
    client, there = connect()
    with client, there:
        monkeypatch.setattr("testkit.network.RESET", 1.0)
        client.sendall(bytes(1_000))
        with pytest.raises(ConnectionResetError):
            client.recv(1)
        assert len(before_the_reset(there)) < 1_000
    network.reset(("iad2",))
    network.reset_no_more(("iad1",))
    network.reset_no_more(("iad2",))
    client, there = connect()
    with client, there:
        client.sendall(b"2")
        assert there.recv(1) == b"2"


def test_an_impostor_speaks_in_place_of_the_target_until_it_is_asked_no_more(linked):
    async def impostor(reader, writer):
        writer.write(b"not " + await reader.readexactly(1))
        await writer.drain()

    network, connect = linked
    client, there = connect()
    with client, there:
        client.sendall(b"1")
        assert there.recv(1) == b"1"
        own = client.getpeername()
        network.impersonate("iad1", "iad2", impostor)
        with pytest.raises(ConnectionResetError):
            client.recv(1)
    with socket.create_connection(own, PATIENCE_S) as client:
        client.sendall(b"1")
        with client.makefile("rb") as came:
            assert came.read() == b"not 1"
    network.impersonate("iad1", "iad2", None)
    client, there = connect()
    with client, there:
        client.sendall(b"2")
        assert there.recv(1) == b"2"
