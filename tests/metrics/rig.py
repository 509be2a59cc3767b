"""Real processes that export metrics, and what their pages say."""

from __future__ import annotations

import sys
import urllib.request

from prometheus_client.parser import text_string_to_metric_families

from bench.processes import free_address
from tests.drs.rig import DrsProcess
from tests.master.rig import MasterProcess


def add_metrics(config):
    """Have an agent serve metrics; the address."""
    address = free_address().removeprefix("tcp://")
    config.write_text(config.read_text() + f'[metrics]\naddress = "{address}"\n')
    return address


def scrape(address):
    """The page's text, and its families by the names that their samples have."""
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=20) as response:
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
