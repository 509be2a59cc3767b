"""What each route answers over a real socket, and what it says of requests that it refuses."""

import re
import socket
from pathlib import Path

import pytest
from msgspec.structs import replace

from agent.gateway.http import api, queries, routes
from agent.gateway.http.problems import OF_REFUSAL
from agent.wire.about import ServiceInfo
from agent.wire.overlay import Notification, Origin
from testkit.waiting import wait_until
from tests.gateway.conftest import ask
from tests.gateway.fake import FakeFleet, FakeGateway
from tests.gateway.samples import QUERY, notification


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


def test_a_page_of_areas_has_an_end_whatever_is_asked(made, monkeypatch):
    monkeypatch.setattr(api, "MAX_AREAS", 3)
    page = ask(made, "/api/v1/areas?limit=10000", token=made.viewer).json
    assert (len(page["areas"]), page["cursor"]) == (3, page["areas"][-1]["area"])


def test_what_a_dropped_service_lacked_is_shown_no_longer(tmp_path, monkeypatch):
    monkeypatch.setattr("agent.gateway.feed.watching.ABOUT_EVERY_S", 0.01)
    fleet = FakeFleet()
    rooms = ServiceInfo("climate", "temperature", areas=("b1",))
    fleet.services = (rooms, ServiceInfo("other", "temperature", areas=("b9",)))
    with FakeGateway(tmp_path, fleet) as gateway:
        token = gateway.token("viewer", rate_per_s=10_000)

        def missing():
            return [
                each["area"] for each in ask(gateway, "/api/v1/now", token=token).json["missing"]
            ]

        wait_until(missing, lambda found: found == ["b9"])
        fleet.services = (rooms,)
        wait_until(missing, lambda found: found == [])


def test_readings_come_from_services_that_have_the_area(tmp_path):
    fleet = FakeFleet()
    fleet.services = (
        ServiceInfo("climate", "temperature", areas=("b1/f4",)),
        ServiceInfo("humidity", "humidity", areas=("b1",)),
        ServiceInfo("temperature", "temperature", areas=("b1",)),
    )
    with FakeGateway(tmp_path, fleet) as made:
        token = made.token("viewer")
        found = ask(made, "/api/v1/readings?area=b1/f1/r000&last=1h", token=token)
        assert found.status == 200
        asked = {each["service"] for each in fleet.queries if each["form"] == "buckets"}
        assert asked == {"humidity", "temperature"}


@pytest.mark.parametrize("far_ms", [-(10**12), 5 * 10**12, 10**9])
def test_a_channel_of_a_time_far_from_the_others_makes_no_picture_of_both(
    tmp_path, monkeypatch, far_ms
):
    """As of a node whose clock is not set, or that says so: the list between had no end."""

    class Far(FakeFleet):
        def _buckets(self, area, window, number, channels):
            made = super()._buckets(area, window, number, channels)
            if channels != ("humidity",):
                return made
            moved = far_ms // made.buckets.length_ms * made.buckets.length_ms
            buckets = replace(made.buckets, start_ms=made.buckets.start_ms + moved)
            return replace(made, buckets=buckets)

    fleet = Far()
    fleet.services = (
        ServiceInfo("temperature", "temperature", areas=("b1",)),
        ServiceInfo("humidity", "humidity", areas=("b1",)),
    )
    sizes = []
    columns = queries._columns
    monkeypatch.setattr(
        queries, "_columns", lambda found, places: sizes.append(places) or columns(found, 0)
    )
    with FakeGateway(tmp_path, fleet) as made:
        token = made.token("viewer")
        found = ask(made, "/api/v1/readings?area=b1/f1/r000&last=1h&points=60", token=token).json
    assert sizes == [0]
    assert list(found["channels"]) == ["temperature"]
    [gap] = found["missing"]
    assert gap["message"].startswith("humidity left out: times far from those of the other")


def test_readings_of_an_area_that_no_service_has_name_it(tmp_path):
    fleet = FakeFleet()
    fleet.services = (ServiceInfo("humidity", "humidity", areas=("b1",)),)
    with FakeGateway(tmp_path, fleet) as made:
        token = made.token("viewer")
        got = ask(made, "/api/v1/readings?area=b2", token=token)
        assert (got.status, got.reason) == (404, "no_area")
        assert got.json["detail"] == "no service has an area b2"
        got = ask(made, "/api/v1/readings?area=b1/f1/r000&channel=co2", token=token)
        assert (got.status, got.reason) == (404, "no_channel")
        assert got.json["detail"] == "no service gives co2 of b1/f1/r000"


@pytest.mark.parametrize("areas", [("b1/f1/r000", "b1/f1/r001"), ("b1",)])
def test_readings_of_a_part_of_the_building_ask_for_a_room(tmp_path, areas):
    fleet = FakeFleet()
    fleet.services = (ServiceInfo("humidity", "humidity", areas=areas),)
    with FakeGateway(tmp_path, fleet) as made:
        token = made.token("viewer")
        got = ask(made, "/api/v1/readings?area=b1/f1", token=token)
        assert (got.status, got.reason) == (400, "malformed")
        said = "b1/f1 is no room; name one of those below it, such as b1/f1/r000"
        assert got.json["detail"] == said


def test_every_reason_is_documented_with_its_status():
    root = Path(api.__file__).parents[3]
    found = {(str(status), reason) for reason, status in OF_REFUSAL.items()}
    for path in (root / "agent/gateway").rglob("*.py"):
        found |= set(re.findall(r'Problem\(\s*(\d+),\s*"(\w+)"', path.read_text()))
    lines = (root / "docs/run/gateway.md").read_text().splitlines()
    rows = [re.split(r" ?\| ?", line)[1:3] for line in lines if re.match(r"\| \d{3}", line)]
    told = {
        (status, reason)
        for statuses, words in rows
        for status in statuses.split(", ")
        for reason in re.findall(r"`(\w+)`", words)
    }
    assert found - told == set()


def test_a_session_names_all_domains_though_one_of_them_was_asked_last(tmp_path):
    fleet = FakeFleet()
    fleet.iads = {"b1/f1/r003": "iad2"}
    with FakeGateway(tmp_path, fleet) as made:
        token = made.token("asker")
        assert ask(made, "/api/v1/session", token=token).json["iads"] == []
        ask(made, "/api/v1/query", "POST", token=token, body=QUERY)
        ask(made, "/api/v1/readings?area=b1/f1/r003&last=1h", token=token)
        session = ask(made, "/api/v1/session", token=token).json
        assert (session["iad"], session["iads"]) == ("iad1", ["iad1", "iad2"])


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


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("now?aera=b1", "/api/v1/now has no parameter 'aera'; did you mean area?"),
        ("alerts?limt=3", "/api/v1/alerts has no parameter 'limt'; did you mean limit?"),
        ("now?x=1", "/api/v1/now has no parameter 'x'; it takes area"),
        ("readings?last=1h", "area is missing; write area=b1/f4/r413"),
        ("session?area=b1", "/api/v1/session has no parameter 'area'; it takes none"),
        ("openapi.json?v=1", "/api/v1/openapi.json has no parameter 'v'; it takes none"),
    ],
)
def test_a_parameter_that_is_misspelt_or_missing_is_named(made, path, said):
    got = ask(made, f"/api/v1/{path}", token=made.viewer)
    assert (got.status, got.reason, got.json["detail"]) == (400, "malformed", said)


def test_no_endpoint_of_the_api_takes_a_parameter_that_it_does_not_describe(made):
    for endpoint in routes.ENDPOINTS:
        if endpoint.path.startswith("/api/"):
            path = f"{endpoint.path}?no_such=1"
            got = ask(made, path, endpoint.method, token=made.operator)
            assert got.status == 400, endpoint.path
            assert "no parameter 'no_such'" in got.json["detail"]


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
    monkeypatch.setattr("agent.gateway.http.api.MAX_READ", 4)
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
        known = len(made.fleet.areas)  # each area has a node
        assert silent == {"iad": "iad1", "status": None, "problem": "no reply", "nodes": known}
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
        assert [each["nodes"] for each in told] == [None, None]
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
