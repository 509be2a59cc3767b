"""How answers leave: compressed, as Prometheus reads them, bounded, with a fingerprint."""

import contextlib
import gzip
import json
import socket
import threading

import pytest
from msgspec.structs import replace

from agent.gateway.feed.frames import Source
from agent.gateway.http import app, pages, routes
from agent.gateway.http.requests import Reply
from agent.gateway.outputs import readings_page
from agent.metrics.gateway_families import GATEWAY, READINGS
from testkit.waiting import PATIENCE_S, wait_until
from tests.gateway.conftest import ask
from tests.gateway.fake import FakeGateway
from tests.gateway.samples import notification


def test_large_answers_are_compressed_for_who_takes_it(made):
    got = ask(made, "/api/v1/openapi.json", token=made.viewer, Accept_Encoding="gzip, br")
    assert got.headers["content-encoding"] == "gzip"
    plain = ask(made, "/api/v1/openapi.json", token=made.viewer)
    assert "content-encoding" not in plain.headers
    assert gzip.decompress(got.body) == plain.body


def test_long_answers_are_compressed_beside_the_loop(tmp_path, monkeypatch):
    (tmp_path / "plan.json").write_text(json.dumps(["x" * 100_000]))
    threads = []
    compress = gzip.compress

    def noted(*given, **options):
        threads.append(threading.current_thread())
        return compress(*given, **options)

    with FakeGateway(tmp_path, console={"plan": "plan.json"}) as made:
        token = made.token("operator")
        loop = made.in_loop(threading.current_thread)
        monkeypatch.setattr("agent.gateway.http.app.gzip.compress", noted)
        got = ask(made, "/api/v1/plan", token=token, Accept_Encoding="gzip")
        assert json.loads(gzip.decompress(got.body)) == ["x" * 100_000]
        assert threads
        assert loop not in threads


def test_metrics_are_as_prometheus_reads_them(made):
    ask(made, "/nowhere")
    lines = ask(made, "/metrics", token=made.viewer).body.decode().splitlines()
    assert 'sanderling_gateway_requests_total{method="GET",status="404"}' in {
        line.rpartition(" ")[0] for line in lines
    }
    for line in lines:
        assert line.startswith("#") or float(line.rpartition(" ")[2]) >= 0


def test_a_master_that_nobody_asks_is_not_called_down(made):
    def up():
        page = ask(made, "/metrics", token=made.viewer).body.decode()
        return [line for line in page.splitlines() if line.startswith("sanderling_gateway_up{")]

    made.in_loop(lambda: setattr(made.gateway.hub, "source", Source("idle")))
    assert not any('link="watch"' in line for line in up())
    made.in_loop(lambda: setattr(made.gateway.hub, "source", Source("away", "no reply")))
    assert 'sanderling_gateway_up{link="watch"} 0' in up()
    made.in_loop(lambda: setattr(made.gateway.hub, "source", Source("up")))
    assert 'sanderling_gateway_up{link="watch"} 1' in up()


@pytest.mark.parametrize(
    ("path", "families"),
    [("/metrics", GATEWAY), ("/metrics/readings", READINGS)],
)
def test_the_pages_have_the_metrics_that_are_documented(made, path, families):
    lines = ask(made, path, token=made.viewer).body.decode().splitlines()
    shown = [line.split()[2:] for line in lines if line.startswith("# TYPE ")]
    assert shown == [[family.name, family.kind] for family in families]


def test_counters_are_exact_however_large(made, monkeypatch):
    monkeypatch.setitem(made.gateway.counted, ("GET", 299), 12_345_678)
    text = ask(made, "/metrics", token=made.viewer).body.decode()
    assert 'requests_total{method="GET",status="299"} 12345678\n' in text


def test_an_alert_of_two_domains_is_one_sample(made):
    log = made.gateway.alerts
    told = notification(1, area="b1/f1/r003", trigger="twice")
    for iad in ("iad1", "iad2"):
        log.append(replace(told, attributes={**told.attributes, "iad": iad}))
    page = ask(made, "/metrics/readings", token=made.viewer).body.decode()
    assert page.count('trigger="twice"') == 1


def test_readings_of_a_moment_are_put_together_once_beside_the_loop(tmp_path, monkeypatch):
    threads = []
    page = readings_page.page

    def noted(*given):
        threads.append(threading.current_thread())
        return page(*given)

    monkeypatch.setattr(readings_page, "page", noted)
    monkeypatch.setattr(pages, "PAGE_MS", 10**15)
    with FakeGateway(tmp_path, console={"every_s": 3_600.0}) as made:
        token = made.token()
        ask(made, "/api/v1/now", token=token)
        first = wait_until(
            lambda: ask(made, "/metrics/readings", token=token).body,
            lambda found: b"sanderling_room_reading{" in found,
        )
        before = len(threads)
        for _ in range(3):
            assert ask(made, "/metrics/readings", token=token).body == first
        assert len(threads) <= before + 1
        assert made.in_loop(threading.current_thread) not in threads


def test_readings_are_as_prometheus_reads_them(made):
    text = ask(made, "/metrics/readings", token=made.viewer).body.decode()
    assert "# TYPE sanderling_room_reading gauge" in text
    assert ask(made, "/metrics/readings").status == 401


def test_long_answers_that_nobody_reads_are_bounded(tmp_path, monkeypatch):
    """More than the kernel keeps for a connection."""
    long = Reply(b"x" * (24 << 20), "application/octet-stream")

    async def answers(_asked):
        return long

    large = routes.BY_PATH["/healthz"]["GET"]._replace(serve=answers)
    with FakeGateway(tmp_path) as made:
        first, second, third = (made.token(name=name) for name in ("one", "two", "three"))
        with monkeypatch.context() as patched, contextlib.ExitStack() as stack:
            patched.setitem(routes.BY_PATH["/healthz"], "GET", large)
            unread = []
            for token in (first, second):
                each = socket.create_connection(("127.0.0.1", made.port), timeout=PATIENCE_S)
                unread.append(stack.enter_context(each))
                each.sendall(
                    f"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1:{made.port}\r\n"
                    f"Authorization: Bearer {token}\r\n\r\n".encode()
                )
                assert each.recv(12) == b"HTTP/1.1 200"
                # One has no more than half of it; others have the rest.
                got = ask(made, "/healthz", token=token)
                assert (got.status, got.reason) == (503, "busy")
            got = ask(made, "/healthz", token=third)
            assert (got.status, got.reason) == (503, "busy")
            assert got.headers["retry-after"] == "1"
            assert ask(made, "/api/v1/session", token=third).status == 200
            for each in unread:
                each.close()
            got = wait_until(lambda: ask(made, "/healthz"), lambda found: found.status == 200)
            assert got.body == long.body
            for _ in range(3):  # what was taken counts no more
                wait_until(lambda: ask(made, "/healthz"), lambda found: found.status == 200)
        assert ask(made, "/healthz").json == {"status": "ok"}


def test_however_many_read_nothing_there_is_room_for_the_answer_of_another(tmp_path, monkeypatch):
    """Each token that reads nothing, or a few bytes a second, has as much as others leave free."""
    long = Reply(b"x" * (8 << 20), "application/octet-stream")

    async def answers(_asked):
        return long

    large = routes.BY_PATH["/healthz"]["GET"]._replace(serve=answers)
    monkeypatch.setitem(routes.BY_PATH["/healthz"], "GET", large)
    with FakeGateway(tmp_path) as made, contextlib.ExitStack() as stack:
        taken = []
        for name in ("one", "two"):
            token = made.token(name=name)
            for _ in range(8):
                each = socket.create_connection(("127.0.0.1", made.port), timeout=PATIENCE_S)
                stack.enter_context(each)
                each.sendall(
                    f"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1:{made.port}\r\n"
                    f"Authorization: Bearer {token}\r\n\r\n".encode()
                )
                taken.append(each.recv(12))
        assert taken.count(b"HTTP/1.1 200") == 6, "of eight places four, and two of the rest"
        assert ask(made, "/healthz", token=made.token(name="three")).body == long.body


def test_an_answer_that_is_alone_and_larger_leaves_room_for_others(tmp_path, monkeypatch):
    monkeypatch.setattr(app, "MAX_SENDING_BYTES", 16 << 20)
    size = 24 << 20

    async def answers(asked):
        return Reply(b"x" * (size if asked.caller.name == "one" else 1 << 20), "text/x")

    large = routes.BY_PATH["/healthz"]["GET"]._replace(serve=answers)
    monkeypatch.setitem(routes.BY_PATH["/healthz"], "GET", large)
    with FakeGateway(tmp_path) as made, contextlib.ExitStack() as stack:
        token = made.token(name="one")
        each = socket.create_connection(("127.0.0.1", made.port), timeout=PATIENCE_S)
        stack.enter_context(each)
        each.sendall(
            f"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1:{made.port}\r\n"
            f"Authorization: Bearer {token}\r\n\r\n".encode()
        )
        assert each.recv(12) == b"HTTP/1.1 200"
        assert ask(made, "/healthz", token=token).status == 503
        assert ask(made, "/healthz", token=made.token(name="two")).status == 200


@pytest.mark.parametrize(
    ("accepted", "is_packed"),
    [
        ("gzip", True),
        ("br, GZIP;q=0.5", True),
        ("gzip;q=0", False),
        ("br, gzip; q=0.0", False),
        ("br", False),
    ],
)
def test_gzip_is_sent_to_who_takes_it(made, accepted, is_packed):
    for path in ("/api/v1/openapi.json", "/static/app.js"):
        got = ask(made, path, token=made.viewer, Accept_Encoding=accepted)
        assert (got.headers.get("content-encoding") == "gzip") is is_packed


def test_the_head_of_a_stream_has_an_end(made):
    """It held a stream's place, and what came after it on its connection was never served."""
    head = f"Host: 127.0.0.1:{made.port}\r\nAuthorization: Bearer {made.viewer}\r\n\r\n"
    with socket.create_connection(("127.0.0.1", made.port), timeout=PATIENCE_S) as each:
        each.sendall(
            f"HEAD /api/v1/stream HTTP/1.1\r\n{head}GET /healthz HTTP/1.1\r\n{head}".encode()
        )
        got = b""
        while b'"ok"' not in got:
            got += each.recv(4_096)
    assert b"text/event-stream" in got
    assert made.gateway.streams.total() == 0


def test_static_files_have_a_fingerprint(made, monkeypatch):
    from agent.gateway.http.static_files import StaticFile

    body = b"let a = 1;" * 100
    file = StaticFile(body, gzip.compress(body), "text/javascript; charset=utf-8", '"abc"')
    monkeypatch.setitem(made.gateway.static, "app.js", file)
    got = ask(made, "/static/app.js")
    assert (got.body, got.headers["etag"]) == (body, '"abc"')
    assert ask(made, "/static/app.js", If_None_Match='"abc"').status == 304
    assert gzip.decompress(ask(made, "/static/app.js", Accept_Encoding="gzip").body) == body
    for path in ("/static/../config.py", "/static/%2e%2e/config.py", "/static/", "/static/x.js"):
        assert ask(made, path).status == 404
