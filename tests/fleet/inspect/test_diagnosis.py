"""The doctor's probe: what it makes of what tools and the kernel say, and that it runs."""

import socket

import msgspec
import pytest

from fleet.inspect.facts.diagnosis import Diagnosis
from fleet.on_host import diagnosis, facts
from tests.fleet.on_host.running import run

LINES = {
    "mmc0: error -110 whilst initialising SD card": True,
    "mmc1: Timeout waiting for hardware interrupt.": True,
    "mmcblk0: error -5 sending stop command, original cmd response 0x900": True,
    "blk_update_request: I/O error, dev mmcblk0, sector 2048 op 0x0:(READ)": True,
    "Buffer I/O error on dev mmcblk0p2, logical block 0, async page read": True,
    "EXT4-fs error (device mmcblk0p2): ext4_find_entry:1682: inode #2: comm ls": True,
    "EXT4-fs (mmcblk0p2): Remounting filesystem read-only": True,
    "FAT-fs (mmcblk0p1): error, fat_get_cluster: invalid cluster chain": True,
    "mmc0: new high speed SDHC card at address aaaa": False,
    "EXT4-fs (mmcblk0p2): mounted filesystem with ordered data mode.": False,
    "usb 1-1: reset high-speed USB device": False,
}


@pytest.mark.parametrize(("text", "about_the_card"), LINES.items())
def test_what_the_kernel_says_of_a_card(text, about_the_card):
    assert bool(diagnosis.CARD.search(text)) == about_the_card


@pytest.mark.parametrize(
    ("text", "about_power"),
    [
        ("hwmon hwmon1: Undervoltage detected!", True),
        ("Under-voltage detected! (0x00050005)", True),
        ("hwmon hwmon1: Voltage normalised", True),
        ("usb 1-1: over-current condition", False),
    ],
)
def test_what_the_kernel_says_of_power(text, about_power):
    assert bool(diagnosis.POWER.search(text)) == about_power


def test_chrony_counts_sources_that_answered_of_late():
    said = (
        "^,*,192.0.2.1,2,6,377,12,0.0001,0.0001,0.01\n"
        "^,?,192.0.2.2,0,6,0,0,0.0,0.0,0.0\n"
        "^,-,192.0.2.3,2,6,100,300,0.1,0.1,0.1\n"
    )
    assert diagnosis.chrony(said) == {"service": "chrony", "sources": 3, "answering": 2}


@pytest.mark.parametrize(
    ("chronyc", "service"),
    [("exit 0", "chrony"), ("echo '506 Cannot talk to daemon'; exit 1", "")],
)
def test_chrony_without_a_server_is_there_and_one_that_does_not_run_is_not(
    chronyc, service, tmp_path, monkeypatch
):
    for name, body in (("chronyc", chronyc), ("timedatectl", "exit 1")):
        program = tmp_path / name
        program.write_text(f"#!/bin/sh\n{body}\n")
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    found = diagnosis._time()
    assert (found["service"], found.get("sources", 0)) == (service, 0)


def test_timesyncd_has_one_server_and_perhaps_its_answer():
    silent = "ServerAddress=192.0.2.1\nNTPMessage=\n"
    assert diagnosis.timesyncd(silent)["answering"] == 0
    heard = "ServerAddress=192.0.2.1\nNTPMessage={ Leap=0, Version=4, Stratum=2 }\n"
    assert diagnosis.timesyncd(heard) == {
        "service": "systemd-timesyncd",
        "sources": 1,
        "answering": 1,
    }


def test_the_last_complaints_of_a_unit():
    rows = [
        {"MESSAGE": f"line {n}", "PRIORITY": str(4 if n % 2 else 6), "SANDERLING_KIND": "sensor"}
        for n in range(30)
    ]
    found = diagnosis.complaints([*rows, {"MESSAGE": [104, 105], "PRIORITY": "3"}, {}])
    assert [row["text"] for row in found] == ["line 23", "line 25", "line 27", "line 29", "hi"]
    assert found[0]["kind"] == "sensor"


@pytest.mark.parametrize(
    "odd",
    [
        "x",
        "",
        "3.5",
        "\ud800",
        None,
        [],
        [255, 254],
        ["a", "3"],
        ["a", [51]],
        [[], None],
        ["3", None],
    ],
)
def test_an_agent_may_write_any_fields_into_the_journal(odd):
    names = ("MESSAGE", "PRIORITY", "SANDERLING_KIND", "SANDERLING_SENSOR")
    for name in names:
        row = {"MESSAGE": "why", "PRIORITY": "3", name: odd, "__REALTIME_TIMESTAMP": "1500000"}
        for found in (diagnosis._entry(row), *diagnosis.complaints([row])):
            assert found["time_s"] == 1.5
            assert all(isinstance(found[each], str) for each in ("text", "kind", "sensor"))
    several = {"MESSAGE": ["one", "two"], "PRIORITY": ["abc", "3"]}
    assert [each["text"] for each in diagnosis.complaints([several])] == ["two"]


def test_it_runs_by_the_systems_python_and_tells_which_ports_answer():
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        ports = [server.getsockname()[1], closed.getsockname()[1]]
        request = {"units": ["none.service"], "connect": [["127.0.0.1", port] for port in ports]}
        (answer,) = run({"do": "diagnosis", **request}, python="python3")
    found = msgspec.convert(answer, Diagnosis)
    assert [each.error for each in found.connects] == ["", "Connection refused"]
    assert found.agent == {"none.service": ()}
    assert found.last == {}


def test_what_systemd_says_about_a_unit_is_not_its_own():
    rows = [
        {"MESSAGE": "edge.toml: unknown key", "_SYSTEMD_UNIT": "a.service"},
        {
            "MESSAGE": "Failed to start a.service",
            "_SYSTEMD_UNIT": "init.scope",
            "UNIT": "a.service",
        },
    ]
    assert diagnosis._own(rows, "a.service") == rows[:1]


def test_an_alarm_without_the_firmwares_bits_counts_as_since_boot(tmp_path):
    folder = tmp_path / "sys/class/hwmon/hwmon1"
    folder.mkdir(parents=True)
    (folder / "name").write_text("rpi_volt\n")
    (folder / "in0_lcrit_alarm").write_text("1\n")
    assert facts._throttled(str(tmp_path)) == 1 << 16
    (folder / "in0_lcrit_alarm").write_text("0\n")
    assert facts._throttled(str(tmp_path)) == 0
    assert facts._throttled(str(tmp_path / "elsewhere")) is None


def test_which_python_a_release_is_for(tmp_path):
    (tmp_path / "r1/lib/python3.11").mkdir(parents=True)
    assert facts._made_for(str(tmp_path), "r1") == "3.11"
    assert facts._made_for(str(tmp_path), "r2") == ""
    assert facts._made_for(str(tmp_path), "") == ""
