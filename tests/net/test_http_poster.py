"""One attempt to post, against a real HTTP server: what comes of each thing that it may do."""

from __future__ import annotations

import contextlib
import select
import shutil
import socket
import ssl
import subprocess
from contextlib import suppress
from functools import partial

import pytest

from agent.net.attempt_limit import AttemptLimit
from agent.net.connection_errors import in_words
from agent.net.http_poster import MAX_INTERIM, Poster, Request
from agent.runtime.disk_writer import DiskWriterThread
from agent.runtime.retrying import Answered
from agent.wire.webhook_config import Target
from testkit.waiting import PATIENCE_S
from tests.master.webhook_receiver import Receiver

WITHOUT_ANSWER = "it ended the connection without an answer; is TLS expected on one side only?"
REQUEST = Request(b'{"a":1}', {"webhook-id": "w_1", "webhook-timestamp": "1"})


def attempt(port, *, timeout_s=PATIENCE_S, tls=False, host="127.0.0.1", ca=None):
    target = Target(tls, host, port, "/x?y=1")
    context = partial(ssl.create_default_context, cafile=ca)
    return Poster(target, timeout_s, context).post(REQUEST)


@pytest.fixture
def receiver():
    made = Receiver(200)
    yield made
    made.close()


def test_it_posts_what_it_is_told_to(receiver):
    assert attempt(receiver.port) == Answered(200, "200 OK")
    post = receiver.next()
    assert (post.path, post.body, post.id) == ("/x?y=1", REQUEST.body, "w_1")
    assert post.headers["Host"] == f"127.0.0.1:{receiver.port}"


def test_a_redirection_is_not_followed(receiver):
    receiver.answers = [302]
    answered = attempt(receiver.port)
    assert answered.status == 302
    assert "not followed" in answered.line


@pytest.mark.parametrize(("after", "seconds"), [(b"7", 7.0), (b"Mon, 1 Jan", 0.0), (b"-1", 0.0)])
def test_what_it_asks_for_is_read(receiver, after, seconds):
    receiver.answers = [b"HTTP/1.1 503 Busy\r\nRetry-After: %s\r\n\r\n" % after]
    assert attempt(receiver.port) == Answered(503, "503 Busy", seconds)


def test_an_endless_body_is_not_read(receiver):
    receiver.answers = [b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 4_000_000]
    assert attempt(receiver.port) == Answered(200, "200 OK")


@pytest.mark.parametrize("more", [0, 1])
def test_interim_answers_have_an_end(receiver, more):
    interim = b"HTTP/1.1 100 Continue\r\n\r\n" * (MAX_INTERIM + more)
    receiver.answers = [interim + b"HTTP/1.1 200 OK\r\n\r\n"]
    assert attempt(receiver.port).status == (0 if more else 200)


@pytest.mark.parametrize("answer", [b"SMTP\r\n\r\n", b"HTTP/1.1 200 OK\r\nx", b""])
def test_what_is_no_answer_is_none(receiver, answer):
    receiver.answers = [answer]
    answered = attempt(receiver.port)
    assert (answered.status, "\n" in answered.line) == (0 if answer[:4] != b"HTTP" else 200, False)


def test_words_that_a_terminal_would_obey_are_not_told(receiver):
    receiver.answers = [b"HTTP/1.1 500 \x1b]0;x\x07no\x9b2Jgo\r\n\r\n"]
    assert attempt(receiver.port) == Answered(500, "500 ]0;x no 2Jgo")


def test_all_addresses_of_a_name_have_one_time_together(monkeypatch):
    tried = []
    with contextlib.ExitStack() as stack:
        full = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(4):
            one = stack.enter_context(socket.socket())
            one.setblocking(False)
            one.connect_ex(full.getsockname())  # beyond the backlog none is answered

        def addresses(host, port, *_, **__):
            for number in range(40):
                tried.append(number)
                yield socket.AF_INET, socket.SOCK_STREAM, 0, "", (host, port)

        monkeypatch.setattr(socket, "getaddrinfo", addresses)
        answered = attempt(full.getsockname()[1], timeout_s=0.1)
    assert answered == Answered(0, "no answer within 0.1 s")
    assert len(tried) < 5


def test_nobody_there():
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    answered = attempt(port)
    assert answered == Answered(0, "nothing listens on that host and port")


def test_a_name_that_is_not_found(monkeypatch):
    def unknown(*_, **__):
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    answered = attempt(1, host="secret.example")
    assert answered == Answered(0, "its host name was not found: Name or service not known")


def test_no_answer_in_time(receiver):
    receiver.answers = [None]
    assert attempt(receiver.port, timeout_s=0.1) == Answered(0, "no answer within 0.1 s")


@pytest.mark.parametrize(("tls", "begin"), [(False, b"HTTP/1.1 "), (True, b"\x16\x03\x03\x40\x00")])
def test_a_byte_now_and_then_does_not_make_it_longer(tls, begin):
    """Each read would have its own timeout, in the handshake of TLS, too; all together have one."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        thread, told = DiskWriterThread("webhook"), []
        target = Target(tls, "127.0.0.1", server.getsockname()[1], "/")
        poster = Poster(target, 0.3, ssl.create_default_context)
        thread.submit(partial(poster.post, REQUEST), told.append)
        connection, _ = server.accept()
        with connection:
            connection.sendall(begin)
            while not select.select([thread.fileno], [], [], 0.05)[0]:
                with suppress(OSError):  # its end of the connection is closed first
                    connection.sendall(b"2")
        thread.close()
        assert told == [Answered(0, "no answer within 0.3 s")]


def test_a_connection_that_tls_has_taken_over_is_cut():
    """TLS makes another socket of the same file descriptor."""
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        AttemptLimit(0.1) as limit,
        socket.socket(fileno=limit.connect(server.getsockname()).detach()) as taken,
    ):
        taken.settimeout(PATIENCE_S)
        assert taken.recv(1) == b""
        assert limit.is_over


def test_a_server_that_does_not_speak_tls(receiver):
    assert attempt(receiver.port, tls=True).status == 0


@pytest.fixture
def certificate(tmp_path):
    """Of localhost, with its key."""
    if (openssl := shutil.which("openssl")) is None:
        pytest.skip("openssl is not installed")
    key, made = tmp_path / "key.pem", tmp_path / "made.pem"
    command = f"{openssl} req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 1"
    name = "-subj /CN=localhost -addext subjectAltName=DNS:localhost"
    files = ["-keyout", key, "-out", made]
    subprocess.run([*command.split(), *name.split(), *files], check=True, capture_output=True)
    made.write_text(made.read_text() + key.read_text())
    return made


def test_a_certificate_is_checked_and_so_is_its_name(certificate):
    receiver = Receiver(200, certificate=certificate)
    try:
        known = {"tls": True, "ca": str(certificate)}
        assert attempt(receiver.port, host="localhost", **known) == Answered(200, "200 OK")
        assert receiver.next().body == REQUEST.body
        unknown = attempt(receiver.port, host="localhost", tls=True)
        assert unknown.line == (
            "its certificate is not accepted: self-signed certificate; "
            "ca names the file with that of its authority"
        )
        elsewhere = attempt(receiver.port, **known)
        assert elsewhere.line == (
            "its certificate is not accepted: "
            "IP address mismatch, certificate is not valid for '127.0.0.1'"
        )
        assert receiver.posts.empty()
        plain = attempt(receiver.port)
        assert plain.line == WITHOUT_ANSWER
    finally:
        receiver.close()


def test_a_receiver_that_wants_a_certificate_of_its_clients(certificate):
    receiver = Receiver(200, certificate=certificate, clients=certificate)
    try:
        answered = attempt(receiver.port, host="localhost", tls=True, ca=str(certificate))
        wanted = "it wants a certificate of its clients; none can be given"
        # The end of the connection may come before the reason.
        assert answered.line in (wanted, WITHOUT_ANSWER)
        assert receiver.posts.empty()
    finally:
        receiver.close()


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ConnectionResetError(104, "Connection reset by peer"), WITHOUT_ANSWER),
        (ssl.SSLEOFError(8, "EOF occurred in violation of protocol"), WITHOUT_ANSWER),
        (ssl.SSLError(1, "[SSL] x (_ssl.c:1)"), "[SSL] x (_ssl.c:1)"),
        (ValueError("one\ntwo"), "one two"),
    ],
)
def test_errors_are_told_in_words(error, words):
    assert in_words(error) == words


def test_an_error_that_a_library_made_of_a_time_out_is_one():
    """smtplib's was "Connection unexpectedly closed: timed out", if it came before the limit's."""
    made = RuntimeError("Connection unexpectedly closed: timed out")
    made.__context__ = TimeoutError("timed out")
    with AttemptLimit(60.0) as limit:
        assert limit.ended(made) == "no answer within 60 s"
        assert limit.ended(RuntimeError("closed")) == ""
