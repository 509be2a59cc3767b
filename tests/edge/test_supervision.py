"""What systemd hears, over a socket that stands in for its own."""

from __future__ import annotations

import importlib.util
import socket

import pytest

from agent.edge.rate_limited_log import Reporter
from agent.edge.sampling.counters import SensorCounters
from agent.edge.supervision import Supervision
from agent.edge.watchdog import PATIENCE_S
from agent.runtime.systemd import problem


class Node:
    """A sensor, a status and a reporter."""

    def __init__(self):
        self.counters = SensorCounters("a", ("temperature",), 1.0, 0.0)
        self.lines = []
        self.status = "not joined"
        self.now = 0.0
        reporter = Reporter(self.lines.append, "n1", lambda: self.now)
        self.supervision = Supervision([self.counters], reporter, lambda: self.status, 0.0)

    def turn(self, now, *, alive=True):
        self.now = now
        if alive:
            self.counters.ends((), 0, now)
        self.supervision.turn(now)


@pytest.fixture
def node():
    made = Node()
    yield made
    made.supervision.close()


@pytest.fixture
def systemd(tmp_path, monkeypatch):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as server:
        server.bind(str(tmp_path / "notify"))
        server.setblocking(False)
        monkeypatch.setenv("NOTIFY_SOCKET", server.getsockname())
        monkeypatch.setenv("WATCHDOG_USEC", "60000000")
        monkeypatch.delenv("WATCHDOG_PID", raising=False)
        yield server


def heard(server):
    """All that came since the last call."""
    found = []
    while True:
        try:
            found.append(server.recv(4_096).decode())
        except BlockingIOError:
            return found


def test_ready_alive_and_stopping(systemd, node):
    node.supervision.ready()
    assert heard(systemd) == ["READY=1\nSTATUS=not joined"]
    node.turn(30.0)
    node.status = "joined"
    node.turn(60.0)
    node.turn(90.0)
    assert heard(systemd) == [
        "STATUS=not joined\nWATCHDOG=1",
        "STATUS=joined\nWATCHDOG=1",
        "WATCHDOG=1",
    ]
    assert node.supervision.wake_at == 100.0
    node.supervision.stopping()
    assert heard(systemd) == ["STOPPING=1\nSTATUS=storing what was read"]


def test_a_stuck_sensor_is_reported_and_starves_the_watchdog(systemd, node):
    node.turn(0.0)
    node.turn(11.0, alive=False)
    assert node.lines == ["sanderling-edge n1: sensor a has not come back for 11 s\n"]
    assert "WATCHDOG=1" in heard(systemd)[-1]
    node.turn(2.0 + PATIENCE_S, alive=False)
    assert heard(systemd) == []
    node.turn(70.0)
    assert heard(systemd) == ["WATCHDOG=1"]
    assert node.lines[1:] == ["sanderling-edge n1: sensor a is back (and 1 more such lines)\n"]


def test_nobody_is_told_where_systemd_did_not_start_it(monkeypatch):
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    monkeypatch.setenv("WATCHDOG_USEC", "60000000")
    assert problem() is None
    node = Node()
    node.supervision.ready()
    node.turn(30.0)
    node.supervision.stopping()
    assert node.lines == []


def test_a_unit_that_wants_notifications_needs_the_library(systemd, monkeypatch):
    assert problem() is None
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert "pip install '.[systemd]'" in problem()
    node = Node()
    node.supervision.ready()
    assert heard(systemd) == []
