"""A topic with a standby on three real masters, under a stream of messages: its master is killed
with -9, and it lives on elsewhere, with nothing lost, doubled or reordered. So does it when the
dead one returns, when its standby dies, and when it moves."""

from __future__ import annotations

import signal
import subprocess
from contextlib import ExitStack, contextmanager

import pytest

from agent.client import Operator
from agent.wire.clones import CloneOf, CreateClone, ListClones
from agent.wire.handover import MoveUnit
from agent.wire.topics import ListTopics, RemoveTopic, Topic
from fleet.cli.commands import run as fleet
from testkit.agent_process import AgentProcess
from testkit.waiting import wait_until
from tests.master.clones.test_clone_process import EDGE, NODE
from tests.master.handover_masters import IADS, PATIENCE_MS, Masters
from tests.master.moves.test_handover_process import Stream
from tests.master.worker_rig import package
from tests.trust.tap import Tap

TOPIC = Topic("counted", processor="count", standby=True)
# What it puts out is another thing each time that it is made.
CODE = """
import os

def heard(message, state):
    state["seen"] = state.get("seen", 0) + 1
    return [{"seen": state["seen"]}]

def marked(message, state):
    state["mark"] = "state-of-the-clone"
    state["seen"] = state.get("seen", 0) + 1
    return [{"seen": state["seen"]}]

def count(message, state):
    state["seen"] = state.get("seen", 0) + 1
    return [{"n": message["n"], "seen": state["seen"], "draw": os.urandom(8).hex()}]
"""


@pytest.fixture(autouse=True)
def acme(tmp_path, monkeypatch):
    """A package with a processor that counts, for the workers of the masters."""
    names = {name: f"acme:{name}" for name in ("count", "heard", "marked")}
    folder = package(tmp_path / "acme", CODE, **names)
    monkeypatch.setenv("PYTHONPATH", str(folder))


@pytest.fixture
def masters(tmp_path):
    # No topic goes to where publisher and subscriber are.
    masters = Masters(tmp_path, s="[placement]\nfrozen = true\n")
    yield masters
    masters.stop()


class Guarded:
    """The topic, at `a` first, with publisher and subscriber at `s`."""

    def __init__(self, context, masters):
        self.masters = masters
        masters.create("a", TOPIC)
        self.stream = Stream(context, masters)
        self.stream.publish(3)

    def status(self, iad):
        topics = self.masters.ask(iad, ListTopics("l")).topics
        return next((each for each in topics if each.topic.name == "counted"), None)

    def until(self, condition):
        """Publish on until it holds. It asks masters, which takes a moment."""
        looks = iter(range(1_000_000))
        assert self.stream.until(lambda: next(looks) % 20 == 0 and condition())

    def settled(self):
        """Until the topic has a standby; where it lives, and that one. On a slow machine a master
        may be called dead that is not."""
        found = []

        def ready():
            found[:] = [
                (iad, status.standby)
                for iad in "ab"
                if (status := self.status(iad)) is not None and status.standby in ("a", "b")
            ]
            return len(found) == 1

        self.until(ready)
        return found[0]

    def kill(self, iad):
        self.masters[iad].stop(signal.SIGKILL)

    def wait_until_at(self, iad):
        def there():
            status = self.status(iad)
            return status is not None and status.state in ("ready", "running")

        self.until(there)

    def more(self, count=5):
        """So many more messages, and the output of each."""
        self.stream.publish(count)
        wanted = self.stream.publisher.number
        assert self.stream.until(lambda: len(self.stream.outputs.got) >= wanted)


@pytest.fixture
def guarded(context, masters):
    return Guarded(context, masters)


def test_a_topic_outlives_its_master_and_the_dead_one_knows_when_it_returns(
    guarded, masters, capsys
):
    owner, standby = guarded.settled()
    guarded.more()
    guarded.kill(owner)
    guarded.wait_until_at(standby)
    guarded.more()
    assert guarded.status(standby).taken_from == owner
    assert fleet(["topic", "show", "counted", "--operator", masters[standby].operator]) == 0
    assert f"taken over from {owner}" in capsys.readouterr().out
    AgentProcess.start(masters[owner])
    # It has another standby.
    guarded.settled()
    guarded.more()
    guarded.stream.check()


@pytest.mark.long
def test_a_topic_outlives_one_master_after_the_other(guarded, masters):
    for _ in range(4):
        owner, standby = guarded.settled()
        guarded.kill(owner)
        guarded.wait_until_at(standby)
        guarded.more()
        AgentProcess.start(masters[owner])
    guarded.settled()
    guarded.stream.check()


@pytest.mark.long
def test_a_dead_standby_does_not_hold_a_topic_up_for_good(guarded, masters):
    owner, standby = guarded.settled()
    guarded.kill(standby)
    guarded.more()  # when a majority has given its word
    assert "is dead" in guarded.status(owner).standby
    AgentProcess.start(masters[standby])
    owner, standby = guarded.settled()
    guarded.kill(owner)
    guarded.wait_until_at(standby)
    guarded.more()
    guarded.stream.check()


@pytest.mark.long
def test_a_topic_with_a_standby_is_restarted_and_moved_and_removed(guarded, masters):
    owner, _ = guarded.settled()
    guarded.kill(owner)
    AgentProcess.start(masters[owner])  # sooner than anybody takes it over, or later
    guarded.more()
    owner, target = guarded.settled()
    moved = masters.ask(owner, MoveUnit("m", "processor", "counted", target))
    assert moved.ok, moved.message
    guarded.until(lambda: masters.ask(owner, ListTopics("l")).moved.get("counted") == target)
    owner, _ = guarded.settled()
    guarded.more()
    guarded.stream.check()
    removed = masters.ask(owner, RemoveTopic("r", "counted"))
    assert (removed.ok, removed.message) == (True, "")
    for iad in IADS:
        masters[iad].wait_until(
            lambda counters: not counters["standbys_elsewhere"] + counters["standbys_here"]
        )


@pytest.mark.long
def test_who_removes_a_topic_whose_standby_is_silent_is_told_so(guarded, masters):
    owner, standby = guarded.settled()
    masters[standby].process.send_signal(signal.SIGSTOP)
    try:
        removed = masters.ask(owner, RemoveTopic("r", "counted"))
    finally:
        masters[standby].process.send_signal(signal.SIGCONT)
    assert removed.ok
    assert f"its standby at {standby} has not let it go yet" in removed.message
    for iad in IADS:
        masters[iad].wait_until(
            lambda counters: not counters["standbys_elsewhere"] + counters["standbys_here"]
        )


@contextmanager
def node(masters, tmp_path, name="n1", room="b1/a/r1"):
    """A node at `a`, whose readings its clone gets there."""
    config = tmp_path / "edge.toml"
    config.write_text(NODE.format(name=name, room=room, address=masters["a"].nodes))
    node = subprocess.Popen(
        [EDGE, "--config", config, "--exit-on-stdin-eof"], stdin=subprocess.PIPE
    )
    masters["a"].wait_for(masters["a"].status, lambda status: status.nodes)
    yield f"a/{name}"
    node.kill()
    node.wait()
    node.stdin.close()


@pytest.fixture
def device(masters, tmp_path):
    with node(masters, tmp_path) as device:
        yield device


def test_a_standby_learns_of_a_clone_what_leaves_anyway_and_no_more(tmp_path):
    """Checkpoints with state, outputs and readings cross the border under the pseudonym."""
    secrets = {"name": "pi-dunlin", "room": "b1/a/r413-lab"}
    taps = []

    def tapped(address):
        taps.append(Tap(address))
        return taps[-1].address

    with ExitStack() as stack:
        masters = Masters(tmp_path, tapped, s="[placement]\nfrozen = true\n")
        stack.callback(lambda: [tap.close() for tap in taps])
        stack.callback(masters.stop)
        device = stack.enter_context(node(masters, tmp_path, **secrets))
        clone = CloneOf(
            device, "marked", every_s=0.1, channels=("temperature",), leaves=True, standby=True
        )
        with Operator(masters["a"].operator) as operator:
            report = operator.ask_clone(CreateClone("c", clone), PATIENCE_MS)
            assert report.ok, report.message
            topic = report.clones[0].topic

            def outputs():
                return operator.ask_clone(ListClones("l"), PATIENCE_MS).clones[0].outputs

            def guarded():
                topics = [each for iad in "ab" for each in masters.ask(iad, ListTopics("l")).topics]
                return next((each.standby for each in topics if each.topic.name == topic), "")

            wait_until(guarded, lambda standby: standby in ("a", "b", "s"))
            before = outputs()
            wait_until(outputs, lambda found: found >= before + 5)
        seen = b"".join(tap.bytes for tap in taps)
        # So it can be read: the pseudonym, and the processor's state in a checkpoint.
        assert topic.encode() in seen
        assert b"state-of-the-clone" in seen
        for secret in secrets.values():
            assert secret.encode() not in seen


@pytest.mark.long
def test_a_clone_outlives_the_master_where_it_lives_and_its_home_reads_the_device_when_it_is_back(
    masters, device
):
    def ask(request):
        with Operator(masters["a"].operator) as operator:
            return operator.ask_clone(request, PATIENCE_MS)

    def status():
        (clone,) = ask(ListClones("l")).clones
        return clone

    def goes_on():
        before = status().outputs
        found = wait_until(status, lambda clone: clone.outputs >= before + 5)
        # Each came to the device once: the processor counts them.
        assert found.output["seen"] == found.outputs

    clone = CloneOf(
        device, "heard", every_s=0.1, channels=("temperature",), leaves=True, standby=True
    )
    report = ask(CreateClone("c", clone))
    assert report.ok, report.message
    name = report.clones[0].topic
    goes_on()

    def standby(iad):
        topics = masters.ask(iad, ListTopics("l")).topics
        return next((each.standby for each in topics if each.topic.name == name), "")

    def where():
        return [iad for iad in IADS if name in masters.topics(iad)]

    def dies(iad):
        other = wait_until(lambda: standby(iad), lambda other: other in set(IADS) - {iad})
        goes_on()
        masters[iad].stop(signal.SIGKILL)
        wait_until(lambda: name in masters.topics(other), bool)
        return other

    (at,) = wait_until(where, lambda at: len(at) == 1)
    if at == "a":
        masters.move(name, "a", "b")
    # Nothing else is there than its home, which takes it over.
    assert dies("b") == "a"
    goes_on()
    AgentProcess.start(masters["b"])
    # Its home dies where it lives: nobody reads the device until that is back.
    assert dies("a") == "b"
    AgentProcess.start(masters["a"])
    goes_on()
