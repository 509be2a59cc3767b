"""Inboxes after a restart: from what a disk kept, what was not written, and what was damaged."""

from agent.alerts.inbox_events import (
    AcknowledgeArrived,
    ContentArrived,
    EndSubscription,
    ForgetBody,
    ForgetItem,
    InboxesDue,
    SavedInboxes,
    SendPush,
    StartSubscription,
    SubscribeArrived,
)
from agent.alerts.inboxes import Inboxes
from agent.alerts.limits import Limits
from agent.wire.push import AcknowledgeNotifications, Gap, Lost, Notified, Subscribe, Subscribed
from tests.alerts.disk import Disk
from tests.alerts.samples import FILTER, notification, read_filter

NOT_FOR_THE_DISK = (SendPush, StartSubscription, EndSubscription)


class Rig:
    """Inboxes on a disk that has everything at once."""

    def __init__(self, **settings):
        self.settings = settings
        self.disk = Disk()
        self.restart()

    def restart(self, now=0.0, **settings):
        self.settings |= settings
        self.now = now
        self.inboxes = Inboxes(read_filter, Limits(**self.settings))
        _, saved = self.disk.load()
        return self.perform(self.inboxes.restore(saved, now))

    def perform(self, instructions):
        self.inboxes.check_invariants()
        self.disk.write([each for each in instructions if not isinstance(each, NOT_FOR_THE_DISK)])
        return instructions

    def handle(self, event):
        return self.perform(self.inboxes.handle(event, self.now))

    def subscribe(self, client="c", *, after=None, durable=True):
        message = Subscribe("s", FILTER, durable, after)
        return sent(self.handle(SubscribeArrived("p", client, message)))

    def come(self, *sequences, names=("1",)):
        for each in sequences:
            self.handle(ContentArrived(names, notification(each)))

    def acknowledge(self, position, client="c"):
        message = AcknowledgeNotifications("s", position)
        return self.handle(AcknowledgeArrived("p", client, message))


def sent(instructions):
    return [
        (each.message.position, each.message.notification.origin.sequence)
        if isinstance(each.message, Notified)
        else each.message
        for each in instructions
        if isinstance(each, SendPush)
    ]


def test_it_goes_on_where_it_was():
    rig = Rig()
    rig.subscribe()
    rig.come(10, 20)
    rig.acknowledge(1)
    rig.handle(ContentArrived(("1",), Lost("iad2", "h", 1, 2, 2)))
    assert rig.restart() == [StartSubscription("1", FILTER)]
    assert sent(rig.acknowledge(2)) == [Subscribed("s", "unknown")]
    rig.come(10, 20, 30)
    assert rig.subscribe(after=1) == [
        Subscribed("s", "open", 1, 60_000.0),
        (2, 20),
        Gap("s", 3, 3, Lost("iad2", "h", 1, 2, 2)),
        (4, 30),
    ]
    assert rig.inboxes.counters["notifications_repeated"] == 2


def test_all_that_was_acknowledged_is_still_known():
    rig = Rig()
    rig.subscribe()
    rig.come(10, 20)
    rig.acknowledge(2)
    rig.restart()
    rig.come(20, 10)
    assert rig.subscribe() == [Subscribed("s", "open", 2, 60_000.0)]
    rig.come(30)
    rig.restart()
    assert rig.subscribe() == [Subscribed("s", "open", 2, 60_000.0), (3, 30)]


def test_a_cursor_that_was_not_written_is_said_again_by_the_client():
    rig = Rig()
    rig.subscribe()
    rig.come(10, 20, 30)
    rig.inboxes.handle(
        AcknowledgeArrived("p", "c", AcknowledgeNotifications("s", 2)), rig.now
    )  # and a crash
    rig.restart()
    assert rig.subscribe(after=2)[1:] == [(3, 30)]
    rig.restart()
    assert rig.subscribe(after=0)[1:] == [Gap("s", 1, 2), (3, 30)]


def test_only_what_volatile_subscriptions_held_is_tidied_away():
    rig = Rig()
    rig.subscribe()
    rig.subscribe("d", durable=False)
    rig.come(10, names=("1", "2"))
    rig.acknowledge(1)
    assert rig.disk.items[1][1] is not None  # for the other one, which a restart ends
    assert rig.restart() == [ForgetBody(1), StartSubscription("1", FILTER)]
    assert rig.restart() == [StartSubscription("1", FILTER)]
    rig.disk.items[5] = (b"\x93\xa1a\xa1h\x07", None)
    assert rig.restart() == [ForgetItem(5), StartSubscription("1", FILTER)]


def test_a_smaller_inbox_keeps_the_newest():
    rig = Rig()
    rig.subscribe()
    rig.come(10, 20, 30, 40)
    rig.restart(most=2)
    assert rig.subscribe(after=0)[1:] == [Gap("s", 1, 2), (3, 30), (4, 40)]


def test_positions_before_a_hole_are_a_gap():
    rig = Rig()
    rig.subscribe()
    rig.come(10, 20, 30, 40)
    del rig.disk.positions[1, 2]
    rig.restart()
    assert rig.subscribe(after=0)[1:] == [Gap("s", 1, 2), (3, 30), (4, 40)]
    del rig.disk.items[4]
    rig.restart()
    assert rig.subscribe(after=0)[1:] == [Gap("s", 1, 4)]
    rig.come(50)
    assert rig.acknowledge(5)
    rig.disk.positions.clear()
    rig.restart()
    # Of the positions nothing is known but the cursor, and the next one is new.
    assert rig.subscribe() == [Subscribed("s", "open", 5, 60_000.0)]
    rig.come(60)
    assert (1, 6) in rig.disk.positions


def test_a_position_apart_that_an_earlier_version_left_is_ignored():
    rig = Rig()
    rig.subscribe()
    rig.come(10, 20, 30)
    rig.disk.positions[-1, 2] = 3
    rig.disk.positions[-7, 2] = 3
    rig.restart()
    assert rig.subscribe(after=0)[1:] == [(1, 10), (2, 20), (3, 30)]


def test_the_time_to_expire_begins_anew():
    rig = Rig(expire_s=100.0)
    rig.subscribe()
    rig.restart(now=1_000.0)
    assert rig.inboxes.next_tick == 1_100.0
    rig.now = 1_100.0
    rig.handle(InboxesDue())
    assert rig.disk.load()[1] == SavedInboxes()
    assert rig.inboxes.next_tick is None
