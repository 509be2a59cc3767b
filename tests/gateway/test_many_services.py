"""More services than a client may watch: other parties set up as many as they like."""

import math

import pytest

from agent.client import WatchError
from agent.gateway.feed import watching
from agent.gateway.feed.watching import MAX_WATCHED, chosen
from agent.wire.about import ServiceInfo
from testkit.waiting import wait_until
from tests.gateway.conftest import ask
from tests.gateway.fake import FakeClient, FakeFleet, FakeGateway


@pytest.fixture
def fleet():
    made = FakeFleet(3)
    made.every_s = 0.05
    made.services = [ServiceInfo(f"s{n}", "temperature", areas=("b1",)) for n in range(130)]
    return made


@pytest.mark.parametrize("most", [100, 10])
def test_the_page_is_live_however_many_services_there_are(tmp_path, fleet, monkeypatch, most):
    plain = FakeClient.watch

    def watch(client, areas, **more):
        if fleet.watches >= most:
            raise WatchError(f"{most} watches are open for you; cancel one")
        return plain(client, areas, **more)

    monkeypatch.setattr(FakeClient, "watch", watch)
    with FakeGateway(tmp_path, fleet, linger_s=60.0) as made:
        token = made.token("viewer")
        ask(made, "/api/v1/now", token=token)
        wait_until(lambda: fleet.watches, lambda open_now: open_now == min(most, MAX_WATCHED))
        found = ask(made, "/api/v1/now", token=token).json
        assert found["source"]["state"] == "up"
        assert {room["state"] for room in found["rooms"]} == {"live"}
        assert fleet.watched == fleet.watches, "none was opened again"
    [line, *others] = [each for each in made.said if "watched" in each]
    assert line.startswith("32 services of 130 are watched; console.services names those")
    assert len(others) == (most < MAX_WATCHED)


def test_what_the_master_refused_is_watched_once_it_has_room(tmp_path, fleet, monkeypatch):
    most, plain = [10], FakeClient.watch

    def watch(client, areas, **more):
        if fleet.watches >= most[0]:
            raise WatchError(f"{most[0]} watches are open for you; cancel one")
        return plain(client, areas, **more)

    monkeypatch.setattr(FakeClient, "watch", watch)
    monkeypatch.setattr(watching, "ABOUT_EVERY_S", 0.0)
    with FakeGateway(tmp_path, fleet, linger_s=60.0) as made:
        ask(made, "/api/v1/now", token=made.token("viewer"))
        wait_until(lambda: fleet.watches, lambda open_now: open_now == 10)
        most[0] = 20
        wait_until(lambda: fleet.watches, lambda open_now: open_now == 20)
        assert fleet.watched == 20, "those before it went on"


def test_rounds_are_taken_while_other_services_are_slow(tmp_path, fleet, monkeypatch):
    """Their first answers are awaited one after the other."""
    fleet.every_s = math.inf
    taken, plain = [], FakeClient.query

    def query(client, areas, *, service, **more):
        if service == "s1":
            fleet.rounds.put("of s0")
        if service == "s3":
            taken.append(fleet.rounds.empty())
        return plain(client, areas, service=service, **more)

    monkeypatch.setattr(FakeClient, "query", query)
    with FakeGateway(tmp_path, fleet) as made:
        ask(made, "/api/v1/now", token=made.token("viewer"))
        assert wait_until(lambda: taken, bool)[0]


def test_services_that_give_what_no_other_gives_are_watched_first():
    same = [ServiceInfo(f"s{n:03}", "temperature", areas=("b1",)) for n in range(130)]
    other = ServiceInfo("z-other", "humidity", areas=("b1",))
    usual = ServiceInfo("default", areas=("b1", "b2"))
    told = {each.name: each for each in [*same, other, usual]}
    assert chosen(told, 3) == ("default", "s000", "s001"), "default gives all"
    del told["default"]
    assert chosen(told, 3) == ("s000", "z-other", "s001")
    assert chosen(told, 131) == tuple(told)
