"""A real master takes over the events of fake nodes: on disk before it says so, and once."""

from __future__ import annotations

import signal

import pytest
import zmq
from msgspec.structs import replace

from agent.wire.codec import Decoder, encode
from agent.wire.node_messages import (
    EventsTaken,
    HelloWanted,
    MasterMessage,
    NodeEvent,
    NodeEvents,
    Welcome,
)
from agent.wire.operator import NodeAlert, NodeFault
from agent.wire.records import NodeEventRecord, decode_record
from tests.master.rig import PATIENCE_MS


def events(*sequences, history="history", **fields):
    made = [
        NodeEvent(number, "fault_began", 1_000 + number, True, "dht", "temperature", "spike")
        for number in sequences
    ]
    return NodeEvents("boot-n1", history, tuple(made), **fields)


def hand_over(node, message):
    """Send events and await that they are taken; nothing is acknowledged before it is asked."""
    node.send(message)
    taken = node.receive()
    assert taken == EventsTaken(
        message.incarnation, message.history, tuple(event.sequence for event in message.events)
    )


def recorded(master):
    """What the records hold of events, in the order written."""
    lines = (master.folder / "records" / "current.jsonl").read_bytes().splitlines()
    found = [decode_record(line) for line in lines]
    return [(r.history, r.sequence) for r in found if isinstance(r, NodeEventRecord)]


def test_an_event_is_a_record_before_it_is_acknowledged(master, join):
    node = join(master)
    hand_over(node, events(7))
    line = (master.folder / "records" / "current.jsonl").read_bytes()
    record = decode_record(line)
    assert record == NodeEventRecord(
        "iad1", record.wall_ms, record.start_s, "n1", "history", 7, "fault_began", 1_007, True,
        "dht", "temperature", "spike",
    )  # fmt: skip


def test_the_record_of_a_trigger_says_which_what_and_where(master, join):
    node = join(master)
    told = events(7)
    hot = replace(told.events[0], trigger="hot", value=31.25, areas=("b1/f4/r1", "b1/f4/r2"))
    hand_over(node, replace(told, events=(hot,)))
    record = decode_record((master.folder / "records" / "current.jsonl").read_bytes())
    assert (record.trigger, record.value, record.areas) == (hot.trigger, hot.value, hot.areas)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_a_master_that_was_started_again_knows_what_it_took(master, join, how):
    node = join(master)
    # Live ones first, and then the backlog from before the welcome.
    hand_over(node, events(900, oldest=3, backlog=3))
    hand_over(node, events(3, 4, oldest=3, backlog=2))
    master.stop(how)
    master.start()
    again = join(master)
    hand_over(again, events(3, 4, 5, oldest=3))
    hand_over(again, events(900, 901, oldest=900))
    # Another card in the same node counts from the start again.
    hand_over(again, events(3, history="another"))
    assert recorded(master) == [
        *[("history", number) for number in (900, 3, 4, 5, 901)], ("another", 3),
    ]  # fmt: skip
    counters = master.status().counters
    assert (counters["node_events"], counters["node_events_repeated"]) == (3, 3)


def test_a_welcome_says_what_is_known_of_the_history(master, join):
    node = join(master)
    hand_over(node, events(900, oldest=3, backlog=3))
    node.send(node.hello)
    known = Welcome("boot-n1", 1.0, takes_events=True, events_to=900, events_settled=3)
    assert node.receive() == known
    node.send(replace(node.hello, history="another"))
    assert node.receive() == Welcome("boot-n1", 1.0, takes_events=True)


def test_events_that_come_together_are_one_batch(master, join):
    node = join(master)
    for number in range(50):
        node.send(events(number))
    node.send(events(0))
    taken = [node.receive().sequences for _ in range(51)]
    assert taken == [*[(number,) for number in range(50)], (0,)]
    assert recorded(master) == [("history", number) for number in range(50)]


def test_what_the_disk_refuses_is_not_acknowledged(master, join):
    node = join(master)
    current = master.folder / "records" / "current.jsonl"
    current.mkdir()
    node.send(events(1, 2))
    master.wait_until(lambda status: status.counters["node_events_refused"] == 2)
    current.rmdir()
    # Nothing was said of the first two.
    hand_over(node, events(2, 3))
    hand_over(node, events(1))
    assert recorded(master) == [("history", number) for number in (2, 3, 1)]
    code, said = master.stop()
    assert code == 0
    refused, again = said.splitlines()
    assert "takes no events now" in refused
    assert again.endswith("takes events again")


def test_a_master_without_records_leaves_events_where_they_are(master, join):
    master.stop()
    master.config.write_text(master.config.read_text() + 'directory = ""\n')
    master.start()
    node = join(master)
    node.send(replace(node.hello))
    assert node.receive() == Welcome("boot-n1", 1.0, takes_events=False)
    node.send(events(1))
    status = master.wait_until(lambda status: status.nodes[0].state == "live")
    assert status.counters["node_events"] == 0
    node.send(replace(node.hello))
    assert isinstance(node.receive(), Welcome), "it acknowledged what it cannot keep"


def test_the_status_tells_what_waits_at_the_nodes(master, join):
    node = join(master)
    hand_over(node, events(5, backlog=40, dropped=2))
    (status,) = master.status().nodes
    assert (status.events_waiting, status.events_dropped) == (40, 2)


def joined_again(master, join):
    """A node after each restart of a master that was killed: either file that it keeps will do."""
    for lost in ("nothing", "state.sqlite*", "state-notifications.sqlite*", "records/*"):
        master.stop(signal.SIGKILL)
        for path in master.folder.glob(lost):
            path.unlink()
        master.start()
        yield join(master)


def test_the_status_tells_which_faults_are_open_before_and_after_a_restart(master, join):
    def happened(sequence, kind, channel="temperature", text=""):
        event = NodeEvent(sequence, kind, 1_000 + sequence, True, "desk", channel, text)
        hand_over(node, NodeEvents("boot-n1", "history", (event,)))

    node = join(master)
    happened(9, "fault_changed", text="no_response: the port is gone")
    happened(8, "fault_began", text="spike: 80 celsius")
    happened(10, "fault_began", "humidity", "flatline: 50 %")
    happened(11, "fault_ended", "humidity", "flatline: over after 3 s")
    fault = NodeFault("desk", "temperature", 1_008, True, "no_response: the port is gone")
    assert master.status().nodes[0].faults == (fault,)
    for joined in joined_again(master, join):
        node = joined
        assert master.status().nodes[0].faults == (fault,)
    happened(12, "agent_started")
    assert master.status().nodes[0].faults == ()


def test_the_status_tells_which_triggers_are_raised_before_and_after_a_restart(master, join):
    def happened(sequence, kind, trigger="hot"):
        event = NodeEvent(
            sequence, kind, 1_000 + sequence, True, "desk", "temperature", "31 celsius",
            trigger=trigger, value=31.0, areas=("b1/r1",),
        )  # fmt: skip
        hand_over(node, NodeEvents("boot-n1", "history", (event,)))

    node = join(master)
    happened(9, "trigger_raised")
    happened(7, "trigger_raised", "damp")
    happened(8, "trigger_cleared", "damp")
    alert = NodeAlert("hot", ("b1/r1",), 1_009, True, "31 celsius")
    assert master.status().nodes[0].alerts == (alert,)
    for joined in joined_again(master, join):
        node = joined
        assert master.status().nodes[0].alerts == (alert,)
    happened(10, "agent_started")
    assert master.status().nodes[0].alerts == (alert,)
    happened(11, "trigger_cleared")
    assert master.status().nodes[0].alerts == ()


def test_only_a_node_that_joined_hands_events_over(master, join, context):
    node = join(master)
    stranger = context.socket(zmq.DEALER)
    stranger.connect(master.nodes)
    stranger.send(encode(events(1)))
    assert stranger.poll(PATIENCE_MS)
    assert Decoder(MasterMessage).decode(stranger.recv())[0] == HelloWanted()
    # A process that was replaced: its successor sends what waits.
    node.send(replace(events(2), incarnation="boot before"))
    assert node.receive() == HelloWanted()
    hand_over(node, events(3))
    assert recorded(master) == [("history", 3)]
