"""The agent under a real systemd, in its sandbox. Two minutes; `make test-systemd`, root only."""

from __future__ import annotations

import pytest

from tests.systemd.host import UNIT, Host, missing

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())

PROBE = """
import ctypes
print("adjtimex", ctypes.CDLL(None).adjtimex(ctypes.create_string_buffer(256)))
"""


@pytest.fixture(scope="module")
def host(tmp_path_factory):
    made = Host(tmp_path_factory.mktemp("host"))
    yield made
    made.close()


def test_it_starts_is_ready_and_stops_cleanly(host):
    host.configure()
    host.run("systemctl", "start", UNIT)  # returns with READY=1
    assert host.shows("ActiveState") == "active"
    assert "not joined" in host.shows("StatusText")
    host.run("systemctl", "stop", UNIT)
    # A stop that takes longer than TimeoutStopSec has the result timeout.
    assert (host.shows("Result"), host.shows("ExecMainStatus")) == ("success", "0")
    stored = host.root / "var/lib/sanderling/history.sqlite"
    assert stored.stat().st_mode & 0o777 == 0o640


def test_entries_of_the_journal_have_fields(host):
    host.configure()
    host.run("systemctl", "start", UNIT)
    entry = host.await_entry("no answer from the master")
    wanted = {
        "SYSLOG_IDENTIFIER": "sanderling-edge",
        "PRIORITY": "4",
        "SANDERLING_NODE": "n1",
        "SANDERLING_KIND": "silence",
        "_TRANSPORT": "journal",
    }
    assert {name: entry.get(name) for name in wanted} == wanted
    host.run("systemctl", "stop", UNIT)


def test_what_is_killed_comes_back(host):
    host.configure(unit="[Service]\nRestartSec=0\n")
    host.run("systemctl", "start", UNIT)
    first = host.shows("InvocationID")
    host.run("systemctl", "kill", "-s", "KILL", UNIT)
    host.await_entry("Scheduled restart job", first)
    host.run("systemctl", "stop", UNIT)


def test_a_configuration_that_cannot_be_used_is_not_tried_again(host):
    host.configure("[nonsense]\n")
    host.run("systemctl", "start", UNIT, check=False)
    assert host.shows("SubState") == "failed"
    assert (host.shows("ExecMainStatus"), host.shows("NRestarts")) == ("2", "0")


def test_a_stuck_sensor_is_seen_and_the_agent_started_again(host):
    host.configure('[[sensor]]\ndriver = "stuck"\n', unit="[Service]\nWatchdogSec=4\n")
    host.run("systemctl", "start", UNIT)
    entry = host.await_entry("has not come back for")
    assert (entry["SANDERLING_SENSOR"], entry["PRIORITY"]) == ("stuck", "3")
    run = host.shows("InvocationID")
    host.await_entry("Failed with result 'watchdog'", run)
    # The way to the driver that hangs.
    assert "lib/stuck.py" in host.await_entry("lib/stuck.py", run)["MESSAGE"]
    host.run("systemctl", "stop", UNIT)


def test_the_sandbox_lets_it_ask_whether_the_clock_is_synchronised(host):
    unit = (host.root / "etc/systemd/system" / UNIT).read_text()
    (host.root / "probe.py").write_text(PROBE)
    lines = [
        line
        for line in unit.splitlines()
        if not line.startswith(("Type", "NotifyAccess", "Watchdog", "Restart", "ExecStart"))
    ]
    lines.insert(lines.index("[Service]") + 1, "Type=oneshot\nExecStart=/usr/bin/python3 /probe.py")
    (host.root / "etc/systemd/system/probe.service").write_text("\n".join(lines))
    host.run("systemctl", "daemon-reload")
    host.run("systemctl", "start", "probe.service")
    said = host.run("journalctl", "-u", "probe.service", "-o", "cat")
    [answer] = [line.split()[1] for line in said.splitlines() if line.startswith("adjtimex")]
    assert int(answer) >= 0
