"""Real processes that export metrics, and what their pages say."""

from __future__ import annotations

import select
import socket
import sys
import threading
import urllib.request

from prometheus_client.parser import text_string_to_metric_families

from agent.edge.metrics import EdgeMetrics, NodeNumbers
from agent.edge.sampling.counters import SensorCounters
from agent.wire.config import Metrics
from fleet.testbed.ports import free_address
from sensors.quality import flags as q
from testkit.waiting import PATIENCE_S
from tests.directory.rig import DrsProcess
from tests.master.rig import MasterProcess


def add_metrics(config):
    """Have an agent serve metrics; the address."""
    address = free_address().removeprefix("tcp://")
    config.write_text(config.read_text() + f'[metrics]\naddress = "{address}"\n')
    return address


def scrape(address):
    """The page's text, and its families by the names that their samples have."""
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=PATIENCE_S) as response:
        text = response.read().decode()
    families = {}
    for family in text_string_to_metric_families(text):
        suffix = "_total" if family.type == "counter" else ""
        families[family.name + suffix] = family
    return text, families


def values(family):
    """The samples of a counter or gauge, by their labels' values."""
    return {tuple(sample.labels.values()): sample.value for sample in family.samples}


class MeasuredMaster(MasterProcess):
    """A master with a page."""

    command = (sys.executable, "-m", "tests.metrics.measured_master")

    def start(self) -> None:
        self.metrics = add_metrics(self.config)
        super().start()


class MeasuredDrs(DrsProcess):
    """A registration service with a page."""

    def start(self) -> None:
        self.metrics = add_metrics(self.config)
        super().start()


class MeasuredEdge:
    """The page of an edge node, and in a thread the turns of its loop."""

    def __init__(self, address):
        self.address = address
        good = SensorCounters("replay", ("temperature", "humidity"), 1.0, 100.0)
        broken = SensorCounters("dht", ("duct_temperature",), 2.0, 100.0)
        for second in range(101, 111):
            good.ends(() if second % 5 else (q.SPIKE | q.DRIFT, q.GOOD), 40, second)
            broken.ends((q.NO_RESPONSE,), 0, second)
        good.missed = 3
        self.numbers = NodeNumbers(
            now=112.0,
            sensors=(good, broken),
            faults=(0, 1),
            restarts=(0, 2),
            stored=10,
            given_up=1,
            events_waiting=4,
            events_dropped=5,
            alerts={"hot": 2, "damp": 0},
            joined=True,
            synchronised=False,
            malformed_frames=6,
            messages_dropped=7,
            written_bytes=4_096,
            key_expiry_s=1_800_000_000.0,
        )
        self.metrics = EdgeMetrics(Metrics(address), lambda: self.numbers)
        self._stop_read, self._stop_write = socket.socketpair()
        self._loop = threading.Thread(target=self._turns)

    def __enter__(self):
        self._loop.start()
        return self

    def __exit__(self, *_):
        self._stop_write.close()
        self._loop.join()
        self._stop_read.close()
        self.metrics.close()

    def _turns(self):
        awaited = [self.metrics.fileno, self._stop_read]
        while self._stop_read not in select.select(awaited, [], [])[0]:
            self.metrics.turn()
