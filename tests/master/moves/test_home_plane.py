"""Homes as units: their names, which may move, and what is refused in a line."""

from __future__ import annotations

from collections import Counter, deque

import msgspec
import pytest

from agent.alerts.dedup_window import Taken
from agent.alerts.event_state import NodeHome
from agent.alerts.open_faults import ChannelFaults, NodeFaults
from agent.alerts.raised_triggers import NodeTriggers, TriggerChange
from agent.master.moves.home_plane import HomePlane
from agent.master.moves.node_homes import NodeCopy
from agent.placement.world import Unit
from agent.scheduling.events import NodeJoined, NodeLeft, Tick
from agent.scheduling.tasks.deadlines import DeadlineEstimator
from agent.scheduling.tasks.scheduler import TaskScheduler
from agent.wire.node_messages import Hello
from tests.master.moves.test_node_homes_model import UNIT, World


@pytest.fixture
def world():
    world = World(1)
    while not any(master.nodes.names() for master in world.masters.values()):
        world.pass_time(0.5)
        world.deliver()
    return world


def loaded(master, copy, name="n2"):
    said = []
    master.nodes.load(
        name, copy if isinstance(copy, bytes) else msgspec.msgpack.encode(copy), said.append
    )
    return said[0]


def test_a_node_that_has_a_choice_is_a_unit_that_may_move(world):
    homes = HomePlane(world.masters["a"].nodes)
    assert homes.units() == [UNIT]
    (choice,) = homes.choices()
    assert choice == ("node/n1", {"a": None, "b": None}, {}, ())
    assert homes.lives(UNIT)
    assert HomePlane(world.masters["b"].nodes).units() == []


def test_a_node_has_a_delay_to_its_home_and_counts_of_what_it_exchanged(world):
    nodes = world.masters["a"].nodes
    nodes.traffic.counts["n1"] = Counter({"b": 7})
    nodes.traffic._round_trips_ms["n1"] = deque([4.0])
    (choice,) = HomePlane(nodes).choices()
    assert choice == ("node/n1", {"a": 2.0, "b": None}, {"b": 7}, ())


@pytest.mark.parametrize("name", ["node/n2", "client//log", "clone/x", "n1"])
def test_what_is_not_here_does_not_live_here(world, name):
    homes = HomePlane(world.masters["a"].nodes)
    unit = Unit("home", name)
    assert not homes.lives(unit)


def test_a_sort_of_a_later_version_is_refused_and_passed_over(world):
    homes, said = HomePlane(world.masters["a"].nodes), []
    unit = Unit("home", "gateway/g1")
    homes.load(unit, b"", said.append)
    assert said == ["this master knows no home such as gateway/g1"]
    homes.stop(unit)
    assert not homes.restore(unit, "taken", "b")
    assert not homes.restore(unit, "released", "b")
    homes.settles(unit, lambda: said.append("settled"))
    assert said[1:] == ["settled"]
    assert homes.late(unit) is None
    homes.kept(unit, 1)
    homes.end(unit)


@pytest.mark.parametrize(
    ("copy", "why"),
    [
        (NodeCopy("a", ()), "node n2 cannot go to b: it is not joined, or its configuration"),
        (NodeCopy("a", ("a", "c")), "does not name b among its masters"),
        (NodeCopy("a", ("a", "b"), "try later"), "try later"),
        (b"\xc1", "what is told of node n2 cannot be read"),
        (b"\x92\xa1\xff\x90", "cannot be read: its text is not valid UTF-8"),
        (b"\xdd\x00\x08\x00\x00" + b"\x01" * (1 << 19), "it has more than 262144 values"),
        (NodeCopy("a", ("a", "b")), ""),
    ],
)
def test_why_a_node_cannot_go_there(world, copy, why):
    said = loaded(world.masters["b"], copy)
    assert why in said
    assert bool(said) == bool(why)


LONG = TriggerChange("hot", 6, True, 1, True, ("b1",), "x" * 513)
FAULTS, TRIGGERS = NodeFaults("h", 1, []), NodeTriggers("h", [])


@pytest.mark.parametrize(
    "home",
    [
        NodeHome({}, {}, FAULTS, NodeTriggers("h", [LONG])),
        NodeHome({}, {}, NodeFaults("h", 1, [ChannelFaults("s" * 65, "c")]), TRIGGERS),
        NodeHome({"h": Taken(2**64 - 1)}, {}, FAULTS, TRIGGERS),
    ],
)
def test_what_no_operator_could_be_told_is_not_taken(world, home):
    """Or the status of the master would be unreadable."""
    why = world.masters["b"].nodes.accept("n2", msgspec.msgpack.encode(home))
    assert why.startswith("what is kept of node n2 cannot be read: Expected")


def test_a_namesake_keeps_its_home(world):
    said = loaded(world.masters["a"], NodeCopy("b", ("a", "b")), "n1")
    assert said == "another node named n1 lives at a"


@pytest.mark.parametrize("silent_s", [10.0, 5_000.0])
def test_a_node_that_is_lost_keeps_its_home(world, silent_s):
    """Whoever took it could say which of its events were recorded, or never settle the move."""
    master = world.masters["a"]
    world.hang_up()
    world.now += silent_s
    master.handle(Tick())
    assert master.scheduler.node_at("n1") is None
    assert loaded(master, NodeCopy("b", ("a", "b")), "n1") == "another node named n1 lives at a"


def test_a_node_that_said_goodbye_keeps_its_home_for_an_hour(world):
    master = world.masters["a"]
    master.handle(NodeLeft(world.connection, "start 1"))
    copy = NodeCopy("b", ("a", "b"))
    assert loaded(master, copy, "n1") == "another node named n1 lives at a"
    world.now += 3_601.0
    assert loaded(master, copy, "n1") == ""


def test_a_node_that_is_waited_for_after_a_restart_keeps_its_home(world):
    master = world.masters["a"]
    before = {"n1": ("b1/r1",)}
    master.nodes._scheduler = TaskScheduler("a", DeadlineEstimator(), started_s=0.0, known=before)
    copy = NodeCopy("b", ("a", "b"))
    assert loaded(master, copy, "n1") == "another node named n1 lives at a"
    assert loaded(master, copy, "n2") == ""


def test_a_node_that_came_on_its_own_is_taken_from_its_home(world):
    master = world.masters["b"]
    hello = Hello(
        "n1", "start 1", "h0", ("b1/r1",), ("temperature",), 1, "1.0", masters=("a", "b"),
        followed=True,
    )  # fmt: skip
    master.handle(NodeJoined(7, hello))
    assert loaded(master, NodeCopy("a", ("a", "b")), "n1") == ""


def test_only_a_node_that_may_connect_there_is_taken(world):
    """Else another master could have this one keep any number of nodes."""
    nodes = world.masters["b"].nodes
    nodes.may_join = lambda node: node != "n2"
    assert loaded(world.masters["b"], NodeCopy("a", ("a", "b"))) == (
        "the allow-list of b has no node named n2"
    )
    assert loaded(world.masters["b"], NodeCopy("a", ("a", "b")), "n3") == ""


def test_a_master_without_records_takes_no_node(world):
    master = world.masters["b"]
    master.events.takes = False
    assert "keeps no records" in loaded(master, NodeCopy("a", ("a", "b")))
