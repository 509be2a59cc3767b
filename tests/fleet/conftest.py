"""A fleet of real processes for the tests: 2 IADs × 2 nodes, nothing emulated."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.wire.config import MasterLiveness
from fleet.lab.plan import FleetPlan, building_fleet, part_of
from fleet.lab.testbed import Testbed

SMALL = part_of(building_fleet(emulate=False), 2, 2)
# A dead node is lost after 0.6 s.
QUICK = MasterLiveness(heartbeat_s=0.2, lost_after=3)


def small_bed(directory: Path, plan: FleetPlan = SMALL) -> Testbed:
    return Testbed(plan, directory, liveness=QUICK)


@pytest.fixture(scope="module")
def bed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Testbed]:
    """A running fleet; a test that ends one of its processes starts it again."""
    with small_bed(tmp_path_factory.mktemp("fleet")) as bed:
        for _ in bed.start():
            pass
        yield bed


def listens(address: str) -> bool:
    """Whether somebody listens on ``tcp://host:port``."""
    host, _, port = address.removeprefix("tcp://").rpartition(":")
    with socket.socket() as probe:
        return probe.connect_ex((host, int(port))) == 0
