"""What waits for the disk, what does not, and a disk that refuses."""

import pytest

from agent.alerts import inbox_events as i
from agent.alerts import spool_events as s
from agent.alerts.dedup_window import Taken
from agent.master.storage import group_commit
from agent.master.storage.group_commit import FLUSH_S, RETRY_S, GroupCommit
from agent.wire.push import Notified, ShortContent, ShortNotified, Subscribed
from tests.alerts.samples import notification
from tests.master.held_writer import HeldWriter

STORED = s.StoreSpooled(1, b"")
TAKEN = s.SaveTaken("n", "h", Taken())
CURSOR = i.SaveCursor(1, 7)
ACCEPTED = s.Accepted("t")
PUBLISHED = s.PublishSpooled(notification(1))
DURABLE = i.SendPush("p", Notified("s", 1, notification(1)), waits=True)
VOLATILE = i.SendPush("q", Subscribed("s", "unknown"), waits=False)


class Rig:
    def __init__(self):
        self.now = 10.0
        self.full = False
        self.happened = []
        self.writer = HeldWriter()
        self.commit = GroupCommit(self, self.happened.extend, lambda: self.now, self.writer)

    def write(self, changes):
        if not self.full:
            self.happened.append(list(changes))
        return not self.full

    def tick(self):
        self.commit.tick(self.now)


@pytest.fixture
def rig():
    return Rig()


def test_what_was_taken_is_told_after_it_is_stored(rig):
    rig.commit.take([STORED, PUBLISHED, TAKEN, ACCEPTED])
    # Whoever gets it twice knows it by its origin.
    assert rig.happened == [PUBLISHED]
    assert rig.commit.next_due == 10.0
    rig.tick()
    assert rig.happened[1:] == [[STORED, TAKEN], ACCEPTED]
    assert rig.commit.next_due is None


def test_a_turn_is_one_write(rig):
    rig.commit.take([STORED, ACCEPTED])
    rig.commit.take([i.StorePosition(1, 1, 1), DURABLE, VOLATILE])
    rig.commit.after_commit("have")
    assert rig.happened == [VOLATILE]
    rig.tick()
    assert rig.happened[1:] == [[STORED, i.StorePosition(1, 1, 1)], ACCEPTED, DURABLE, "have"]


def test_of_one_subscription_only_messages_about_it_alone_are_withdrawn(rig):
    content = ShortContent("iad1", bytes(8), 2, 1_000, ("value",), (31.5,))
    others = [
        i.SendPush("p", Notified("s", 2, notification(2), (("t", 5),)), waits=True),
        i.SendPush("p", ShortNotified(((1, 2),), content), waits=True),
        i.SendPush("p", Subscribed("t", "open"), waits=True),
        i.SendPush("q", Subscribed("s", "open"), waits=True),
    ]
    rig.commit.take([STORED, DURABLE, *others])
    rig.commit.withdraw("p", "s")
    rig.tick()
    assert rig.happened == [[STORED], *others]


def test_nobody_waits_for_what_a_crash_may_undo(rig):
    rig.commit.take([CURSOR, DURABLE])
    rig.commit.after_commit("have")
    assert rig.happened == [DURABLE, "have"]
    assert rig.commit.next_due == 10.0 + FLUSH_S
    rig.now += 0.2
    rig.commit.take([s.ForgetSpooled(1)])
    assert rig.commit.next_due == 10.0 + FLUSH_S
    rig.commit.take([STORED])
    rig.commit.after_commit("settled", soon=False)
    # It is to be on disk before it is told, and nobody is waiting to be told.
    assert rig.commit.urgent
    assert rig.commit.next_due == 10.0 + FLUSH_S
    rig.commit.after_commit("have")
    assert rig.commit.next_due == 10.2
    rig.tick()
    assert rig.happened[2:] == [[CURSOR, s.ForgetSpooled(1), STORED], "settled", "have"]
    assert not rig.commit.urgent


def test_a_disk_that_refuses_is_tried_again_and_nobody_is_told(rig):
    rig.full = True
    rig.commit.take([STORED, ACCEPTED])
    rig.tick()
    assert rig.commit.refusing
    assert rig.happened == []
    assert rig.commit.next_due == 10.0 + RETRY_S
    rig.commit.take([TAKEN, DURABLE])
    assert rig.commit.next_due == 10.0 + RETRY_S
    rig.now += RETRY_S
    rig.full = False
    rig.tick()
    assert not rig.commit.refusing
    assert rig.happened == [[STORED, TAKEN], ACCEPTED, DURABLE]


def test_what_waits_for_a_disk_that_refuses_can_be_withdrawn(rig):
    rig.full, told = True, []
    opened = i.SendPush("p", Subscribed("s", "open"), waits=True)
    other = i.SendPush("p", Subscribed("t", "open"), waits=True)
    rig.commit.take([STORED, opened, DURABLE, other])
    rig.commit.settle(told.append, at_once=False)
    assert told == [], "at the end of the turn"
    rig.tick()
    assert told == [False]
    rig.commit.withdraw("p", "s")
    rig.full = False
    rig.tick()
    assert rig.happened == [[STORED], other]


def test_while_the_disk_writes_the_next_transaction_is_gathered(rig):
    rig.writer.slow = True
    rig.commit.take([STORED, ACCEPTED])
    rig.tick()
    assert (rig.happened, rig.commit.next_due) == ([], None)
    # These two wait for the one under way, and those after another change for the next.
    rig.commit.take([CURSOR, DURABLE])
    rig.commit.after_commit("have")
    rig.commit.take([TAKEN])
    rig.commit.after_commit("later")
    rig.tick()
    assert (rig.commit.next_due, rig.commit.refusing, len(rig.writer.jobs)) == (None, False, 1)
    rig.writer.do()
    assert rig.happened == [[STORED], ACCEPTED, DURABLE, "have"]
    assert rig.commit.next_due == 10.0
    rig.tick()
    rig.writer.do()
    assert rig.happened[4:] == [[CURSOR, TAKEN], "later"]


def test_what_is_gathered_behind_a_slow_disk_has_a_bound(rig, monkeypatch):
    monkeypatch.setattr(group_commit, "MAX_GATHERED", 3)
    rig.writer.slow = True
    rig.commit.take([STORED, ACCEPTED])
    rig.tick()
    rig.commit.take([TAKEN, CURSOR])
    assert not rig.commit.refusing
    rig.commit.take([TAKEN])
    assert rig.commit.refusing
    rig.writer.do()
    assert rig.commit.next_due == 10.0
    rig.tick()
    assert not rig.commit.refusing


def test_a_slow_disk_that_refuses_puts_back_what_came_since(rig):
    rig.writer.slow, rig.full = True, True
    rig.commit.take([STORED, ACCEPTED])
    rig.tick()
    rig.commit.take([TAKEN, DURABLE])
    rig.writer.do()
    assert rig.commit.refusing
    assert rig.commit.next_due == 10.0 + RETRY_S
    rig.full = False
    rig.now += RETRY_S
    rig.tick()
    rig.writer.do()
    assert rig.happened == [[STORED, TAKEN], ACCEPTED, DURABLE]


def test_who_asks_is_told_either_way(rig):
    told = []
    rig.commit.settle(lambda well: told.append(("nothing to do", well)))
    rig.writer.slow = True
    rig.commit.take([STORED])
    rig.commit.settle(lambda well: told.append(("first", well)))
    rig.tick()
    rig.commit.settle(lambda well: told.append(("the same", well)))
    rig.commit.take([TAKEN])
    rig.commit.settle(lambda well: told.append(("next", well)))
    rig.writer.do()
    assert told == [("nothing to do", True), ("first", True), ("the same", True)]
    rig.full = True
    rig.tick()
    rig.writer.do()
    rig.commit.settle(lambda well: told.append(("refusing", well)))
    assert told[3:] == [("next", False), ("refusing", False)]


def test_who_asks_behind_a_slow_disk_waits_no_longer_than_for_it(rig):
    told = []
    rig.writer.slow = True
    rig.commit.take([STORED, ACCEPTED])
    rig.tick()
    rig.commit.take([TAKEN])
    rig.commit.settle(told.append)
    rig.writer.do()
    assert rig.commit.next_due == 10.0
    rig.tick()
    rig.writer.do()
    assert told == [True]


def test_what_is_told_may_give_more_to_write(rig):
    def perform(instructions):
        for each in instructions:
            rig.happened.append(each)
            if each == ACCEPTED:
                rig.commit.take([TAKEN, DURABLE])

    rig.commit = GroupCommit(rig, perform, lambda: rig.now)
    rig.commit.take([STORED, ACCEPTED])
    rig.tick()
    assert rig.happened == [[STORED], ACCEPTED]
    assert rig.commit.next_due == 10.0
    rig.tick()
    assert rig.happened[2:] == [[TAKEN], DURABLE]
