"""Raised triggers beside a plain replay of the events in their own order."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from agent.alerts.raised_triggers import MAX_TRIGGERS, NodeTriggers, RaisedTriggers
from agent.wire.operator import NodeAlert
from agent.wire.records import NodeEventRecord


def event(sequence, kind, trigger="hot", *, history="h"):
    return NodeEventRecord(
        iad="iad1", wall_ms=0, start_s=0.0, node="n1", history=history, sequence=sequence,
        kind=kind, time_ms=1_000 + sequence, synchronised=sequence % 2 == 0, sensor="desk",
        channel="temperature", text=f"at {sequence}", trigger=trigger, areas=("b1/r1",),
    )  # fmt: skip


def alert(told):
    return NodeAlert(told.trigger, told.areas, told.time_ms, told.synchronised, told.text)


KINDS = ["trigger_raised", "trigger_cleared", "agent_started", "fault_began"]
STORIES = st.lists(
    st.tuples(st.sampled_from(KINDS), st.sampled_from(["hot", "damp"])), max_size=12
).map(lambda story: [event(i, *each) for i, each in enumerate(story)])


@given(STORIES.flatmap(lambda story: st.tuples(st.just(story), st.permutations(story))), st.data())
def test_events_in_any_order_and_twice_leave_raised_what_is(stories, data):
    story, shuffled = stories
    triggers = RaisedTriggers()
    for each in [*shuffled, *shuffled[:3]]:
        triggers.take([each])
        if data.draw(st.booleans()) and each.kind.startswith("trigger_"):  # the master is killed
            body = msgspec.msgpack.encode(triggers.of("n1"))
            triggers = RaisedTriggers()
            triggers.restore("n1", msgspec.msgpack.decode(body, type=NodeTriggers))
    last = {e.trigger: e for e in story if e.kind.startswith("trigger_")}
    expected = [alert(e) for e in last.values() if e.kind == "trigger_raised"]
    assert triggers.open("n1") == tuple(sorted(expected, key=lambda each: each.since_ms))


def test_a_history_that_begins_knows_nothing_of_the_one_before():
    triggers = RaisedTriggers()
    triggers.take([event(900, "trigger_raised")])
    assert triggers.take([event(1, "trigger_cleared", "damp", history="new")]) == {"n1"}
    assert triggers.open("n1") == ()


def test_of_too_many_the_cleared_ones_are_forgotten():
    triggers = RaisedTriggers()
    triggers.take([event(0, "trigger_raised", "first"), event(1, "trigger_cleared", "second")])
    triggers.take([event(2 + i, "trigger_raised", f"t{i}") for i in range(MAX_TRIGGERS - 1)])
    assert len(triggers.of("n1").changes) == MAX_TRIGGERS
    assert triggers.open("n1")[0].trigger == "first"


def test_what_is_no_triggers_changes_nothing():
    assert RaisedTriggers().take([event(0, "agent_started"), event(1, "fault_began")]) == set()
    assert RaisedTriggers().open("n1") == ()
