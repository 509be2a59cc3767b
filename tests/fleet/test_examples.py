"""The sample configurations of docs/examples: good, and good together."""

import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from agent.client import Client, Operator
from agent.wire.messages import Slo
from agent.wire.operator import CreateService
from fleet.testbed.ports import free_ports
from fleet.testbed.processes import agent_command

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
AGENTS = {"master.toml": "sanderling-master", "edge.toml": "sanderling-edge"}
MARKET = {
    "drs.toml": "sanderling-drs",
    "market/iad1.toml": "sanderling-master",
    "market/iad2.toml": "sanderling-master",
    "market/csp.toml": "sanderling-master",
    "market/iad1-n1.toml": "sanderling-edge",
    "market/iad2-n1.toml": "sanderling-edge",
}
MARKET_PORTS = ("5710", "5720", "5721", "5722", "5730", "5731", "5732", "5740", "5742")
MANY = 100_000


@pytest.mark.parametrize(("name", "command"), [*AGENTS.items(), *MARKET.items()])
def test_check_finds_them_good(name: str, command: str) -> None:
    file = EXAMPLES / name
    done = subprocess.run(
        [*agent_command(command), "--check", "--config", file],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{file}: ok\n", "")


@contextmanager
def agents(
    folder: Path, commands: dict[str, str], ports: tuple[str, ...]
) -> Iterator[dict[str, str]]:
    """All of them, on other ports, which may be taken here: yields the new port of each old one."""
    new = dict(zip(ports, map(str, free_ports(len(ports))), strict=True))
    with ExitStack() as stack:
        for name, command in commands.items():
            text = (EXAMPLES / name).read_text("utf-8")
            for old, port in new.items():
                text = text.replace(f"127.0.0.1:{old}", f"127.0.0.1:{port}")
            file = folder / Path(name).name
            file.write_text(text)
            process = stack.enter_context(
                subprocess.Popen(
                    [*agent_command(command), "--config", file, "--exit-on-stdin-eof"],
                    stdin=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                )
            )
            stack.callback(process.kill)
        yield new


def test_they_work_together(tmp_path: Path) -> None:
    with (
        agents(tmp_path, AGENTS, ("5700", "5701", "5702")) as ports,
        Client(f"tcp://127.0.0.1:{ports['5700']}") as client,
    ):
        for _ in range(MANY):
            answer = client.query(["b1/f4"], last_s=600.0, latency_ms=5_000.0)
            if answer.status == "complete":
                break
    assert [result.area for result in answer.results] == ["b1/f4/r413"]
    series = answer.results[0].series
    assert series is not None
    assert len(series.time_ms) > 500
    assert series.values.keys() == {"temperature", "humidity"}


def test_the_market_works_together(tmp_path: Path) -> None:
    """A service bought by iad1 as the README says, and one by the CSP."""
    with agents(tmp_path, MARKET, MARKET_PORTS) as ports:
        for operator, public, name in (("5722", "5730", "climate"), ("5742", "5740", "damp")):
            capability = {"climate": "temperature", "damp": "humidity"}[name]
            with Operator(f"tcp://127.0.0.1:{ports[operator]}") as link:
                # Until everybody has registered and every node has joined.
                for _ in range(MANY):
                    report = link.ask_service(
                        CreateService(
                            "c",
                            name,
                            capability,
                            ("b1",),
                            Slo(99.0, 2_000.0),
                            rate_per_s=2.0,
                            fewest=2,
                        )
                    )
                    if report.ok:
                        break
            with Client(f"tcp://127.0.0.1:{ports[public]}") as client:
                answer = client.query(["b1"], last_s=600.0, latency_ms=20_000.0, service=name)
            assert answer.status == "complete"
            assert [r.area for r in answer.results] == ["b1/f4/r413", "b1/f5/r510"]
            assert {tuple(r.series.values) for r in answer.results if r.series} == {(capability,)}
