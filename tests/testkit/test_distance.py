"""Distances: bytes come later, in order, both ways."""

import socket
import threading
import time

import pytest

from testkit.distance import Distances

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
    ways = Distances()
    try:
        port = int(ways.add(echo, WAY_S).rpartition(":")[2])
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
    finally:
        ways.close()


def test_nobody_behind_an_address_ends_the_connection():
    ways = Distances()
    try:
        with socket.create_server(("127.0.0.1", 0)) as gone:
            nobody = f"tcp://127.0.0.1:{gone.getsockname()[1]}"
        port = int(ways.add(nobody, 0.0).rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port)) as client:
            assert client.recv(1) == b""
    finally:
        ways.close()
