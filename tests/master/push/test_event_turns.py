"""Nodes that send events at the same time are served in turn, whatever one of them sends."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from agent.master.push.event_plane import (
    BURST,
    GATHER_S,
    MAX_OF_ONE,
    MAX_WAITING,
    RATE_PER_S,
    EventPlane,
)
from agent.master.push.push_plane import MAX_BROUGHT
from agent.scheduling.events import SendToNode, TellOperator
from agent.wire.base import MAX_EVENTS, TRIGGER_RAISED
from agent.wire.node_messages import NodeEvent, NodeEvents
from tests.master.event_ends import Disk as EventDisk
from tests.master.event_ends import FakeRecords
from tests.master.push_plane_rig import Rig


def alerts(first, count=MAX_EVENTS):
    told = [
        NodeEvent(number, TRIGGER_RAISED, 1, True, trigger="t", areas=("b1/r1",))
        for number in range(first, first + count)
    ]
    return NodeEvents("boot", "h", tuple(told), oldest=first)


class Nodes:
    """Nodes of a master that takes their events in turns of its loop."""

    def __init__(self) -> None:
        self.rig = Rig()
        self.disk = EventDisk()
        self.taken: dict[str, int] = {}
        self.lines: list[str] = []
        reactor = self.rig.plane._reactor
        reactor.performs(SendToNode, self._told)
        reactor.performs(TellOperator, lambda told: self.lines.append(told.line))
        self.plane = EventPlane(
            reactor,
            "iad1",
            FakeRecords(self.disk),
            self.rig.plane,
            lambda: 1_000.0,
            lambda node, _incarnation: node,
        )

    def _told(self, instruction: SendToNode) -> None:
        count = len(instruction.message.sequences)
        self.taken[instruction.peer] = self.taken.get(instruction.peer, 0) + count

    def turn(self) -> None:
        """One of the loop: the alerts' plane publishes some, the events' plane does what is
        due."""
        self.rig.now += GATHER_S / 8
        self.rig.plane.tick(self.rig.now)
        due = self.plane.next_due
        if due is not None and due <= self.rig.now:
            self.plane.tick(self.rig.now)

    @property
    def refused(self) -> int:
        return self.plane.counters["node_events_refused"]


@pytest.fixture
def nodes():
    return Nodes()


def test_a_node_that_sends_without_end_holds_up_no_other(nodes):
    flood, turns = 1, []
    for number in range(1, 6):
        for turn in range(1, 500):
            # As much as its connection takes, before and after the other's.
            for _ in range(8):
                nodes.plane.arrived("bad", alerts(flood))
                flood += MAX_EVENTS
            if turn == 3:
                refused = nodes.refused
                nodes.plane.arrived("good", alerts(number, 1))
                assert nodes.refused == refused, "it would be sent again after seconds only"
            nodes.turn()
            if nodes.taken.get("good") == number:
                turns.append(turn)
                break
    assert len(turns) == 5
    # It is in the next batch, behind one that is under way.
    assert max(turns) <= 3 * (MAX_OF_ONE // 16 + 16)
    assert nodes.taken["bad"] > MAX_OF_ONE


def test_what_waits_of_one_node_and_of_all_is_bounded(nodes):
    first = 1
    for name in "abcdefghijklmnop":
        before = nodes.refused
        for _ in range(20):
            nodes.plane.arrived(name, alerts(first))
            first += MAX_EVENTS
        assert 20 * MAX_EVENTS - (nodes.refused - before) <= MAX_OF_ONE
    assert nodes.plane._waiting.bytes <= MAX_WAITING
    assert nodes.plane._waiting.bytes > MAX_WAITING / 2
    accepted = 16 * 20 * MAX_EVENTS - nodes.refused
    while sum(nodes.taken.values()) < accepted:
        nodes.turn()
    assert not nodes.plane._waiting


def test_a_home_leaves_when_what_waits_of_its_node_is_kept(nodes):
    for number in range(4):
        for bad in "abc":
            nodes.plane.arrived(bad, alerts(1 + number * MAX_EVENTS))
        nodes.plane.arrived("n1", alerts(1 + number * MAX_EVENTS))
    assert nodes.plane._waiting.waiting("n1")
    left = []
    nodes.plane.hold("n1")
    nodes.plane.drained("n1", lambda: left.append(nodes.taken["n1"]))
    for _ in range(500):
        nodes.turn()
    assert left == [4 * MAX_EVENTS]


def test_what_waits_when_the_records_refuse_is_not_taken(nodes):
    for number in range(12):
        nodes.plane.arrived(f"n{1 + number % 3}", alerts(1 + number * MAX_EVENTS))
    assert nodes.plane._waiting
    nodes.disk.full = True
    while not nodes.refused:
        nodes.turn()
    nodes.disk.full = False
    assert (nodes.refused, nodes.taken) == (12 * MAX_EVENTS, {})
    nodes.plane.arrived("n1", alerts(1))
    while not nodes.taken:
        nodes.turn()
    assert nodes.taken == {"n1": MAX_EVENTS}


def test_what_comes_after_the_records_refused_waits_for_no_other(nodes):
    """Also if as many alerts are still to be published as may be, which hold nothing up then."""
    nodes.disk.writer.slow = nodes.disk.full = True
    nodes.plane.arrived("n0", alerts(1, 1))
    while nodes.plane._under_way is None:
        nodes.turn()
    nodes.plane.arrived("n0", alerts(2))
    for number in range(MAX_BROUGHT):
        nodes.plane.arrived(f"n{1 + number % 4}", alerts(1 + number, 1))
    assert nodes.rig.plane.under_way == MAX_BROUGHT
    nodes.disk.writer.drain()
    nodes.disk.writer.slow = nodes.disk.full = False
    assert nodes.refused == 1 + MAX_EVENTS + MAX_BROUGHT
    nodes.plane.arrived("good", alerts(1))
    for _ in range(2 * MAX_BROUGHT):
        nodes.turn()
    assert nodes.taken == {"good": MAX_EVENTS}


@pytest.mark.parametrize("text", ["", "x" * 512])
def test_a_node_fills_no_records_for_ever(nodes, text):
    """A store of a node that was away for long is taken at once, and not much more."""
    first, began_s = 1, nodes.rig.now
    while nodes.rig.now < began_s + 60.0:
        told = alerts(first)
        events = tuple([replace(each, trigger="", text=text) for each in told.events])
        nodes.plane.arrived("bad", replace(told, events=events))
        first += MAX_EVENTS
        nodes.turn()
    allowed = BURST + RATE_PER_S * 60.0
    assert len(nodes.disk.records) <= (allowed / 3 if text else allowed)
    assert len(nodes.disk.records) >= (allowed / 4 if text else BURST)
    assert nodes.lines == ["node bad sends more than 100 events a second; more are not taken"]
    nodes.plane.arrived("good", alerts(1))
    while "good" not in nodes.taken:
        nodes.turn()
