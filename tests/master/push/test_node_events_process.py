"""From a sensor's fault to the master's records; real processes at both ends, which are killed."""

from __future__ import annotations

import signal
import sqlite3

import pytest

from agent.wire.records import NodeEventRecord, decode_record
from testkit.agent_process import AgentProcess, installed

# Whatever the sensor says is out of range here: each start finds two faults.
CONFIG = """
[node]
name = "n1"
areas = ["b1/f4/r1"]
[master]
address = "{address}"
reconnect_first_s = 0.01
reconnect_longest_s = 0.05
[[sensor]]
driver = "synthetic"
interval_s = 0.05
[sensor.channels.temperature]
high = -30.0
[sensor.channels.humidity]
high = 3.0
"""
FAULTS = "SELECT count(*) FROM events WHERE kind = 'fault_began'"


class EdgeProcess(AgentProcess):
    command = (installed("sanderling-edge"),)

    def __init__(self, folder, address):
        self.history = folder / "history.sqlite"
        self.config = folder / "edge.toml"
        self.config.write_text(CONFIG.format(address=address))
        self.start()

    def await_waiting(self, count):
        """Until so many faults wait in its history; there may be other events."""
        self.wait_for(self.waiting, lambda found: found == count)

    def waiting(self):
        try:
            db = sqlite3.connect(f"file:{self.history}?mode=ro", uri=True)
            try:
                ((found,),) = db.execute(FAULTS).fetchall()
            finally:
                db.close()
        except sqlite3.OperationalError:
            return None  # the file is being made
        return found


@pytest.fixture
def edge(tmp_path, master):
    master.stop()
    made = EdgeProcess(tmp_path, master.nodes)
    yield made
    made.stop(signal.SIGKILL)


def recorded(master):
    current = master.folder / "records" / "current.jsonl"
    whole, _, _ = (current.read_bytes() if current.exists() else b"").rpartition(b"\n")
    lines = whole.splitlines()
    events = [r for r in map(decode_record, lines) if isinstance(r, NodeEventRecord)]
    assert len({(event.history, event.sequence) for event in events}) == len(events)
    return [event for event in events if event.kind == "fault_began"]


def test_no_fault_is_lost_or_told_twice_whoever_is_killed(master, edge):
    edge.await_waiting(2)
    edge.stop(signal.SIGKILL)
    edge.start()
    edge.await_waiting(4)
    master.start()
    master.wait_until(lambda _: len(recorded(master)) == 4)
    edge.await_waiting(0)
    master.stop(signal.SIGKILL)
    edge.stop(signal.SIGKILL)
    edge.start()
    edge.await_waiting(2)
    master.start()
    master.wait_until(lambda _: len(recorded(master)) == 6)
    edge.await_waiting(0)
    faults = recorded(master)
    assert {fault.node for fault in faults} == {"n1"}
    assert sorted(fault.channel for fault in faults) == [*["humidity"] * 3, *["temperature"] * 3]
    assert edge.stop()[0] == 0
