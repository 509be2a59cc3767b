"""Clones of two devices on two real masters: readings reach them, they hear each other, they move,
and nothing that they put out is lost or doubled; nobody else learns which devices they are of."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from agent.client import Client, Operator
from agent.wire.clones import CloneOf, CreateClone, ListClones, RemoveClone
from agent.wire.handover import ListMoves, MoveUnit
from agent.wire.placement import PinUnit, SetPlacementMode, ShowPlacement, UnitName
from agent.wire.topics import ListTopics, RemoveTopic
from fleet.testbed.ports import free_address
from testkit.agent_process import AgentProcess
from testkit.waiting import PATIENCE_S, wait_until
from tests.master.push_rig import PushMaster
from tests.master.worker_rig import package
from tests.trust.tap import Tap

PATIENCE_MS = PATIENCE_S * 1e3
EDGE = Path(sys.executable).with_name("sanderling-edge")
# What must not cross the border, so nothing else is called like it.
NODES = {"a": "pi-dunlin", "b": "pi-knot"}
ROOMS = {"a": "b1/f4/r413", "b": "b1/f5/r510"}
FLOORS = {"a": "b1/f4", "b": "b1/f5"}
OTHER = {"a": "b", "b": "a"}
CODE = """
def echo(message, state):
    if "peer" in message:
        state["heard"] = state.get("heard", 0) + 1
        return []
    state["n"] = state.get("n", 0) + 1
    was = message["temperature"]
    return [{"n": state["n"], "heard": state.get("heard", 0), "temperature_was": was}]
"""
NODE = """
[node]
name = "{name}"
areas = ["{room}"]
[master]
address = "{address}"
reconnect_first_s = 0.01
reconnect_longest_s = 0.05
[[sensor]]
driver = "synthetic"
interval_s = 0.02
"""


def section(iad, addresses):
    other = OTHER[iad]
    text = f'[overlay]\nvertex = "{iad}"\nlinks = [["a", "b"]]\n'
    text += f'[[overlay.neighbour]]\niad = "{other}"\nvertex = "{other}"\ncluster = 0\n'
    text += f'address = "{addresses[other]}"\n[placement]\nevery_s = 0.2\n'
    for each, address in addresses.items():
        text += f'[[pool]]\niad = "{each}"\naddress = "{address}"\nareas = ["{FLOORS[each]}"]\n'
    return text


class Clones:
    """Two masters that reach each other through taps, with a device each."""

    def __init__(self, folder):
        public = {iad: free_address() for iad in "ab"}
        self.taps = {iad: Tap(address) for iad, address in public.items()}
        via = {iad: tap.address for iad, tap in self.taps.items()}
        self.masters = {
            iad: PushMaster(folder / iad, iad, public[iad], section(iad, via)) for iad in "ab"
        }
        self.nodes = [self.node(folder, iad) for iad in "ab"]
        for master in self.masters.values():
            master.wait_for_links(1)
            master.wait_for(master.status, lambda s: s.nodes and not s.unreachable_iads)

    def node(self, folder, iad):
        config = folder / iad / "edge.toml"
        address = self.masters[iad].nodes
        config.write_text(NODE.format(name=NODES[iad], room=ROOMS[iad], address=address))
        return subprocess.Popen(
            [EDGE, "--config", config, "--exit-on-stdin-eof"], stdin=subprocess.PIPE
        )

    def stop(self):
        for node in self.nodes:
            node.kill()
            node.wait()
            node.stdin.close()
        for master in self.masters.values():
            master.stop(signal.SIGKILL)
        for tap in self.taps.values():
            tap.close()

    def ask(self, iad, request):
        with Operator(self.masters[iad].operator) as operator:
            if isinstance(request, ListTopics | RemoveTopic):
                return operator.ask_topic(request, PATIENCE_MS)
            if isinstance(request, MoveUnit | ListMoves):
                return operator.ask_move(request, PATIENCE_MS)
            if isinstance(request, PinUnit | SetPlacementMode | ShowPlacement):
                return operator.ask_placement(request, PATIENCE_MS)
            return operator.ask_clone(request, PATIENCE_MS)

    def create(self, iad, **options):
        # The node may just be joining.
        asked = lambda: self.ask(iad, CreateClone("c", clone_at(iad, **options)))  # noqa: E731
        report = wait_until(asked, lambda found: found.ok)
        return report.clones[0].topic

    def clone(self, iad):
        (clone,) = self.ask(iad, ListClones("l")).clones
        return clone

    def wait(self, iad, condition):
        """Until the clone of the device at that IAD is so."""
        return wait_until(lambda: self.clone(iad), condition)

    def goes_on(self, iad, more=5):
        """Wait for so many more outputs; each came to the device once."""
        before = self.clone(iad).outputs
        found = self.wait(iad, lambda clone: clone.outputs >= before + more)
        assert found.output["n"] == found.outputs
        return found


def clone_at(iad, **options):
    return CloneOf(f"{iad}/{NODES[iad]}", "echo", every_s=0.1, channels=("temperature",), **options)


@pytest.fixture
def clones(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(package(tmp_path / "acme", CODE, echo="acme:echo")))
    clones = Clones(tmp_path)
    yield clones
    clones.stop()


def test_clones_hear_each_other_and_move_and_their_devices_notice_nothing(clones):
    topics = {
        iad: clones.create(iad, leaves=True, peers=(f"{OTHER[iad]}/{NODES[OTHER[iad]]}",))
        for iad in "ab"
    }
    for iad in "ab":
        clones.wait(iad, lambda clone: clone.output.get("heard", 0) > 2)
        assert clones.goes_on(iad).output["temperature_was"] > 0
    # From whichever master it lives at.
    at = wait_until(
        lambda: [i for i in "ab" if topics["a"] in names(clones, i)], lambda at: len(at) == 1
    )[0]
    moved = clones.ask(at, MoveUnit("m", "processor", topics["a"], OTHER[at]))
    assert moved.ok, moved.message
    wait_until(
        lambda: clones.ask(at, ListMoves("l")).moves[-1].state, lambda state: state == "settled"
    )
    clones.wait("a", lambda clone: clone.iad == OTHER[at])
    heard = clones.goes_on("a").output["heard"]
    clones.wait("a", lambda clone: clone.output["heard"] > heard + 2)
    # Its home is killed, and the master where it lives.
    for master in clones.masters.values():
        master.stop(signal.SIGKILL)
    for master in clones.masters.values():
        AgentProcess.start(master)
    clones.goes_on("a")
    clones.goes_on("b")
    refused = clones.ask(OTHER[at], RemoveTopic("r", topics["a"]))
    assert "is the clone of a device of a" in refused.message
    ended = clones.ask("a", RemoveClone("r", f"a/{NODES['a']}"))
    assert (ended.ok, ended.message) == (True, "")
    assert clones.ask("a", ListClones("l")).clones == ()
    assert topics["a"] not in names(clones, "a") + names(clones, "b")
    clones.goes_on("b")
    seen = b"".join(tap.bytes for tap in clones.taps.values())
    assert topics["a"].encode() in seen  # it can be read
    for secret in (*NODES.values(), *ROOMS.values()):
        assert secret.encode() not in seen


@pytest.mark.usefixtures("patient_clients")
def test_a_clone_that_stays_is_told_to_nobody_and_does_not_move(clones):
    with Client(clones.masters["b"].public) as client, client.subscribe('kind = "output"'):
        # Its outputs would go there if they were those of another topic.
        clones.masters["a"].wait_until(lambda counters: counters["overlay_subscriptions"] >= 1)
        topic = clones.create("a")
        assert topic.startswith("clone.")
        clones.goes_on("a")
    refused = clones.ask("a", MoveUnit("m", "processor", topic, "b"))
    assert "it is a clone that does not leave its IAD" in refused.message
    report = clones.ask("b", CreateClone("c", clone_at("b", peers=(f"a/{NODES['a']}",))))
    assert report.message == f"the clone of a/{NODES['a']} does not leave a"
    seen = b"".join(tap.bytes for tap in clones.taps.values())
    for secret in (*NODES.values(), *ROOMS.values(), "temperature_was"):
        assert secret.encode() not in seen


def test_a_clone_hears_others_by_what_they_put_out(clones):
    """Without knowing of which devices they are."""
    clones.create("b", leaves=True)
    clones.create("a", leaves=True, peers_where="temperature_was > -300")
    clones.wait("a", lambda clone: clone.output.get("heard", 0) > 2)
    assert clones.goes_on("b").output["heard"] == 0
    ended = clones.ask("a", RemoveClone("r", f"a/{NODES['a']}"))
    assert ended.ok, ended.message
    clones.create("a", leaves=True, peers_where="temperature_was > 1000")
    clones.goes_on("b")
    assert clones.goes_on("a").output["heard"] == 0


def test_what_operators_order_holds_for_clones_as_for_all_units(clones):
    """A clone begins at the master of its device, the nearest. It follows a pin, stays where the
    other master is frozen, and leaves a master that drains as soon as it may."""
    topic = clones.create("a", leaves=True)
    clones.wait("a", lambda clone: clone.iad == "a" and clone.outputs)
    unit = UnitName("processor", topic)

    def order(iad, request):
        report = clones.ask(iad, request)
        assert report.ok, report.message

    def modes(at):
        known = clones.ask(at, ShowPlacement("s")).known
        return {each.facts.iad: each.facts.mode for each in known if not each.silent}

    wait_until(lambda: modes("a"), lambda found: found.keys() == {"a", "b"})
    order("a", PinUnit("p", unit, "b"))
    clones.wait("a", lambda clone: clone.iad == "b")
    clones.goes_on("a")
    order("b", PinUnit("u", unit))
    order("a", SetPlacementMode("f", "a", "frozen"))
    wait_until(lambda: modes("b"), lambda found: found["a"] == "frozen")
    order("b", SetPlacementMode("d", "b", "draining"))
    assert clones.goes_on("a").iad == "b"
    order("a", SetPlacementMode("o", "a", "open"))
    clones.wait("a", lambda clone: clone.iad == "a")
    clones.goes_on("a")
    assert topic not in names(clones, "b")


def names(clones, iad):
    return [each.topic.name for each in clones.ask(iad, ListTopics("l")).topics]
