"""Rotation and revocation with real agents, none of which is restarted for it, under queries."""

import pytest

from agent.net.keys import KeyFiles
from fleet.inventory.parties import HostOf, Party, hosts, parties
from fleet.keys import rotation
from fleet.keys.export import export
from fleet.keys.named import named
from fleet.rollout.keys.push import give_to
from fleet.rollout.keys.revoke import revoke
from fleet.rollout.keys.rotate import Rotator
from fleet.ssh.errors import HostError
from testkit.waiting import PATIENCE_S
from tests.fleet.keys.processes import Load, Running, loopback, up
from tests.metrics.rig import scrape, values


@pytest.fixture
def running(tmp_path):
    made = []

    def start(*names):
        made.append(Running(tmp_path, loopback(names)))
        made[-1].begin()
        return made[-1]

    yield start
    for each in made:
        each.stop()


@pytest.mark.long
def test_every_key_is_rotated_under_load_and_no_query_fails(running):
    fleet = running("iad4", "iad5")
    everybody = [each for each in parties(fleet.fleet) if each.name != "ada"]
    before = {party: fleet.store.publics(party) for party in everybody}
    loads = [Load(fleet, iad, anew=anew) for iad in ("iad4", "iad5") for anew in (False, True)]
    said = []
    try:
        rotator = Rotator(fleet.store, fleet.fleet, fleet.push, said.append)
        # Agents look at their files once a second, on a busy machine later.
        result = rotator.run(rotator.begin(everybody, overlap_s=5.0))
    finally:
        for load in loads:
            load.stop()
    assert set(result.through) == set(everybody)
    assert (result.held, result.errors) == ((), {})
    assert rotator.under_way() is None
    assert {came for load in loads for came in load.came} == {("complete",)}, said
    assert all(load.came for load in loads)
    for party in everybody:
        (key,) = fleet.store.publics(party)
        assert key not in before[party]
    assert all(process.poll() is None for process in fleet.processes.values())
    for host in hosts(fleet.fleet):
        _, page = scrape(host.entry.metrics.address)
        (key,) = fleet.store.keys(host.party)
        shown = values(page["sanderling_key_expiry_timestamp_seconds"])
        assert shown == {(): key.expires.timestamp()}
    # With the new keys alone they all find each other again.
    for iad in ("iad4", "iad5"):
        status = fleet.wait_until(iad, up)
        assert [node.state for node in status.nodes] == ["live", "live"]


def test_a_stolen_node_is_out_and_queries_say_so(running):
    fleet = running("iad4")
    client = fleet.client("iad4")
    with client:
        assert ask(client).status == "complete"
        done = revoke(fleet.store, fleet.fleet, [Party("node", "iad4/n1")], "stolen", fleet.push)
        assert (done.told, done.failed) == (("iad4/master",), ())
        assert done.revoked[0].reason == "stolen"
        status = fleet.wait_until("iad4", lambda s: states(s)["n1"] == "left")
        assert states(status) == {"n1": "left", "n2": "live"}
        answer = ask(client)
        assert answer.status == "partial"
        assert [(gap.area, gap.reason) for gap in answer.missing] == [
            ("iad4/b1/f4/r413", "node_down")
        ]
        assert "rejected this node" in fleet.said("iad4/n1")
        assert "iad4/n1" not in fleet.pushes  # whoever has it gets nothing

        # Its successor gets new keys, and is let in; the former ones stay out.
        assert fleet.store.reinstate(fleet.fleet, Party("node", "iad4/n1"))
        (n1,) = (host for host in hosts(fleet.fleet) if host.name == "iad4/n1")
        master = HostOf(n1.iad, None)
        give_to(fleet.store, fleet.fleet, master, fleet.push)
        give_to(fleet.store, fleet.fleet, n1, fleet.push)
        fleet.wait_until("iad4", up)
        assert ask(client).status == "complete"
        gone = set(done.revoked[0].keys)
        assert not gone & set(fleet.store.publics(n1.party))


def test_a_person_is_out_on_a_connection_that_exists(running, tmp_path):
    fleet = running("iad4")
    export(fleet.store, fleet.fleet, "ada", tmp_path / "of-ada")
    with fleet.client("iad4", of_ada(tmp_path, "iad4")) as ada:
        assert ask(ada).status == "complete"
        done = revoke(fleet.store, fleet.fleet, named(fleet.fleet, "ada"), "", fleet.push)
        assert done.told == ("iad4/master",)
        answer = fleet.wait_for("iad4", lambda: ask(ada), lambda got: got.status == "refused")
        assert answer.reason == "not_authorised"
    with fleet.client("iad4") as other:
        assert ask(other).status == "complete"


def test_a_master_that_is_away_meanwhile_comes_back_with_its_old_key(
    running, monkeypatch, tmp_path
):
    monkeypatch.setattr(rotation, "SETTLE_S", 1.2)
    fleet = running("iad4", "iad5")
    everybody = [each for each in parties(fleet.fleet) if each.name != "ada"]
    (away,) = (host for host in hosts(fleet.fleet) if host.name == "iad5/master")
    process = fleet.processes[away.name]
    process.terminate()
    process.wait(PATIENCE_S)
    process.stdin.close()

    def push(host, files):
        if host == away:
            raise HostError("dead", "no way there")
        fleet.push(host, files)

    rotator = Rotator(fleet.store, fleet.fleet, push, str)
    held = rotator.run(rotator.begin(everybody, overlap_s=1.2)).held
    assert {Party("master", "iad4"), Party("node", "iad5/n1")} < {each.party for each in held}
    # While it holds the rotation up, nobody has forgotten a key that it knows.
    fleet.start(away)
    for iad in ("iad4", "iad5"):
        fleet.wait_until(iad, up)

    # Left behind, as a host is that only we cannot reach: its nodes stay with it.
    assert rotator.run(rotator.under_way(), [away.name]).held == ()
    assert rotator.under_way() is None
    export(fleet.store, fleet.fleet, "ada", tmp_path / "of-ada")
    with fleet.client("iad5", of_ada(tmp_path, "iad5")) as ada:
        assert ask(ada, "iad5").status == "complete"

    # A deployment gives it the files of now.
    give_to(fleet.store, fleet.fleet, away, fleet.push)
    for iad in ("iad4", "iad5"):
        fleet.wait_until(iad, up)
        with fleet.client(iad) as client:
            # Until its link has the new keys, it may be refused.
            fleet.wait_for(
                iad, lambda: ask(client, "iad4", "iad5"), lambda got: got.status == "complete"
            )


def states(status):
    return {node.node: node.state for node in status.nodes}


def of_ada(folder, iad):
    return KeyFiles(str(folder / "of-ada/client.secret"), str(folder / f"of-ada/{iad}.public"))


def ask(client, *iads):
    return client.query(list(iads or ("iad4",)), last_s=60, latency_ms=10_000, form="aggregate")
