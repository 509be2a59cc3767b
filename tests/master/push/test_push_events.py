"""Events of nodes at a push plane: published at once, acknowledged when they are on disk."""

from __future__ import annotations

import pytest

from agent.alerts.inbox import FORGOTTEN_AT_ONCE
from agent.master.push.event_plane import GATHER_S, EventPlane
from agent.master.push.push_plane import TURN
from agent.master.push.subscriber_plane import AGAIN_MS
from agent.master.storage import group_commit
from agent.master.storage.group_commit import RETRY_S
from agent.scheduling.events import SendToNode, TellOperator
from agent.scheduling.plausible import LATEST_MS
from agent.wire.base import MAX_EVENT_AREAS, MAX_EVENTS, TRIGGER_RAISED
from agent.wire.node_messages import NodeEvent, NodeEvents
from agent.wire.principals import Sender
from agent.wire.push import AcknowledgeNotifications, Notified, Subscribe
from tests.master import push_plane_rig
from tests.master.event_ends import Disk as EventDisk
from tests.master.event_ends import FakeRecords, Killed
from tests.master.held_writer import HeldWriter

rig = push_plane_rig.rig


def test_an_alert_is_published_at_once_and_kept_before_its_node_is_told(rig):
    rig.subscribe(durable=False)
    assert rig.alert(1)
    assert [each.position for each in rig.received(Notified)] == [1]
    assert not rig.disk.load()[0].spooled
    assert rig.keep()
    assert rig.plane.spooled == 0


def test_what_is_remembered_is_bounded_by_the_configuration():
    most = 1_000
    rig = push_plane_rig.Rig({"remembered": most})
    rig.subscribe()
    for first in range(1, 2 * most, 100):
        assert rig.alert(*range(first, first + 100))
        assert rig.keep()
        rig.ask(AcknowledgeNotifications("s", rig.received(Notified)[-1].position))
    [inbox] = rig.plane.inboxes._by_name.values()
    assert most <= len(list(inbox.known)) < most + FORGOTTEN_AT_ONCE


FULL = NodeEvents(
    "boot",
    "h",
    tuple(
        [
            NodeEvent(
                each, TRIGGER_RAISED, 1, True, "", "co2", trigger="t", value=31.5,
                areas=tuple([f"b1/r{n}" for n in range(MAX_EVENT_AREAS)]),
            )
            for each in range(1, MAX_EVENTS + 1)
        ]
    ),
    oldest=1,
)  # fmt: skip
ALL = MAX_EVENTS * MAX_EVENT_AREAS


def test_a_message_with_many_alerts_takes_many_turns(rig):
    rig.subscribe()
    published = []
    assert rig.plane.bring("n1", FULL)
    while rig.plane.under_way:
        published.append(rig.plane.counters["spooled"])
        rig.plane.tick(rig.now)
    assert published == list(range(TURN, ALL, TURN))
    assert rig.keep()
    assert len(rig.disk.positions) == ALL
    # Again, it is no news, but takes its turns.
    assert rig.plane.bring("n1", FULL)
    rig.let_pass()
    assert (rig.plane.counters["spooled"], rig.plane.counters["spooled_repeated"]) == (ALL, ALL)


def test_what_waits_for_its_turn_is_bounded(rig):
    brought = [rig.plane.bring(f"n{number}", FULL) for number in range(10)]
    assert brought == [True] * 5 + [False] * 5
    rig.let_pass()
    assert rig.plane.bring("n9", FULL)


def test_a_node_is_told_when_the_last_of_its_alerts_is_kept(rig):
    taken = []
    reactor, disk = rig.plane._reactor, EventDisk()
    reactor.performs(SendToNode, taken.append)
    events = EventPlane(
        reactor,
        "iad1",
        FakeRecords(disk),
        rig.plane,
        lambda: 1_000.0,
        lambda node, _incarnation: node,
    )
    events.arrived("n1", FULL)
    rig.now += GATHER_S
    turns = 0
    while not taken:
        # Nothing new is taken, or there would be no end.
        events.arrived("n2", FULL)
        rig.plane.tick(rig.now)
        if events.next_due is not None:
            events.tick(rig.now)
        turns += 1
        assert turns < ALL // TURN
    assert turns == ALL // TURN - 1
    assert len(rig.disk.taken["n1", "h"].sequences) == MAX_EVENTS
    assert [each.message.sequences for each in taken] == [tuple(range(1, MAX_EVENTS + 1))]
    assert ("n2", "h") not in rig.disk.taken


@pytest.mark.parametrize("durable", [False, True])
def test_a_batch_of_alerts_is_one_record_and_one_transaction(rig, durable):
    """Who waits for an alert on disk gets it before that, in a transaction of its own."""
    rig.subscribe(durable=durable)
    synced, taken = [], []
    write = rig.disk.write
    rig.disk.write = lambda changes: synced.append("store") or write(changes)
    reactor, disk = rig.plane._reactor, EventDisk()
    records = FakeRecords(disk)
    write_records = records.write
    records.write = lambda batch: synced.append("records") or write_records(batch)
    reactor.performs(SendToNode, taken.append)
    events = EventPlane(
        reactor, "iad1", records, rig.plane, lambda: 1_000.0, lambda node, _incarnation: node
    )
    for number in range(1, 8):
        made = NodeEvent(number, TRIGGER_RAISED, 1, True, "", "co2", trigger="t", value=31.5)
        events.arrived("n1", NodeEvents("boot", "h", (made,), oldest=1))
    rig.plane.tick(rig.now)
    rig.now += GATHER_S
    rig.plane.tick(rig.now)
    events.tick(rig.now)
    assert len(taken) == 7
    assert synced == ["store"] * durable + ["records", "store"]
    assert set(rig.disk.nodes) == {("node_events", "n1"), ("node_triggers", "n1")}
    assert rig.disk.taken["n1", "h"].sequences == tuple(range(1, 8))


def test_a_master_killed_between_record_and_store_has_one_record_and_the_alert(rig):
    disk, taken = EventDisk(), []
    alert = NodeEvent(1, TRIGGER_RAISED, 1, True, "", "co2", trigger="t", value=31.5)
    message = NodeEvents("boot", "h", (alert,), oldest=1)

    def start():
        rig.plane._reactor.performs(SendToNode, taken.append)
        return EventPlane(
            rig.plane._reactor, "iad1", FakeRecords(disk), rig.plane, lambda: 1_000.0,
            lambda node, _incarnation: node, saved=rig.disk.load_nodes(),
        )  # fmt: skip

    events = start()
    events.arrived("n1", message)
    rig.now += GATHER_S
    disk.kill_at = "after the records"
    with pytest.raises(Killed):
        events.tick(rig.now)
    assert (len(disk.records), rig.disk.spooled, rig.disk.nodes, taken) == (1, {}, {}, [])
    disk.writer = HeldWriter()
    rig.start()
    events = start()
    assert set(rig.disk.nodes) == {("node_events", "n1"), ("node_triggers", "n1")}
    # It was told nothing, and sends it again.
    events.arrived("n1", message)
    rig.now += GATHER_S
    events.tick(rig.now)
    assert [each.message.sequences for each in taken] == [(1,)]
    assert (len(disk.records), rig.plane.counters["spooled"]) == (1, 1)
    assert rig.disk.taken["n1", "h"].sequences == (1,)
    assert events.counters["node_events_repeated"] == 1


def test_a_disk_that_refuses_in_the_middle_takes_the_rest_later(rig):
    rig.plane.bring("n1", FULL)
    rig.disk.full = True
    assert not rig.keep()
    assert rig.plane.under_way, "its node may not be told yet"
    rig.let_pass(RETRY_S)
    assert rig.plane.under_way
    rig.disk.full = False
    rig.let_pass(RETRY_S)
    assert not rig.plane.under_way
    assert rig.keep()
    assert rig.plane.counters["spooled"] == ALL


def events_of(rig, disk, taken, **options):
    rig.plane._reactor.performs(SendToNode, taken.append)
    return EventPlane(
        rig.plane._reactor, "iad1", FakeRecords(disk), rig.plane, lambda: 1_000.0,
        lambda node, _incarnation: node, **options,
    )  # fmt: skip


def test_a_disk_that_recovers_while_records_are_written_has_all_alerts_before_the_node_is_told(rig):
    disk, taken = EventDisk(), []
    events = events_of(rig, disk, taken)
    events.arrived("n1", FULL)
    rig.disk.full = True
    assert not rig.keep()
    rig.now += GATHER_S
    disk.writer.slow = True
    if events.next_due is not None:
        events.tick(rig.now)
    rig.disk.full = False
    rig.now += RETRY_S
    rig.plane.tick(rig.now)
    disk.writer.slow = False
    disk.writer.drain()
    assert taken == [], "most of its alerts wait for their turns, in memory alone"
    rig.let_pass()
    assert events.next_due is not None
    events.tick(rig.now)
    assert [len(each.message.sequences) for each in taken] == [MAX_EVENTS]
    assert len(rig.disk.taken["n1", "h"].sequences) == MAX_EVENTS
    assert rig.plane.counters["spooled"] == ALL


def test_an_event_that_its_node_cannot_mean_is_acknowledged_and_neither_published_nor_kept(rig):
    disk, taken, lines = EventDisk(), [], []
    rig.plane._reactor.performs(TellOperator, lines.append)
    events = events_of(rig, disk, taken)
    rig.subscribe(durable=False)
    own, foreign, ageless = [
        NodeEvent(
            number, TRIGGER_RAISED, time_ms, True, "", "co2", trigger="t", value=31.5, areas=(area,)
        )
        for number, time_ms, area in ((1, 1, "b1/r1"), (2, 1, "b2/r1"), (3, LATEST_MS, "b1/r1"))
    ]  # fmt: skip
    of_n1 = Sender("node", "n1", areas=("b1",))
    events.arrived("n1", NodeEvents("boot", "h", (own, foreign, ageless), oldest=1), of_n1)
    # Nothing is kept of them, so that there is nothing to wait for.
    assert [each.message.sequences for each in taken] == [(2, 3)]
    [line] = lines
    assert line.line.startswith(
        "an event of node n1 was refused: the allow-list does not give b2/r1"
    )
    rig.now += GATHER_S
    events.tick(rig.now)
    assert [each.message.sequences for each in taken] == [(2, 3), (1,)]
    assert [record.sequence for record in disk.records] == [1]
    assert rig.disk.taken["n1", "h"].sequences == (1,)
    [told] = rig.received(Notified)
    assert told.notification.attributes["area"] == "b1/r1"
    assert (events.counters["node_events"], events.counters["node_events_implausible"]) == (1, 2)
    # Of a message with no other events nothing is left to do.
    events.arrived("n1", NodeEvents("boot", "h", (foreign,), oldest=1), of_n1)
    assert [each.message.sequences for each in taken[2:]] == [(2,)]
    assert events.next_due is None


def test_behind_a_slow_disk_the_rest_is_published_later_and_no_link_stands_meanwhile(
    rig, monkeypatch
):
    monkeypatch.setattr(group_commit, "MAX_GATHERED", 3 * TURN)
    rig.subscribe()
    rig.writer.slow = True
    assert rig.alert(200)
    rig.let_pass()  # it is being written
    told = []
    assert rig.plane.bring("n2", FULL)
    rig.let_pass(1.0)
    assert rig.plane.under_way, "its node may not be told yet"
    assert rig.links.silent
    assert not rig.alert(201)
    assert TURN < rig.plane.counters["spooled"] < 3 * TURN
    rig.writer.slow = False
    rig.writer.drain()
    rig.let_pass(1.0)
    assert not rig.plane.under_way
    assert not rig.links.silent
    rig.plane.keep(told.append)
    assert told == [True]
    assert len(rig.disk.taken["n2", "h"].sequences) == MAX_EVENTS


def test_a_disk_that_refuses_stops_everything_until_it_does_not(rig):
    rig.subscribe()
    rig.disk.full = True
    assert rig.alert(1)
    assert not rig.keep()
    assert rig.links.silent
    assert not rig.alert(2)
    rig.ask(AcknowledgeNotifications("s", 0))
    rig.ask(Subscribe("other", "value > 1"))
    [refused] = rig.public.replies
    assert (refused.state, "disk" in refused.message) == ("refused", True)
    rig.let_pass(RETRY_S)
    assert rig.links.silent
    rig.disk.full = False
    rig.let_pass(RETRY_S)
    assert not rig.links.silent
    assert rig.alert(1, 2)
    assert rig.keep()
    rig.let_pass()
    origins = [each.notification.origin.sequence for each in rig.received(Notified)]
    assert origins == [16, 32]


def test_a_subscription_by_which_it_shows_that_the_disk_refuses_is_refused_and_ended(rig):
    rig.disk.full = True
    rig.ask(Subscribe("s", "value > 30", durable=True))
    rig.let_pass()
    [refused] = rig.public.replies
    assert (refused.state, refused.renew_ms, "disk" in refused.message) == (
        "refused",
        AGAIN_MS,
        True,
    )
    rig.disk.full = False
    rig.let_pass(RETRY_S)
    assert rig.public.replies == [refused], "it does not open when the disk is back"
    assert rig.plane.inboxes.ids_of("") == []
    rig.subscribe()


def test_one_that_was_open_before_stays_so_when_the_disk_refuses(rig):
    rig.subscribe()
    rig.disk.full = True
    rig.ask(Subscribe("s", "value > 31", durable=True))
    rig.let_pass()
    assert rig.public.replies == []
    rig.disk.full = False
    rig.let_pass(RETRY_S)
    assert [each.state for each in rig.public.replies] == ["open"]
