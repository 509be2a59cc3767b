"""A master by its IAD's name: with the inventory's address and the key store's keys, against
agents that run from the files which the inventory makes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.client import Operator
from fleet.cli import commands
from fleet.cli.connecting import of_fleet
from fleet.inventory.files import files_of
from fleet.inventory.folder import Folder
from fleet.inventory.loader import load
from fleet.inventory.parties import hosts
from fleet.keys.store import Store
from fleet.testbed.ports import free_ports
from fleet.testbed.processes import Child, Leash, agent_command, stop

TEXT = """
name = "bench"
[[iad]]
name = "iad1"
[iad.master]
local = true
address = "127.0.0.1"
listen = "127.0.0.1"
public_port = {}
nodes_port = {}
operator_port = {}
[[iad.node]]
name = "n1"
address = "127.0.0.1"
model = "host"
areas = ["b1/f1/r1"]
history = {{ path = "{}" }}
[[iad.node.sensor]]
driver = "synthetic"
options = {{ preload_rows = 60 }}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Folder]:
    """A fleet of one master and one node, which run."""
    folder = Folder(tmp_path_factory.mktemp("fleet"))
    text = TEXT.format(*free_ports(3), folder.root / "history.sqlite")
    folder.inventory.write_text(text)
    fleet = load(folder)
    store = Store(folder)
    store.ensure(fleet)
    leash = Leash()
    children = []
    try:
        for host in hosts(fleet):
            root = folder.root / "hosts" / host.name
            for file in files_of(fleet, host, store):
                path = root / file.path
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(file.content)
                path.chmod(file.mode)
            kind = "edge" if host.node else "master"
            command = [*agent_command(f"sanderling-{kind}"), "--config", f"{root}/{kind}.toml"]
            log = root / "log"
            children.append(Child(host.name, [*command, "--exit-on-stdin-eof"], log, leash))
        _await_node(folder, children)
        yield folder
    finally:
        stop(children, 10.0)
        leash.drop()


def _await_node(folder: Folder, children: list[Child]) -> None:
    address, keys = of_fleet(folder, "iad1", "operator")
    with Operator(address, keys) as link:
        for _ in range(5_000):
            assert all(child.running for child in children), [c.how_it_ended() for c in children]
            if any(node.state == "live" for node in link.status(20_000).nodes):
                return
    raise AssertionError([child.last_lines() for child in children])


def run(capsys, *arguments: str) -> tuple[int, str, str]:
    status = commands.run(arguments)
    printed = capsys.readouterr()
    return status, printed.out, printed.err


def test_a_query_is_answered(folder, capsys):
    named = ("--iad", "iad1", "--fleet", str(folder.root))
    status, out, err = run(capsys, "query", *named, "--area", "b1", "--slo", "p99=5s", "--json")
    assert status == 0
    # The node may have just begun, which is told.
    assert all("of the 10m asked" in line for line in err.splitlines())
    assert json.loads(out)["status"] == "complete"


def test_a_watch_shows_its_round(folder, capsys, monkeypatch):
    monkeypatch.setenv("SANDERLING_FLEET", str(folder.root))
    options = ("--area", "b1", "--slo", "p99=5s", "--every", "1s", "--rounds", "1", "--json")
    status, out, err = run(capsys, "watch", "--iad", "iad1", *options)
    assert (status, out.count("\n")) == (0, 1)
    assert err.startswith("1 round, none missed")


def test_services_are_listed(folder, capsys, monkeypatch):
    monkeypatch.chdir(folder.root)
    status, out, err = run(capsys, "service", "list", "--iad", "iad1", "--json")
    assert (status, err) == (0, "")
    assert json.loads(out)["type"] == "service_report"


def test_the_same_with_addresses_and_files(folder, capsys):
    address, keys = of_fleet(folder, "iad1", "master")
    files = ("--key", keys.key, "--server-keys", keys.server_keys)
    status, _, err = run(capsys, "query", "--master", address, *files, "--area", "b1")
    assert (status, err) == (0, "")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--master", "tcp://h:1", "--iad", "iad1"], "give either --master ADDRESS or --iad NAME"),
        (["--iad", "iad2"], "there is no IAD iad2; did you mean iad1?"),
        (["--iad", "iad1", "--key", "k"], "leave --key and --server-keys out"),
        (["--master", "tcp://h:1", "--fleet", "."], "--fleet goes with --iad, not with --master"),
        (["--master", "tcp://h:1", "--key", "k"], "--key and --server-keys come together"),
    ],
)
def test_what_does_not_go_together_is_one_line(folder, capsys, monkeypatch, arguments, says):
    monkeypatch.chdir(folder.root)
    status, out, err = run(capsys, "query", "--area", "b1", *arguments)
    assert (status, out) == (2, "")
    assert says in err
    assert err.count("\n") == 1


def test_a_fleet_without_keys_says_how_to_make_them(tmp_path: Path, capsys):
    text = TEXT.format(1, 2, 3, "h.sqlite")
    (tmp_path / "fleet.toml").write_text(text)
    named = ("--iad", "iad1", "--fleet", str(tmp_path))
    status, out, err = run(capsys, "query", *named, "--area", "b1")
    assert (status, out) == (2, "")
    assert "fleet keys init" in err
    assert err.count("\n") == 1
