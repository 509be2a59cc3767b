"""What neighbours and clients of a push plane are told: losses, epochs, refusals, messages."""

from __future__ import annotations

import pytest

from agent.alerts.losses import GATHER_LOST_S, MAX_LOST
from agent.alerts.notifications import history_of, notification_of
from agent.alerts.spool_events import TellLost
from agent.master.push.push_plane import BATCH_S, next_epoch
from agent.master.requests.request_plane import RequestOrigin as Where
from agent.master.storage import group_commit
from agent.master.storage.group_commit import RETRY_S
from agent.master.storage.state import State
from agent.overlay import events as overlay
from agent.overlay.scot import BrokerId
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
from tests.alerts.samples import notification
from tests.master import push_plane_rig
from tests.master.push_plane_rig import Rig

rig = push_plane_rig.rig

BESIDE = BrokerId("b", 0)
TWO = {
    "vertex": "a",
    "links": [["a", "b"]],
    "neighbour": [{"iad": "iad2", "vertex": "b", "cluster": 0, "address": "tcp://127.0.0.1:5800"}],
}


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
