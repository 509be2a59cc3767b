"""The sample configurations of docs/examples: good, and good together."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agent.client import Client
from fleet.lab.processes import agent_command, free_ports

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
AGENTS = {"master.toml": "sanderling-master", "edge.toml": "sanderling-edge"}


@pytest.mark.parametrize("name", AGENTS)
def test_check_finds_them_good(name: str) -> None:
    file = EXAMPLES / name
    done = subprocess.run(
        [*agent_command(AGENTS[name]), "--check", "--config", file],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{file}: ok\n", "")


@contextmanager
def agent(file: Path) -> Iterator[subprocess.Popen[bytes]]:
    command = [*agent_command(AGENTS[file.name]), "--config", file, "--exit-on-stdin-eof"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        try:
            yield process
        finally:
            process.kill()


def test_they_work_together(tmp_path: Path) -> None:
    """On other ports, which may be taken here."""
    ports = dict(zip(("5700", "5701", "5702"), map(str, free_ports(3)), strict=True))
    for name in AGENTS:
        text = (EXAMPLES / name).read_text("utf-8")
        for old, new in ports.items():
            text = text.replace(f"127.0.0.1:{old}", f"127.0.0.1:{new}")
        (tmp_path / name).write_text(text)
    master, edge = (agent(tmp_path / name) for name in AGENTS)
    with master, edge, Client(f"tcp://127.0.0.1:{ports['5700']}") as client:
        for _ in range(100_000):
            answer = client.query(["b1/f4"], last_s=600.0, latency_ms=5_000.0)
            if answer.status == "complete":
                break
    assert [result.area for result in answer.results] == ["b1/f4/r413"]
    series = answer.results[0].series
    assert series is not None
    assert len(series.time_ms) > 500
    assert series.values.keys() == {"temperature", "humidity"}
