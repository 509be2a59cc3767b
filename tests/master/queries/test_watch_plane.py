"""What is on disk of watches before their clients and inboxes hear of it, and what becomes of them
when the wall clock is set."""

from __future__ import annotations

import math
import os
import sqlite3
from types import SimpleNamespace

import msgspec
import pytest
from msgspec.structs import replace

from agent.master.queries.watch_plane import ALERTS, LOOK_S, NOT_NOW, WATCH, WatchPlane
from agent.master.requests.request_plane import RequestOrigin
from agent.master.storage.state import State
from agent.runtime.reactor import Reactor
from agent.scheduling.admission import ClientRates
from agent.scheduling.watches.events import AskInbox, SaveAlerts, SavedAlerts
from agent.scheduling.watches.scheduler import EXPIRE_S, SETTLE_S
from agent.wire.messages import Answer, Coverage, Slo
from agent.wire.principals import Sender
from agent.wire.push import Notified, Subscribe, Subscribed
from agent.wire.watches import Acknowledge, Cancel, Round, Watch, Watching
from tests.alerts.samples import FILTER, notification
from tests.master.held_writer import HeldWriter

ALICE = RequestOrigin(b"c", b"M", Sender("client", "alice"))
SLO = Slo(99.0, 1_000.0)
PERIODIC = Watch("w", ("b1",), SLO, "periodic", 10.0)
ON = Watch("w", ("b1",), SLO, "event", 1.0, on="value > 30")
KEYS = ("alice", "w"), ("bob", "w"), ("", "v")


class Rig:
    def __init__(self, folder):
        self.now, self.set_by_s = 0.0, 0.0
        self.reactor = Reactor(lambda: self.now)
        self.path = folder / "state.db"
        self.writer = HeldWriter()
        self.writes = 0
        self.said = []
        self.start()

    def start(self):
        """Also after a kill."""
        self.writer.jobs.clear()
        self.disk = State(self.path, lambda: self.now, self.said.append, self)
        self.asked, self.replies, self.queries = [], [], []
        self.reactor = Reactor(lambda: self.now)
        inboxes = SimpleNamespace(kept_for=lambda _prefix: [])
        push = SimpleNamespace(inboxes=inboxes, ask=self.ask)
        self.handlers = {}
        public = SimpleNamespace(
            takes=self.handlers.__setitem__,
            reply=self.reply,
            rates=ClientRates(),
        )
        queries = SimpleNamespace(capability=lambda _service: "", handle=self.query)
        config = SimpleNamespace(
            clients=SimpleNamespace(most_watches=9, watched_readings_per_s=1e9)
        )
        self.plane = WatchPlane(
            self.reactor, config, self.disk, public, queries, lambda _: (), push,
            lambda: 1_000.0 + self.now + self.set_by_s,
        )  # fmt: skip
        self.reactor.add_timer(self.disk)

    def kill(self):
        self.disk._file.close()
        os.close(self.disk._holder)
        self.start()

    gone = False

    def reply(self, _, message):
        self.replies.append(message)
        return self.gone

    def submit(self, job, then):
        def counted():
            self.writes += 1
            return "no space left on device" if self.full else job()

        self.writer.submit(counted, then)

    full = False

    def drain(self):
        self.writer.drain()

    def query(self, event, _now):
        self.queries.append(event)
        return []

    def on_disk(self, kind):
        file = sqlite3.connect(self.path)
        found = file.execute("SELECT key, body FROM document WHERE kind = ?", (kind,)).fetchall()
        file.close()
        return dict(found)

    def ask(self, peer, client, message):
        self.peers = {client: peer}
        self.asked.append((client, {*self.on_disk(ALERTS)}))
        return True

    def take(self, message, origin=ALICE):
        self.handlers[type(message)](origin, message, self.now)

    def answer_all(self):
        while self.queries:
            event = self.queries.pop(0)
            answer = Answer(event.query.id, "complete", 1.0, True, Coverage(1, 1))
            event.client(answer, self.now)
        self.let_pass()

    def let_pass(self, seconds=0.0):
        end = self.now + seconds
        for _ in range(1_000):
            dues = [(p.next_due, p) for p in self.reactor._timekeepers if p.next_due is not None]
            due, part = min(dues, key=lambda each: each[0], default=(math.inf, None))
            if due > end:
                break
            self.now = max(self.now, due)
            part.tick(self.now)
        self.now = end

    def begin(self):
        for key in KEYS:
            saving = SaveAlerts(key, SavedAlerts("s"), at_once=True)
            self.reactor.perform([saving, AskInbox(key, Subscribe("s", FILTER, durable=True))])

    def tick(self):
        for part in self.reactor._timekeepers:
            part.tick(self.now)


@pytest.fixture
def rig(tmp_path):
    rig = Rig(tmp_path)
    yield rig
    rig.disk.close()


def test_what_made_rounds_of_many_watches_is_one_write_before_any_is_acknowledged(rig):
    rig.begin()
    rig.tick()
    everything = {"alice/w", "bob/w", "/v"}
    clients = ["watch/alice/w", "watch/bob/w", "watch//v"]
    # In between the first is renewed.
    assert list(dict.fromkeys(client for client, _ in rig.asked)) == clients
    assert all(saved == everything for _, saved in rig.asked)
    assert rig.writes == 1


def test_what_the_disk_does_not_take_is_written_with_the_next(rig):
    rig.full = True
    rig.begin()
    rig.tick()
    assert rig.asked == []
    rig.full = False
    rig.reactor.perform([AskInbox(KEYS[1], Subscribe("s", FILTER, durable=True))])
    rig.tick()
    assert {client for client, _ in rig.asked} >= {"watch/bob/w", "watch/alice/w", "watch//v"}
    assert all(saved == {"alice/w", "bob/w", "/v"} for _, saved in rig.asked)
    assert rig.writes == 2


def test_the_wall_clock_is_looked_at_though_nothing_is_due_for_long(rig, monkeypatch):
    standing = SimpleNamespace(next_tick=None, handle=lambda _event, _wall: [])
    monkeypatch.setattr(rig.plane, "_scheduler", standing)
    assert rig.plane.next_due is None
    standing.next_tick = 3_600.0
    rig.tick()
    assert rig.plane.next_due == LOOK_S
    rig.now = LOOK_S / 2
    assert rig.plane.next_due == LOOK_S


def test_a_master_that_was_stopped_finds_its_nodes_again_before_it_asks(rig):
    rig.take(PERIODIC)
    rig.let_pass(1.0)
    rig.now += 35.0
    rig.take(Acknowledge("w", 0))
    assert rig.queries == []
    rig.let_pass(SETTLE_S - 0.1)
    assert rig.queries == []
    rig.let_pass(0.1)
    assert [each.query.id for each in rig.queries] == ["w.1", "w.2", "w.3"]


def test_a_client_whose_connection_is_gone_costs_no_more_queries(rig):
    rig.take(replace(PERIODIC, interval_s=1.0))
    rig.drain()
    rig.let_pass(5.0)
    assert rig.queries
    rig.gone = True
    rig.answer_all()
    rig.let_pass(600.0)
    assert not rig.queries
    rig.gone = False
    rig.take(replace(PERIODIC, interval_s=1.0, after=0))
    assert rig.queries


def test_no_client_hears_of_a_watch_before_it_is_on_disk(rig):
    rig.writer.slow = True
    rig.take(PERIODIC)
    rig.let_pass(3.0)
    assert rig.replies == []
    assert rig.on_disk(WATCH) == {}
    rig.writer.slow = False
    rig.writer.drain()
    rig.let_pass(1.0)
    (told,) = rig.replies
    assert told.state == "open"
    assert list(rig.on_disk(WATCH)) == ["alice/w"]
    rig.kill()
    assert rig.plane.open_watches == 1


@pytest.mark.parametrize("watch", [PERIODIC, ON])
def test_a_watch_by_which_it_shows_that_the_disk_refuses_is_refused_and_forgotten(rig, watch):
    rig.full = True
    rig.take(watch)
    rig.let_pass()
    assert rig.replies == [Watching("w", "refused", message=NOT_NOW)]
    assert rig.plane.open_watches == 0
    rig.full = False
    rig.let_pass(3.0)
    assert rig.on_disk(WATCH) == rig.on_disk(ALERTS) == {}
    assert len(rig.replies) == 1
    rig.take(PERIODIC)
    rig.let_pass()
    assert rig.replies[1].state == "open"
    rig.full = True
    rig.take(Acknowledge("w", 1))
    rig.let_pass(3.0)
    assert rig.plane.open_watches == 1, "its client has heard of it"


def test_while_the_disk_refuses_a_new_watch_is_refused_and_those_that_are_open_go_on(rig):
    rig.take(PERIODIC)
    rig.let_pass(1.0)
    rig.full = True
    rig.disk.put("service", "s", b"")
    rig.let_pass(1.0)
    rig.replies.clear()
    rig.take(replace(PERIODIC, id="other"))
    rig.take(replace(PERIODIC, after=0))
    first, second = rig.replies
    assert (first.id, first.state, "disk" in first.message) == ("other", "refused", True)
    assert (second.id, second.state) == ("w", "open")
    assert rig.plane.open_watches == 1


@pytest.mark.parametrize("how", ["slow", "full"])
def test_no_round_of_alerts_leaves_before_the_disk_knows_of_it(rig, how):
    def alert(position):
        rig.peers["watch/alice/w"](Notified(rig.subscription, position, notification(position)))
        rig.let_pass()

    rig.take(ON)
    rig.let_pass()
    rig.subscription = "s"
    (rig.subscription,) = {
        each.subscription
        for each in [
            msgspec.msgpack.decode(b, type=SavedAlerts) for b in rig.on_disk(ALERTS).values()
        ]
    }
    rig.peers["watch/alice/w"](Subscribed(rig.subscription, "open"))
    rig.let_pass(2.0)
    alert(1)
    rig.answer_all()
    rig.let_pass()
    first = rig.replies[-1]
    assert isinstance(first, Round)
    setattr(rig.writer if how == "slow" else rig, how, True)
    rig.let_pass(2.0)
    alert(2)
    rig.answer_all()
    rig.let_pass(1.0)
    assert rig.replies[-1] is first, "the second round is answered, and unknown to the disk"
    rig.kill()
    rig.writer.slow = rig.full = False
    # What was sent is known; so nothing that the client has is yet to come.
    rig.take(replace(ON, after=first.number))
    rig.let_pass(1.0)
    assert [each.state for each in rig.replies if isinstance(each, Watching)] == ["open"]


@pytest.mark.parametrize("by_s", [3_600.0, 86_400.0, -3_600.0])
def test_a_clock_that_is_set_costs_no_watch_its_life(rig, by_s):
    rig.take(PERIODIC)
    rig.let_pass(60.0)
    rig.set_by_s += by_s
    rig.let_pass(EXPIRE_S - 120.0)
    assert rig.plane.open_watches == 1
    rig.take(Acknowledge("w", 1))
    rig.let_pass(EXPIRE_S - 60.0)
    assert rig.plane.open_watches == 1
    # Nothing is heard of its client: it ends as if the clock had been right all along.
    rig.let_pass(60.0 + 2 * PERIODIC.interval_s + LOOK_S)
    assert rig.plane.open_watches == 0


SLOW = RequestOrigin(b"c", b"M", Sender("client", "slow", None, 1.0))
SLOWLY = "this client may ask 1 queries/s; try again in 1 s"


def test_opening_watches_takes_of_the_clients_rate_and_ending_them_nothing(rig):
    for _ in range(10):
        rig.take(PERIODIC, SLOW)
        rig.take(Cancel("w"), SLOW)
        rig.let_pass()
    assert {reply.state for reply in rig.replies} == {"open", "cancelled"}
    rig.replies.clear()
    rig.take(PERIODIC, SLOW)
    rig.take(Cancel("w"), SLOW)
    assert rig.replies == [
        Watching("w", "refused", message=SLOWLY),
        Watching("w", "refused", message=SLOWLY),
    ]


def test_a_cancel_of_an_unknown_id_is_answered_as_if_it_had_been_open(rig):
    """The reply to an earlier one may have been lost."""
    for _ in range(2):
        rig.take(Cancel("unknown"))
    rig.let_pass()
    assert rig.replies == [Watching("unknown", "cancelled")] * 2


def test_a_watch_that_is_sent_again_and_again_takes_of_the_rate(rig):
    for _ in range(11):
        rig.take(PERIODIC, SLOW)
    rig.let_pass()
    assert [reply.state for reply in rig.replies].count("refused") == 1


def test_who_comes_back_on_a_new_connection_goes_on_whatever_the_rate(rig):
    for number in range(9):
        rig.take(replace(PERIODIC, id=f"w{number}"), SLOW)
    rig.take(Cancel("unknown"), SLOW)
    rig.let_pass()
    rig.replies.clear()
    back = RequestOrigin(b"d", b"M", SLOW.sender)
    for number in range(9):
        rig.take(replace(PERIODIC, id=f"w{number}", after=0), back)
    rig.let_pass()
    assert [reply.state for reply in rig.replies] == ["open"] * 9


def test_a_large_watch_takes_more_of_the_rate(rig):
    rig.take(replace(PERIODIC, areas=tuple(f"b{n}" for n in range(641))), SLOW)
    rig.take(PERIODIC, SLOW)
    rig.let_pass()
    assert [reply.state for reply in rig.replies] == ["refused", "open"]
    assert rig.replies[0].message == "this client may ask 1 queries/s; try again in 2 s"
