"""A small state comes along with each message, so that its processor is tied to no worker."""

from __future__ import annotations

import msgspec
import pytest

from agent.processing.dispatch import MOVE_AFTER_S
from agent.processing.events import Checkpoint, HandOver, Load, Remove, Run, TakeCheckpoint
from tests.processing.rig import Rig

SMALL = 1_000
LOAD_S = 0.002


def rig_of(*names: str, workers: int = 1, **limits: object) -> Rig:
    rig = Rig(workers, small=SMALL)
    for name in names:
        rig.create(name, **limits)
    return rig


def crowded() -> tuple[Rig, int]:
    """Two processors at one worker, which runs a's message while b waits; the other is idle."""
    rig = Rig(2, small=SMALL)
    for name in ("a", "x", "b"):
        rig.create(name, load=False, wall_s=100.0)
        rig.now += LOAD_S
        rig.work()
    rig.handle(Remove("x"))
    assert rig.status("a").worker == rig.status("b").worker
    home = rig.status("a").worker
    rig.arrive("b", 1)
    rig.work()
    rig.arrive("a", 1)
    rig.arrive("b", 2)
    return rig, home


def test_it_waits_for_a_busy_worker_as_long_as_it_takes_to_be_built_and_then_moves():
    rig, home = crowded()
    assert rig.processing.next_due == pytest.approx(rig.now + LOAD_S)
    rig.sleep_until_due()
    assert isinstance(rig.requests[3 - home], Load)
    while rig.requests[3 - home] is not None:
        rig.answer(3 - home)
    assert isinstance(rig.requests[home], Run)  # a's message goes on
    assert rig.outputs("b") == [(1, [1]), (2, [1, 2])]
    assert rig.status("b").counters.replayed == 0
    assert rig.status("b").worker == 3 - home


def test_one_that_takes_long_to_be_built_waits_as_others_do():
    rig, _ = crowded()
    rig.processing._processors["b"].load_s = 30.0
    rig.sleep(0.0)
    assert rig.processing.next_due == pytest.approx(rig.now + MOVE_AFTER_S)


def test_a_checkpoint_needs_no_word_of_the_worker():
    rig = rig_of("a")
    rig.arrive("a", 1)
    rig.work()
    assert rig.saved == []
    rig.order.clear()
    rig.handle(TakeCheckpoint("a"))
    assert rig.order == []
    assert rig.saved[-1].checkpoint == Checkpoint(1, 1, msgspec.msgpack.encode([1]))
    assert rig.processing.next_due is None


def test_a_checkpoint_that_is_asked_for_during_a_message_covers_it():
    rig = rig_of("a")
    rig.arrive("a", 1)
    rig.handle(TakeCheckpoint("a"))
    assert rig.saved == []
    rig.work()
    assert [save.checkpoint.position for save in rig.saved] == [1]
    assert rig.order == ["Load a", "Run a"]


def test_its_topic_gets_a_checkpoint_every_so_many_messages():
    rig = rig_of("a", checkpoint_messages=3)
    for position in range(1, 8):
        rig.arrive("a", position)
    rig.work()
    assert [save.checkpoint.position for save in rig.saved] == [3, 6]


def test_its_topic_gets_a_checkpoint_every_so_many_seconds_also_after_it_lost_its_worker():
    rig = rig_of("a", checkpoint_s=5.0)
    rig.arrive("a", 1)
    rig.work()
    rig.die(1)
    rig.sleep(1.0)  # it was the last that the worker served
    rig.work()
    assert rig.saved == []
    rig.sleep(5.0)
    rig.work()
    assert [save.checkpoint.position for save in rig.saved] == [1]
    assert rig.processing.next_due is None


def test_a_neighbour_of_one_that_kills_its_worker_does_nothing_again():
    rig = rig_of("a", "b")
    rig.arrive("b", 1)
    rig.work()
    rig.arrive("a", 1)
    rig.die(1)
    rig.sleep(10.0)
    rig.work()
    rig.arrive("b", 2)
    rig.work()
    assert rig.outputs("b") == [(1, [1]), (2, [1, 2])]
    assert rig.status("b").counters.replayed == 0


def test_a_state_that_grows_stays_with_its_worker():
    rig = Rig(small=3)
    rig.create("a")
    for position in (1, 2, 3, 4):
        rig.arrive("a", position)
    rig.work()
    rig.handle(TakeCheckpoint("a"))
    rig.work()
    assert rig.order[-1] == "TakeSnapshot a"
    assert msgspec.msgpack.decode(rig.saved[-1].checkpoint.state) == [1, 2, 3, 4]


def test_one_that_moves_while_a_message_runs_is_handed_over_after_it():
    rig = rig_of("a")
    rig.arrive("a", 1)
    rig.arrive("a", 2)
    rig.handle(HandOver("a"))
    rig.work()
    (handed,) = rig.handed
    assert handed.checkpoint == Checkpoint(1, 1, msgspec.msgpack.encode([1]))
    assert [each.position for each in handed.messages] == [2]


def test_a_state_above_its_limit_is_a_failure():
    rig = rig_of("a", state_bytes=1_024)
    rig.small = 10_000
    for position in range(10_000, 10_500):
        rig.arrive("a", position)
        rig.work()
    assert "its state takes" in rig.status("a").last_failure
