"""What waits for the disk, what does not, and a disk that refuses."""

import pytest

from agent.ledger import Taken
from agent.master.group_commit import FLUSH_S, LONGEST_PAUSE_S, RETRY_S, GroupCommit
from agent.topics import inbox_events as i
from agent.topics import spool_events as s
from agent.wire.push import Notified, Subscribed
from tests.topics.samples import notification

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
        self.takes_s = 0.0
        self.happened = []
        self.commit = GroupCommit(self, self.happened.extend, lambda: self.now)

    def write(self, changes):
        self.now += self.takes_s
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


def test_a_slow_disk_leaves_as_much_time_for_all_else(rig):
    rig.takes_s = 0.125
    rig.commit.take([STORED, ACCEPTED])
    rig.tick()
    assert rig.now == 10.125
    rig.commit.take([TAKEN, DURABLE])
    assert rig.commit.next_due == 10.25
    rig.now = 10.1875
    rig.commit.take([i.StorePosition(1, 1, 1)])
    rig.commit.after_commit("have")
    assert rig.commit.next_due == 10.25
    rig.now, rig.takes_s = 10.5, 3.0
    rig.tick()
    assert rig.happened[-3:] == [[TAKEN, i.StorePosition(1, 1, 1)], DURABLE, "have"]
    rig.commit.take([STORED, ACCEPTED])
    assert rig.commit.next_due == 13.5 + LONGEST_PAUSE_S


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
