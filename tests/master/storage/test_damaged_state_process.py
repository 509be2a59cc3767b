"""A real master whose state has documents that cannot be read."""

import msgspec
import pytest

from agent.client.operator import Operator
from agent.master.storage.state import State
from agent.wire.topics import CreateTopic, RemoveTopic, Topic
from testkit.waiting import PATIENCE_S

# Each of what keeps documents, and whether a line says that one is left out.
KINDS = {
    "clone": True,
    "clone_naming": False,
    "clone_taken": False,
    "derived": False,
    "last_values": False,
    "member_terms": True,
    "node": True,
    "overlay_epoch": False,
    "placement_mode": True,
    "placement_pin": True,
    "pods": True,
    "standby": True,
    "taken_over": True,
    "topic": True,
    "watch": True,
}


def stored(master, documents):
    state = State(master.folder / "state.sqlite", lambda: 0.0)
    for (kind, key), body in documents.items():
        state.put(kind, key, body)
    state.close()


@pytest.mark.parametrize("body", [b"\xc1", b""])
def test_it_starts_and_each_part_says_what_it_left_out(master, body):
    master.stop()
    keys = {"placement_mode": "mode", "placement_pin": "processor/x", "watch": "/x"}
    stored(master, {(kind, keys.get(kind, "x")): body for kind in KINDS})
    master.start()
    status, said = master.stop()
    assert status == 0
    assert "Traceback" not in said
    told = {line.split()[2] for line in said.splitlines() if "is left out: " in line}
    # No bytes at all are no mode, and no master to be pinned to.
    empty = set() if body else {"placement_mode", "placement_pin"}
    assert told == {kind for kind, is_told in KINDS.items() if is_told} - empty


def test_a_topic_of_whose_standby_nothing_is_known_rests_until_it_is_removed(master):
    """The standby may have taken it over."""
    master.stop()
    topic = Topic("t", standby=True)
    stored(master, {("topic", "t"): msgspec.msgpack.encode(topic), ("standby", "t"): b"\xc1"})
    master.start()
    with Operator(master.operator) as operator:
        assert not operator.ask_topic(CreateTopic("1", Topic("t")), PATIENCE_S * 1e3).ok
        assert operator.ask_topic(RemoveTopic("2", "t"), PATIENCE_S * 1e3).ok
        assert operator.ask_topic(CreateTopic("3", Topic("t")), PATIENCE_S * 1e3).ok
    status, said = master.stop()
    assert status == 0
    assert "topic t on disk cannot be read and is left out: what is kept of its standby" in said
