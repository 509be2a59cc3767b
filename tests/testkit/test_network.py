"""Links: bytes come later, in order, both ways; none through a cut."""

import socket
import threading
import time

import pytest

from testkit.network import ANYBODY, Network

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
