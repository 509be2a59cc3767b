"""Homes that move between real masters: of a real node whose trigger is raised and cleared all the
time, heard by a subscriber at a third master."""

from __future__ import annotations

import signal
import sqlite3
from contextlib import closing, suppress
from pathlib import Path

import pytest

from agent.client import Client, NoReplyError, Operator, SubscriptionError
from agent.wire.handover import MoveUnit
from agent.wire.placement import SetPlacementMode, ShowPlacement
from agent.wire.push import Notified
from agent.wire.records import NodeEventRecord, decode_record
from testkit.agent_process import AgentProcess, installed
from testkit.waiting import wait_until
from tests.examples import campaign
from tests.master.handover_masters import Masters
from tests.master.moves.test_handover_process import STATES

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
        return wait_until(lambda: self.try_to_move(NODE, source, target), lambda m: not m.trouble)

    def try_to_move(self, unit: str, source: str, target: str):
        """The move, when it is over."""
        report = self.masters.ask(source, MoveUnit("m", "home", unit, target))
        assert report.ok, report.message
        self.masters.wait_until_over(source)
        return self.masters.moves(source)[-1]

    def check_alerts(self) -> list[int]:
        """Each came once, and in order; returns the numbers of their events."""
        alerts = [each.sequence // 16 for each in self.origins]
        assert len(alerts) == len(set(alerts)), "an alert came twice"
        return alerts

    def check(self) -> None:
        """Of each event there is one record, of each alert one notification."""
        self.edge.stop()

        def missing():
            while (each := self.heard.wait(0.2)) is not None:
                assert isinstance(each, Notified), each
                self.origins.append(each.notification.origin)
            first = min(self.check_alerts())
            told = {each.sequence for each in self.records() if each.trigger}
            return {each for each in told if each >= first} - {*self.check_alerts()}

        # What was spooled where a master was killed comes again in a while.
        wait_until(missing, lambda found: not found)
        numbers = sorted(each.sequence for each in self.records())
        assert len(numbers) == len(set(numbers)), "an event was recorded twice"
        # Old events follow slowly: some may still wait at the node.
        there = sorted({*numbers, *self.waiting()})
        assert there == list(range(there[0], there[-1] + 1)), "an event was lost"

    def waiting(self) -> list[int]:
        """What the node still has to send."""
        with closing(sqlite3.connect(self.edge.config.parent / "history.sqlite")) as db:
            return [sequence for (sequence,) in db.execute("SELECT sequence FROM events")]

    def records(self) -> list[NodeEventRecord]:
        """Of the node's events, at both masters."""
        files = [
            path for iad in "ab" for path in (self.masters[iad].folder / "records").glob("*.jsonl")
        ]
        lines = [line for path in files for line in path.read_bytes().splitlines()]
        found = [decode_record(line) for line in lines]
        return [each for each in found if isinstance(each, NodeEventRecord)]


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
    world.masters.wait_for_links()
    world.edge.stop(signal.SIGKILL)
    world.edge.start()
    world.listen_for("b")
    world.move("b", "a")
    world.listen_for("a")
    world.check()


# --- subscriptions --------------------------------------------------------------------------------

LOG = "client//log"


@pytest.fixture
def subscribed(world):
    """Its durable subscription lives at one of the masters between which it may move."""
    world.heard.end(10_000.0)
    world.client.close()
    world.client = Client([world.masters[iad].public for iad in "ab"])
    world.heard = world.client.subscribe('trigger = "hot"', id="log", durable=True)
    return world


def test_a_durable_subscription_moves_and_its_client_goes_on_after_its_position(subscribed):
    world, words = subscribed, []
    world.heard.on_word = words.append
    world.listen(2)
    for source, target in ["ab", "ba", "ab"]:
        assert world.try_to_move(LOG, source, target).trouble == ""
        world.listen(4)
    goes_on = f"goes on at {world.masters['b'].public}"
    for _ in range(100):  # what had come before the move is heard first
        if words[-1] == goes_on:
            break
        world.listen(1)
    assert words[-1] == goes_on
    world.heard.acknowledge()
    after = world.heard.after
    world.client.close()
    # A program that begins where the subscription no longer lives, and one that knows that only.
    with (
        Client(world.masters["a"].public) as client,
        pytest.raises(SubscriptionError, match="lives at b now"),
    ):
        client.subscribe('trigger = "hot"', id="log", durable=True, after=after)
    world.client = Client(f"{world.masters['a'].public},{world.masters['b'].public}")
    world.heard = world.client.subscribe('trigger = "hot"', id="log", durable=True, after=after)
    world.listen(3)
    world.check_alerts()
    world.heard.end(10_000.0)
    assert not world.client.unsubscribe("log")


def test_a_drained_master_gives_a_subscription_away_where_its_client_follows(subscribed):
    world, words = subscribed, []
    world.heard.on_word = words.append
    world.listen(10)
    before = max(each.sequence for each in world.origins)  # at first old alerts follow late
    a, b = (world.masters[iad] for iad in "ab")
    with Client(a.public) as alone, Operator(a.operator) as operator:
        # Its client has only this address: as a client of an earlier version it names no masters.
        stays = alone.subscribe('trigger = "hot"', id="stays", durable=True)
        report = operator.ask_placement(SetPlacementMode("d", "a", "draining"), 60_000)
        assert report.ok, report.message

        def homes_at(iad):
            known = operator.ask_placement(ShowPlacement("s"), 60_000).known
            return [
                home.name for each in known if each.facts.iad == iad for home in each.facts.homes
            ]

        wait_until(lambda: world.listen() or words, bool)
        assert words == [f"goes on at {b.public}"]
        world.listen(4)
        wait_until(lambda: homes_at("b"), lambda found: LOG in found)
        assert not {LOG, "client//stays"} & {*homes_at("a")}
        assert isinstance(stays.wait(30.0), Notified)
        stays.end(10_000.0)
        # And what was drained comes back only by somebody's word.
        assert operator.ask_placement(SetPlacementMode("o", "a", "open"), 60_000).ok
    assert world.try_to_move(LOG, "b", "a").trouble == ""
    wait_until(lambda: world.listen() or words[-1], f"goes on at {a.public}".__eq__)
    for iad in "ab":
        numbers = [each.sequence for each in world.origins if each.publisher == iad]
        numbers = [number for number in numbers if number > before]
        assert numbers == sorted(numbers), "alerts of one master came out of order"
    world.check()


# --- kill -9 --------------------------------------------------------------------------------------


def kill_and_move(world, unit, iad, state):
    """Move it from a to b; one of them is killed as soon as it is so far."""
    masters = world.masters
    world.listen(1)
    masters.kill_at(iad, state)
    wait_until(lambda: world.lives_at("a"), bool)
    world.listen(1)
    process = masters[iad].process

    def killed():
        if process.poll() is None:
            with suppress(NoReplyError), Operator(masters["a"].operator) as operator:
                operator.ask_move(MoveUnit("m", "home", unit, "b"), 2_000)
        return process.poll() is not None

    wait_until(killed, bool, pause_s=0.2)
    masters.restart(iad)
    masters.wait_for_links()

    def homes():
        over = all(
            move.state in ("settled", "aborted") for each in "ab" for move in masters.moves(each)
        )
        return [each for each in "ab" if over and world.lives_at(each)]

    wait_until(homes, lambda found: len(found) == 1)
    world.listen(4)
    world.check()


SHORT = [(NODE, "a", "source:handed"), (LOG, "a", "source:draining")]


@pytest.mark.parametrize(("unit", "iad", "state"), SHORT)
def test_a_master_is_killed_while_a_home_moves(subscribed, unit, iad, state):
    kill_and_move(subscribed, unit, iad, state)


@pytest.mark.parametrize(
    ("unit", "iad", "state"),
    [
        pytest.param(*each, marks=campaign(n, 6))
        for n, each in enumerate((unit, *state) for unit in (NODE, LOG) for state in STATES)
        if each not in SHORT
    ],
)
def test_a_master_is_killed_at_every_state_of_a_home(subscribed, unit, iad, state):
    kill_and_move(subscribed, unit, iad, state)
