"""The glue of spool, broker and inboxes: what waits for the disk, and what is told of losses."""

from __future__ import annotations

import pytest

from agent.alerts.losses import GATHER_LOST_S, MAX_LOST
from agent.alerts.notifications import history_of, notification_of
from agent.alerts.spool_events import TellLost
from agent.master import group_commit, push_plane
from agent.master.event_plane import GATHER_S, EventPlane
from agent.master.group_commit import RETRY_S
from agent.master.place import place_of
from agent.master.push_plane import BATCH_S, TURN, PushPlane, next_epoch
from agent.master.request_plane import RequestOrigin as Where
from agent.master.state import State
from agent.master.topic_spool import LOOK_S
from agent.overlay import events as overlay
from agent.overlay.scot import BrokerId
from agent.runtime.reactor import Reactor
from agent.scheduling.admission import ClientRates
from agent.scheduling.events import SendToNode, TellOperator
from agent.scheduling.tasks.node_claims import LATEST_MS
from agent.topics.contents import outputs_of
from agent.topics.events import Progress
from agent.wire.base import MAX_EVENT_AREAS, MAX_EVENTS, TRIGGER_RAISED
from agent.wire.config import parse
from agent.wire.master_config import MasterConfig
from agent.wire.node_messages import NodeEvent, NodeEvents
from agent.wire.overlay import Have, Notify, SubscriptionPart
from agent.wire.principals import Sender
from agent.wire.push import (
    AcknowledgeNotifications,
    Gap,
    Lost,
    Notified,
    Subscribe,
    Subscribed,
    Unsubscribe,
)
from agent.wire.topics import Topic
from tests.alerts.disk import Disk
from tests.alerts.samples import notification
from tests.master.held_writer import HeldWriter
from tests.master.test_node_events_model import Disk as EventDisk
from tests.master.test_node_events_model import FakeRecords, Killed

ANYONE = Where(b"c", b"M", Sender("anyone", "63"))
BESIDE = BrokerId("b", 0)
TWO = {
    "vertex": "a",
    "links": [["a", "b"]],
    "neighbour": [{"iad": "iad2", "vertex": "b", "cluster": 0, "address": "tcp://127.0.0.1:5800"}],
}


class Links:
    """To nobody."""

    def __init__(self):
        self.messages = []
        self.sent = {}
        self.silent = True
        self.up = {}
        self.waiting = self.went_down = self.passed_over = 0

    def start(self, handle):
        self.handle = handle
        self.silent = False

    def send(self, instruction):
        self.messages.append(instruction.message)

    def fall_silent(self):
        self.silent = True

    def speak(self):
        self.silent = False


class Public:
    def __init__(self):
        self.handlers = {}
        self.replies = []
        self.rates = ClientRates(1e6)

    def takes(self, kind, handler):
        self.handlers[kind] = handler

    def reply(self, origin, message):
        self.replies.append(message)


class FullDisk(Disk):
    full = False

    def write(self, changes):
        return not self.full and super().write(changes)


class Rig:
    def __init__(self, **place):
        sockets = {"public": "ipc:///run/p", "operator": "ipc:///run/o"}
        table = {"iad": {"name": "iad1"}, "sockets": sockets, "overlay": place}
        self.config = parse(table, MasterConfig, "test")
        self.now = 10.0
        self.disk = FullDisk()
        self.start()

    def start(self, state=None):
        self.links, self.public, self.writer = Links(), Public(), HeldWriter()
        self.said = []
        reactor = Reactor(lambda: self.now)
        self.state = state or State(None, reactor.clock)
        self.plane = PushPlane(
            reactor, self.config, place_of(self.config), self.state, self.disk,
            self.public, self.links, lambda: 1_000.0, self.said.append, self.writer,
        )  # fmt: skip

    def let_pass(self, seconds=0.0):
        self.now += seconds
        while (due := self.plane.next_due) is not None and due <= self.now:
            self.plane.tick(self.now)

    def keep(self):
        told = []
        self.plane.keep(told.append)
        self.let_pass()
        (well,) = told
        return well

    def ask(self, message, origin=ANYONE):
        self.public.handlers[type(message)](origin, message, self.now)
        self.plane.subscribers.tick(self.now)

    def subscribe(self, wanted="value > 30", name="s", durable=True):
        self.ask(Subscribe(name, wanted, durable))
        self.let_pass()
        assert self.public.replies.pop().state == "open"

    def alert(self, *numbers):
        made = [
            NodeEvent(each, TRIGGER_RAISED, 1, True, "", "co2", trigger="t", value=31.5)
            for each in numbers
        ]
        return self.plane.bring("n1", NodeEvents("boot", "h", tuple(made), oldest=min(numbers)))

    def received(self, kind):
        return [each for each in self.public.replies if isinstance(each, kind)]


@pytest.fixture
def rig():
    return Rig()


def test_an_alert_is_published_at_once_and_kept_before_its_node_is_told(rig):
    rig.subscribe(durable=False)
    assert rig.alert(1)
    assert [each.position for each in rig.received(Notified)] == [1]
    assert not rig.disk.load()[0].spooled
    assert rig.keep()
    assert rig.plane.spooled == 0


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


def test_a_neighbour_may_forget_what_is_on_disk_here(rig):
    rig = Rig(**TWO)
    rig.subscribe()
    rig.links.handle(overlay.LinkUp(BESIDE))
    rig.links.handle(overlay.Received(BESIDE, SubscriptionPart("b", 1, 1, 0, 0, ())))
    rig.links.messages.clear()
    rig.links.handle(overlay.Received(BESIDE, Notify(notification(1, publisher="iad2"), b"")))
    rig.disk.full = True
    rig.let_pass(BATCH_S)
    assert not rig.links.messages
    assert not rig.received(Notified)
    rig.disk.full = False
    rig.let_pass(RETRY_S)
    assert [type(each) for each in rig.links.messages] == [Have]
    assert [each.position for each in rig.received(Notified)] == [1]


def test_a_neighbour_is_told_together_what_it_may_forget(rig):
    rig = Rig(**TWO)
    rig.subscribe()
    rig.links.handle(overlay.LinkUp(BESIDE))
    rig.links.handle(overlay.Received(BESIDE, SubscriptionPart("b", 1, 1, 0, 0, ())))
    rig.links.messages.clear()
    for sequence in (1, 2, 3):
        came = notification(sequence, publisher="iad2")
        rig.links.handle(overlay.Received(BESIDE, Notify(came, b"")))
        rig.let_pass(BATCH_S / 4)
    # Its client does not wait for that.
    assert len(rig.received(Notified)) == 3
    assert not rig.links.messages
    rig.let_pass(BATCH_S / 2)
    (told,) = rig.links.messages
    assert [each.origin.sequence for each in told.parts] == [1, 2, 3]


def test_what_is_given_up_is_told_to_who_asked_for_it():
    rig = Rig(**TWO)
    rig.plane._spool._most = 2
    rig.subscribe('kind = "lost"', "losses")
    for number in range(1, 6):
        assert rig.alert(number)
        assert rig.keep()
    assert rig.plane.counters["spooled_given_up"] == 3
    rig.links.handle(overlay.LinkUp(BESIDE))
    rig.links.handle(overlay.Received(BESIDE, SubscriptionPart("b", 1, 1, 0, 0, ())))
    rig.let_pass(GATHER_LOST_S)
    assert rig.received(Gap) == [
        Gap("losses", 1, 1, Lost("iad1", history_of("n1", "h"), 16, 48, 3))
    ]
    rig.let_pass()
    # Who asked has it on disk.
    assert not rig.plane._spool._losses
    assert not rig.plane._losses
    rig.let_pass(1.0)
    assert not rig.disk.lost


def test_what_is_known_of_notices_is_bounded():
    rig = Rig(**TWO)
    rig.subscribe('kind = "lost"', "losses")
    for number in range(MAX_LOST + 5):
        rig.plane._tell_lost(TellLost(Lost("iad1", "h", 0, number, 1)))
    assert len(rig.plane._losses) == MAX_LOST
    rig = Rig(**TWO)
    told = Lost("iad1", "h", 0, 1, 1)
    rig.plane._tell_lost(TellLost(told))
    origin = notification_of(told, 0).origin
    rig.plane._not_delivered(overlay.Undeliverable(origin, "no way"))
    assert not rig.plane._losses


def test_what_is_not_announced_is_told_to_nobody():
    rig = Rig(advertise=[{"filter": 'metric = "temperature"'}])
    rig.subscribe("*", durable=False)
    assert rig.alert(1)
    assert rig.keep()
    assert (rig.plane.spooled, rig.plane.counters["alerts_not_announced"]) == (0, 1)
    assert not rig.public.replies


@pytest.mark.parametrize(
    ("sender", "word"),
    [
        (Sender("iad", "iad7"), "a key of role iad may not subscribe"),
        (Sender("client", "app", ("climate",)), "may only query climate"),
    ],
)
def test_who_may_not_subscribe_is_told_so(rig, sender, word):
    rig.ask(Subscribe("s", "value > 30"), Where(b"c", b"M", sender))
    [refused] = rig.public.replies
    assert isinstance(refused, Subscribed)
    assert (refused.state, word in refused.message) == ("refused", True)


def test_clients_have_subscriptions_of_their_own(rig):
    for name in ("app", "other"):
        origin = Where(name.encode(), b"M", Sender("client", name))
        rig.ask(Subscribe("s", "value > 30"), origin)
    assert [each.state for each in rig.public.replies] == ["open", "open"]
    assert rig.plane.open_subscriptions == 2
    assert rig.alert(1)
    assert len(rig.received(Notified)) == 2


def test_a_client_changes_its_subscriptions_at_its_rate_and_acknowledges_at_any():
    rig = Rig()
    app, other = (
        Where(name.encode(), b"M", Sender("client", name, None, 1.0)) for name in ("app", "other")
    )
    for _ in range(10):
        rig.ask(Subscribe("s", "value > 30"), app)
        rig.ask(AcknowledgeNotifications("s", 0), app)
    for kind in (Subscribe("s", "value > 31"), Unsubscribe("s")):
        rig.ask(kind, app)
        refused = rig.public.replies.pop()
        assert refused.state == "refused"
        assert refused.message == ("this client may ask 1 queries/s; try again in 1 s")
    rig.ask(Subscribe("s", "value > 30"), other)
    rig.now += 1.0
    rig.ask(Unsubscribe("s"), app)
    assert [each.state for each in rig.public.replies] == [*["open"] * 11, "cancelled"]


def test_every_start_has_a_higher_epoch(tmp_path):
    path = tmp_path / "state.sqlite"
    epochs = []
    # The clock goes back once.
    for wall_s in (1_000.7, 1_003.0, 500.0, 500.0):
        state = State(path, lambda: 0.0)
        epochs.append(next_epoch(state, wall_s))
        state.close()
    assert epochs == [1_000, 1_003, 1_004, 1_005]
    assert next_epoch(State(None, lambda: 0.0), 0.0) == 1


class FullWriter:
    full = True

    def submit(self, job, then):
        then("no space left" if self.full else job())

    def drain(self):
        pass


def test_no_neighbour_hears_of_an_epoch_that_is_not_on_disk(tmp_path, rig):
    writer = FullWriter()
    rig.start(State(tmp_path / "state.sqlite", lambda: rig.now, rig.said.append, writer))
    assert rig.links.silent
    # What the notifications' disk does is another matter.
    rig.disk.full = True
    rig.ask(Subscribe("s", "value > 30", durable=True))
    rig.let_pass(RETRY_S)
    rig.disk.full = False
    rig.let_pass(60.0)
    assert rig.links.silent
    writer.full = False
    rig.state.tick(rig.now)
    rig.let_pass()
    assert not rig.links.silent
    assert next_epoch(rig.state, 0.0) == 1_001
    rig.state.close()


def test_who_needs_no_disk_does_not_hold_up_the_loop_for_it(rig):
    rig.subscribe(durable=False)
    for number in range(1, 51):
        assert rig.alert(number)
        rig.let_pass()
    # Nobody waits: the node will ask, and gets to know when it is there.
    assert len(rig.received(Notified)) == 50
    assert not rig.disk.taken
    assert rig.keep()
    assert rig.disk.taken
    rig.disk.full = True
    assert rig.alert(51)
    assert not rig.keep()
    assert not rig.alert(52)


def test_a_client_within_the_process_gets_a_message_for_each_subscription(rig):
    rig.subscribe(name="far", durable=False)
    rig.subscribe(name="away", durable=False)
    got = []
    for name in ("near", "by"):
        assert rig.plane.ask(got.append, "inside", Subscribe(name, "value > 30"))
    got.clear()
    assert rig.alert(1)
    rig.let_pass(1.0)
    assert [(each.id, each.position, each.also) for each in got] == [("near", 1, ()), ("by", 1, ())]
    (sent,) = rig.received(Notified)
    assert (sent.id, sent.position, sent.also) == ("far", 1, (("away", 1),))


def test_the_request_that_fills_what_waits_behind_a_slow_disk_is_taken_not_refused(monkeypatch):
    monkeypatch.setattr(group_commit, "MAX_GATHERED", 1)
    rig = Rig()
    rig.writer.slow = True
    for name in ("first", "filling", "beyond"):
        rig.ask(Subscribe(name, "value > 30", durable=True))
        rig.let_pass()
    assert [(told.id, told.state) for told in rig.public.replies] == [("beyond", "refused")]
    rig.writer.slow = False
    rig.writer.drain()
    rig.let_pass()
    told = [(told.id, told.state) for told in rig.public.replies[1:]]
    assert told == [("first", "open"), ("filling", "open")]


def outputs(first, count):
    """Of a topic, as its processor makes them."""
    progress = Progress("inc", put_out=first)
    made = [(0, {"n": float(n)}) for n in range(first, first + count)]
    return outputs_of("iad1", Topic("t"), progress, made)


def put_out(rig, first, count):
    done = []
    after = Progress("inc", put_out=first + count)
    made = outputs(first, count)
    assert rig.plane.topics.release("t", after, made, lambda: done.append(True))
    rig.let_pass()
    assert done


def numbers(rig):
    return [each.notification.attributes["n"] for each in rig.received(Notified)]


def test_outputs_that_are_withheld_leave_later_in_their_order(rig):
    rig.subscribe('topic = "t"', durable=False)
    held = {"t"}
    rig.plane.topics.withholds = lambda each: each.attributes.get("topic") in held
    put_out(rig, 0, TURN + 3)
    rig.let_pass(1.0)
    assert not rig.received(Notified)
    assert rig.plane.spooled == TURN + 3
    # Alerts of nodes go on.
    assert rig.alert(1)
    rig.let_pass()
    put_out(rig, TURN + 3, 2)
    held.clear()
    put_out(rig, TURN + 5, 2)
    rig.let_pass(LOOK_S)
    assert numbers(rig) == [float(n) for n in range(TURN + 7)]
    assert rig.plane.spooled == 0


def test_outputs_for_many_subscriptions_take_many_turns(rig, monkeypatch):
    monkeypatch.setattr(push_plane, "DELIVERIES", 6)
    for name in "abc":
        rig.subscribe('topic = "t"', name=name, durable=False)
    after = Progress("inc", put_out=7)
    assert rig.plane.topics.release("t", after, outputs(0, 7), lambda: None)
    each_turn = []
    while (due := rig.plane.next_due) is not None and due <= rig.now:
        before = rig.plane.counters["notifications_sent"]
        rig.plane.tick(rig.now)
        each_turn.append(rig.plane.counters["notifications_sent"] - before)
    assert [each for each in each_turn if each] == [6, 6, 6, 3]


def test_after_a_restart_what_is_spooled_of_a_topic_may_have_to_wait(rig):
    held = rig.plane.topics.withholds = lambda _: True
    put_out(rig, 0, 2)
    rig.keep()
    rig.start()
    rig.plane.topics.withholds = held
    rig.subscribe('topic = "t"', durable=False)
    rig.let_pass(10.0)
    assert not rig.received(Notified)
    rig.plane.topics.withholds = lambda _: False
    for _ in range(70):
        rig.let_pass(1.0)
    assert numbers(rig) == [0.0, 1.0]


@pytest.mark.parametrize("restarts", [False, True])
def test_nothing_leaves_of_a_topic_that_another_master_has(rig, restarts):
    rig.plane.topics.withholds = lambda _: True
    put_out(rig, 0, 3)
    rig.keep()
    if restarts:
        rig.start()
        rig.plane.topics.withholds = lambda _: True
    rig.subscribe('topic = "t"', durable=False)
    left = []
    rig.plane.topics.when_left("t", "inc", lambda: left.append(True))
    rig.plane.topics.disown("t", "another")
    assert rig.plane.spooled == 3
    rig.plane.topics.disown("t", "inc")
    rig.plane.topics.withholds = lambda _: False
    rig.let_pass(1.0)
    assert left
    assert rig.plane.spooled == 0
    assert rig.keep()
    assert not rig.disk.load()[0].spooled
    assert not rig.received(Notified)


def test_what_is_taken_over_leaves_half_of_the_spool_to_alerts(rig):
    assert rig.plane.topics.has_room_for(())
    rig.plane.topics.withholds = lambda _: True
    put_out(rig, 0, 1)
    assert rig.plane.topics.has_room_for(outputs(1, 10))
    assert not rig.plane.topics.has_room_for(outputs(1, 5_000))
