"""Pulls over a real SSH connection: cut, refused, without sudo."""

from __future__ import annotations

import json
import os
import sys

import pytest

from fleet.cli import commands
from fleet.common import exits
from fleet.inventory.folder import Folder
from fleet.inventory.loader import load
from fleet.keys.store import Store
from fleet.lake.pull import bounds, pull, records
from fleet.lake.schema.folder import Lake
from fleet.ssh import remote
from testkit.ssh_server import Host
from tests.fleet.lake.pull.histories import CHANNELS, Node, fill
from tests.fleet.lake.pull.masters import Master, landed

INVENTORY = """name = "site"
[ssh]
connect_s = 20.0
[[iad]]
name = "iad1"
[iad.master]
address = "127.0.0.21"
port = {master}
[[iad.node]]
name = "n1"
address = "127.0.0.23"
port = {node}
areas = ["b1/f1"]
model = "host"
[[iad.node.sensor]]
driver = "synthetic"
[[iad]]
name = "iad2"
[iad.master]
address = "127.0.0.22"
port = 1
[[iad]]
name = "iad3"
[iad.master]
address = "127.0.0.1"
local = true
"""


class Site:
    """A master and a node on hosts, a master on a host that is not there, one on this machine."""

    def __init__(self, folder: Folder) -> None:
        self.folder = folder
        self.lake = Lake(folder.root / "lake")
        folder.inventory.write_text(INVENTORY.format(master=1, node=2))
        store = Store(folder)
        store.ensure(load(folder))
        self.hosts = {
            name: Host(
                address,
                store.host_key(f"iad1/{name}").private,
                store.operator_public,
                folder.root / "hosts" / name,
            )
            for name, address in (("master", "127.0.0.21"), ("n1", "127.0.0.23"))
        }
        self.host = self.hosts["master"]
        ports = {"master": self.host.port, "node": self.hosts["n1"].port}
        folder.inventory.write_text(INVENTORY.format(**ports))
        store.write_known_hosts(load(folder))
        self.node = Node(folder.root / "etc")
        self.node.config.rename(folder.root / "etc/edge.toml")
        self.there = Master(folder.root / "etc", "iad1")
        self.there.config.rename(folder.root / "etc/master.toml")
        self.here = Master(folder.master("iad3"), "iad3")
        self.here.config.rename(folder.master("iad3") / "master.toml")
        for master in (self.there, self.here):
            master.write(60)


@pytest.fixture
def site(tmp_path, monkeypatch):
    monkeypatch.delenv("SANDERLING_LAKE", raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(remote, "PYTHON", sys.executable)
    made = Site(Folder(tmp_path))
    monkeypatch.setattr(pull, "CONFIGURATION", str(tmp_path / "etc"))
    yield made
    for host in made.hosts.values():
        host.close()


@pytest.fixture
def rows(site, capsys):
    def invoke(*arguments, status):
        capsys.readouterr()
        assert commands.run(["logs", "pull", "--json", *arguments]) == status
        document = json.loads(capsys.readouterr().out)
        return {row["host"]: row for row in document["hosts"]}

    return invoke


def test_a_dead_host_does_not_spoil_the_others(site, rows):
    found = rows(status=exits.FAILED)
    assert {name: row["outcome"] for name, row in found.items()} == {
        "iad1/master": "done",
        "iad1/n1": "done",
        "iad2/master": "refused",
        "iad3/master": "done",
    }
    assert sorted(landed(site.lake, "iad1")) == sorted(site.there.lines)
    assert sorted(landed(site.lake, "iad3")) == sorted(site.here.lines)
    assert rows("--limit", "iad1/master", status=exits.DONE)["iad1/master"]["records"] == 0


def test_a_history_comes_while_its_agent_writes(site, rows):
    history = site.node.open()
    fill(history.stream("dht", CHANNELS), range(10))
    history.commit()
    row = rows("--limit", "n1", status=exits.DONE)["iad1/n1"]
    assert (row["groups"], row["readings"]) == (2, 8)
    assert rows("--limit", "n1", status=exits.DONE)["iad1/n1"]["readings"] == 0
    history.close()
    assert rows("--limit", "n1", status=exits.DONE)["iad1/n1"]["readings"] == 2
    assert len(list((site.lake.groups / "iad=iad1/node=n1").glob("*.parquet"))) == 2


def test_a_connection_that_is_cut_keeps_what_was_whole_and_goes_on_there(site, rows, monkeypatch):
    place, init = records.place, records.RecordsTaker.__init__
    # Segments of a line each, more of them than a connection has under way.
    monkeypatch.setattr(init, "__defaults__", (1_000,))
    with site.there.current.open("ab") as file:
        for number in range(60):
            file.write(b'{"%d":"%s"}\n' % (number, os.urandom(50_000).hex().encode()))

    def cut(part, path):
        place(part, path)
        site.host.cut()

    monkeypatch.setattr(records, "place", cut)
    got = 0
    for _ in range(2):
        row = rows("--limit", "iad1/master", status=exits.NOTHING)["iad1/master"]
        assert row["outcome"] == "lost"
        assert row["records"] > 0
        got += row["records"]
        assert got == len(landed(site.lake, "iad1")) < 120
    monkeypatch.setattr(records, "place", place)
    row = rows("--limit", "iad1/master", status=exits.DONE)["iad1/master"]
    assert got + row["records"] == 120
    assert sorted(landed(site.lake, "iad1")) == sorted(site.there.lines)


BEATS = """import sys, time
while True:
    print('{"beat":true}')
    sys.stdout.flush()
    time.sleep(0.01)
"""


def test_a_host_that_only_lives_is_given_up(site, rows, monkeypatch):
    monkeypatch.setattr(remote, "host_program", lambda: remote.packed({"__main__.py": BEATS}))
    monkeypatch.setattr(bounds, "PROGRESS_S", 0.1)
    row = rows("--limit", "iad1/master", status=exits.NOTHING)["iad1/master"]
    assert row["outcome"] == "lost"
    assert row["error"] == "it lives, and sent less than 65,536 bytes in 0.1 s"


def test_a_user_without_sudo_is_told(site, rows):
    (site.host.folder / "no_sudo").touch()
    row = rows("--limit", "iad1/master", status=exits.NOTHING)["iad1/master"]
    assert (row["outcome"], "NOPASSWD" in row["remedy"]) == ("sudo", True)


def test_a_host_that_was_never_deployed_to_is_told(site, rows):
    (site.folder.root / "etc/master.toml").unlink()
    row = rows("--limit", "iad1/master", status=exits.NOTHING)["iad1/master"]
    assert row["outcome"] == "failed"
    assert row["error"].endswith("etc/master.toml is missing: no master is installed there")


def test_a_bound_ends_the_program_there(site, rows):
    row = rows("--limit", "iad1/master", "--max-bytes", "2k", status=exits.DONE)["iad1/master"]
    assert row["outcome"] == "bounded"
    assert 2_000 <= row["bytes"] < 2_300
    assert rows("--limit", "iad1/master", status=exits.DONE)["iad1/master"]["outcome"] == "done"
    assert sorted(landed(site.lake, "iad1")) == sorted(site.there.lines)
