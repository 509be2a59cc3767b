"""Topics, clones and the gateway between this state of the code and a recent one: units move, files
are taken over in both directions, and nothing is lost. `make test-upgrades`."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.gateway import tokens
from agent.wire.handover import ListMoves, MoveUnit
from testkit.waiting import wait_until
from tests.gateway.conftest import ask
from tests.gateway.process import Process
from tests.master.clones.test_clone_process import CODE as ECHO
from tests.master.clones.test_clone_process import OTHER, Clones
from tests.master.handover_masters import Masters
from tests.master.moves.test_handover_process import CODE as COUNT
from tests.master.moves.test_handover_process import TOPIC, Stream
from tests.master.worker_rig import package
from tests.trust.rig import ROOMS
from tests.upgrades.rig import RECENT, Mixed

QUERY = {
    "areas": ["b1"],
    "window": {"last_s": 600},
    "slo": {"percentile": 99, "latency_ms": 20_000},
    "timeout_ms": 30_000,
}


@pytest.fixture(autouse=True)
def acme(tmp_path, monkeypatch):
    """Processors for the workers of both."""
    folder = package(tmp_path / "acme", COUNT + ECHO, count="acme:count", echo="acme:echo")
    monkeypatch.setenv("PYTHONPATH", str(folder))


def replace(master, earlier=None):
    """Stop it and start it again, as this state or as that one."""
    said = master.stop()[1]
    for word in ("Traceback", "set aside", "damaged", "cannot be read"):
        assert word not in said, said
    master.command = earlier.command("sanderling-master") if earlier else type(master).command
    master.start()
    loaded = Path(f"/proc/{master.process.pid}/maps").read_text()
    assert (str(RECENT.folder) in loaded) is (earlier is not None)


@pytest.fixture
def masters(tmp_path):
    masters = Masters(tmp_path)
    yield masters
    masters.stop()


@pytest.mark.parametrize("old", ["a", "b", "s", "abs"])
def test_a_topic_moves_between_the_two_and_back(masters, context, recent, old):
    for iad in old:
        replace(masters[iad], recent)
    masters.wait_for_links()
    masters.create("a", TOPIC)
    stream = Stream(context, masters)
    stream.publish(5)
    stream.move("a", "b")
    stream.publish(5)
    stream.move("b", "a")
    stream.publish(5)
    stream.check()


@pytest.mark.parametrize("iad", ["a", "s"], ids=["of the topic", "of the clients"])
def test_a_master_is_upgraded_and_taken_back_under_a_stream(masters, context, recent, iad):
    replace(masters[iad], recent)
    masters.wait_for_links()
    masters.create("a", TOPIC)
    stream = Stream(context, masters)
    stream.publish(5)
    for state in (None, recent, None):
        replace(masters[iad], state)
        stream.publish(5)
    stream.check()


@pytest.mark.parametrize("old", ["a", "b"], ids=["its home is old", "the other is old"])
def test_a_clone_leaves_between_the_two_and_comes_back(tmp_path, recent, old):
    clones = Clones(tmp_path)
    try:
        replace(clones.masters[old], recent)
        clones.masters[old].wait_for_links(1)
        topic = clones.create("a", leaves=True)
        for _ in range(2):
            at = clones.goes_on("a").iad
            moved = clones.ask(at, MoveUnit("m", "processor", topic, OTHER[at]))
            assert moved.ok, moved.message
            wait_until(
                lambda at=at: clones.ask(at, ListMoves("l")).moves[-1].state,
                lambda state: state == "settled",
            )
            clones.wait("a", lambda clone, at=at: clone.iad == OTHER[at])
        # Both with the files of the other state.
        replace(clones.masters[old])
        replace(clones.masters[OTHER[old]], recent)
        clones.goes_on("a")
    finally:
        clones.stop()


@pytest.mark.parametrize("old", ["gateway", "masters"])
def test_a_page_and_its_files_between_the_two(tmp_path, recent, old):
    names = ["iad1", "iad2"] if old == "masters" else []
    fleet = Mixed(tmp_path, recent, *names, overlay=True)
    folder = tmp_path / "gateway"
    folder.mkdir()
    try:
        fleet.start()
        at = fleet.sockets["iad1"]
        text = f'[master]\naddresses = ["{at["public"]}"]\n[console]\nevery_s = 0.5\n'
        gateway = Process(folder, text + f'[operator]\naddress = "{at["operator"]}"\n')
        token = tokens.create_token(gateway.access, "me", "operator", rate_per_s=1_000)
        told = {0}
        for n, state in enumerate((recent, None, recent) if old == "gateway" else (None,)):
            gateway.command = state.command("sanderling-gateway") if state else Process.command
            if n:  # while it is away
                told.add(n)
                publish(fleet, n)
            with gateway:
                sees_everything(gateway, token, fleet, told)
                assert gateway.end() == 0
            assert "Traceback" not in gateway.said()
    finally:
        fleet.stop()


def publish(fleet, n):
    with fleet.client("iad1") as client:
        client.publish("news", {"n": n})


def sees_everything(gateway, token, fleet, told):
    """Rooms, an answer, the operator's view, and all messages so far, once."""

    def get(path):
        return ask(gateway, f"/api/v1/{path}", token=token)

    def messages():
        if told == {0}:
            publish(fleet, 0)  # until its first subscription is open
        found = [each["attributes"] for each in get("alerts?limit=1000").json["alerts"]]
        return [each["n"] for each in found if "n" in each]  # at some hours a room is warm

    wait_until(
        lambda: {(room["area"], room["state"]) for room in get("now").json["rooms"]},
        lambda found: found == {(area, "live") for area in ROOMS.values()},
    )
    answer = ask(gateway, "/api/v1/query", "POST", token=token, body=QUERY)
    assert (answer.status, answer.json["status"]) == (200, "complete")
    assert get("fleet").json["iad"] == "iad1"
    heard = wait_until(messages, lambda found: {*found} >= told)
    later = [n for n in heard if n]
    assert sorted(later) == sorted(told - {0})
