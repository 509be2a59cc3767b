"""The node's home among several masters: what is kept of it, and what its configuration may say."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from agent.edge import link as links
from agent.edge.clocks import Clocks
from agent.edge.history.history import History
from agent.edge.home import keep_home, kept_home
from agent.edge.node import EdgeNode
from agent.edge.rate_limited_log import Reporter
from agent.edge.sampling.sensor import open_sensors
from agent.wire.config import ConfigError, parse
from agent.wire.edge_config import EdgeConfig
from agent.wire.node_messages import HomeMoved, Welcome

NODE = """
[node]
name = "n1"
areas = ["b1/r1"]
[master]
iad = "iad1"
address = "ipc://{folder}/iad1"
[[master.other]]
iad = "iad2"
address = "ipc://{folder}/iad2"
[[sensor]]
driver = "synthetic"
"""
MASTERS = ("iad1", "iad2")


def edge(text: str) -> EdgeConfig:
    return parse(tomllib.loads(text), EdgeConfig, "edge.toml")


def test_a_home_is_kept(tmp_path: Path) -> None:
    path = str(tmp_path / "home")
    assert kept_home(path, MASTERS) is None
    assert keep_home(path, "iad2") == ""
    assert kept_home(path, MASTERS) == "iad2"
    assert kept_home(path, ("iad1", "iad3")) is None  # the configuration names it no more
    assert [each.name for each in tmp_path.iterdir()] == ["home"]


@pytest.mark.parametrize("content", [b"", b"\xff\xfe\x00", b"iad2" * 1_000, b"iad9\n"])
def test_a_file_that_names_none_of_its_masters_is_passed_over(
    tmp_path: Path, content: bytes
) -> None:
    path = tmp_path / "home"
    path.write_bytes(content)
    assert kept_home(str(path), MASTERS) is None


def test_a_folder_that_takes_nothing_is_told_in_a_line(tmp_path: Path) -> None:
    told = keep_home(str(tmp_path / "none" / "home"), "iad2")
    assert "No such file" in told
    assert "\n" not in told


@pytest.mark.parametrize(
    ("before", "after", "why"),
    [
        ('iad = "iad1"', "", "master.iad is missing"),
        ('iad = "iad2"', 'iad = "iad1"', "two masters have the iad iad1"),
        ("/iad2", "/iad1", "two masters have the address"),
        ("ipc://{folder}/iad2", "tcp://10.0.0.2:1", "address of master iad2"),
        ('/iad2"', '/iad2"\nkeys = "iad2.public"', "master iad2: trust.key and keys"),
        ('iad = "iad2"', 'iad = "of the north"', "iad"),
    ],
)
def test_masters_that_contradict_themselves_are_refused(before: str, after: str, why: str) -> None:
    assert before in NODE
    with pytest.raises(ConfigError, match=why):
        edge(NODE.replace(before, after))


def test_a_node_with_one_master_needs_no_name_of_it() -> None:
    assert list(
        edge(
            NODE.replace("[[master.other]]", "[metrics]").partition("[metrics]")[0]
            + """
[[sensor]]
driver = "synthetic"
"""
        ).master.all
    ) == ["iad1"]


class Bench:
    """A node in this process, driven by hand."""

    def __init__(self, folder: Path) -> None:
        settings = edge(NODE.format(folder=folder))
        self.lines: list[str] = []
        self.history = History(
            folder / "h.sqlite", "boot", group_readings=600, commit_s=10, retention_s=1e6
        )
        self.node = EdgeNode(
            settings,
            open_sensors(settings.sensor, folder),
            self.history,
            Reporter(self.lines.append, "n1", lambda: 0.0),
            clocks=Clocks(),
        )
        self.node._handle(links.Start())

    def tell(self, kind: Any, value: object) -> None:
        self.node._handle(kind(self.node._link._hello.incarnation, value))

    @property
    def connected_to(self) -> str:
        socket = self.node._socket._socket
        assert socket is not None
        return socket.last_endpoint.decode().rpartition("/")[2]

    def close(self) -> None:
        self.node._socket.close(0.0)
        self.node._pods.stop()
        self.node._disk.close()
        self.node._socket.end()
        self.history.close()


def test_a_node_goes_where_its_master_says_and_is_there_after_a_restart(tmp_path: Path) -> None:
    first = Bench(tmp_path)
    assert first.connected_to == "iad1"
    first.tell(Welcome, 1.0)
    first.tell(HomeMoved, "iad2")
    assert first.connected_to == "iad2"
    first.close()
    again = Bench(tmp_path)
    assert again.connected_to == "iad2"
    assert again.node._link._hello.masters == MASTERS
    again.tell(Welcome, 1.0)
    again.tell(HomeMoved, "iad7")
    assert again.connected_to == "iad2"
    again.close()
    assert any("home is iad7 now; no master has that name" in line for line in again.lines)
