"""Outputs of topics at a push plane: in order, withheld, left to the master of the topic."""

from __future__ import annotations

import pytest

from agent.master.push import push_plane
from agent.master.push.push_plane import TURN
from agent.master.push.topic_spool import LOOK_S
from agent.topics.contents import outputs_of
from agent.topics.events import Progress
from agent.wire.push import Notified
from agent.wire.topics import Topic
from tests.master import push_plane_rig
from tests.master.push_plane_rig import numbers

rig = push_plane_rig.rig


def outputs(first, count):
    """Of a topic, as its processor makes them."""
    progress = Progress("inc", put_out=first)
    made = [(0, {"n": float(n)}) for n in range(first, first + count)]
    return outputs_of("iad1", Topic("t"), progress, made)


def put_out(rig, first, count):
    done = []
    after = Progress("inc", put_out=first + count)
    made = outputs(first, count)
    assert rig.plane.topics.release("t", after, made, lambda: done.append(True))
    rig.let_pass()
    assert done


def test_outputs_that_are_withheld_leave_later_in_their_order(rig):
    rig.subscribe('topic = "t"', durable=False)
    held = {"t"}
    rig.plane.topics.withholds = lambda each: each.attributes.get("topic") in held
    put_out(rig, 0, TURN + 3)
    rig.let_pass(1.0)
    assert not rig.received(Notified)
    assert rig.plane.spooled == TURN + 3
    # Alerts of nodes go on.
    assert rig.alert(1)
    rig.let_pass()
    put_out(rig, TURN + 3, 2)
    held.clear()
    put_out(rig, TURN + 5, 2)
    rig.let_pass(LOOK_S)
    assert numbers(rig) == [float(n) for n in range(TURN + 7)]
    assert rig.plane.spooled == 0


def test_outputs_for_many_subscriptions_take_many_turns(rig, monkeypatch):
    monkeypatch.setattr(push_plane, "DELIVERIES", 6)
    for name in "abc":
        rig.subscribe('topic = "t"', name=name, durable=False)
    after = Progress("inc", put_out=7)
    assert rig.plane.topics.release("t", after, outputs(0, 7), lambda: None)
    each_turn = []
    while (due := rig.plane.next_due) is not None and due <= rig.now:
        before = rig.plane.counters["notifications_sent"]
        rig.plane.tick(rig.now)
        each_turn.append(rig.plane.counters["notifications_sent"] - before)
    assert [each for each in each_turn if each] == [6, 6, 6, 3]


def test_after_a_restart_what_is_spooled_of_a_topic_may_have_to_wait(rig):
    held = rig.plane.topics.withholds = lambda _: True
    put_out(rig, 0, 2)
    rig.keep()
    rig.start()
    rig.plane.topics.withholds = held
    rig.subscribe('topic = "t"', durable=False)
    rig.let_pass(10.0)
    assert not rig.received(Notified)
    rig.plane.topics.withholds = lambda _: False
    for _ in range(70):
        rig.let_pass(1.0)
    assert numbers(rig) == [0.0, 1.0]


@pytest.mark.parametrize("restarts", [False, True])
def test_nothing_leaves_of_a_topic_that_another_master_has(rig, restarts):
    rig.plane.topics.withholds = lambda _: True
    put_out(rig, 0, 3)
    rig.keep()
    if restarts:
        rig.start()
        rig.plane.topics.withholds = lambda _: True
    rig.subscribe('topic = "t"', durable=False)
    left = []
    rig.plane.topics.when_left("t", "inc", lambda: left.append(True))
    rig.plane.topics.disown("t", "another")
    assert rig.plane.spooled == 3
    rig.plane.topics.disown("t", "inc")
    rig.plane.topics.withholds = lambda _: False
    rig.let_pass(1.0)
    assert left
    assert rig.plane.spooled == 0
    assert rig.keep()
    assert not rig.disk.load()[0].spooled
    assert not rig.received(Notified)


def test_what_is_taken_over_leaves_half_of_the_spool_to_alerts(rig):
    assert rig.plane.topics.has_room_for(())
    rig.plane.topics.withholds = lambda _: True
    put_out(rig, 0, 1)
    assert rig.plane.topics.has_room_for(outputs(1, 10))
    assert not rig.plane.topics.has_room_for(outputs(1, 5_000))
