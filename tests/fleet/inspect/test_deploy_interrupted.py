"""Ctrl-C in `fleet deploy`, in a process of its own, on hosts that are logged in to."""

import os
import signal
import subprocess

import pytest

from fleet.common import exits
from fleet.inventory.loader import load
from fleet.keys.store import Store
from fleet.rollout.journal import unfinished
from testkit.agent_process import installed

FLEET = installed("fleet")
NODES = ["iad4/n1", "iad4/n2", "iad4/n3"]
# Says that it was begun, and ends when it may.
SUDO = """#!/bin/sh
echo begun > "$HOST/begun"
read -r _ < "$HOST/go"
echo 'sudo: a password is required' >&2
exit 1
"""


@pytest.fixture
def under_way(site):
    """A deployment whose hosts are all being looked at."""
    text = site.folder.inventory.read_text()
    site.folder.inventory.write_text(text.replace("local = true\n", ""))
    Store(site.folder).ensure(load(site.folder))
    for host in site.hosts.values():
        os.mkfifo(host.folder / "begun")
        os.mkfifo(host.folder / "go")
    site.everywhere("sudo", SUDO)
    command = [FLEET, "deploy", "--limit", "iad4/n*", "--yes", "--allow-dirty"]
    env = {**os.environ, "SANDERLING_FLEET": str(site.folder.root)}
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=env) as process:
        for host in site.hosts.values():
            assert (host.folder / "begun").read_text() == "begun\n"
        process.send_signal(signal.SIGINT)
        assert process.stderr is not None
        assert process.stderr.readline().startswith("interrupted: what is under way comes to")
        yield process
        process.kill()


def test_ctrl_c_ends_what_is_under_way_and_the_next_run_goes_on(site, under_way):
    for host in site.hosts.values():
        (host.folder / "go").write_text("\n")
    _, errors = under_way.communicate(timeout=60)
    assert under_way.returncode == exits.INTERRUPTED
    assert "stopped: interrupted" in errors
    assert "Traceback" not in errors
    assert unfinished(site.folder, NODES) == dict.fromkeys(NODES, "")


def test_a_second_ctrl_c_cuts_it_in_one_line(site, under_way):
    under_way.send_signal(signal.SIGINT)
    _, errors = under_way.communicate(timeout=60)
    assert under_way.returncode == exits.INTERRUPTED
    assert errors.splitlines() == ["fleet: interrupted"]
    assert unfinished(site.folder, NODES) == dict.fromkeys(NODES, "")
