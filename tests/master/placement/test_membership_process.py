"""Three real masters with keys that find each other; a topic moves between two that were never told
of one another."""

from __future__ import annotations

import pytest

from agent.client import Operator
from agent.net.keys import KeyFiles, new, read_publics
from agent.wire.placement import PinUnit, ShowPlacement, UnitName
from agent.wire.topics import CreateTopic, ListTopics, Topic
from fleet.testbed.ports import free_address
from testkit.agent_process import AgentProcess, installed
from testkit.waiting import PATIENCE_S, wait_until

PATIENCE_MS = PATIENCE_S * 1e3
# Each knows of A only.
IADS = ("a", "b", "c")


class FoundMaster(AgentProcess):
    command = (installed("sanderling-master"),)

    def __init__(self, folder, iad, addresses):
        self.iad, self.operator = iad, free_address()
        self.keys = KeyFiles(str(folder / "ops.secret"), str(folder / f"{iad}.public"))
        home = folder / iad
        home.mkdir()
        (home / "allow.toml").write_text(
            f'[[operator]]\nname = "ops"\nkeys = {publics(folder, "ops")}\n'
            + "".join(
                f'[[iad]]\nname = "{other}"\npartner = true\nkeys = {publics(folder, other)}\n'
                for other in IADS
                if other != iad
            )
        )
        self.config = home / "master.toml"
        self.config.write_text(
            f'[iad]\nname = "{iad}"\n'
            f'[sockets]\npublic = "{addresses[iad]}"\noperator = "{self.operator}"\n'
            f'[trust]\nkey = "../{iad}.secret"\nallow = "allow.toml"\n'
            f'[placement]\nevery_s = 0.1\nbootstrap = ["{addresses["a"]}"]\n'
            'bootstrap_keys = "../a.public"\n'
        )
        self.start()

    def ask(self, method, request):
        with Operator(self.operator, self.keys) as operator:
            return getattr(operator, method)(request, PATIENCE_MS)

    def heard_of(self):
        report = self.ask("ask_placement", ShowPlacement("s"))
        return {each.facts.iad for each in report.known if not each.silent}

    def topics(self):
        return [each.topic.name for each in self.ask("ask_topic", ListTopics("l")).topics]


def publics(folder, name):
    return list(read_publics(str(folder / f"{name}.public")))


@pytest.fixture
def masters(tmp_path):
    for name in (*IADS, "ops"):
        new(str(tmp_path / name))
    addresses = {iad: free_address() for iad in IADS}
    started = {iad: FoundMaster(tmp_path, iad, addresses) for iad in IADS}
    yield started
    for master in started.values():
        master.stop()


def test_a_topic_moves_between_masters_that_found_each_other(masters):
    for master in masters.values():
        wait_until(master.heard_of, lambda found: found == set(IADS))
    b, c = masters["b"], masters["c"]
    created = b.ask("ask_topic", CreateTopic("t", Topic("notes")))
    assert created.ok, created.message
    pinned = b.ask("ask_placement", PinUnit("p", UnitName("processor", "notes"), "c"))
    assert pinned.ok, pinned.message
    wait_until(c.topics, lambda names: names == ["notes"])
    wait_until(b.topics, lambda names: names == [])
