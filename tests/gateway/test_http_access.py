"""Every route over a real socket: that it is described, and who gets in and who does not."""

import contextlib
import json
import socket

import jsonschema
import pytest

from agent.gateway import tokens
from agent.gateway.http import app, pages, routes
from agent.gateway.http.app import host_name
from agent.gateway.http.routes import ENDPOINTS
from agent.gateway.tokens import ROLES
from fleet.testbed.ports import free_ports
from testkit.waiting import PATIENCE_S
from tests.gateway.conftest import ask
from tests.gateway.fake import FakeGateway
from tests.gateway.samples import QUERY

GUARDED = [each for each in ENDPOINTS if each.role is not None]
# A stream goes on for ever: test_stream.py.
ENDING = [each for each in GUARDED if each.media_type != "text/event-stream"]


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
        # Some proxies add the port, which is another one each time.
        for address in ("10.0.0.8:{}", "[2001:db8:1::1]:{}"):
            for number, status in enumerate((401, 401, 401, 429)):
                host = address.format(4_000 + number)
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


def test_nodes_are_shown_to_operators_only(made):
    assert ask(made, "/api/v1/fleet", token=made.operator).json["nodes"][0]["node"] == "n0"
    assert ask(made, "/api/v1/placement", token=made.operator).json["iad"] == "iad1"
    assert ask(made, "/api/v1/deadlines", token=made.operator).json["nodes"][1]["queued"] == 1
    assert ask(made, "/api/v1/deadlines", token=made.asker).json["nodes"] == []
    for endpoint in ENDING:
        if endpoint.role != "operator":
            got = reach(made, endpoint, token=made.asker)
            assert b'"n0"' not in got.body


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
    page = ask(made, "/login?code=x", Accept="text/html").body
    assert b"<code>fleet gateway link</code> prints another" in page
    assert b'href="/static/style.css"' in page
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
        ({"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "no-cors"}, 403),
        ({"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "navigate"}, 200),
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


def test_a_proxy_is_known_on_a_socket_of_both_families(tmp_path):
    """There an IPv4 address comes as one of IPv6."""
    (port,) = free_ports(1)
    http = {"listen": f"[::]:{port}", "proxies": ["127.0.0.1"], "hosts": ["rooms.example"]}
    with FakeGateway(tmp_path, http=http) as made:
        got = ask(made, "/healthz", Host="rooms.example", X_Forwarded_Proto="https")
        assert got.status == 200
        assert "strict-transport-security" in got.headers


def test_a_query_has_a_limited_number_of_parameters(made):
    for more, status in ((0, 200), (1, 400)):
        query = "&".join(["a"] * (app.MAX_PARAMETERS + more))
        assert ask(made, f"/healthz?{query}").status == status
    assert ask(made, f"/login?{query}").json["reason"] == "malformed"


def test_of_very_many_cookies_none_counts(made):
    code = tokens.create_link(made.access, "viewer")
    session = ask(made, f"/login?code={code}").headers["set-cookie"].partition(";")[0]
    for more, status in ((0, 200), (1, 401)):
        cookies = "; ".join(["a=b"] * (app.MAX_COOKIES - 1 + more))
        assert ask(made, "/api/v1/session", Cookie=f"{cookies}; {session}").status == status


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
