"""Who asks after a pause, gets values of now, or reads that they are old."""

import math
import threading

import pytest
from msgspec.structs import replace

from agent.gateway.feed.rooms import ASKED_AGAIN
from agent.wire.about import ServiceInfo
from testkit.waiting import PATIENCE_S, wait_until
from tests.gateway.conftest import ask
from tests.gateway.fake import FakeClient, FakeFleet, FakeGateway

ANSWERED_S = 0.3  # a request that is answered too early is answered by then


@pytest.fixture
def fleet():
    made = FakeFleet(3)
    made.every_s = math.inf
    made.services = [ServiceInfo(name, name, areas=("b1",)) for name in ("humidity", "temperature")]
    return made


def test_the_first_answer_after_a_pause_is_of_all_services(tmp_path, fleet, monkeypatch):
    answered, plain = threading.Event(), FakeClient.query

    def query(client, areas, *, service, **more):
        """Each service has one channel, and that of the second takes its time."""
        if service == "temperature":
            answered.wait(ANSWERED_S)
        found = plain(client, areas, service=service, **more)
        results = [
            replace(
                each,
                aggregate=replace(
                    each.aggregate, channels={service: each.aggregate.channels[service]}
                ),
            )
            for each in found.results
        ]
        return replace(found, results=tuple(results))

    monkeypatch.setattr(FakeClient, "query", query)
    with FakeGateway(tmp_path, fleet) as made:
        got = ask(made, "/api/v1/now", token=made.token("viewer"))
        answered.set()
        assert {tuple(sorted(room["channels"])) for room in got.json["rooms"]} == {
            ("humidity", "temperature")
        }


def test_before_the_fleet_answers_old_values_are_not_live(tmp_path, fleet, monkeypatch):
    monkeypatch.setattr("agent.gateway.http.api.LOOKS_S", 0.0)
    with FakeGateway(tmp_path, fleet) as made:
        token = made.token("viewer")

        def states(query=""):
            rooms = ask(made, f"/api/v1/now{query}", token=token).json["rooms"]
            return {(room["state"], room["reason"]) for room in rooms}

        assert states() == {("live", "")}
        wait_until(lambda: made.gateway.hub.source.state, lambda state: state == "idle")
        later_s = made.gateway.hub.clock() + 120.0
        monkeypatch.setattr(made.gateway.hub, "clock", lambda: later_s)
        monkeypatch.setattr(made.gateway.hub, "wait_s", 0.01)
        fleet.hold.clear()
        try:
            for query in ("", "?area=b1/f1"):
                assert states(query) == {("stale", ASKED_AGAIN)}
            assert b"channel=" not in ask(made, "/metrics/readings", token=token).body
        finally:
            fleet.hold.set()
        monkeypatch.setattr(made.gateway.hub, "wait_s", PATIENCE_S)
        assert states() == {("live", "")}
