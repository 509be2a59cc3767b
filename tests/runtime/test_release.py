"""Which release runs: from the virtual environment's file to what the operator is told."""

import sys

import pytest

from agent.master.master import Master
from agent.runtime.release import release
from agent.scheduling.tasks.entry import Node
from agent.wire.config import parse
from agent.wire.master_config import MasterConfig
from tests.scheduling.oracle import hello

RELEASE = "0.1.0-3f9c2a1b"


@pytest.fixture
def released(tmp_path, monkeypatch):
    """A virtual environment that is a release, and this process in it."""
    (tmp_path / "RELEASE").write_text(RELEASE + "\n")
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    return tmp_path


def test_the_release_is_one_line_of_the_environment(released):
    assert release() == RELEASE


@pytest.mark.parametrize("content", [b"", b"\n", b"\xff\xfe", b"x" * 65, b"a\x1b[2Jb\n"])
def test_what_is_no_release_id_is_none(tmp_path, content):
    (tmp_path / "RELEASE").write_bytes(content)
    assert release(str(tmp_path)) == ""


def test_a_checkout_has_none(tmp_path):
    assert release(str(tmp_path)) == ""


def test_a_nodes_status_tells_what_its_hello_said():
    node = Node("n1", 0)
    node.hello = hello("n1", "boot", release=RELEASE)
    node.state = "live"
    assert node.status(0).version == RELEASE


def test_a_master_tells_its_own_as_it_was_at_its_start(released):
    table = {
        "iad": {"name": "iad1"},
        "sockets": {"public": f"ipc://{released}/public", "operator": f"ipc://{released}/operator"},
    }
    master = Master(parse(table, MasterConfig, "test"), released, run="run")
    (released / "RELEASE").write_text("0.2.0-00000000\n")
    try:
        assert master._status().version == RELEASE
    finally:
        master.close()
