"""A client whose master sends faster than it takes."""

import pytest
import zmq

from agent.client import Client, ConnectionCutError, NoReplyError
from agent.client import connection as of_client
from agent.net import receive_backlog
from agent.net.tcp_counters import TcpCounters
from agent.wire.messages import Query, Slo, Window
from testkit.waiting import PATIENCE_MS, wait_until

MIB = 1 << 20
QUERY = Query("q", ("b1",), Window(last_s=1.0), Slo(99.0, 500.0))
# Nobody asked for it; a field that is not known fills it.
ANSWER = (
    b'10J{"type":"answer","id":"a","status":"refused","elapsed_ms":1,"slo_met":false,'
    b'"coverage":{"asked":0,"answered":0},"more":"' + b"x" * (MIB // 16) + b'"}'
)


@pytest.fixture
def master(context, monkeypatch):
    """A ROUTER that keeps what it sends, and its address. 2 MiB may wait at its client."""
    monkeypatch.setattr(receive_backlog, "MAX_BYTES", MIB)
    monkeypatch.setattr(of_client, "MAX_RESULT_BYTES", MIB)
    socket = context.socket(zmq.ROUTER)
    socket.setsockopt(zmq.SNDHWM, 0)
    return socket, f"tcp://127.0.0.1:{socket.bind_to_random_port('tcp://127.0.0.1')}"


def flood(socket, count):
    """Send so many to the client that asks, and wait until its host has them."""
    assert socket.poll(PATIENCE_MS)
    client, frame = socket.recv_multipart(copy=False)
    tcp, fd = TcpCounters(), frame.get(zmq.SRCFD)
    for _ in range(count):
        socket.send_multipart([client.bytes, ANSWER])
    size = count * len(ANSWER)
    wait_until(lambda: tcp.written(fd), lambda told: told[0] >= size and told[1] == 0)


def take_all(client, until_cut):
    while True:
        client.receive(PATIENCE_MS, until_cut=until_cut)


@pytest.mark.parametrize(
    ("until_cut", "error"), [(True, ConnectionCutError), (False, NoReplyError)]
)
def test_what_waits_beyond_a_bound_is_dropped_with_the_connection(master, until_cut, error):
    socket, address = master
    with Client(address) as client:
        client.send(QUERY)
        flood(socket, 200)
        with pytest.raises(error, match="sends faster than this client takes it"):
            take_all(client, until_cut)
        client.send(QUERY)  # over another connection
        flood(socket, 1)
        assert client.receive(PATIENCE_MS).status == "refused"


def test_what_waits_below_it_is_taken(master):
    socket, address = master
    with Client(address) as client:
        for _ in range(4):
            client.send(QUERY)
            flood(socket, 24)
            for _ in range(24):
                assert client.receive(PATIENCE_MS).status == "refused"
