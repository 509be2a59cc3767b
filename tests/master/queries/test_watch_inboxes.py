"""The glue of standing queries and inboxes: watches on alerts as durable clients."""

from __future__ import annotations

import pytest

from agent.alerts.limits import LEASE_S
from agent.master.queries import watch_inboxes
from agent.master.queries.watch_inboxes import (
    RENEW_S,
    RENEW_TICKS,
    WatchInboxes,
    client_of,
    document_of,
)
from agent.master.storage.group_commit import RETRY_S
from agent.scheduling.watches.events import AskInbox
from agent.wire.push import AcknowledgeNotifications, Notified, Subscribe, Subscribed, Unsubscribe
from tests.alerts.samples import FILTER
from tests.master.push_plane_rig import Rig

KEY, OTHER = ("alice", "w"), ("", "v")


class WatchRig(Rig):
    watches = ("alice/w", "/v")

    def start(self):
        super().start()
        self.heard, self.saved = [], True
        reactor = self.plane._reactor
        self.inboxes = WatchInboxes(reactor, self.plane, self.heard.append, self.when_saved)
        self.inboxes.begin(self.watches)

    def when_saved(self, _key, then):
        if self.saved:
            then()
        return self.saved

    def ask_inbox(self, message, key=KEY):
        self.plane._reactor.perform([AskInbox(key, message)])
        self.let_pass()

    def subscribe_for(self, key=KEY, id_="s1", after=None):
        self.ask_inbox(Subscribe(id_, FILTER, durable=True, after=after), key)

    def let_pass(self, seconds=0.0):
        self.now += seconds
        parts = (self.plane, self.inboxes)
        while due := [p for p in parts if p.next_due is not None and p.next_due <= self.now]:
            for part in due:
                part.tick(self.now)

    def told(self, kind, key=KEY):
        return [e.message for e in self.heard if e.key == key and isinstance(e.message, kind)]

    @property
    def waiting(self):
        return self.plane.counters["notifications_waiting"]


@pytest.fixture
def rig():
    return WatchRig()


def test_what_an_inbox_says_comes_after_it_is_on_disk_and_not_in_the_middle(rig):
    rig.subscribe_for()
    assert rig.told(Subscribed)[0].state == "open"
    rig.alert(1)
    assert rig.told(Notified) == []
    rig.let_pass()
    [told] = rig.told(Notified)
    assert (told.id, told.position) == ("s1", 1)
    rig.ask_inbox(AcknowledgeNotifications("s1", 1))
    assert rig.waiting == 0


def test_it_is_renewed_while_nothing_happens(rig):
    rig.subscribe_for()
    rig.subscribe_for(OTHER, "s2")
    rig.heard.clear()
    for _ in range(int(3 * LEASE_S / RENEW_S)):
        rig.let_pass(RENEW_S)
    assert rig.heard == []
    rig.alert(1)
    rig.let_pass()
    assert len(rig.told(Notified)) == len(rig.told(Notified, OTHER)) == 1
    # And not one more often than needed.
    assert RENEW_TICKS * RENEW_S * 2 < LEASE_S


def test_a_watch_that_is_opened_again_and_again_is_renewed_as_often_as_any(rig, monkeypatch):
    for number in range(50):
        rig.ask_inbox(Unsubscribe(f"s{number}"))
        rig.subscribe_for(id_=f"s{number + 1}")
    asked, ask = [], rig.plane.ask
    monkeypatch.setattr(rig.plane, "ask", lambda *args: asked.append(args[2]) or ask(*args))
    rig.subscribe_for(OTHER, "other")
    asked.clear()
    for _ in range(2 * RENEW_TICKS):
        rig.let_pass(RENEW_S)
    assert [each.id for each in asked] == ["s50", "other"] * RENEW_TICKS


def test_what_alerts_ask_waits_until_all_of_them_are_handed_on(rig, monkeypatch):
    rig.subscribe_for()
    rig.subscribe_for(OTHER, "s2")
    rig.heard.clear()
    order = []

    def handle(said):
        order.append("handed on")
        asking = AcknowledgeNotifications(said.message.id, said.message.position)
        rig.plane._reactor.perform([AskInbox(said.key, asking)])

    monkeypatch.setattr(rig.inboxes, "_handle", handle)
    monkeypatch.setattr(
        rig.inboxes, "_when_saved", lambda _, then: order.append("saved") or then() or True
    )
    rig.alert(1)
    rig.let_pass()
    # So one write is enough for all.
    assert order == ["handed on"] * 2 + ["saved"] * 2
    assert rig.waiting == 0


def test_a_turn_hands_on_a_part_of_what_came(rig, monkeypatch):
    rig.subscribe_for()
    monkeypatch.setattr(watch_inboxes, "TURN", 2)
    rig.alert(1, 2, 3)
    rig.plane.tick(rig.now)
    for count in (2, 3):
        assert rig.inboxes.next_due == 0.0
        rig.inboxes.tick(rig.now)
        assert len(rig.told(Notified)) == count
    assert rig.inboxes.next_due > rig.now


def test_an_inbox_that_let_go_says_so_at_the_next_renewal(rig):
    rig.subscribe_for()
    rig.now += 2 * LEASE_S
    rig.plane.tick(rig.now)
    rig.let_pass(RENEW_S)
    assert rig.told(Subscribed)[-1].state == "unknown"


def test_what_the_disk_does_not_take_is_said(rig):
    rig.subscribe_for()
    rig.alert(1)
    rig.let_pass()
    rig.disk.full = True
    rig.alert(2)
    rig.let_pass()
    rig.ask_inbox(AcknowledgeNotifications("s1", 1))
    assert rig.heard[-1].message is None
    rig.subscribe_for(OTHER, "s2")
    assert [e.key for e in rig.heard if e.message is None] == [KEY, OTHER]
    # What has ended is told until it is taken.
    rig.ask_inbox(Unsubscribe("s1"))
    assert rig.plane.open_subscriptions == 1
    rig.disk.full = False
    rig.let_pass(RETRY_S)
    rig.let_pass(RENEW_S)
    assert rig.plane.open_subscriptions == 0


def test_what_is_not_saved_is_not_acknowledged(rig):
    rig.subscribe_for()
    rig.alert(1)
    rig.let_pass()
    rig.saved = False
    rig.ask_inbox(AcknowledgeNotifications("s1", 1))
    rig.subscribe_for(after=1)
    assert [e.message for e in rig.heard[-2:]] == [None, None]
    assert rig.waiting == 1
    rig.saved = True
    rig.subscribe_for(after=1)
    assert rig.waiting == 0


def test_the_next_start_ends_what_belongs_to_no_watch(rig):
    rig.subscribe_for()
    rig.subscribe_for(OTHER, "s2")
    assert {client for client, _ in rig.plane.inboxes.kept_for("watch/")} == {
        client_of(KEY), client_of(OTHER),
    }  # fmt: skip
    rig.watches = (document_of(OTHER),)
    rig.start()
    rig.let_pass()
    assert rig.plane.inboxes.kept_for("watch/") == [(client_of(OTHER), "s2")]
    rig.subscribe_for(OTHER, "s2")
    rig.alert(1)
    rig.let_pass()
    assert len(rig.told(Notified, OTHER)) == 1


def test_other_clients_are_left_alone(rig):
    rig.subscribe(name="pager")
    rig.watches = ()
    rig.start()
    assert rig.plane.open_subscriptions == 1
