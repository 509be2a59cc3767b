"""A trigger of a real agent that is killed again and again, and the master that hears of it."""

from __future__ import annotations

import signal
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from agent.wire.node_messages import EventsTaken, Hello, NodeEvent, NodeEvents, Welcome
from testkit.agent_process import AgentProcess, installed
from testkit.waiting import PATIENCE_S
from tests.edge.test_process import Master

CONFIG = """
[node]
name = "n1"
areas = ["b1/f4/r413"]
[master]
address = "{address}"
reconnect_first_s = 0.01
reconnect_longest_s = 0.05
[[sensor]]
name = "desk"
driver = "synthetic"
interval_s = 0.02
[history]
group_readings = 5
commit_s = 0.1
"""
# It holds at every reading; what clears it, at none.
HOT = """
[[trigger]]
name = "hot"
condition = "temperature > -40"
clear = "temperature < -40"
"""


class Edge(AgentProcess):
    command = (installed("sanderling-edge"),)

    def __init__(self, folder: Path, address: str) -> None:
        self.history = folder / "history.sqlite"
        self.config = folder / "edge.toml"
        self.configure(CONFIG.format(address=address) + HOT)

    def configure(self, text: str) -> None:
        self.config.write_text(text)

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        try:
            db = sqlite3.connect(f"file:{self.history}?mode=ro", uri=True)
            try:
                return db.execute(query).fetchall()
            finally:
                db.close()
        except sqlite3.OperationalError:
            return []  # the file is being made

    def wait_until(self, query: str, expected: object) -> None:
        self.wait_for(lambda: self.rows(query), lambda found: found == [(expected,)])

    def kill(self) -> None:
        self.stop(signal.SIGKILL)


@pytest.fixture
def master() -> Iterator[Master]:
    played = Master()
    yield played
    played.socket.close()
    played.context.term()


@pytest.fixture
def edge(master: Master, tmp_path: Path) -> Iterator[Edge]:
    made = Edge(tmp_path, master.address)
    made.start()
    yield made
    made.kill()


STARTS = "SELECT count(*) FROM events WHERE kind = 'agent_started'"
RAISED = "SELECT count(*) FROM events WHERE kind = 'trigger_raised'"


def trigger_event(master: Master) -> tuple[NodeEvents, NodeEvent]:
    """The next event of a trigger, and the message that it comes in."""
    while master.socket.poll(1000 * PATIENCE_S):
        master.peer, frame = master.socket.recv_multipart()
        message, _ = master.decoder.decode(frame)
        if isinstance(message, Hello):  # perhaps of an agent that was killed since
            master.send(Welcome(message.incarnation, 60.0, takes_events=True))
        elif isinstance(message, NodeEvents):
            for event in message.events:
                if event.trigger:
                    return message, event
    raise TimeoutError("no event of a trigger")


def test_it_is_raised_once_whoever_is_killed(master: Master, edge: Edge) -> None:
    # Nobody listens: it is stored.
    edge.wait_until(RAISED, 1)
    edge.kill()
    edge.start()
    edge.wait_until(STARTS, 2)
    _, first = trigger_event(master)
    assert (first.kind, first.trigger, first.channel) == ("trigger_raised", "hot", "temperature")
    assert (first.sensor, first.areas) == ("desk", ("b1/f4/r413",))
    assert first.value is not None
    # It was not acknowledged: it comes again.
    edge.kill()
    edge.start()
    message, again = trigger_event(master)
    # All but its time, which follows the wall clock when that is put right.
    assert replace(again, time_ms=0, synchronised=False) == replace(
        first, time_ms=0, synchronised=False
    )
    master.send(EventsTaken(message.incarnation, message.history, (first.sequence,)))
    edge.wait_until(RAISED, 0)
    edge.kill()
    [(groups,)] = edge.rows("SELECT count(*) FROM groups")
    edge.start()
    # Groups that the tail had come with the start, the others with its readings.
    edge.wait_until(f"SELECT count(*) >= {groups + 10} FROM groups", 1)
    assert edge.rows(RAISED) == [(0,)]
    assert edge.rows("SELECT trigger FROM raised") == [("hot",)]
    # Without the trigger it is cleared.
    edge.kill()
    edge.configure(edge.config.read_text().replace(HOT, ""))
    edge.start()
    _, cleared = trigger_event(master)
    assert (cleared.kind, cleared.areas) == ("trigger_cleared", first.areas)
    assert cleared.sequence > first.sequence
    assert edge.rows("SELECT trigger FROM raised") == []
