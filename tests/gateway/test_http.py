"""Every route over a real socket: who gets in and who does not, and what each says."""

import contextlib
import gzip
import json
import socket
import threading

import jsonschema
import pytest
from msgspec.structs import replace

from agent.gateway import app, pages, routes, tokens
from agent.gateway.app import host_name
from agent.gateway.requests import Reply
from agent.gateway.routes import ENDPOINTS
from agent.gateway.tokens import ROLES
from agent.wire.about import ServiceInfo
from agent.wire.overlay import Notification, Origin
from testkit.waiting import PATIENCE_S, wait_until
from tests.gateway.conftest import ask
from tests.gateway.fake import FakeFleet, FakeGateway
from tests.gateway.samples import notification

GUARDED = [each for each in ENDPOINTS if each.role is not None]
# A stream goes on for ever: test_stream.py.
ENDING = [each for each in GUARDED if each.media_type != "text/event-stream"]
QUERY = {
    "areas": ["b1"],
    "window": {"last_s": 60},
    "slo": {"percentile": 99, "latency_ms": 500},
    "form": "aggregate",
}


def reach(made, endpoint, **options):
    body = QUERY if endpoint.method == "POST" else None
    return ask(made, endpoint.path, endpoint.method, body=body, **options)


# --- who gets in ---------------------------------------------------------------------------------


@pytest.mark.parametrize("endpoint", GUARDED, ids=lambda each: each.path)
def test_no_route_is_open_without_a_token(made, endpoint):
    stolen = tokens.create_link(made.access, "operator")  # a link's code is no token
    for options in (
        {},
        {"token": ""},
        {"token": "wrong"},
        {"token": made.operator[:-1]},
        {"token": tokens.hash_of(made.operator)},
        {"token": stolen},
        {"Authorization": f"Basic {made.operator}"},
        {"Authorization": made.operator},
        {"Cookie": "sanderling=wrong"},
        {"Cookie": f"sanderling={made.operator}; sanderling=other"},
        {"Cookie": f"__Host-sanderling={made.operator}"},  # that name is for https
    ):
        got = reach(made, endpoint, **options)
        assert (got.status, got.reason) == (401, "not_authenticated"), options
        assert got.headers["www-authenticate"] == "Bearer"
    for secret in (made.operator, "token"):
        got = reach(made, endpoint._replace(path=f"{endpoint.path}?token={secret}"))
        assert got.status == 401, "a token in an address would stand in logs"


@pytest.mark.parametrize("endpoint", ENDING, ids=lambda each: each.path)
def test_each_role_gets_its_own_and_no_more(made, endpoint):
    for role in ROLES:
        got = reach(made, endpoint, token=getattr(made, role))
        if ROLES.index(role) < ROLES.index(endpoint.role):
            assert (got.status, got.reason) == (403, "not_authorised")
        else:
            assert got.status in (200, 400, 404), got.body


def test_only_these_are_open(made):
    assert {each.path for each in ENDPOINTS if each.role is None} == {
        "/", "/static/", "/login", "/healthz",
    }  # fmt: skip
    assert ask(made, "/healthz").json == {"status": "ok"}
    assert ask(made, "/").status == 200


def test_revoked_and_expired_tokens_are_refused_at_once(made):
    token = made.token("viewer", "guest")
    assert ask(made, "/api/v1/session", token=token).json["name"] == "guest"
    tokens.revoke_token(made.access, "guest")
    assert ask(made, "/api/v1/session", token=token).status == 401
    old = made.token("viewer", "old", days=1e-9)
    assert ask(made, "/api/v1/session", token=old).status == 401


def test_a_token_has_a_rate(made):
    slow = made.token("viewer", "slow", rate_per_s=0.001)
    got = [ask(made, "/api/v1/session", token=slow) for _ in range(11)]
    assert {each.status for each in got[:10]} == {200}
    assert (got[10].status, got[10].reason) == (429, "over_rate")
    assert int(got[10].headers["retry-after"]) > 100
    assert ask(made, "/api/v1/session", token=made.viewer).status == 200


def test_a_host_has_a_rate_without_a_token(tmp_path, monkeypatch):
    monkeypatch.setattr(app, "STRANGERS_BURST", 3)
    monkeypatch.setattr(app, "STRANGERS_PER_S", 0.001)
    http = {"proxies": ["127.0.0.1"], "hosts": ["rooms.example"]}
    with FakeGateway(tmp_path, http=http) as made:
        token = made.token("viewer")
        for _ in range(5):  # requests with a token do not count
            assert ask(made, "/api/v1/session", token=token).status == 200
        paths = ("/api/v1/session", "/nowhere", "/healthz", "/api/v1/session", "/healthz")
        got = [ask(made, path, token="wrong") for path in paths]
        assert [each.status for each in got] == [401, 404, 200, 429, 429]
        assert got[3].reason == "over_rate"
        assert int(got[3].headers["retry-after"]) >= 1
        assert got[3].headers["connection"] == "close"
        assert ask(made, "/api/v1/session", token=token).status == 200
        # Hosts behind a proxy are told apart by what it adds.
        for host, status in (("10.0.0.7", 401), ("1.2.3.4, 127.0.0.1", 429)):
            assert ask(made, "/api/v1/session", X_Forwarded_For=host).status == status
        # An IPv6 network of 64 bits is one machine's, which may take any address in it.
        for number, status in enumerate((401, 401, 401, 429)):
            host = f"2001:db8::{number}"
            assert ask(made, "/api/v1/session", X_Forwarded_For=host).status == status


def test_requests_after_one_over_the_rate_are_not_served(tmp_path, monkeypatch):
    monkeypatch.setattr(app, "STRANGERS_BURST", 2)
    monkeypatch.setattr(app, "STRANGERS_PER_S", 0.001)
    with FakeGateway(tmp_path) as made:
        line = f"GET /api/v1/session HTTP/1.1\r\nHost: 127.0.0.1:{made.port}\r\n\r\n".encode()
        with socket.create_connection(("127.0.0.1", made.port), timeout=PATIENCE_S) as connection:
            connection.sendall(50 * line)
            with contextlib.suppress(ConnectionResetError):
                while connection.recv(1 << 16):
                    pass
        assert made.gateway.counted == {("GET", 401): 2, ("GET", 429): 1}


def test_what_follows_a_request_with_two_lengths_is_not_served(tmp_path):
    with FakeGateway(tmp_path) as made:
        host = f"Host: 127.0.0.1:{made.port}\r\n"
        first = f"POST / HTTP/1.1\r\n{host}Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n"
        second = f"GET /healthz HTTP/1.1\r\n{host}\r\n"
        with socket.create_connection(("127.0.0.1", made.port), timeout=PATIENCE_S) as connection:
            connection.sendall(f"{first}0\r\n\r\n{second}".encode())
            with contextlib.suppress(ConnectionResetError):
                while connection.recv(1 << 16):
                    pass
        assert made.gateway.counted == {("POST", 400): 1}


# --- browsers ------------------------------------------------------------------------------------


def test_a_link_opens_a_session_once(made):
    code = tokens.create_link(made.access, "asker")
    got = ask(made, f"/login?code={code}")
    assert (got.status, got.headers["location"], got.body) == (303, "/", b"")
    cookie = got.headers["set-cookie"]
    assert cookie.startswith("sanderling=")
    assert {"Path=/", "HttpOnly", "SameSite=Strict"} <= set(cookie.split("; "))
    session = cookie.partition(";")[0]
    found = ask(made, "/api/v1/session", Cookie=f"theme=dark; {session}").json
    assert (found["role"], found["name"], found["gateway"]) == ("asker", "", "gateway")
    again = ask(made, f"/login?code={code}")
    assert (again.status, again.reason) == (403, "not_authorised")
    assert b"fleet gateway link" in ask(made, "/login?code=x", Accept="text/html").body
    tokens.end_sessions(made.access)
    assert ask(made, "/api/v1/session", Cookie=session).status == 401


def test_codes_that_are_no_links_take_no_lock_and_no_thread(made, monkeypatch):
    def called(*_):
        raise AssertionError("a code that is no link's")

    code = tokens.create_link(made.access, "asker")
    with monkeypatch.context() as patched:
        patched.setattr(tokens, "open_session", called)
        assert ask(made, "/login?code=sand_none").status == 403
    assert ask(made, f"/login?code={code}", "HEAD").status == 405
    assert ask(made, f"/login?code={code}").status == 303


@pytest.mark.parametrize("path", ["/login", "/login?code=", "/login?code=" + "x" * 500])
def test_what_is_no_link_opens_nothing(made, path):
    got = ask(made, path)
    assert got.status == 403
    assert "set-cookie" not in got.headers


def test_a_session_that_cannot_be_written_uses_no_link_up(made, monkeypatch):
    code = tokens.create_link(made.access, "asker")

    def full(_path, _text):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(tokens, "_write", full)
        got = ask(made, f"/login?code={code}")
    assert (got.status, got.reason) == (503, "no_session")
    assert "No space left" in got.json["detail"]
    assert ask(made, f"/login?code={code}").status == 303


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example"}, 421),
        ({"Host": "evil.example:8080"}, 421),
        ({"Host": "127.0.0.1.evil.example"}, 421),
        ({"Host": "127.0.0.1:80:80"}, 421),
        ({"Host": ""}, 421),
        ({"Host": "LOCALHOST:1"}, 200),
        ({"Host": "[::1]:8080"}, 200),
        ({"Host": "127.0.0.1"}, 200),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Host": "localhost:7", "Origin": "http://localhost:7"}, 200),
        ({"Host": "localhost:7", "Origin": "http://localhost:8"}, 403),
        ({"Host": "localhost:7", "Origin": "https://localhost:7"}, 403),
        ({"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "cors"}, 403),
        ({"Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "cors"}, 200),
        ({"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}, 200),
    ],
)
def test_other_names_and_other_sites_are_refused(made, headers, status):
    got = ask(made, "/api/v1/session", token=made.viewer, **headers)
    assert got.status == status
    if "Host" in headers or "Sec-Fetch-Mode" in headers:
        assert (ask(made, "/", **headers).status == 200) == (status == 200), "the page, too"
    assert "access-control-allow-origin" not in got.headers


def test_host_names_are_read_as_browsers_write_them():
    assert [host_name(each) for each in ("A", "a:1", "[::1]", "[::1]:2", "a:b", "", ":1")] == [
        "a", "a", "[::1]", "[::1]", "", "", "",
    ]  # fmt: skip


def test_every_answer_has_the_headers_that_keep_a_page_safe(made):
    for path in ("/", "/api/v1/session", "/nowhere", "/healthz", "/login"):
        headers = ask(made, path).headers
        policy = headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; script-src 'self'")
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        assert "server" not in headers
        if path != "/":
            assert headers["cache-control"] == "no-store"


def test_behind_a_proxy_only_it_may_come_and_cookies_are_of_https(tmp_path):
    with FakeGateway(tmp_path, http={"proxies": ["127.0.0.1"], "hosts": ["rooms.example"]}) as made:
        token = made.token("viewer")
        code = tokens.create_link(made.access, "viewer")
        through = {"Host": "rooms.example", "X_Forwarded_Proto": "https"}
        got = ask(made, f"/login?code={code}", **through)
        assert got.headers["set-cookie"].startswith("__Host-sanderling=")
        assert "; Secure" in got.headers["set-cookie"]
        assert "strict-transport-security" in got.headers
        cookie = got.headers["set-cookie"].partition(";")[0]
        origin = {"Origin": "https://rooms.example"}
        assert ask(made, "/api/v1/session", Cookie=cookie, **through, **origin).status == 200
        assert ask(made, "/api/v1/session", Cookie=cookie).status == 401, "not over http"
        assert ask(made, "/api/v1/session", token=token).status == 200
    with FakeGateway(tmp_path, http={"proxies": ["10.9.8.7"]}) as made:
        app_peer = ask(made, "/healthz", X_Forwarded_Proto="https")
        assert "strict-transport-security" not in app_peer.headers, "said by somebody else"


# --- what they say -------------------------------------------------------------------------------


def test_rooms_areas_and_readings(made):
    shown = ask(made, "/api/v1/now", token=made.viewer).json
    assert shown["source"] == {"state": "up", "message": ""}
    [first, *_] = shown["rooms"]
    assert (first["area"], first["name"], first["state"]) == ("b1/f1/r000", "Meeting 1.00", "live")
    assert first["channels"]["temperature"]["unit"] == "°C"
    [only] = ask(made, "/api/v1/now?area=b1/f1/r002", token=made.viewer).json["rooms"]
    assert only["area"] == "b1/f1/r002"
    page = ask(made, "/api/v1/areas?limit=3", token=made.viewer).json
    assert [each["area"] for each in page["areas"]] == [f"b1/f1/r00{n}" for n in range(3)]
    rest = ask(made, f"/api/v1/areas?limit=3&cursor={page['cursor']}", token=made.viewer).json
    assert ([each["area"] for each in rest["areas"]], rest["cursor"]) == (["b1/f1/r003"], None)
    assert page["areas"][0]["channels"] == [
        {"name": "humidity", "unit": "%"},
        {"name": "temperature", "unit": "°C"},
    ]
    found = ask(
        made,
        "/api/v1/readings?area=b1/f1/r000&channel=temperature&last=1h&points=6",
        token=made.viewer,
    ).json
    columns = found["channels"]["temperature"]
    assert found["length_ms"] == 600_000
    assert len(columns["mean"]) == len(columns["count"]) == len(columns["bad"])
    assert found["unit"] == {"temperature": "°C"}
    start = found["start_ms"]
    fixed = f"/api/v1/readings?area=b1/f1/r000&start={start}&end={start + 60_000}&points=1"
    assert ask(made, fixed, token=made.viewer).json["start_ms"] == start


def test_readings_come_from_services_that_have_the_area(tmp_path):
    fleet = FakeFleet()
    fleet.services = (
        ServiceInfo("climate", "temperature", areas=("b1/f4",)),
        ServiceInfo("humidity", "humidity", areas=("b1",)),
        ServiceInfo("temperature", "temperature", areas=("b1",)),
    )
    with FakeGateway(tmp_path, fleet) as made:
        token = made.token("viewer")
        ask(made, "/api/v1/services", token=token)
        found = ask(made, "/api/v1/readings?area=b1/f1/r000&last=1h", token=token)
        assert found.status == 200
        asked = {each["service"] for each in fleet.queries if each["form"] == "buckets"}
        assert asked == {"humidity", "temperature"}


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("now?area=b1//f1", 400),
        ("now?area=b9", 404),
        ("now?area=b1&area=b2", 400),
        ("areas?limit=0", 400),
        ("areas?limit=ten", 400),
        ("areas?cursor=..%2F%0a", 400),
        ("readings", 400),
        ("readings?area=b1/f1/r000&last=soon", 400),
        ("readings?area=b1/f1/r000&last=0s", 400),
        ("readings?area=b1/f1/r000&last=9000d", 400),
        ("readings?area=b1/f1/r000&last=1h&start=1&end=2", 400),
        ("readings?area=b1/f1/r000&start=5", 400),
        ("readings?area=b1/f1/r000&start=5&end=4", 400),
        ("readings?area=b1/f1/r000&points=2001", 400),
        ("readings?area=b1/f1/r000&channel=Temp", 400),
        ("readings?area=b1/f1/r000&service=a%20b", 400),
        ("readings?area=b1", 400),
        ("alerts?cursor=x", 400),
        ("alerts?limit=1001", 400),
        ("alerts?of=everything", 400),
        ("nowhere", 404),
        ("session/", 404),
    ],
)
def test_bad_requests_are_problems_in_one_line(made, path, status):
    got = ask(made, f"/api/v1/{path}", token=made.viewer)
    assert got.status == status, got.body
    assert got.headers["content-type"] == "application/problem+json"
    assert set(got.json) == {"type", "title", "status", "detail", "reason"}
    assert got.json["status"] == status
    assert "\n" not in got.json["detail"]
    assert made.said == []


@pytest.mark.parametrize("target", ["[", "/[", "//[", "/%5B%23", "@[::/api/v1/now", "*"])
def test_a_target_that_is_no_path_is_not_found(made, target):
    with socket.create_connection(("127.0.0.1", made.port), timeout=60) as raw:
        raw.sendall(
            f"GET {target} HTTP/1.1\r\nHost: 127.0.0.1:{made.port}\r\n".encode()
            + b"Connection: close\r\n\r\n"
        )
        told = raw.makefile("rb").read()
    assert told.startswith(b"HTTP/1.1 404 "), told
    assert made.said == []


def test_methods_and_their_names(made):
    got = ask(made, "/api/v1/now", "DELETE", token=made.viewer)
    assert (got.status, got.headers["allow"]) == (405, "GET, HEAD")
    got = ask(made, "/api/v1/session", "HEAD", token=made.viewer)
    assert (got.status, got.body) == (200, b"")
    assert ask(made, "/api/v1/query", token=made.asker).headers["allow"] == "POST"
    assert ask(made, "/", "OPTIONS", Origin="http://evil.example").status == 403


def test_a_query_is_the_wires(made):
    got = ask(made, "/api/v1/query", "POST", token=made.asker, body={**QUERY, "label": "mine"})
    assert (got.status, got.json["type"], got.json["status"]) == (200, "answer", "complete")
    assert len(got.json["results"]) == 4
    assert made.fleet.queries[-1]["label"] == "mine"
    assert made.fleet.queries[-1]["timeout_ms"] == 2_000.0
    partial = ask(
        made, "/api/v1/query", "POST", token=made.asker, body={**QUERY, "areas": ["b1", "b7"]}
    )
    assert (partial.status, partial.json["status"]) == (200, "partial")
    kinds = ask(made, "/api/v1/deadlines", token=made.viewer).json["kinds"]
    [mine] = [kind for kind in kinds if kind["label"] == "mine"]
    assert (mine["count"], mine["latency_ms"], mine["answers"][0]["slo_met"]) == (1, 500.0, True)


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        (b"", 400, "no JSON"),
        (b"{", 400, "no JSON"),
        (b"[]", 400, "JSON object"),
        (b"\xff\xfe", 400, "no JSON"),
        (b"[" * 100_000, 400, "no JSON"),
        (b"[" + b"1," * 5_000 + b"1]", 400, "over the limit"),
        ({**QUERY, "areas": []}, 400, "length"),
        ({**QUERY, "areas": ["*"]}, 400, "form"),
        ({**QUERY, "window": {}}, 400, "window"),
        ({**QUERY, "form": "picture"}, 400, "form"),
        ({**QUERY, "timeout_ms": 1e6}, 400, "longest taken here"),
        ({**QUERY, "slo": {"percentile": 100, "latency_ms": 1}}, 400, "percentile"),
        (b"x" * ((1 << 20) + 1), 413, "at most"),
    ],
)
def test_what_is_no_query_is_refused(made, body, status, words):
    got = ask(made, "/api/v1/query", "POST", token=made.asker, body=body)
    assert (got.status, words in got.json["detail"]) == (status, True), got.body


def test_a_query_of_a_form_is_refused_which_any_site_could_send(made):
    got = ask(
        made, "/api/v1/query", "POST", token=made.asker, body=QUERY, Content_Type="text/plain"
    )
    assert (got.status, got.reason) == (415, "unsupported_media_type")


@pytest.mark.parametrize(
    ("reason", "status", "retries"),
    [
        ("infeasible", 422, False),
        ("over_rate", 429, True),
        ("overloaded", 503, True),
        ("unknown_service", 404, False),
        ("not_authorised", 403, False),
        ("malformed", 400, False),
    ],
)
def test_refusals_are_problems_with_the_masters_reason(made, reason, status, retries):
    made.fleet.refusal = (reason, "idle nodes take 812 ms")
    try:
        got = ask(made, "/api/v1/query", "POST", token=made.asker, body=QUERY)
    finally:
        made.fleet.refusal = None
    assert (got.status, got.reason) == (status, reason)
    assert got.json["detail"] == "idle nodes take 812 ms"
    assert ("retry-after" in got.headers) == retries


def test_services_with_their_areas(made):
    [found] = ask(made, "/api/v1/services", token=made.viewer).json["services"]
    assert found == {"name": "default", "areas": ["b1"]}


def test_alerts_without_messages_of_topics(made, monkeypatch):
    monkeypatch.setattr("agent.gateway.api.MAX_READ", 4)
    log = made.gateway.alerts
    put_out = Notification(Origin("iad1", "t", 1), 7, {"topic": "comfort", "kind": "output"})
    first = log.append(notification(1, kind="cleared"))
    for _ in range(9):
        log.append(put_out)
    last = log.append(notification(2, kind="cleared"))
    log.append(put_out)
    found, asked, cursor = [], 0, ""
    while first not in found:
        path = f"/api/v1/alerts?of=alerts&limit=2{cursor and f'&cursor={cursor}'}"
        page = ask(made, path, token=made.viewer).json
        found += [each["position"] for each in page["alerts"] if each["position"] >= first]
        asked, cursor = asked + 1, page["cursor"]
    assert (found, asked) == ([last, first], 3)
    whole = ask(made, "/api/v1/alerts?limit=12", token=made.viewer).json["alerts"]
    assert len(whole) == 12


@pytest.mark.parametrize("of", ["all", "alerts"])
def test_a_page_of_alerts_has_a_mebibyte(made, of):
    log = made.gateway.alerts
    large = {f"a{n}": 500 * "x" for n in range(30)} | {"iad": "iad1", "kind": "cleared"}
    wanted = [log.append(Notification(Origin("iad1", "t", n), 7, large)) for n in range(100)]
    found, cursor = [], ""
    while cursor is not None:
        path = f"/api/v1/alerts?of={of}&limit=1000{cursor and f'&cursor={cursor}'}"
        got = ask(made, path, token=made.viewer)
        assert len(got.body) < 5 << 18
        found += [each["position"] for each in got.json["alerts"]]
        cursor = got.json["cursor"]
    assert found[:100] == wanted[::-1]
    assert len(set(found)) == len(found)
    assert found[-1] >= log.oldest


def test_alerts_page_by_page_and_what_is_raised(made):
    log = made.gateway.alerts
    before = log.newest
    for number, kind in enumerate(["raised", "raised", "cleared"]):
        made.fleet.raise_alert(f"b1/f1/r00{number % 2}", kind=kind)
    wait_until(lambda: log.newest, lambda newest: newest == before + 3)
    page = ask(made, "/api/v1/alerts?limit=2", token=made.viewer).json
    assert [each["position"] for each in page["alerts"]] == [before + 3, before + 2]
    assert page["alerts"][0]["attributes"]["kind"] == "cleared"
    rest = ask(made, f"/api/v1/alerts?cursor={page['cursor']}", token=made.viewer).json
    assert rest["alerts"][0]["position"] == before + 1
    [raised] = ask(made, "/api/v1/alerts/raised", token=made.viewer).json["raised"]
    assert (raised["trigger"], raised["area"], raised["value"]) == ("hot", "b1/f1/r001", 31.5)


def test_nodes_are_shown_to_operators_only(made):
    assert ask(made, "/api/v1/fleet", token=made.operator).json["nodes"][0]["node"] == "n0"
    assert ask(made, "/api/v1/placement", token=made.operator).json["iad"] == "iad1"
    assert ask(made, "/api/v1/deadlines", token=made.operator).json["nodes"][1]["queued"] == 1
    assert ask(made, "/api/v1/deadlines", token=made.asker).json["nodes"] == []
    for endpoint in ENDING:
        if endpoint.role != "operator":
            got = reach(made, endpoint, token=made.asker)
            assert b'"n0"' not in got.body


def test_results_of_a_demo_are_shown_as_soon_as_they_are_there(tmp_path):
    with FakeGateway(tmp_path, console={"results": "results.json"}) as made:
        token = made.token("viewer")
        assert ask(made, "/api/v1/comparison", token=token).json == {"real": [], "virtual": []}
        (tmp_path / "results.json").write_text('{"real": [1]}')
        assert ask(made, "/api/v1/comparison", token=token).body == b'{"real": [1]}'
        (tmp_path / "results.json").write_text('{"real": [')
        assert ask(made, "/api/v1/comparison", token=token).reason == "no_results"


def test_several_operators_are_asked_and_one_that_is_silent_hurts_no_other(tmp_path):
    further = [{"address": f"tcp://127.0.0.1:{port}"} for port in (2, 3)]
    with FakeGateway(tmp_path, operators=further) as made:
        token = made.token("operator")

        def get(path):
            return ask(made, f"/api/v1/{path}", token=token)

        told = get("fleet/all").json["iads"]
        assert [(each["iad"], each["status"]["iad"]) for each in told] == [
            (name, name) for name in ("iad1", "iad2", "iad3")
        ]
        made.fleet.silent = {"iad1", "iad2"}
        silent, other, there = get("fleet/all").json["iads"]
        assert silent == {"iad": "iad1", "status": None, "problem": "no reply"}
        assert (other["iad"], other["status"]) == ("iad2", None)
        assert there["status"]["nodes"][0]["node"] == "n0"
        found = get("deadlines").json
        assert ({each["iad"] for each in found["nodes"]}, found["silent"]) == (
            {"iad3"}, ["iad1", "iad2"],
        )  # fmt: skip
        assert get("placement").json["iad"] == "iad3"
        assert get("fleet").reason == "no_reply"
        made.fleet.silent.add("iad3")
        assert get("placement").reason == "no_reply"
        assert get("deadlines").json["nodes"] == []
    with FakeGateway(tmp_path, made.fleet, operators=further, operator={}) as made:
        told = ask(made, "/api/v1/fleet/all", token=made.token("operator", "other")).json["iads"]
        # Not heard yet, so that their addresses have to do.
        assert [each["iad"] for each in told] == ["tcp://127.0.0.1:2", "tcp://127.0.0.1:3"]
    with FakeGateway(tmp_path, made.fleet, operator={}) as made:
        token = made.token("operator", "another")
        for path in ("fleet", "fleet/all", "placement"):
            assert ask(made, f"/api/v1/{path}", token=token).reason == "no_operator"
        assert ask(made, "/api/v1/deadlines", token=token).json["silent"] == []


def test_a_plan_names_nodes_so_only_operators_see_it(tmp_path):
    (tmp_path / "plan.json").write_text('{"policies": [{"highest": {"busiest": "iad1-n3"}}]}')
    with FakeGateway(tmp_path, console={"plan": "plan.json"}) as made:
        for role, status in (("viewer", 403), ("asker", 403), ("operator", 200)):
            assert ask(made, "/api/v1/plan", token=made.token(role)).status == status


def test_a_plan_is_shown_as_it_is(tmp_path):
    (tmp_path / "plan.json").write_text('{"rates": [1, 2]}')
    (tmp_path / "broken.json").write_text("{")
    for name, status in (("plan.json", 200), ("broken.json", 404), ("none.json", 404)):
        with FakeGateway(tmp_path, console={"plan": name}) as made:
            got = ask(made, "/api/v1/plan", token=made.token("operator", name))
            assert got.status == status


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
        monkeypatch.setattr("agent.gateway.app.gzip.compress", noted)
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


def test_readings_are_as_prometheus_reads_them(made):
    text = ask(made, "/metrics/readings", token=made.viewer).body.decode()
    assert "# TYPE sanderling_room_reading gauge" in text
    assert ask(made, "/metrics/readings").status == 401


def test_a_fault_of_an_endpoint_is_one_problem_and_one_line(made, monkeypatch):
    async def breaks(_asked):
        raise ZeroDivisionError("by nothing")

    broken = routes.BY_PATH["/healthz"]["GET"]._replace(serve=breaks)
    monkeypatch.setitem(routes.BY_PATH["/healthz"], "GET", broken)
    got = ask(made, "/healthz")
    assert (got.status, got.reason) == (500, "fault")
    assert b"nothing" not in got.body
    [line] = made.said
    assert "ZeroDivisionError: by nothing" in line
    made.said.clear()


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


def test_static_files_have_a_fingerprint(made, monkeypatch):
    from agent.gateway.static_files import StaticFile

    body = b"let a = 1;" * 100
    file = StaticFile(body, gzip.compress(body), "text/javascript; charset=utf-8", '"abc"')
    monkeypatch.setitem(made.gateway.static, "app.js", file)
    got = ask(made, "/static/app.js")
    assert (got.body, got.headers["etag"]) == (body, '"abc"')
    assert ask(made, "/static/app.js", If_None_Match='"abc"').status == 304
    assert gzip.decompress(ask(made, "/static/app.js", Accept_Encoding="gzip").body) == body
    for path in ("/static/../config.py", "/static/%2e%2e/config.py", "/static/", "/static/x.js"):
        assert ask(made, path).status == 404


# --- the description -----------------------------------------------------------------------------


def test_the_description_has_every_route_and_every_answer_agrees(made):
    described = ask(made, "/api/v1/openapi.json", token=made.viewer).json
    assert described["openapi"] == "3.1.0"
    assert {path for path in described["paths"] if path.startswith("/api")} == {
        each.path for each in ENDPOINTS if each.path.startswith("/api")
    }
    schemas = described["components"]["schemas"]
    assert "id" not in schemas["Query"]["properties"]
    text = json.dumps({"$defs": schemas}).replace("#/components/schemas/", "#/$defs/")
    definitions = json.loads(text)["$defs"]
    jsonschema.Draft202012Validator.check_schema({"$defs": definitions})
    for endpoint in ENDPOINTS:
        if endpoint.media_type != "application/json" or endpoint.path == "/api/v1/plan":
            continue
        operation = described["paths"][endpoint.path][endpoint.method.lower()]
        [content] = operation["responses"]["200"]["content"].values()
        schema = json.loads(
            json.dumps(content["schema"]).replace("#/components/schemas/", "#/$defs/")
        )
        path = endpoint.path + ("?area=b1/f1/r000" if endpoint.path.endswith("readings") else "")
        got = reach(made, endpoint._replace(path=path), token=made.operator)
        assert got.status == 200, path
        validator = jsonschema.Draft202012Validator({**schema, "$defs": definitions})
        validator.validate(got.json)
    problem = ask(made, "/nowhere").json
    jsonschema.Draft202012Validator({"$ref": "#/$defs/ProblemBody", "$defs": definitions}).validate(
        problem
    )
    assert (
        routes.description(made.gateway.version)
        == ask(made, "/api/v1/openapi.json", token=made.viewer).body
    )
    assert pages.METRICS.startswith("text/plain")
