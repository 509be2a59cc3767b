"""Whoever answers at a host's address, and hosts that are somebody else's by now: they neither hold
a command for ever nor fill this machine's memory."""

from __future__ import annotations

import itertools
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import paramiko
import pytest

from fleet.inspect import remote as inspecting
from fleet.keys.errors import KeyStoreError
from fleet.rollout.keys.adopt import shown_by
from fleet.ssh.connect import MAX_BANNER, MAX_PACKET, Login, open_login
from fleet.ssh.errors import HostError
from fleet.ssh.remote import run_program
from tests.fleet.ssh.test_connect import Server

PATIENCE_S = 60
PIECE = bytes(1 << 16)
# What buffers of two sockets may hold.
BUFFERED = 16 << 20


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    found = Server(tmp_path)
    yield found
    found.close()


def ended(work: Callable[[], object]) -> HostError:
    """The error that ends the work, in a thread since it may never end."""
    found: list[HostError] = []

    def attempt() -> None:
        try:
            work()
        except HostError as error:
            found.append(error)

    thread = threading.Thread(target=attempt, daemon=True)
    thread.start()
    thread.join(PATIENCE_S)
    assert not thread.is_alive(), "it never ends"
    (error,) = found
    assert "\n" not in str(error)
    return error


def log_in(login: Login, known_hosts: Path) -> None:
    with open_login(login, known_hosts):
        pass


class Stranger:
    """Answers a connection by some bytes, and then others without end, or by silence; counts how
    many it could send."""

    def __init__(self, first: bytes, then: bytes) -> None:
        self.sent = 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.thread = threading.Thread(target=self._answer, args=(first, then), daemon=True)
        self.thread.start()

    def _answer(self, first: bytes, then: bytes) -> None:
        taken, _ = self.listener.accept()
        with taken:
            try:
                taken.sendall(first)
                while then:
                    self.sent += taken.send(then)
                while taken.recv(1 << 16):
                    pass
            except OSError:
                pass  # it was cut off

    def __enter__(self) -> Stranger:
        return self

    def __exit__(self, *_: object) -> None:
        self.listener.close()
        self.thread.join(PATIENCE_S)
        assert not self.thread.is_alive(), "its connection is open"


@pytest.mark.parametrize(
    ("first", "then", "most", "told"),
    [
        (b"", b"x" * 4096, MAX_BANNER, "is no SSH server"),
        (b"SSH-2.0-x\r\n" + struct.pack(">I", 0xFFFFFFF4), PIECE, MAX_PACKET, "no SSH at"),
    ],
    ids=["a line", "a packet"],
)
def test_who_answers_without_end_is_cut_off(
    server: Server, first: bytes, then: bytes, most: int, told: str
) -> None:
    with Stranger(first, then) as stranger:
        server.pin(server.host_key, f"[127.0.0.1]:{stranger.port}")
        login = server.login._replace(port=stranger.port)
        error = ended(lambda: log_in(login, server.known_hosts))
        assert (error.kind, told in str(error)) == ("dead", True), str(error)
    assert stranger.sent <= most + BUFFERED


def test_nor_does_it_fill_the_memory_of_who_looks_at_its_key() -> None:
    with (
        Stranger(b"SSH-2.0-x\r\n" + struct.pack(">I", 0xFFFFFFF4), PIECE) as stranger,
        pytest.raises(KeyStoreError, match="no SSH at"),
    ):
        shown_by("127.0.0.1", stranger.port, 20.0)
    assert stranger.sent <= MAX_PACKET + BUFFERED


def test_a_connection_that_was_given_up_is_closed(server: Server) -> None:
    """It began the protocol in time, and goes no further: paramiko would wait for it as before."""
    with Stranger(b"SSH-2.0-x\r\n", b"") as stranger:
        server.pin(server.host_key, f"[127.0.0.1]:{stranger.port}")
        login = server.login._replace(port=stranger.port, connect_s=0.3)
        assert ended(lambda: log_in(login, server.known_hosts)).kind == "dead"


@pytest.fixture
def stuck(server: Server) -> Iterator[Server]:
    """A host that does not say whether it runs a command."""
    go = threading.Event()
    server.doorman.check_channel_exec_request = lambda channel, command: go.wait()  # type: ignore[method-assign]
    yield server
    go.set()


def test_a_host_that_does_not_say_whether_it_begins_is_lost(stuck: Server) -> None:
    def ask() -> None:
        with open_login(stuck.login, stuck.known_hosts) as connection:
            run_program(connection, {}, silence_s=0.3)

    error = ended(ask)
    assert (error.kind, str(error)) == ("lost", "not a word for 0.3 s")


def test_nor_does_it_hold_a_command_of_the_operators(
    stuck: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inspecting, "SILENCE_S", 0.3)

    def ask() -> None:
        with open_login(stuck.login, stuck.known_hosts) as connection:
            inspecting.stream(connection, "true", lambda which, data: None, stop=threading.Event())

    assert ended(ask).kind == "lost"


def each_channel(server: Server, act: Callable[[paramiko.Channel], object]) -> None:
    """Let the host do something with each channel that is opened to it."""

    def begun(transport: paramiko.Transport) -> None:
        def serve() -> None:
            if (channel := transport.accept(PATIENCE_S)) is not None:
                with suppress(OSError, EOFError):  # it was cut off
                    act(channel)

        threading.Thread(target=serve, daemon=True).start()

    server.begun = begun  # type: ignore[method-assign]


def test_a_host_that_reads_now_and_then_is_given_up_in_time(server: Server) -> None:
    def read(channel: paramiko.Channel) -> None:
        while channel.recv(1 << 16):
            pass

    each_channel(server, read)

    def send() -> None:
        with open_login(server.login, server.known_hosts) as connection:
            run_program(connection, {}, data=itertools.repeat(bytes(32_000)), most_s=2.0)

    error = ended(send)
    assert (error.kind, str(error)) == ("lost", "it was not done within 2 s")


@pytest.mark.parametrize("stream", ["sendall", "sendall_stderr"])
def test_a_host_that_sends_more_than_it_may_is_cut_off(server: Server, stream: str) -> None:
    """paramiko keeps all of it in memory; standard error is not read before the end."""
    sent = [0]
    opened, over = threading.Event(), threading.Event()

    def flood(channel: paramiko.Channel) -> None:
        channel.out_window_size = 1 << 40
        try:
            opened.wait(PATIENCE_S)
            while sent[0] < 1 << 28:
                getattr(channel, stream)(PIECE)
                sent[0] += len(PIECE)
        finally:
            over.set()

    each_channel(server, flood)

    with open_login(server.login, server.known_hosts) as connection:
        session = connection.transport.open_session()
        opened.set()
        assert over.wait(PATIENCE_S)
        assert len(session.in_buffer) + len(session.in_stderr_buffer) < 4 << 20
    assert sent[0] < 1 << 28
