"""An inbox that moves: positions kept, nothing lost, doubled or out of order."""

import msgspec
import pytest

from agent.alerts.inbox_events import (
    AcknowledgeArrived,
    ContentArrived,
    EndSubscription,
    InboxesDue,
    SendPush,
    StartSubscription,
    SubscribeArrived,
)
from agent.alerts.inbox_handover import FORWARDING, STANDBY, InboxCopy, MovableInboxes
from agent.alerts.limits import Limits
from agent.wire.push import AcknowledgeNotifications, Gap, Lost, Notified, Subscribe
from tests.alerts.disk import Disk
from tests.alerts.samples import FILTER, OTHER_FILTER, notification, read_filter

AT_B = f"{FORWARDING}iad2/notes"


class Master:
    """Inboxes on a disk that has everything at once."""

    def __init__(self, **options):
        self.options = options
        self.disk, self.now = Disk(), 0.0
        self.restart()

    def restart(self):
        self.inboxes = MovableInboxes(read_filter, Limits(**self.options))
        self.do(self.inboxes.restore(self.disk.load()[1], self.now))

    def do(self, instructions):
        self.inboxes.check_invariants()
        not_for_disk = (SendPush, StartSubscription, EndSubscription)
        self.disk.write([each for each in instructions if not isinstance(each, not_for_disk)])
        return instructions

    def handle(self, event):
        return self.do(self.inboxes.handle(event, self.now))

    def open(self, client="topic/notes", after=None):
        """What is sent to the client, which subscribes."""
        message = Subscribe("i1", FILTER, durable=True, after=after)
        return sent(self.handle(SubscribeArrived("p", client, message)))

    def come(self, *sequences):
        """They come from the broker, for every inbox."""
        names = tuple(self.inboxes._by_name)
        for each in sequences:
            content = each if isinstance(each, Lost) else notification(each)
            self.handle(ContentArrived(names, content))

    def acknowledge(self, position, client="topic/notes"):
        message = AcknowledgeNotifications("i1", position)
        return sent(self.handle(AcknowledgeArrived("p", client, message)))

    def stand_by(self, copy=None):
        self.do(self.inboxes.stand_by("standby/notes", "i1", FILTER, self.now))
        for part in copy.parts(2) if copy else ():
            self.do(self.inboxes.learn("standby/notes", "i1", part))

    def adopt(self, copy, **options):
        copy = msgspec.msgpack.decode(msgspec.msgpack.encode(copy), type=InboxCopy)
        self.do(self.inboxes.adopt("standby/notes", "i1", "topic/notes", copy, self.now, **options))


def sent(instructions):
    return [
        (each.message.position, each.message.notification.origin.sequence)
        if isinstance(each.message, Notified)
        else each.message
        for each in instructions
        if isinstance(each, SendPush) and isinstance(each.message, Notified | Gap)
    ]


def two(**options):
    """A, where a topic has had 10 and 20 of what came there, and B."""
    a, b = Master(**options), Master(**options)
    a.open()
    a.come(10, 20, 30, 40)
    a.acknowledge(2)
    return a, b


def final(a):
    return a.inboxes.copy("topic/notes", "i1", after=2)


def test_positions_are_kept_and_what_was_collected_follows():
    a, b = two()
    b.stand_by(a.inboxes.remembered("topic/notes", "i1"))
    b.come(20, 40, 50)  # the copy will know the first two
    a.come(50, 60)
    b.come(70)
    b.adopt(final(a))
    expected = [(3, 30), (4, 40), (5, 50), (6, 60), (7, 70)]
    b.restart()
    assert b.open() == expected
    b.come(10, 20, 30, 40, 50, 60, 70)  # all of it is known
    assert b.open() == expected


def test_holes_stay_where_they_were_and_what_is_older_than_what_is_remembered_is_a_gap():
    a, b = (Master(most=4, most_remembered=64) for _ in range(2))
    a.open()
    a.acknowledge(0)

    def come(sequence, history):
        told = notification(sequence, history)
        a.handle(ContentArrived(tuple(a.inboxes._by_name), told))

    come(1, "old")
    for each in range(200):
        come(each, "flood")
    come(1, "new")
    come(200, "flood")
    come(201, "flood")
    expected = [(1, 1), Gap("i1", 2, 201), (202, 1), (203, 200), (204, 201)]
    a.restart()
    assert a.open() == expected
    b.stand_by(a.inboxes.remembered("topic/notes", "i1"))
    b.adopt(a.inboxes.copy("topic/notes", "i1", after=0))
    b.restart()
    assert b.open() == [Gap("i1", 1, 201), *expected[2:]]


def lost_since(b):
    """What B tells of messages that are lost, in all, after its standby inbox ran over."""
    return [each.lost for each in b.open() if isinstance(each, Gap) and each.lost is not None]


def test_what_a_standby_had_no_room_for_is_told_as_lost_if_the_source_is_dead():
    a, b = two(most=6)
    b.stand_by()
    b.come(30, 40, 50, 60, 70, 80, 90, 100)  # the copy will know the first two
    b.come(110)
    b.adopt(final(a), source_is_dead=True)
    key = notification(50).origin
    b.restart()  # it is on disk
    assert lost_since(b) == [Lost(key.publisher, key.history, 50, 50, 1)]


def test_what_the_source_is_known_to_have_is_not_told_as_lost():
    a, b = two(most=6)
    b.stand_by()
    b.come(30, 40, 50, 60, 70, 80, 90, 100, 110)
    key = notification(50).origin
    b.do(b.inboxes.forget_known("standby/notes", "i1", lambda each: each == key))
    b.adopt(final(a), source_is_dead=True)
    assert lost_since(b) == []


def test_what_a_standby_had_no_room_for_comes_from_a_source_that_lives():
    a, b = two(most=6)
    b.stand_by()
    b.come(30, 40, 50, 60, 70, 80, 90, 100, 110)
    b.adopt(final(a))
    assert lost_since(b) == []


def test_without_a_handover_nothing_has_happened():
    a, b = two()
    b.stand_by(a.inboxes.remembered("topic/notes", "i1"))
    b.come(50)
    final(a)
    a.come(50)
    assert a.open() == [(3, 30), (4, 40), (5, 50)]
    b.do(b.inboxes.end("standby/notes", "i1"))
    assert (b.disk.subscriptions, b.disk.positions, b.disk.items) == ({}, {}, {})


def test_a_standby_inbox_gives_nothing_to_anybody_lasts_as_long_as_it_must_and_ends_with_the_run():
    a, b = two()
    b.stand_by(a.inboxes.remembered("topic/notes", "i1"))
    b.now = 8 * 86_400.0
    assert b.handle(InboxesDue()) == []
    assert len(b.inboxes) == 1
    b.restart()
    assert len(b.inboxes) == 0
    assert (b.disk.subscriptions, b.disk.positions, b.disk.items) == ({}, {}, {})


def test_what_comes_late_to_the_source_is_forwarded_and_taken_once():
    a, b = two()
    b.stand_by(a.inboxes.remembered("topic/notes", "i1"))
    copy = final(a)
    b.adopt(copy)
    b.come(50)
    a.come(50, 60)
    a.do(a.inboxes.release("topic/notes", "i1", AT_B, copy.last))
    a.restart()
    late = a.open(AT_B)
    assert late == [(5, 50), (6, 60)]
    contents = [notification(each) for _, each in late]
    instructions, new = b.inboxes.take("topic/notes", "i1", contents)
    b.do(instructions)
    assert new == 1
    b.restart()
    assert b.open() == [(3, 30), (4, 40), (5, 50), (6, 60)]
    a.acknowledge(6, AT_B)
    a.do(a.inboxes.end(AT_B, "i1"))
    assert (a.disk.subscriptions, a.disk.positions, a.disk.items) == ({}, {}, {})


def test_there_and_back_again():
    a, b = two()
    b.stand_by(a.inboxes.remembered("topic/notes", "i1"))
    b.adopt(copy := final(a))
    a.do(a.inboxes.release("topic/notes", "i1", AT_B, copy.last))
    a.come(50)
    b.come(60)
    b.open()
    b.acknowledge(3)
    a.stand_by(b.inboxes.remembered("topic/notes", "i1"))
    a.adopt(back := b.inboxes.copy("topic/notes", "i1", after=3))
    b.do(b.inboxes.release("topic/notes", "i1", f"{FORWARDING}iad1/notes", back.last))
    # Late items of A, for a topic that has gone on from B.
    b.do(b.inboxes.take("topic/notes", "i1", [notification(50)])[0])
    assert b.open(f"{FORWARDING}iad1/notes") == [(6, 50)]
    a.do(a.inboxes.absorb("topic/notes", "i1"))
    assert not a.inboxes.has(AT_B, "i1")
    a.restart()
    assert a.open() == [(4, 40), (5, 60), (6, 50)]


def test_what_still_waits_for_a_master_goes_along_if_all_goes_there_again():
    a, b = two()
    b.stand_by(a.inboxes.remembered("topic/notes", "i1"))
    b.adopt(copy := final(a))
    a.do(a.inboxes.release("topic/notes", "i1", AT_B, copy.last))
    a.come(50)
    a.stand_by(b.inboxes.remembered("topic/notes", "i1"))
    a.adopt(copy := b.inboxes.copy("topic/notes", "i1", after=2))
    a.do(a.inboxes.release("topic/notes", "i1", AT_B, copy.last))
    a.restart()
    assert a.open(AT_B) == [(5, 50)]
    assert len(a.inboxes) == 1


def test_it_begins_anew_if_the_source_has_forgotten_what_is_in_between():
    a, b = two(most_remembered=4)
    b.stand_by(a.inboxes.remembered("topic/notes", "i1"))
    a.acknowledge(4)
    for n in range(200):
        a.come(100 + n)
        a.acknowledge(5 + n)
    a.come(10)  # forgotten long since
    b.adopt(final(a))
    b.restart()
    assert b.open() == [(205, 10)]
    b.come(10, 299)
    assert b.open() == [(205, 10)]


def test_it_begins_anew_if_the_source_has_forgotten_and_got_again_what_was_learnt():
    _, b = two()
    learnt = InboxCopy(FILTER, 2, 2, (("iad1", "h1"),), (0, 0), (10, 20))
    b.stand_by(learnt)
    b.adopt(InboxCopy(FILTER, 2, 3, (("iad1", "h1"),), (0,), (10,), (), (notification(10),)))
    b.restart()
    assert b.open() == [(3, 10)]
    b.come(10)
    assert b.open() == [(3, 10)]


def test_a_filter_that_changes_after_the_copy_goes_along():
    a, b = two()
    b.stand_by(a.inboxes.remembered("topic/notes", "i1"))
    again = Subscribe("i1", OTHER_FILTER, durable=True)
    a.handle(SubscribeArrived("p", "topic/notes", again))
    copy = final(a)
    done = b.do(b.inboxes.adopt("standby/notes", "i1", "topic/notes", copy, b.now))
    assert [each.filter for each in done if isinstance(each, StartSubscription)] == [OTHER_FILTER]
    b.inboxes.check_invariants()
    b.restart()
    assert b.inboxes.wanted("topic/notes", "i1") == OTHER_FILTER


def test_losses_and_gaps_are_handed_over_too():
    a, b = two(most=2)
    lost = Lost("iad2", "h", 1, 9, 3)
    a.come(50, lost)
    b.stand_by(a.inboxes.remembered("topic/notes", "i1"))
    b.come(lost)
    b.adopt(final(a))
    b.restart()
    assert b.open() == [Gap("i1", 3, 4), (5, 50), Gap("i1", 6, 6, lost)]


def test_collected_items_have_a_bound_and_the_oldest_come_from_the_source_if_later():
    a, b = two(most=2)
    b.stand_by()
    a.come(50, 60, 70)
    b.come(50, 60, 70)
    assert b.inboxes._items.get(notification(50).origin) is None
    b.do(b.inboxes.end("standby/notes", "i1"))
    assert len(b.inboxes._items) == 0


def test_items_of_others_are_shared():
    a, b = two()
    other = Subscribe("all", FILTER, durable=False)
    b.handle(SubscribeArrived("q", "c", other))
    b.come(10, 30)
    b.stand_by(a.inboxes.remembered("topic/notes", "i1"))
    b.come(50)
    b.adopt(final(a))
    assert b.open() == [(3, 30), (4, 40), (5, 50)]
    b.acknowledge(5)
    b.restart()
    b.come(10, 30, 50)
    assert b.open() == []


@pytest.mark.parametrize("wrong", [
    {"of": (0,)}, {"of": (0,), "sequences": (1,)}, {"of": (-1,), "sequences": (0,)},
    {"acknowledged": 9}, {"contents": (None,)},
])  # fmt: skip
def test_a_copy_that_contradicts_itself_is_not_read(wrong):
    fields = {"filter": FILTER, "acknowledged": 0, "last": 3, **wrong}
    with pytest.raises(ValueError):
        InboxCopy(**fields)
    built = msgspec.msgpack.encode(msgspec.structs.astuple(InboxCopy(FILTER, 0, 3)))
    raw = msgspec.msgpack.decode(built)
    for name, value in wrong.items():
        raw[InboxCopy.__struct_fields__.index(name)] = value
    with pytest.raises(msgspec.ValidationError):
        msgspec.msgpack.decode(msgspec.msgpack.encode(raw), type=InboxCopy)


def test_what_is_on_the_move_has_a_name_that_no_client_has():
    assert "/" in STANDBY
    assert "/" in FORWARDING


def test_what_the_source_is_known_to_have_is_not_collected_any_longer():
    a, b = two()
    b.stand_by()
    b.come(40, 50, 60)
    known = {notification(each).origin for each in (40, 50)}
    b.do(b.inboxes.forget_known("standby/notes", "i1", known.__contains__))
    b.come(60)
    b.adopt(a.inboxes.copy("topic/notes", "i1"))
    # What was forgotten comes with the copy, or not at all.
    assert b.open() == [(3, 30), (4, 40), (5, 60)]
    assert b.inboxes.last("topic/notes", "i1") == 5
    assert b.inboxes.last("topic/notes", "i2") == 0
