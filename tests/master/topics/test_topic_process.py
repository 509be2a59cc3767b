"""Topics on real masters: readings and published messages through processors in worker processes,
each put out once, whatever is killed. SANDERLING_TOPIC_KILLS says how many kills the long form
has; without it, 20, and in CI 4."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from agent.client import Client, Operator
from agent.wire.messages import Slo
from agent.wire.placement import ShowPlacement
from agent.wire.topics import CreateTopic, Publish, Published, Topic
from agent.wire.unions import PublicReply
from fleet.testbed.ports import free_address
from testkit.agent_process import AgentProcess
from testkit.waiting import PATIENCE_S
from tests.examples import share
from tests.master.party import Party, Subscriber, run
from tests.master.push_rig import PLACES, PushMaster, overlay_text
from tests.master.worker_rig import package

KILLS = int(os.environ.get("SANDERLING_TOPIC_KILLS", share(20)))
EDGE = Path(sys.executable).with_name("sanderling-edge")
COUNTED = Topic("counted", processor="count", slo=Slo(90.0, 1_000.0))
CODE = """
def count(message, state):
    state["seen"] = state.get("seen", 0) + 1
    return [{"n": message["n"], "seen": state["seen"]}]

def fragile(message, state):
    raise RuntimeError("it is fragile")
"""
NODE = """
[node]
name = "n1"
areas = ["b1/f4/r1"]
[master]
address = "{address}"
reconnect_first_s = 0.01
reconnect_longest_s = 0.05
[[sensor]]
driver = "synthetic"
interval_s = 0.02
"""


@pytest.fixture(autouse=True)
def acme(tmp_path, monkeypatch):
    """A package with processors of its own, for the workers of the masters."""
    folder = package(tmp_path / "acme", CODE, count="acme:count", fragile="acme:fragile")
    monkeypatch.setenv("PYTHONPATH", str(folder))


def create(master, topic):
    with Operator(master.operator) as operator:
        report = operator.ask_topic(CreateTopic("c", topic), PATIENCE_S * 1e3)
    assert report.ok, report.message


def topic_of(master, condition):
    """The status of the master's topic, when it is so."""
    return master.wait_for(lambda: master.status().topics[0], condition)


@pytest.mark.usefixtures("patient_clients")
def test_readings_go_through_a_processor_to_subscribers(start_master, tmp_path):
    master = start_master()
    config = tmp_path / "node.toml"
    config.write_text(NODE.format(address=master.nodes))
    node = subprocess.Popen(
        [EDGE, "--config", config, "--exit-on-stdin-eof"], stdin=subprocess.PIPE
    )
    try:
        with Client(master.public) as client, client.subscribe('topic = "comfort"') as outputs:
            create(
                master,
                Topic("comfort", ("b1/f4",), every_s=0.2, processor="comfort_index"),
            )
            came = [next(outputs).notification for _ in range(3)]
    finally:
        node.stdin.close()
        assert node.wait(PATIENCE_S) == 0
    assert [each.origin.sequence for each in came] == [0, 1, 2]
    for each in came:
        told = each.attributes
        assert (told["iad"], told["topic"], told["kind"]) == ("iad1", "comfort", "output")
        assert told["area"] == "b1/f4/r1"
    status = master.status().topics[0]
    assert status.state in ("ready", "running")
    assert status.rounds >= 3
    assert status.cpu_ms > 0.0


@pytest.mark.usefixtures("patient_clients")
def test_a_processor_that_raises_is_shown_and_others_go_on(tmp_path):
    master = PushMaster(tmp_path / "iad1", "iad1")
    try:
        create(master, COUNTED)
        with (
            Client(master.public) as client,
            client.subscribe('kind = "output"') as outputs,
            client.subscribe('kind = "trouble"') as troubles,
        ):
            client.publish("counted", {"n": 1})
            assert next(outputs).notification.attributes["seen"] == 1
            create(master, Topic("broken", processor="fragile"))
            client.publish("broken", {"n": 1})
            told = next(troubles).notification.attributes
            assert (told["topic"], told["what"]) == ("broken", "failed")
            assert "RuntimeError: it is fragile" in told["text"]
            status = topic_of(master, lambda status: status.trouble)
            assert (status.topic.name, status.state) == ("broken", "backing_off")
            assert status.trouble == "RuntimeError: it is fragile (acme.py, line 7)"
            client.publish("counted", {"n": 2})
            assert next(outputs).notification.attributes["seen"] == 2
    finally:
        master.stop()


@pytest.mark.usefixtures("patient_clients")
def test_what_waits_in_an_inbox_counts_against_the_storage_of_a_master(tmp_path):
    """More than the 64 messages that a processor's queue takes: the rest is in the inbox only."""
    master = PushMaster(tmp_path / "iad1", "iad1")
    try:
        create(master, Topic("broken", processor="fragile"))
        with Client(master.public) as client, Operator(master.operator) as operator:
            for number in range(100):
                client.publish("broken", {"n": number, "text": "x" * 500})
            report = operator.ask_placement(ShowPlacement("s"), PATIENCE_S * 1e3)
        (topic,) = report.known[0].facts.topics
        assert topic.state_bytes > 90 * 500
    finally:
        master.stop()


class Publisher(Party):
    """Publishes 0, 1, 2, … one after the other, each until it is accepted."""

    def __init__(self, context, master):
        self.number = 0
        self.last = 0
        self.told_s = 0.0
        super().__init__(context, master.public, PublicReply)

    def greeting(self):
        # When all are accepted, the last one once more.
        number = max(0, min(self.number, self.last - 1))
        return Publish("publisher", "counted", {"n": float(number)}, number, oldest=number)

    def take(self, message):
        assert isinstance(message, Published), message
        if message.state == "accepted" and message.sequence == self.number:
            self.number += 1
            self.told_s = 0.0

    def turn(self):
        super().turn()
        if self.number < self.last and time.monotonic() > self.told_s + 0.3:
            self.told_s = time.monotonic()
            self.say(self.greeting())


class Outputs(Subscriber):
    """Keeps what the topic puts out."""

    def __init__(self, context, master):
        super().__init__(context, master, 'topic = "counted" and kind = "output"')

    def kept(self, notification):
        told = notification.attributes
        self.got.append((told["n"], told["seen"]))


def kill_and_count(masters, publisher, outputs, kills, seed):
    """Publish through kills of the masters; every message is put out once, and counted once."""
    parties = [publisher, outputs]
    draw = random.Random(seed)
    assert run(parties, lambda: outputs.opened)
    for _ in range(kills):
        publisher.last += draw.choice([5, 20, 60])
        run(parties, lambda: False, draw.choice([0.0, 0.05, 0.3]))
        gone = draw.sample(masters, draw.randint(1, len(masters)))
        for each in gone:
            each.stop(signal.SIGKILL)
        for each in gone:
            AgentProcess.start(each)
    publisher.last += 5
    assert run(parties, lambda: publisher.number >= publisher.last, 3 * PATIENCE_S)
    assert run(parties, lambda: len(outputs.got) >= publisher.last, 3 * PATIENCE_S), (
        len(outputs.got),
        publisher.last,
    )
    run(parties, lambda: len(outputs.got) > publisher.last, 1.0)
    # What was published again may have been overtaken: each once, in whichever order.
    count = publisher.last
    assert sorted(n for n, _ in outputs.got) == list(range(count))
    assert sorted(seen for _, seen in outputs.got) == list(range(1, count + 1))


def test_a_killed_master_puts_every_message_out_once(tmp_path, context):
    master = PushMaster(tmp_path / "iad1", "iad1")
    try:
        create(master, COUNTED)
        publisher, outputs = Publisher(context, master), Outputs(context, master)
        kill_and_count([master], publisher, outputs, kills=2, seed=1)
    finally:
        master.stop(signal.SIGKILL)


@pytest.mark.long
def test_masters_of_an_overlay_are_killed_and_every_message_is_put_out_once(tmp_path, context):
    addresses = {iad: free_address() for iad in PLACES}
    masters = {
        iad: PushMaster(tmp_path / iad, iad, address, overlay_text(iad, addresses, PLACES))
        for iad, address in addresses.items()
    }
    try:
        for master in masters.values():
            master.wait_for_links()
        create(masters["iad1"], COUNTED)
        masters["iad2"].wait_until(lambda c: c["overlay_subscriptions"] >= 1)
        publisher, outputs = Publisher(context, masters["iad4"]), Outputs(context, masters["iad3"])
        kill_and_count(list(masters.values()), publisher, outputs, KILLS, seed=KILLS)
    finally:
        for master in masters.values():
            master.stop(signal.SIGKILL)
