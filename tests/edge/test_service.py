"""The real process as a service: what systemd and Prometheus see of it. About 5 s."""

from __future__ import annotations

import os
import signal
import socket
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from fleet.testbed.ports import free_address
from testkit.waiting import PATIENCE_S, wait_until
from tests.metrics.rig import scrape, values

ROOT = Path(__file__).parents[2]
AGENT = [sys.executable, "-c", "import sys; from agent.edge.main import main; sys.exit(main())"]
CONFIG = """
[node]
name = "n1"
areas = ["b1/f4/r413"]
[master]
address = "{address}"
[[sensor]]
driver = "synthetic"
interval_s = 0.1
[metrics]
address = "{metrics}"
"""


class Service:
    """An agent, systemd's end of its socket, and the address of its page."""

    def __init__(self, folder):
        self.folder = folder
        self.metrics = free_address().removeprefix("tcp://")
        config = folder / "edge.toml"
        config.write_text(CONFIG.format(address=free_address(), metrics=self.metrics))
        self.systemd = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.systemd.bind(str(folder / "notify"))
        self.systemd.settimeout(PATIENCE_S)
        environment = {
            **os.environ,
            "NOTIFY_SOCKET": str(folder / "notify"),
            "WATCHDOG_USEC": "500000",
        }
        self.process = subprocess.Popen(
            [*AGENT, "--config", str(config)],
            cwd=ROOT,
            env=environment,
            stderr=subprocess.PIPE,
            text=True,
        )

    def await_word(self, word):
        """The notification with that line; those before it are passed over."""
        while word not in (lines := self.systemd.recv(4_096).decode().splitlines()):
            pass
        return lines

    def stop(self, number=signal.SIGTERM):
        """Exit status and what it said."""
        self.process.send_signal(number)
        _, said = self.process.communicate(timeout=PATIENCE_S)
        self.systemd.close()
        return self.process.returncode, said


@pytest.fixture
def service(tmp_path):
    made = Service(tmp_path)
    yield made
    made.process.kill()
    made.process.communicate()
    made.systemd.close()


def test_it_is_ready_alive_and_stops_with_everything_stored(service):
    ready = service.await_word("READY=1")
    assert "STATUS=not joined: no master answers; sensors with faults: none" in ready
    service.await_word("WATCHDOG=1")

    def look():
        _, page = scrape(service.metrics)
        [taken] = [
            count
            for labels, count in values(page["sanderling_edge_sensor_values_total"]).items()
            if {"temperature", "good"} <= set(labels)
        ]
        return page, taken

    page, taken = wait_until(look, lambda found: found[1] > 0, processes=[service.process])
    assert values(page["sanderling_edge_link_joined"]) == {(): 0}
    code, said = service.stop()
    assert code == 0, said
    assert said.endswith("sanderling-edge n1: stopping\n")
    with sqlite3.connect(service.folder / "history.sqlite") as db:
        [(stored,)] = db.execute("SELECT sum(count) FROM groups").fetchall()
    db.close()
    assert stored >= taken


def test_it_says_that_it_stops(service):
    service.await_word("READY=1")
    service.process.terminate()
    service.await_word("STOPPING=1")


def test_killed_as_the_watchdog_does_it_shows_where_its_threads_are(service):
    service.await_word("READY=1")
    code, said = service.stop(signal.SIGABRT)
    assert code == -signal.SIGABRT
    assert "agent/edge/node.py" in said
    assert "agent/edge/sampling/sampling.py" in said
