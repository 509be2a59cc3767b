"""A connection that is reset ends no process, whatever libzmq has not read of it yet.

libzmq 4.3 aborts the process if it has stopped reading a connection, a heartbeat of ZMTP is next,
and the connection fails (libzmq issue 4364). So the other end is in a process of its own.
"""

import socket
import struct
import subprocess
import sys

import pytest
import zmq

from agent.net import listener
from agent.net.listener import TcpListener
from agent.net.router import NODES_WAITING
from agent.net.socket_filters import drop_resets
from fleet.testbed.ports import free_address
from testkit.waiting import PATIENCE_S
from tests.net import raw_zmtp
from tests.net.conftest import destroyed, may_filter

PING = b"\x04\x07\x04PING\0\0"
MESSAGES = 5_000
# Binds, reads nothing until it is told to, then all there is.
SERVER = f"""
import sys, zmq
from agent.net.router import router
with zmq.Context() as context:
    made = router(context, sys.argv[1], requests_only=True)
    print("ready", flush=True)
    sys.stdin.readline()
    count = 0
    while count < {MESSAGES} and made.socket.poll({PATIENCE_S * 1_000:.0f}):
        while made.receive() is not None:
            count += 1
    print(count, flush=True)
    made.socket.close(0)
"""


def reset(connection):
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def test_a_heartbeat_behind_many_messages_and_a_reset_end_no_process():
    address = free_address()
    with subprocess.Popen(
        [sys.executable, "-c", SERVER, address],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as server:
        assert server.stdout is not None
        assert server.stdout.readline() == "ready\n"
        connection = raw_zmtp.shaken(address)
        connection.sendall(b"\0\x03abc" * MESSAGES + PING)
        came = b""
        while not came.endswith(b"\x04PONG"):  # all before it was read by libzmq
            came += connection.recv(1_024)
        connection.sendall(PING)
        reset(connection)
        said, _ = server.communicate("read\n", timeout=PATIENCE_S)
    assert (server.returncode, said) == (0, f"{MESSAGES}\n")


@pytest.mark.skipif(not may_filter(), reason="this kernel wants CAP_NET_ADMIN for it")
def test_where_resets_are_dropped_they_are_not_seen_and_all_else_is():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        drop_resets(listening)
        with socket.create_connection(listening.getsockname()) as client:
            accepted, _ = listening.accept()
            with accepted:
                accepted.settimeout(PATIENCE_S)
                client.sendall(b"hi")
                assert accepted.recv(9) == b"hi"
                reset(client)
                # Loopback delivers within the call, so that it was there by now.
                accepted.setblocking(False)
                with pytest.raises(BlockingIOError):
                    accepted.recv(9)
        with socket.create_connection(listening.getsockname()) as client:
            client.shutdown(socket.SHUT_WR)
            with listening.accept()[0] as accepted:
                accepted.settimeout(PATIENCE_S)
                assert accepted.recv(9) == b""


@pytest.mark.parametrize("refuses", [False, True])
def test_where_the_kernel_drops_no_resets_no_queue_is_ever_full(monkeypatch, refuses):
    def dropping(_listening):
        if refuses:
            raise PermissionError

    monkeypatch.setattr(listener, "drop_resets", dropping)
    with destroyed(zmq.Context()) as context, context.socket(zmq.ROUTER) as nodes:
        nodes.setsockopt(zmq.RCVHWM, NODES_WAITING)
        TcpListener(nodes, free_address(), takes_resets=False).bind()
        assert nodes.getsockopt(zmq.RCVHWM) == (0 if refuses else NODES_WAITING)
