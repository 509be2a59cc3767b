"""Open faults beside a plain replay of the events in their own order."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from agent.alerts.open_faults import MAX_CHANNELS, NodeFaults, OpenFaults
from agent.wire.operator import NodeFault
from agent.wire.records import NodeEventRecord

KINDS = ["fault_began", "fault_changed", "fault_ended", "agent_started", "clock_corrected"]


def event(sequence, kind, channel="temperature", *, history="h", node="n1", text=None):
    about = kind.startswith("fault_")
    return NodeEventRecord(
        iad="iad1", wall_ms=0, start_s=0.0, node=node, history=history, sequence=sequence,
        kind=kind, time_ms=1_000 + sequence, synchronised=sequence % 2 == 0,
        sensor="desk" if about else "", channel=channel if about else "",
        text=f"at {sequence}" if text is None else text,
    )  # fmt: skip


def replayed(events):
    """By channel, what was told of it since it was good last."""
    told: dict[str, list[NodeEventRecord]] = {}
    for each in sorted(events, key=lambda each: each.sequence):
        if each.kind == "agent_started":
            told.clear()
        elif each.kind == "fault_ended":
            told.pop(each.channel, None)
        elif each.kind.startswith("fault_"):
            told.setdefault(each.channel, []).append(each)
    return told


STORIES = st.lists(
    st.tuples(st.sampled_from(KINDS), st.sampled_from(["temperature", "humidity"])), max_size=12
).map(lambda story: [event(3 * i, *each) for i, each in enumerate(story)])


@given(STORIES)
def test_events_in_their_order_leave_open_what_has_not_ended(story):
    faults = OpenFaults()
    for each in story:
        faults.take([each])
    expected = [
        NodeFault("desk", channel, told[0].time_ms, told[0].synchronised, f"at {told[-1].sequence}")
        for channel, told in replayed(story).items()
    ]
    assert faults.open("n1") == tuple(sorted(expected, key=lambda fault: fault.since_ms))


@given(STORIES.flatmap(lambda story: st.tuples(st.just(story), st.permutations(story))))
def test_events_in_any_order_and_twice_leave_open_the_same(stories):
    story, shuffled = stories
    faults = OpenFaults()
    for each in shuffled:
        faults.take([each])
        # A restart of the master between any two.
        body = msgspec.msgpack.encode(faults.of("n1")) if "n1" in faults.take([each]) else None
        if body is not None:
            faults = OpenFaults()
            faults.restore("n1", msgspec.msgpack.decode(body, type=NodeFaults))
    expected = replayed(story)
    assert {fault.channel for fault in faults.open("n1")} == expected.keys()
    for fault in faults.open("n1"):
        told = expected[fault.channel]
        assert fault.text == f"at {told[-1].sequence}"
        assert fault.since_ms in [each.time_ms for each in told]


def test_a_live_event_that_overtakes_the_backlog_changes_no_beginning():
    faults = OpenFaults()
    faults.take([event(9, "fault_changed"), event(7, "fault_began")])
    assert faults.open("n1") == (NodeFault("desk", "temperature", 1_007, False, "at 9"),)
    faults.take([event(5, "fault_ended"), event(4, "fault_began")])
    assert faults.open("n1") == (NodeFault("desk", "temperature", 1_007, False, "at 9"),)


def test_a_fault_that_ended_before_its_beginning_arrived_stays_ended_past_an_older_start():
    faults = OpenFaults()
    for late in (event(10, "fault_ended"), event(8, "agent_started"), event(9, "fault_began")):
        faults.take([late])
    assert faults.open("n1") == ()


def test_a_fault_outlives_the_history_in_which_it_began():
    faults = OpenFaults()
    faults.take([event(70, "fault_began"), event(71, "fault_began", "humidity")])
    faults.take([event(1, "fault_changed", history="new"), event(2, "history_damaged")])
    assert [(f.channel, f.since_ms, f.text) for f in faults.open("n1")] == [
        ("temperature", 1_070, "at 1"), ("humidity", 1_071, "at 71"),
    ]  # fmt: skip
    faults.take([event(3, "fault_ended", history="new")])
    faults.take([event(4, "fault_ended", "humidity", history="new")])
    assert faults.open("n1") == ()


def test_another_card_begins_with_no_faults():
    faults = OpenFaults()
    faults.take([event(70, "fault_began")])
    faults.take([event(1, "agent_started", history="another")])
    assert faults.open("n1") == ()


def test_nodes_do_not_share_faults_and_nothing_is_known_of_others():
    faults = OpenFaults()
    changed = faults.take(
        [event(1, "fault_began"), event(1, "clock_corrected", node="n3"),
         event(2, "fault_began", node="n2")]
    )  # fmt: skip
    assert changed == {"n1", "n2"}
    assert [f.since_ms for f in faults.open("n2")] == [1_002]
    assert faults.open("n3") == ()


def test_what_is_kept_of_a_node_is_bounded_and_open_faults_stay_longest():
    faults = OpenFaults()
    faults.take([event(0, "fault_began", "first")])
    for number in range(1, 2 * MAX_CHANNELS):
        faults.take([event(2 * number, "fault_began", f"c{number}")])
        faults.take([event(2 * number + 1, "fault_ended", f"c{number}")])
    assert len(faults.of("n1").channels) == MAX_CHANNELS
    assert [f.channel for f in faults.open("n1")] == ["first"]
