"""Outputs and state of a topic's processor: one transaction, put out once."""

from __future__ import annotations

from copy import deepcopy

import pytest

from agent.alerts.inbox_handover import MAX_REACHED
from agent.alerts.spool_events import StoreSpooled
from agent.master.push.push_plane import TURN
from agent.master.storage.group_commit import RETRY_S
from agent.topics.contents import after_a_start
from agent.topics.events import Progress, SaveProgress
from agent.wire.push import Subscribe
from agent.wire.topics import CreateTopic, Publish, RemoveTopic
from tests.master import topic_rig
from tests.master.topic_rig import COUNT, NOTES, Documents

rig = topic_rig.rig


def test_outputs_are_published_after_their_transaction(rig):
    rig.operate(CreateTopic("c", COUNT))
    rig.publish(Publish("p", "counted", {"vote": 3.0}, 1))
    rig.processors.process()
    rig.let_pass()
    assert rig.processors.asked == 1
    assert rig.put_out() == []
    rig.writer.slow = True
    rig.processors.checkpoint()
    rig.let_pass()
    assert rig.put_out() == []
    rig.writer.slow = False
    rig.writer.drain()
    rig.let_pass()
    assert [each.attributes["at"] for each in rig.put_out()] == [1]
    progress = rig.disk.topics["counted"].progress
    assert (progress.position, progress.inbox, progress.state) == (1, 1, b"state")


def test_outputs_and_state_are_one_transaction(rig):
    rig.operate(CreateTopic("c", COUNT))
    rig.publish(Publish("p", "counted", {"vote": 3.0}, 1))
    rig.processors.process(outputs=3)
    rig.let_pass()
    written = []
    write = rig.disk.write
    rig.disk.write = lambda changes: written.append(changes) or write(changes)
    rig.processors.checkpoint()
    rig.let_pass()
    (batch,) = [each for each in written if any(isinstance(c, SaveProgress) for c in each)]
    assert sum(isinstance(change, StoreSpooled) for change in batch) == 3


def test_many_outputs_take_many_turns(rig):
    rig.operate(CreateTopic("c", COUNT))
    rig.publish(Publish("p", "counted", {"vote": 3.0}, 1))
    rig.processors.process(outputs=2 * TURN + 1)
    rig.topics.tick(rig.now)
    rig.processors.checkpoint()
    rig.topics.tick(rig.now)
    rig.topics.tick(rig.now)
    delivered = rig.plane.counters["overlay_delivered"]
    turns = 0
    while rig.plane.counters["overlay_delivered"] < delivered + 2 * TURN + 1:
        rig.plane.tick(rig.now)
        turns += 1
    assert turns >= 3
    rig.let_pass(1.0)  # beyond a window nothing waits for the disk
    assert len(rig.disk.positions) == 2 * TURN + 2


def test_outputs_that_the_disk_refuses_are_put_out_later_once(rig):
    rig.operate(CreateTopic("c", COUNT))
    rig.publish(Publish("p", "counted", {"vote": 3.0}, 1))
    rig.processors.process()
    rig.let_pass()
    rig.disk.full = True
    rig.processors.checkpoint()
    rig.let_pass()
    rig.let_pass(3 * RETRY_S)
    assert rig.put_out() == []
    rig.disk.full = False
    for _ in range(4):
        rig.let_pass(RETRY_S)
    assert [each.attributes["at"] for each in rig.put_out()] == [1]


def test_after_a_kill_the_processor_goes_on_from_its_state(rig):
    rig.operate(CreateTopic("c", COUNT))
    for sequence in (1, 2):
        rig.publish(Publish("p", "counted", {"vote": sequence}, sequence))
    rig.processors.process()
    rig.let_pass()
    rig.processors.checkpoint()
    rig.let_pass()
    rig.processors.process()  # and nothing of it was written
    rig.start(Documents(rig.now))
    rig.let_pass()
    (started,) = rig.processors.started
    assert (started.progress.position, started.progress.state) == (1, b"state")
    assert [each.position for each in rig.processors.fed] == [2]
    rig.processors.process()
    rig.let_pass()
    rig.processors.checkpoint()
    rig.let_pass()
    rig.ask(Subscribe("s", 'kind = "output"', durable=True, after=0))
    rig.let_pass()
    assert [each.attributes["at"] for each in rig.put_out()] == [1, 2]


def test_an_older_copy_of_the_disk_gives_no_number_to_two_outputs(rig):
    """Subscribers' masters would take the later one for the one that they had."""
    rig.operate(CreateTopic("c", COUNT))

    def put_out(*sequences):
        rig.public.replies.clear()
        for sequence in sequences:
            rig.publish(Publish("p", "counted", {"vote": sequence}, sequence))
            rig.processors.process()
            rig.let_pass()
            rig.processors.checkpoint()
            rig.let_pass()
        return {each.origin for each in rig.put_out()}

    put_out(1)
    copy = deepcopy(rig.disk)
    known = put_out(2, 3)
    assert len(known) == 2
    rig.disk, rig.wall_s = copy, rig.wall_s + 60.0
    rig.start(Documents(rig.now))
    rig.let_pass()
    rig.ask(Subscribe("s", 'kind = "output"', durable=True, after=1))
    later = put_out(4, 5)
    assert (len(later), later & known) == (2, set())


@pytest.mark.parametrize("epoch", [0, 1, 1 << 31, 1 << 45, 1 << 60])
def test_numbers_after_a_start_are_such_as_can_be_told(epoch):
    kept = Progress("i", put_out=1 << 20)
    begun = after_a_start(kept, epoch)
    assert kept.put_out <= begun.put_out < MAX_REACHED
    assert after_a_start(begun, epoch) == begun


def test_what_a_removed_topic_still_had_to_put_out_leaves_its_successor_alone(rig, monkeypatch):
    rig.operate(CreateTopic("c", COUNT))
    monkeypatch.setattr(type(rig.plane._spool), "has_room_for", lambda *_: False)
    rig.publish(Publish("p", "counted", {"vote": 3.0}, 1))
    rig.processors.process()
    rig.let_pass()
    rig.processors.checkpoint()
    rig.let_pass()
    rig.operate(RemoveTopic("r", "counted"))
    rig.operate(CreateTopic("c", COUNT))
    created = rig.disk.topics["counted"].progress
    monkeypatch.undo()
    for _ in range(3):
        rig.let_pass(1.0)
    assert rig.put_out() == []
    assert rig.disk.topics["counted"].progress == created


def test_an_inbox_that_a_kill_left_is_ended_at_the_start(rig):
    rig.operate(CreateTopic("c", NOTES))
    assert rig.plane.inboxes.kept_for("topic/")
    rig.start()  # without its document
    rig.let_pass(2.0)
    assert rig.plane.inboxes.kept_for("topic/") == []
    assert rig.disk.topics == {}
