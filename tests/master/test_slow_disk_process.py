"""A real master whose disk stands still: whatever needs none is served, and nobody is told that
something is durable which is not."""

from __future__ import annotations

import shutil

import pytest

from agent.client import Client
from agent.wire.messages import Query, Slo, Window
from agent.wire.node_messages import EventsTaken, Heartbeat, NodeEvent, NodeEvents
from bench.slow_disk import Disks
from tests.master.rig import COMMAND, PATIENCE_MS, FakeNode, MasterProcess

FOR_GOOD_MS = 10_000_000

pytestmark = pytest.mark.skipif(not shutil.which("gcc"), reason="needs gcc")


def test_a_master_whose_disk_stands_still_serves_what_needs_none(tmp_path, context, monkeypatch):
    disks = Disks(tmp_path)
    monkeypatch.setattr(MasterProcess, "command", (*disks.command("master"), COMMAND))
    master = MasterProcess(tmp_path / "iad1", "iad1", {"iad1": ["b1"]})
    try:
        node = FakeNode(context, master.nodes, "n1", ("b1/r1",))
        disks.delay("master", FOR_GOOD_MS)
        event = NodeEvent(1, "fault_began", 1_001, True, "dht", "temperature", "spike")
        node.send(NodeEvents("boot-n1", "history", (event,), oldest=1))
        # It is written, and its sync stands still.
        records = master.folder / "records" / "current.jsonl"
        master.wait_until(lambda _: records.exists() and b"fault_began" in records.read_bytes())
        with Client(master.public) as client:
            for number in range(3):
                window, slo = Window(last_s=10.0), Slo(99.0, 10_000.0)
                client.send(Query(f"q{number}", ("b1",), window, slo))
                node.serve()
                assert client.receive(PATIENCE_MS).status == "complete"
        node.send(Heartbeat("boot-n1"))
        assert isinstance(node.receive(), Heartbeat)
        assert master.status().counters["node_events"] == 0
        disks.delay("master", 0)
        taken = node.receive()
        assert isinstance(taken, EventsTaken)
        assert taken.sequences == (1,)
        assert master.status().counters["node_events"] == 1
    finally:
        disks.delay("master", 0)
        master.stop()
