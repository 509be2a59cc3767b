"""The state of a processor: when it is kept, and how it is handed over with what waits."""

from __future__ import annotations

import msgspec
import pytest

from agent.processing.events import (
    Arrived,
    Checkpoint,
    Enable,
    HandOver,
    Message,
    Remove,
    TakeCheckpoint,
)
from tests.processing.rig import Rig, body, rig_of

# --- checkpoints --------------------------------------------------------------------------------


def test_state_is_kept_every_so_many_messages():
    rig = rig_of("a", checkpoint_messages=3)
    for position in range(1, 8):
        rig.arrive("a", position)
    rig.work()
    assert [save.checkpoint.position for save in rig.saved] == [3, 6]
    assert msgspec.msgpack.decode(rig.saved[-1].checkpoint.state) == [1, 2, 3, 4, 5, 6]


def test_state_is_kept_every_so_many_seconds_if_there_is_news():
    rig = rig_of("a", checkpoint_s=5.0)
    rig.arrive("a", 1)
    rig.work()
    rig.sleep(4.9)
    rig.work()
    assert rig.saved == []
    rig.sleep(0.1)
    rig.work()
    assert [save.checkpoint.position for save in rig.saved] == [1]
    assert rig.processing.next_due is None


def test_state_is_kept_at_request():
    rig = rig_of("a")
    rig.handle(TakeCheckpoint("a"))
    assert rig.saved[-1].checkpoint == Checkpoint()
    rig.arrive("a", 1)
    rig.handle(TakeCheckpoint("a"))
    rig.work()
    assert rig.saved[-1].checkpoint.position == 1


def test_a_processor_goes_on_from_a_checkpoint():
    rig = rig_of("a")
    for position in (1, 2):
        rig.arrive("a", position)
    rig.work()
    rig.handle(TakeCheckpoint("a"))
    rig.work()
    rig.arrive("a", 3)
    rig.work()
    stored = msgspec.msgpack.decode(
        msgspec.msgpack.encode(rig.saved[-1].checkpoint), type=Checkpoint
    )
    again = Rig()
    again.create("a", checkpoint=stored, epoch=4)
    for position in (1, 2, 3, 4):  # the spool sends what it does not know to be kept
        again.arrive("a", position)
    again.work()
    assert again.outputs("a") == [(3, [1, 2, 3]), (4, [1, 2, 3, 4])]
    assert {emit.epoch for emit in again.emitted} == {4}


def test_a_state_that_is_too_large_is_a_failure():
    rig = rig_of("a", state_bytes=1_024, checkpoint_messages=1_000)
    for position in range(10_000, 10_500):
        rig.arrive("a", position)
    rig.work()
    rig.handle(TakeCheckpoint("a"))
    rig.work()
    assert rig.state("a") == "backing_off"
    assert "at most 1024 are allowed" in rig.reports[0].text
    assert rig.saved == []


# --- handing over -------------------------------------------------------------------------------


def test_what_is_handed_over_goes_on_elsewhere():
    rig = rig_of("a")
    for position in (1, 2, 3):
        rig.arrive("a", position)
    rig.answer(1)
    rig.handle(HandOver("a"))
    rig.work()
    (handed,) = rig.handed
    assert handed.checkpoint.position == handed.checkpoint.emitted == 2
    assert handed.messages == (Message(3, body(3)),)
    target = Rig()
    target.create("a", checkpoint=handed.checkpoint, epoch=1)
    for message in handed.messages:
        target.arrive("a", message.position)
    target.work()
    assert rig.outputs("a") + target.outputs("a") == [(1, [1]), (2, [1, 2]), (3, [1, 2, 3])]


@pytest.mark.parametrize("state", ["loading", "ready", "running", "backing_off", "disabled"])
def test_a_processor_can_be_handed_over_in_every_state(state):
    rig = rig_of("a", failures=1 if state == "disabled" else 10)
    rig.arrive("a", 1)
    rig.work()
    rig.arrive("a", 2)
    match state:
        case "loading":
            rig.die(1)
            rig.sleep(1.0)
        case "ready":
            rig.work()
        case "backing_off" | "disabled":
            rig.fail(1)
    assert rig.state("a") == state
    rig.handle(HandOver("a"))
    rig.work()
    (handed,) = rig.handed
    target = Rig()
    target.create("a", checkpoint=handed.checkpoint)
    for message in handed.messages:
        target.arrive("a", message.position)
    target.work()
    assert (rig.outputs("a") + target.outputs("a"))[-1] == (2, [1, 2])
    assert len(rig.outputs("a") + target.outputs("a")) == 2
    assert rig.processing.status(rig.now) == []


def test_one_that_fails_while_it_is_handed_over_is_handed_over_all_the_same():
    rig = rig_of("a")
    rig.arrive("a", 1)
    rig.handle(HandOver("a"))
    rig.die(1)
    (handed,) = rig.handed
    assert handed.checkpoint == Checkpoint()
    assert handed.messages == (Message(1, body(1)),)


def test_one_that_is_removed_leaves_nothing_behind():
    for answer in (True, False):
        rig = rig_of("a", "b")
        rig.arrive("a", 1)
        rig.arrive("b", 1)
        rig.handle(Remove("a"))
        if answer:
            rig.answer(1)
        rig.work()
        rig.arrive("a", 2)
        rig.handle(Remove("a"))
        rig.handle(HandOver("a"))
        rig.handle(TakeCheckpoint("a"))
        rig.handle(Enable("a"))
        assert rig.outputs("a") == []
        assert rig.outputs("b") == [(1, [1])]
        assert [s.processor for s in rig.processing.status(rig.now)] == ["b"]
        rig.create("a")
        rig.arrive("a", 1)
        rig.work()
        assert rig.outputs("a") == [(1, [1])]


def test_what_was_skipped_stays_skipped_at_the_next_owner():
    rig = rig_of("a", attempts=1)
    rig.arrive("a", 1)
    rig.fail(1)
    rig.arrive("a", 2)
    rig.handle(HandOver("a"))
    (handed,) = rig.handed
    assert handed.messages == (Message(1, b""), Message(2, body(2)))
    target = Rig()
    target.create("a", checkpoint=handed.checkpoint)
    for message in handed.messages:
        target.handle(Arrived("a", message.position, message.body))
    target.arrive("a", 1)
    target.work()
    assert target.outputs("a") == [(2, [2])]
    assert target.reports == []
