"""What is kept of nodes' events, after a restart and after a kill."""

from __future__ import annotations

import msgspec

from agent.alerts.event_state import FAULTS, RECORDED, TRIGGERS, EventState, SaveNodeState
from agent.wire.node_messages import NodeEvent, NodeEvents
from agent.wire.operator import NodeAlert, NodeFault
from agent.wire.records import NodeEventRecord

FAULT = NodeFault("desk", "temperature", 1_003, True, "spike: 80 celsius")
ALERT = NodeAlert("hot", ("b1/r1",), 1_004, True, "31 celsius")


def record(sequence, kind, text, trigger="", areas=()):
    return NodeEventRecord(
        "iad1", 5_000, 1.0, "n1", "h", sequence, kind, 1_000 + sequence, True,
        "desk", "temperature", text, trigger=trigger, areas=areas,
    )  # fmt: skip


RECORDS = [
    record(3, "fault_began", FAULT.text),
    record(4, "trigger_raised", ALERT.text, "hot", ALERT.areas),
]
LINES = [msgspec.json.encode(each) for each in RECORDS]


def message(*sequences, oldest=0):
    events = tuple([NodeEvent(each, "fault_began", 1, True) for each in sequences])
    return NodeEvents("boot", "h", events, oldest=oldest)


def assert_whole(state):
    assert [state.knows("n1", "h", each) for each in (2, 3, 4, 5)] == [False, True, True, False]
    assert state.faults("n1") == (FAULT,)
    assert state.raised("n1") == (ALERT,)


def test_what_is_written_is_what_a_restart_needs():
    state = EventState()
    written = state.recorded([("n1", message(3, 4))], RECORDS)
    assert [(each.kind, each.node) for each in written] == [
        (RECORDED, "n1"),
        (FAULTS, "n1"),
        (TRIGGERS, "n1"),
    ]
    assert_whole(state)
    assert_whole(EventState(written))


def test_a_message_without_news_moves_the_mark_alone():
    state = EventState()
    state.recorded([("n1", message(3, 4))], RECORDS)
    [window] = state.recorded([("n1", message(4, oldest=4))], [])
    assert window.kind == RECORDED
    assert EventState([window]).knows("n1", "h", 0)


def test_what_was_not_written_before_a_kill_is_in_the_records():
    state = EventState()
    written = state.recover([LINES[0], b'{"record":"node_event","torn', LINES[1]])
    assert_whole(state)
    assert_whole(EventState(written))
    # What is known is no news, and is not given to faults and triggers again.
    assert state.recover(LINES) == []


def test_of_two_files_either_will_do():
    written = EventState().recorded([("n1", message(3))], RECORDS[:1])
    state = EventState(written)
    assert [each.kind for each in state.recover(LINES)] == [RECORDED, TRIGGERS]
    assert_whole(state)


def test_documents_of_a_later_version_are_passed_over():
    written = EventState().recorded([("n1", message(3, 4))], RECORDS)
    later = [SaveNodeState(kind, "n2", b"\xc1") for kind in (RECORDED, FAULTS, TRIGGERS, "node_x")]
    assert_whole(EventState([*later, *written]))
