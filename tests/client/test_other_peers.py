"""What answers is not the master's socket that was meant: that is told at once, and what it is."""

import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress

import pytest

from agent.client import Client, NoReplyError, Operator, OtherPeerError, other_peers
from agent.wire.codec import WireError, encode
from agent.wire.directory import Denied
from agent.wire.messages import Answer, Coverage
from agent.wire.node_messages import Rejected
from agent.wire.operator import OperatorError
from fleet.common import exits
from fleet.query import replies, running
from testkit.waiting import PATIENCE_MS, PATIENCE_S
from tests.client.test_client import scripted  # noqa: F401  # a fixture
from tests.net import raw_zmtp

REFUSED = Answer("", "refused", 0.0, False, Coverage(0, 0), reason="malformed", message="no")


@contextmanager
def listening(*sent, waits_for=0):
    """A TCP server that sends this to whoever connects, each part when it was sent something."""

    def serve(peer):
        with peer, suppress(OSError):
            for n, part in enumerate(sent):
                if n >= waits_for or peer.recv(1 << 16).startswith(b"GET "):
                    peer.sendall(part)
            peer.recv(1 << 16)

    def accept():
        while True:
            try:
                peer, _ = server.accept()
            except OSError:
                return
            threading.Thread(target=serve, args=(peer,), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        yield f"tcp://127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)
    thread.join()


@pytest.mark.parametrize(
    ("reply", "what"),
    [
        (Denied("q1", "malformed", "no"), "a registration service"),
        (Rejected("no"), "a master's socket for nodes"),
        (OperatorError("no"), "a master's operator socket"),
    ],
)
def test_another_socket_of_sanderling_is_named(scripted, reply, what):  # noqa: F811
    address = scripted([encode(reply)])
    with Client(address) as client, pytest.raises(OtherPeerError, match=f"{address} is {what}"):
        client.query(["b1"], last_s=1, timeout_ms=PATIENCE_MS)


def test_a_public_socket_is_named_to_an_operator(scripted):  # noqa: F811
    address = scripted([encode(REFUSED)])
    with Operator(address) as operator, pytest.raises(OtherPeerError, match="public socket"):
        operator.status(PATIENCE_MS)


@pytest.mark.parametrize(
    ("page", "what"),
    [
        (b"HTTP/1.0 200 OK\r\n\r\n<title>Rooms - Sanderling</title>", "a Sanderling gateway"),
        (b"HTTP/1.1 404 Not Found\r\n\r\n", "a web server"),
    ],
)
def test_a_web_server_is_named_without_waiting_for_the_answer(page, what):
    with (
        listening(page, waits_for=1) as address,
        Client(address) as client,
        pytest.raises(OtherPeerError, match=f"{address} is {what}"),
    ):
        client.query(["b1"], last_s=1, timeout_ms=PATIENCE_MS)


def test_what_greets_with_something_else_is_told(monkeypatch):
    monkeypatch.setattr(other_peers, "GREETING_S", PATIENCE_S)
    with (
        listening(b"SSH-2.0-OpenSSH_9.2\r\n") as address,
        Client(address) as client,
        pytest.raises(OtherPeerError, match="no socket of Sanderling"),
    ):
        client.query(["b1"], last_s=1, timeout_ms=PATIENCE_MS)


def test_one_that_says_nothing_may_be_a_busy_master():
    with (
        listening() as address,
        Client(address) as client,
        pytest.raises(NoReplyError, match="no reply"),
    ):
        client.receive(1_500.0)


def test_the_demo_that_runs_is_named_in_a_sentence_of_its_own(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    with running.announced((running.Addresses("iad1", "tcp://h:1", "tcp://h:2"),)):
        for error in ("is a master running there?", "the name x cannot be resolved"):
            replies.fail(NoReplyError(error), "", "public")
    assert capsys.readouterr().err.splitlines() == [
        "fleet: is a master running there? A demo runs here at tcp://h:1.",
        "fleet: the name x cannot be resolved. A demo runs here at tcp://h:1.",
    ]


@pytest.mark.parametrize(
    ("given", "socket", "end"),
    [
        ("tcp://h:2", "public", "a master's public socket, tcp://h:1.\n"),
        ("tcp://h:1", "operator", "a master's operator socket, tcp://h:2.\n"),
        ("tcp://h:3", "operator", "operator socket. A demo runs here at tcp://h:2.\n"),
    ],
)
def test_the_address_that_was_meant_is_named(monkeypatch, tmp_path, capsys, given, socket, end):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    with running.announced((running.Addresses("iad1", "tcp://h:1", "tcp://h:2"),)):
        error = OtherPeerError(f"{given} is something else")
        assert replies.fail(error, "", socket) == exits.NO_REPLY
    assert capsys.readouterr().err.endswith(end)


def test_a_peer_that_sends_several_parts_and_goes_does_not_stop_the_client():
    """Its socket is made anew while libzmq tells that the connection is cut."""
    rounds = 150
    met = []
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(PATIENCE_S)

        def harm():
            for _ in range(rounds):
                made, _ = listening.accept()
                with suppress(OSError):
                    made.settimeout(PATIENCE_S)
                    made.sendall(raw_zmtp.GREETING)
                    made.recv(64, socket.MSG_WAITALL)
                    made.sendall(raw_zmtp.READY)
                    made.recv(100, socket.MSG_WAITALL)  # its own, and of its query
                    made.sendall(b"\1\1a" * 5 + b"\0\3abc" * 1_500)
                    made.shutdown(socket.SHUT_WR)  # all of it arrives, unlike before a reset
                    while made.recv(4_096):
                        pass
                made.close()
                met.append(made)

        with ThreadPoolExecutor(1) as beside:
            harming = beside.submit(harm)
            with Client(f"tcp://127.0.0.1:{listening.getsockname()[1]}") as client:
                while not harming.done():
                    with suppress(NoReplyError, WireError):
                        client.query(["b1"], last_s=1.0, timeout_ms=50.0)
            harming.result()
    assert len(met) == rounds
