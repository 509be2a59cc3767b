"""A connection that is reset ends no process, whatever libzmq has not read of it yet.

libzmq 4.3 aborts the process if it has stopped reading a connection, a heartbeat of ZMTP is next,
and the connection fails (libzmq issue 4364). So the other end is in a process of its own.
"""

import socket
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
# Connects, and the same. What was read of a connection that failed may be dropped.
DIALS = {
    "a client": """
from agent.client.connection import Connection
from agent.wire.unions import ClientReply
made = Connection(sys.argv[1], ClientReply, None)
socket = made.socket
""",
    "a node": """
from agent.edge.master_socket import MasterSocket
from agent.wire.edge_config import EdgeMaster
made = MasterSocket(EdgeMaster(address=sys.argv[1]), {}, zmq.Poller(), None)
made.open()
socket = made._socket
""",
    "another agent": """
from agent.net.dealer import unconnected
socket = unconnected(zmq.Context(), 1 << 20)
socket.connect(sys.argv[1])
""",
}
READS = """
sys.stdin.readline()
count = 0
while socket.poll(0):
    socket.recv()
    count += 1
print(count, flush=True)
socket.close(0)
"""


def running(program, address):
    return subprocess.Popen(
        [sys.executable, "-c", program, address],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def resets_behind_many_messages(process, connection):
    connection.sendall(b"\0\3abc" * MESSAGES + PING)
    came = b""
    while b"\x04PONG" not in came:  # all before it was read by libzmq
        came += connection.recv(1_024)
    connection.sendall(PING)
    raw_zmtp.reset(connection)
    said, _ = process.communicate("read\n", timeout=PATIENCE_S)
    assert process.returncode == 0
    return int(said)


def test_a_heartbeat_behind_many_messages_and_a_reset_end_no_process():
    address = free_address()
    with running(SERVER, address) as server:
        assert server.stdout is not None
        assert server.stdout.readline() == "ready\n"
        assert resets_behind_many_messages(server, raw_zmtp.shaken(address)) == MESSAGES


@pytest.mark.parametrize("who", DIALS)
def test_nor_those_of_whom_it_has_connected_to(who):
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(PATIENCE_S)
        port = listening.getsockname()[1]
        program = f"import sys, zmq{DIALS[who]}{READS}"
        with running(program, f"tcp://127.0.0.1:{port}") as process:
            resets_behind_many_messages(process, raw_zmtp.accepted(listening))


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
                raw_zmtp.reset(client)
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
