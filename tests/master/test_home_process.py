"""Homes that move between real masters: of a real node whose trigger is raised and cleared all the
time, heard by a subscriber at a third master."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from agent.client import Client
from agent.wire.handover import MoveUnit
from agent.wire.push import Notified
from agent.wire.records import NodeEventRecord, decode_record
from testkit.agent_process import AgentProcess, installed
from testkit.waiting import wait_until
from tests.master.handover_masters import Masters

EDGE = """
[node]
name = "n1"
areas = ["b1/a/r1"]
[master]
iad = "a"
address = "{a}"
reconnect_first_s = 0.01
reconnect_longest_s = 0.05
[[master.other]]
iad = "b"
address = "{b}"
[[sensor]]
driver = "synthetic"
interval_s = 0.05
options = {{ period_s = 8, noise = 0.0 }}
channels = {{ temperature = {{ max_step = 10.0, max_rate_per_s = 1000.0 }} }}
[[trigger]]
name = "hot"
condition = "temperature > 22"
clear = "temperature < 20"
"""
NODE = "node/n1"


class Edge(AgentProcess):
    command = (installed("sanderling-edge"),)

    def __init__(self, folder: Path, masters: Masters) -> None:
        folder.mkdir()
        self.config = folder / "edge.toml"
        self.config.write_text(EDGE.format(a=masters["a"].nodes, b=masters["b"].nodes))
        self.start()


class World:
    def __init__(self, folder: Path) -> None:
        self.masters = Masters(folder)
        self.edge = Edge(folder / "edge", self.masters)
        self.client = Client(self.masters["s"].public)
        self.heard = self.client.subscribe('trigger = "hot"', id="log", durable=True)
        self.origins = []

    def close(self) -> None:
        self.client.close()
        self.edge.stop(signal.SIGKILL)
        self.masters.stop()

    def listen(self, count: int = 1) -> None:
        """Until so many more alerts have come."""
        for _ in range(count):
            each = self.heard.wait(30.0)
            assert isinstance(each, Notified), each
            self.origins.append(each.notification.origin)

    def listen_for(self, iad: str) -> None:
        """Until one comes from that IAD."""
        wait_until(lambda: self.listen() or self.origins[-1].publisher, lambda found: found == iad)

    def lives_at(self, iad: str) -> bool:
        return any(each.node == "n1" and each.state == "live" for each in self.nodes(iad))

    def nodes(self, iad: str):
        return self.masters[iad].status().nodes

    def move(self, source: str, target: str):
        """Until it has moved: a node that has just joined does not move yet."""
        wait_until(lambda: self.lives_at(source), bool)

        def move():
            report = self.masters.ask(source, MoveUnit("m", "home", NODE, target))
            if not report.ok:
                return report.message
            self.masters.wait_until_over(source)
            last = self.masters.moves(source)[-1]
            return last.trouble or last

        return wait_until(move, lambda found: not isinstance(found, str))

    def check_alerts(self) -> list[int]:
        """Each came once, and in order; returns the numbers of their events."""
        alerts = [each.sequence // 16 for each in self.origins]
        assert len(alerts) == len(set(alerts)), "an alert came twice"
        return alerts

    def check(self) -> None:
        """Of each event there is one record, of each alert one notification."""
        self.edge.stop()
        records = []
        for iad in "ab":
            self.masters[iad].stop()
            for path in (self.masters[iad].folder / "records").glob("*.jsonl"):
                found = [decode_record(line) for line in path.read_bytes().splitlines()]
                records += [each for each in found if isinstance(each, NodeEventRecord)]
        numbers = sorted(each.sequence for each in records)
        assert len(numbers) == len(set(numbers)), "an event was recorded twice"
        assert numbers == list(range(numbers[0], numbers[-1] + 1)), "an event was lost"
        alerts = self.check_alerts()
        told = {each.sequence for each in records if each.trigger and each.sequence <= max(alerts)}
        assert told == set(alerts), "an alert was lost"


@pytest.fixture
def world(tmp_path):
    world = World(tmp_path)
    yield world
    world.close()


def test_a_node_moves_there_and_back_and_no_alert_is_lost_or_doubled(world):
    world.listen(3)
    move = world.move("a", "b")
    assert move.pause_ms is not None
    world.listen_for("b")
    assert world.lives_at("b")
    assert not world.lives_at("a")
    # After a restart it knows where its home is, and so does the master that it has left.
    world.edge.stop(signal.SIGKILL)
    world.edge.start()
    world.listen(3)
    assert world.origins[-1].publisher == "b"
    Path(f"{world.edge.config.parent}/history.sqlite.home").unlink()
    world.masters.restart("a")
    world.edge.stop(signal.SIGKILL)
    world.edge.start()
    world.listen_for("b")
    world.move("b", "a")
    world.listen_for("a")
    world.check()


# --- subscriptions --------------------------------------------------------------------------------

SUBSCRIPTION = "client//log"


def test_a_durable_subscription_moves_and_its_client_goes_on_after_its_position(tmp_path):
    world = World(tmp_path)
    try:
        masters = world.masters
        world.heard.end(10_000.0)
        addresses = f"{masters['a'].public},{masters['b'].public}"
        with Client(addresses) as client:
            with client.subscribe('trigger = "hot"', id="log", durable=True) as world.heard:
                words = []
                world.heard.on_word = words.append
                world.listen(2)
                for source, target in ["ab", "ba", "ab"]:
                    report = masters.ask(source, MoveUnit("m", "home", SUBSCRIPTION, target))
                    assert report.ok, report.message
                    masters.wait_until_over(source)
                    assert masters.moves(source)[-1].trouble == ""
                    world.listen(4)
                assert words[-1] == f"goes on at {masters['b'].public}"
            after = world.heard.after
            # Another program that begins where the subscription no longer lives.
            with client.subscribe('trigger = "hot"', id="log", durable=True, after=after) as again:
                world.heard = again
                world.listen(3)
                world.check_alerts()
            assert client.unsubscribe("log")
    finally:
        world.close()
