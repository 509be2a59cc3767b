"""Connections are counted when they are accepted: silent ones shut nobody else out."""

import asyncio.constants
import contextlib
import http.client as http_client
import json
import logging
import os
import resource
import socket
import ssl

import pytest

from agent.gateway.http import app, connections, server
from agent.runtime import rate_limited_lines
from agent.runtime.rate_limited_lines import RateLimitedLines
from testkit.waiting import PATIENCE_S, wait_until
from tests.gateway.conftest import ask
from tests.gateway.fake import FakeGateway
from tests.gateway.outputs.smtp_server import make_certificate

MOST = 8
FLOOD = "127.0.0.2"  # another host than that of `ask`
TOLD = f"more than {MOST} connections: closed some of {FLOOD}\n"


@pytest.fixture
def opened():
    """Opens connections from an address."""
    with contextlib.ExitStack() as stack:

        def opens(made, number=1, source=FLOOD):
            return [
                stack.enter_context(
                    socket.create_connection(("127.0.0.1", made.port), PATIENCE_S, (source, 0))
                )
                for _ in range(number)
            ]

        yield opens


@pytest.fixture
def https(tmp_path):
    """Sections of a gateway with TLS, and a client's context."""
    key, certificate = make_certificate(tmp_path)
    http = {
        "certificate": str(certificate),
        "private_key": str(key),
        "hosts": ["localhost"],
        "most_connections": MOST,
    }
    return http, ssl.create_default_context(cafile=certificate)


def request(made, path="/healthz", token=""):
    lines = [f"GET {path} HTTP/1.1", f"Host: 127.0.0.1:{made.port}"]
    if token:
        lines.append(f"Authorization: Bearer {token}")
    return "\r\n".join([*lines, "", ""]).encode()


def is_ended(connection):
    """Whether the other end closes it; waits for that, or for data."""
    try:
        return connection.recv(1) == b""
    except ConnectionError:
        return True


def until(connection, words):
    got = b""
    while words not in got:
        part = connection.recv(1 << 16)
        assert part, got
        got += part
    return got


def rest_of(connection):
    """What still comes, until the other end closes."""
    got = b""
    with contextlib.suppress(ConnectionError):
        while part := connection.recv(1 << 16):
            got += part
    return got


def chunked(made):
    head = request(made, "/api/v1/query").replace(b"GET", b"POST")
    return head.replace(b"\r\n\r\n", b"\r\nTransfer-Encoding: chunked\r\n\r\n")


def last(made):
    return request(made).replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")


@pytest.mark.parametrize("more", [0, 1])
def test_a_body_has_a_limited_number_of_chunks(tmp_path, opened, more):
    chunk, end = b"1\r\nx\r\n", b"0\r\n\r\n"
    with FakeGateway(tmp_path) as made:
        (sender,) = opened(made)
        told = f"\r\nAuthorization: Bearer {made.token()}\r\nContent-Type: application/json"
        head = chunked(made).replace(b"\r\n\r\n", f"{told}\r\n\r\n".encode())
        sender.sendall(head + chunk * connections.MAX_CHUNKS + end)
        until(sender, b"malformed")
        with contextlib.suppress(ConnectionError):
            sender.sendall(head + chunk * (connections.MAX_CHUNKS + more) + end + last(made))
        assert (b'{"status":"ok"}' in rest_of(sender)) is not bool(more)


@pytest.mark.parametrize("length", ["Content-Length: 1000000", "Transfer-Encoding: chunked"])
def test_a_body_that_nobody_wants_is_not_read_to_its_end(tmp_path, opened, length):
    with FakeGateway(tmp_path) as made:
        for path, token, word in (
            ("/healthz", "", b'{"status":"ok"}'),
            ("/api/v1/query", "", b"wrong_method"),
            ("/api/v1/stream", made.token(), b"event: snapshot"),
        ):
            (sender,) = opened(made)
            head = request(made, path, token)
            sender.sendall(head.replace(b"\r\n\r\n", f"\r\n{length}\r\n\r\n".encode()))
            assert b"\r\nconnection: close\r\n" in until(sender, word).lower()
            with contextlib.suppress(ConnectionError):
                sender.sendall(b"1\r\nx\r\n")
            rest_of(sender)
        wait_until(made.gateway.streams.total, lambda number: number == 0)


def test_what_is_no_http_after_an_answer_ends_the_connection_without_a_word(
    tmp_path, opened, caplog
):
    with FakeGateway(tmp_path) as made, caplog.at_level(logging.WARNING, "asyncio"):
        (sender,) = opened(made)
        sender.sendall(chunked(made))
        until(sender, b"not_authenticated")
        sender.sendall(b"no chunk\r\n")
        assert rest_of(sender) == b""
        (stream,) = opened(made)
        stream.sendall(
            chunked(made)
            .replace(b"POST /api/v1/query", b"GET /api/v1/stream")
            .replace(b"\r\n\r\n", f"\r\nAuthorization: Bearer {made.token()}\r\n\r\n".encode())
        )
        until(stream, b"event: snapshot")
        stream.sendall(b"no chunk\r\n")
        rest_of(stream)
        assert ask(made, "/healthz").status == 200
        assert caplog.messages == []


def test_a_head_that_comes_at_once_is_no_longer_than_another(tmp_path, opened):
    with FakeGateway(tmp_path) as made:
        (sender,) = opened(made)
        with contextlib.suppress(ConnectionError):
            sender.sendall(last(made).replace(b"\r\n\r\n", b"\r\n" + b"a:b\r\n" * 12_000 + b"\r\n"))
        assert b"200 OK" not in rest_of(sender)


@pytest.mark.parametrize("more", [0, 1])
@pytest.mark.parametrize("at_once", [True, False])
def test_a_head_has_a_limited_number_of_lines(tmp_path, opened, more, at_once):
    with FakeGateway(tmp_path) as made:
        (sender,) = opened(made)
        lines = b"a:b\r\n" * (connections.MAX_LINES - 3 + more)
        head = last(made).replace(b"\r\n\r\n", b"\r\n" + lines + b"\r\n")
        assert head.count(b"\n") == connections.MAX_LINES + 1 + more
        for part in (head,) if at_once else (request(made), head[:500], head[500:]):
            sender.sendall(part)
        assert b"connection: close" in (got := rest_of(sender)).lower(), got
        assert (b"400 Bad Request" in got) is bool(more)
        # Further requests that come with one have heads of their own.
        (sender,) = opened(made)
        sender.sendall(request(made) * 60 + last(made))
        assert rest_of(sender).count(b"200 OK") == 61


def test_silent_connections_of_a_host_shut_nobody_else_out(tmp_path, opened):
    with FakeGateway(tmp_path, http={"most_connections": MOST}) as made:
        silent = opened(made, MOST + 4)
        assert ask(made, "/healthz").status == 200
        assert all(is_ended(each) for each in silent[MOST - 1 :])
        for each in silent[: MOST - 1]:
            each.sendall(request(made))
            until(each, b"HTTP/1.1 200")
        assert TOLD in made.said


def test_a_connection_at_work_outlives_an_older_idle_one(tmp_path, opened):
    with FakeGateway(tmp_path, http={"most_connections": MOST}) as made:
        idle = opened(made, MOST - 1)
        (stream,) = opened(made)
        stream.sendall(request(made, "/api/v1/stream", made.token()))
        until(stream, b"event: snapshot")
        assert ask(made, "/healthz").status == 200
        assert is_ended(idle[-1])
        made.fleet.raise_alert("b1/f1/r000")
        until(stream, b"event: alert")


def test_a_connection_that_ended_has_no_place(tmp_path, opened):
    with FakeGateway(tmp_path, http={"most_connections": MOST}) as made:
        for _ in range(3):
            for each in opened(made, MOST):
                each.sendall(request(made).replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
                until(each, b'{"status":"ok"}')
                assert is_ended(each)
        assert made.said == []


def test_the_limit_of_open_files_is_a_cap_too(tmp_path, opened, monkeypatch):
    monkeypatch.setattr(server, "room_for_files", lambda: MOST)
    with FakeGateway(tmp_path) as made:
        silent = opened(made, MOST + 1)
        assert is_ended(silent[-1])
        assert TOLD in made.said


def test_without_a_file_for_it_a_connection_waits_and_there_is_one_line(
    tmp_path, monkeypatch, caplog
):
    failed = []
    tell = RateLimitedLines.tell

    def counted(lines, line):
        failed.append(line)
        tell(lines, line)

    monkeypatch.setattr(RateLimitedLines, "tell", counted)
    monkeypatch.setattr(connections, "RETRY_S", 0.0)
    monkeypatch.setattr(rate_limited_lines, "PAUSE_S", 1e9)
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    with (
        FakeGateway(tmp_path) as made,
        socket.socket() as client,
        caplog.at_level(logging.WARNING, "asyncio"),
    ):
        client.settimeout(PATIENCE_S)
        lowest = os.open(os.devnull, os.O_RDONLY)
        os.close(lowest)
        resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, limits[1]))
        try:
            client.connect(("127.0.0.1", made.port))
            client.sendall(request(made))
            wait_until(lambda: len(failed) > 100)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        until(client, b"HTTP/1.1 200")
        assert made.said == ["cannot accept connections: Too many open files\n"]
    assert not caplog.records


def test_before_tls_a_connection_counts_too(tmp_path, opened, https, monkeypatch):
    monkeypatch.setattr(connections, "HANDSHAKE_S", 1e6)
    http, context = https
    with FakeGateway(tmp_path, http=http) as made:
        silent = opened(made, MOST + 4)
        (honest,) = opened(made, source="127.0.0.1")
        with context.wrap_socket(honest, server_hostname="localhost") as wrapped:
            wrapped.sendall(request(made))
            until(wrapped, b"HTTP/1.1 200")
        assert all(is_ended(each) for each in silent[MOST - 1 :])
        with context.wrap_socket(silent[0], server_hostname="localhost") as wrapped:
            wrapped.sendall(request(made))
            until(wrapped, b"HTTP/1.1 200")


def test_a_host_has_a_rate_of_handshakes(tmp_path, opened, https, monkeypatch):
    monkeypatch.setattr(connections, "HANDSHAKES_BURST", 3)
    monkeypatch.setattr(connections, "HANDSHAKES_PER_S", 0.001)
    http, context = https
    with FakeGateway(tmp_path, http=http) as made:
        for _ in range(3):
            (connection,) = opened(made)
            with context.wrap_socket(connection, server_hostname="localhost"):
                pass
        for each in opened(made, 20):
            assert is_ended(each)
        (connection,) = opened(made, source="127.0.0.1")
        with context.wrap_socket(connection, server_hostname="localhost") as honest:
            honest.sendall(request(made))
            assert until(honest, b"\r\n\r\n").startswith(b"HTTP/1.1 200")
    line = f"more than 0.001 connections a second: closed some of {FLOOD}\n"
    wait_until(lambda: line in made.said)


def test_large_answers_pass_tls_in_pieces(tmp_path, opened, https):
    http, context = https
    with FakeGateway(tmp_path, http=http) as made:
        (client,) = opened(made)
        with context.wrap_socket(client, server_hostname="localhost") as wrapped:
            wrapped.sendall(request(made, "/api/v1/openapi.json", made.token()))
            response = http_client.HTTPResponse(wrapped)
            response.begin()
            got = response.read()
            assert len(got) > 1 << 15
            assert json.loads(got)["openapi"]


def test_a_handshake_that_never_comes_is_not_waited_for(tmp_path, opened, https, monkeypatch):
    monkeypatch.setattr(connections, "HANDSHAKE_S", 0.05)
    monkeypatch.setattr(asyncio.constants, "SSL_HANDSHAKE_TIMEOUT", 1e6)
    http, _ = https
    with FakeGateway(tmp_path, http=http) as made:
        for _ in range(2):  # none keeps its place
            assert all(is_ended(each) for each in opened(made, MOST))
        assert made.said == []


def test_hosts_that_are_no_proxy_take_no_place_of_the_proxys(tmp_path, opened, monkeypatch):
    """They are told so, as long as they are few."""
    monkeypatch.setattr(app, "is_loopback", lambda host: host != FLOOD)
    monkeypatch.setattr(connections, "MAX_STRANGERS", 2)
    http = {"most_connections": MOST, "proxies": ["10.9.8.7"]}
    with FakeGateway(tmp_path, http=http) as made:
        kept = opened(made, MOST - 2, source="127.0.0.1")
        strange = opened(made, MOST)
        assert all(is_ended(each) for each in strange[2:])
        for each in kept:
            each.sendall(request(made))
            until(each, b"HTTP/1.1 200")
        for each in strange[:2]:
            each.sendall(request(made))
            assert b"only the proxies named may connect" in rest_of(each), "and it is closed"
        assert made.said == [f"more than 2 connections: closed some of {connections.STRANGERS}\n"]


def test_hosts_that_are_no_proxy_have_a_rate_of_connections(tmp_path, opened, monkeypatch):
    monkeypatch.setattr(app, "is_loopback", lambda host: host != FLOOD)
    monkeypatch.setattr(connections, "HANDSHAKES_BURST", 3)
    monkeypatch.setattr(connections, "HANDSHAKES_PER_S", 0.001)
    with FakeGateway(tmp_path, http={"proxies": ["10.9.8.7"]}) as made:
        for _ in range(3):
            (stranger,) = opened(made)
            stranger.sendall(request(made))
            assert b"403 Forbidden" in rest_of(stranger)
        for each in opened(made, 20):
            assert is_ended(each)
        for _ in range(20):
            assert ask(made, "/healthz").status == 200
