"""Mutated requests over a real socket: each gets one answer that HTTP allows, never a fault, and
nothing without a token. `-m long` sends 200,000, in CI a tenth."""

import random
import re
import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.gateway.http.routes import ENDPOINTS
from testkit.waiting import PATIENCE_S
from tests.examples import share
from tests.gateway.conftest import ask

REQUESTS = share(200_000, 10)
BODY = (
    b'{"areas":["b1"],"window":{"last_s":60},"slo":{"percentile":99,"latency_ms":500},'
    b'"form":"aggregate"}'
)
PATHS = [each.path for each in ENDPOINTS if each.media_type != "text/event-stream"]
QUERIES = [
    "", "?area=b1", "?area=b1/f1/r000&channel=temperature&last=1h&points=9", "?limit=2&cursor=b1",
    "?code=x", "?start=1&end=2&area=b1/f1/r000", "?cursor=5",
]  # fmt: skip
STATUS = re.compile(rb"HTTP/1\.1 (\d{3}) ")
# What a gateway may say to any request; 500 is a fault.
ALLOWED = {200, 303, 304, 400, 401, 403, 404, 405, 413, 415, 421, 422, 429, 431, 501, 503, 504}


def valid(generator, token):
    """A request that is right, or nearly."""
    path = generator.choice(PATHS) + generator.choice(QUERIES)
    method = generator.choice(["GET", "GET", "GET", "POST", "HEAD", "PUT", "OPTIONS"])
    body = BODY if method == "POST" else b""
    lines = [
        f"{method} {path} HTTP/1.1".encode(),
        b"Host: 127.0.0.1",
        b"Connection: close",
        b"Content-Length: %d" % len(body),
    ]
    if generator.random() < 0.7:
        lines.append(b"Authorization: Bearer " + token.encode())
    if body:
        lines.append(b"Content-Type: application/json")
    if generator.random() < 0.2:
        lines.append(b"Accept-Encoding: gzip")
    if generator.random() < 0.1:
        lines.append(b"Cookie: sanderling=" + token.encode() + b"; a=b")
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


def mutated(generator, request):
    """The request with a few changes somewhere."""
    text = bytearray(request)
    for _ in range(generator.choice([0, 1, 1, 2, 4, 16])):
        place = generator.randrange(len(text))
        match generator.randrange(5):
            case 0:
                text[place] = generator.randrange(256)
            case 1:
                del text[place : place + generator.randrange(1, 9)]
            case 2:
                text[place:place] = generator.randbytes(generator.randrange(1, 9))
            case 3:
                other = generator.randrange(len(text))
                text[place:place] = text[other : other + generator.randrange(1, 60)]
            case 4:
                text[place:place] = generator.choice(
                    [b"%00", b"..", b"\r\n", b"*", b"9" * 40, b"\xff", b"{}", b"[[", b"-1", b"&"]
                )
        if not text:
            break
    return bytes(text)


def send(port, request):
    """What comes back until the connection is closed."""
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as connection:
        got = b""
        try:
            connection.sendall(request)
            connection.shutdown(socket.SHUT_WR)
            while part := connection.recv(1 << 16):
                got += part
        except ConnectionError:
            pass  # it had said all that it had to say
        return got


def check(made, request, token):
    got = send(made.port, request)
    for status in STATUS.findall(got[:64]):
        assert int(status) in ALLOWED, (request, got[:400])
    if token.encode() not in request:
        assert b'"rooms":[{' not in got
        assert b'"node"' not in got
    assert made.said == [], request


@given(st.integers(0, 2**64))
def test_mutated_requests_do_no_harm(made, seed):
    generator = random.Random(seed)
    check(made, mutated(generator, valid(generator, made.operator)), made.operator)


@given(st.binary(max_size=400))
def test_what_is_no_http_is_answered_or_closed(made, noise):
    check(made, noise, made.operator)


@pytest.mark.long
def test_a_campaign_of_mutated_requests_does_no_harm(made):
    generator = random.Random(20)
    for _ in range(REQUESTS):
        check(made, mutated(generator, valid(generator, made.operator)), made.operator)
    assert ask(made, "/api/v1/now", token=made.operator).status == 200
    assert made.gateway.streams.total() == 0
    assert not made.gateway.under_way
