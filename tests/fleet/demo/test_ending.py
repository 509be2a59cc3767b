"""What the demo says to type next."""

from __future__ import annotations

import io
from pathlib import Path
from types import SimpleNamespace

import pytest
from rich.console import Console

from fleet.demo import ending
from fleet.demo.options import Options
from fleet.query import running
from fleet.query.running import Addresses
from fleet.simulation.layout import building_fleet, part_of
from fleet.testbed.testbed import Testbed


def commands(bed: Testbed, *, verbose: bool) -> list[str]:
    file = io.StringIO()
    options = Options(bed.directory, 1.0, 1.0, 1, 1, keep=True, verbose=verbose)
    ending._show_commands(bed, options, Console(file=file, width=200, highlight=False))
    return file.getvalue().splitlines()


@pytest.mark.parametrize("verbose", [False, True])
def test_commands_of_a_second_demo_ask_that_one(tmp_path, monkeypatch, verbose):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "runtime"))
    first = (Addresses("iad1", "tcp://127.0.0.1:1", "tcp://127.0.0.1:2"),)
    bed = Testbed(part_of(building_fleet(), 2, 1), Path("var/demo2"))
    with bed:
        own = (Addresses("iad1", bed.public("iad1"), bed.operator("iad1")),)
        with running.announced(first), running.announced(own):
            *asks, status = commands(bed, verbose=verbose)[1:5]
            assert all(line.endswith(f" --master {bed.public('iad1')}") for line in asks)
            assert status.endswith(f"status --operator {bed.operator('iad1')}")
            assert ending._link(bed) == "gateway link --config var/demo2/gateway/gateway.toml"
            assert not any("commands without" in line for line in commands(bed, verbose=verbose))
        with running.announced(own):
            assert not any(
                "--master" in line or "--operator" in line
                for line in commands(bed, verbose=verbose)[1:5]
            )
            assert ending._link(bed) == "gateway link"


def test_commands_to_copy_fit_a_line_of_80_columns(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "runtime"))
    monkeypatch.setattr(ending, "fleet_command", lambda: ".venv/bin/fleet")
    with Testbed(part_of(building_fleet(), 2, 1), Path("var/demo")) as bed:
        own = (Addresses("iad1", bed.public("iad1"), bed.operator("iad1")),)
        with running.announced(own):
            assert max(map(len, commands(bed, verbose=False))) <= 80


def test_a_node_that_ends_is_told_with_what_queries_miss(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "runtime"))
    with Testbed(part_of(building_fleet(), 2, 1), tmp_path) as bed:
        node = next(iter(bed.plan.nodes))
        gone = SimpleNamespace(name=node.name, end=f"{node.name} ended with signal SIGKILL")
        monkeypatch.setattr(bed, "let_go", lambda: [gone])
        file = io.StringIO()
        ending.look_after(bed, Console(file=file, width=200, highlight=False), measuring=False)
    told, command = file.getvalue().splitlines()
    assert told == f"{gone.end}: queries miss {node.area}. Start it again:"
    assert command.strip().endswith(f"{node.name}/config.toml")
