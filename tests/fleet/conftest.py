"""A fleet of real processes for the tests: 2 IADs × 2 nodes, nothing emulated."""

import csv
import gzip
import socket
from array import array
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib.resources import files
from pathlib import Path

import pytest

from agent.wire.master_config import MasterLiveness
from fleet.simulation.layout import PRELOAD_ROWS, FleetLayout, building_fleet, part_of
from fleet.testbed.testbed import Testbed

SMALL = part_of(building_fleet(emulate=False), 2, 2)
# A dead node is lost after 6 s: a busy machine keeps no live one silent for so long, and only the
# test that waits for a loss pays for it.
PATIENT = MasterLiveness(heartbeat_s=2.0, lost_after=3)
# Three hours, as in the demo, take a node a quarter of a second of processor time to store.
ROWS = 600


def small_bed(directory: Path, plan: FleetLayout = SMALL, rows: int = ROWS) -> Testbed:
    return Testbed(plan, directory, liveness=PATIENT, preload_rows=rows)


@pytest.fixture(scope="session", autouse=True)
def own_folders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Commands keep no state where a user's is, and find no demo that runs beside the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        patch.setenv("XDG_RUNTIME_DIR", str(tmp_path_factory.mktemp("runtime")))
        yield


@pytest.fixture(scope="module")
def bed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Testbed]:
    """A running fleet with three hours of readings; a test that ends one of its processes starts it
    again."""
    with small_bed(tmp_path_factory.mktemp("fleet"), rows=PRELOAD_ROWS) as bed:
        for _ in bed.start():
            pass
        yield bed


def listens(address: str) -> bool:
    """Whether somebody listens on ``tcp://host:port``."""
    host, _, port = address.removeprefix("tcp://").rpartition(":")
    with socket.socket() as probe:
        return probe.connect_ex((host, int(port))) == 0


def recording(room: str) -> dict[int, tuple[float, float]]:
    """Source time in ms → (temperature, humidity) as 32-bit floats, from the shipped file."""
    path = files("sensors").joinpath(f"replay/data/room-{room}.csv.gz")
    rows = {}
    for row in csv.DictReader(gzip.decompress(path.read_bytes()).decode().splitlines()):
        time = datetime.fromisoformat(row["timestamp"])
        if time.tzinfo is None:
            time = time.replace(tzinfo=UTC)
        values = array("f", [float(row[c] or "nan") for c in ("temperature", "humidity")])
        rows[round(time.timestamp() * 1000)] = (values[0], values[1])
    return rows
