"""The probe, on folders that stand for hosts, and what it makes of systemd's words."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fleet.inspect.facts.facts import Facts, parse
from fleet.on_host import facts as probe


def journal(*lines: tuple[str, str, str]) -> str:
    """A host's journal of (release, before, outcome)."""
    rows = [dict(zip(("release", "before", "outcome"), line, strict=True)) for line in lines]
    return "".join(f"{json.dumps(row)}\n" for row in rows)


def put(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


@pytest.fixture
def pi(tmp_path: Path) -> Path:
    put(
        tmp_path,
        {
            "etc/hostname": "n1\n",
            "etc/os-release": 'PRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\nID=debian\n',
            "etc/passwd": "root:x:0:0::/root:/bin/sh\nsanderling:x:999:999::/:/bin/false\n",
            "etc/group": "root:x:0:\n",
            "etc/sanderling/edge.toml": "[node]\n",
            "etc/sanderling/keys/node.secret": "x\n",
            "proc/device-tree/model": "Raspberry Pi 4 Model B Rev 1.4\0",
            "proc/sys/kernel/random/boot_id": "b1\n",
            "proc/uptime": "61.50 200.00\n",
            "proc/loadavg": "0.42 0.10 0.05 1/99 1234\n",
            "proc/meminfo": "MemTotal:  1000 kB\nMemAvailable:   400 kB\n",
            "sys/class/thermal/thermal_zone0/temp": "48312\n",
            "sys/devices/platform/soc/soc:firmware/get_throttled": "50005\n",
            "opt/sanderling/releases/1-a/RELEASE": "1-a\n",
            "opt/sanderling/releases/1-b/RELEASE": "1-b\n",
            "opt/sanderling/releases/1-c.partial/RELEASE": "1-c\n",
            "opt/sanderling/releases/1-d/README": "no release\n",
            "opt/sanderling/releases/ff.upload": "12345",
            "var/lib/sanderling-deploy/kept.json": '{"release": "1-b", "before": "1-a"}',
            "var/lib/sanderling-deploy/journal.jsonl": journal(("1-b", "1-a", "kept")),
            "var/lib/sanderling-deploy/written.json": '{"u": ["/etc/sanderling/edge.toml"]}',
        },
    )
    (tmp_path / "opt/sanderling/current").symlink_to("releases/1-b")
    return tmp_path


def facts_of(root: Path) -> Facts:
    # Through JSON, as it comes from a host.
    return parse(json.loads(json.dumps(probe.facts(str(root)))))


def test_what_a_pi_says(pi: Path) -> None:
    facts = facts_of(pi)
    assert facts.hostname == "n1"
    assert facts.os == "Debian GNU/Linux 12 (bookworm)"
    assert facts.model == "Raspberry Pi 4 Model B Rev 1.4"
    assert (facts.uptime_s, facts.load, facts.celsius) == (61.5, 0.42, 48.312)
    assert (facts.memory_total_bytes, facts.memory_available_bytes) == (1_024_000, 409_600)
    assert facts.user
    assert facts.troubles_now == ("under-voltage", "throttled")
    assert facts.troubles_since_boot == ("under-voltage", "throttled")
    assert set(facts.files) == {"/etc/sanderling/edge.toml", "/etc/sanderling/keys/node.secret"}
    assert facts.releases.current == "1-b"
    assert (facts.releases.previous, facts.releases.before) == ("1-a", "1-a")
    assert facts.written == {"u": ("/etc/sanderling/edge.toml",)}
    assert set(facts.releases.stored) == {"1-a", "1-b"}
    assert facts.uploaded is not None
    assert (facts.uploaded.name, facts.uploaded.bytes) == ("ff.upload", 5)
    assert facts.pending is None


def test_nothing_is_there_on_a_bare_host(tmp_path: Path) -> None:
    facts = facts_of(tmp_path)
    assert facts.releases == parse({"hostname": "", "machine": "", "python": ""}).releases
    assert facts.files == {}
    assert facts.throttled is None
    assert not facts.user


@pytest.mark.parametrize(("boot", "watched"), [("b1", True), ("b0", False)])
def test_a_switch_without_a_verdict_is_seen(pi: Path, boot: str, watched: bool) -> None:
    pending = {"run": "r", "release": "1-b", "before": "1-a", "boot_id": boot, "deadline_s": 1e12}
    put(pi, {"var/lib/sanderling-deploy/pending.json": json.dumps(pending)})
    found = facts_of(pi).pending
    assert found is not None
    assert (found.release, found.before) == ("1-b", "1-a")
    assert (found.seconds_left is not None) == watched


@pytest.mark.parametrize(
    "kept", ['{"release": "1-a", "before": "1-0"}', "{cut off", "[]", '{"release": "1-b"}']
)
def test_only_what_led_to_the_current_release_can_be_undone(pi: Path, kept: str) -> None:
    put(pi, {"var/lib/sanderling-deploy/kept.json": kept})
    assert facts_of(pi).releases.before == ""


@pytest.mark.parametrize(
    ("lines", "current", "expected"),
    [
        ([], "b", ""),
        ([("b", "", "kept")], "b", ""),
        ([("b", "a", "kept")], "b", "a"),
        ([("b", "a", "kept"), ("b", "b", "kept")], "b", "a"),
        ([("b", "a", "kept"), ("b", "b", "kept"), ("b", "b", "rolled_back")], "b", "a"),
        ([("b", "a", "kept"), ("c", "b", "rolled_back")], "b", "a"),
        ([("b", "a", "kept"), ("c", "b", "kept"), ("c", "b", "rolled_back")], "b", "a"),
        # Deployed from an image, whose release is in no line as a new one.
        ([("b", "a", "kept"), ("a", "b", "kept")], "a", "b"),
        ([("b", "a", "kept"), ("c", "b", "kept")], "b", "c"),  # a verdict is awaited, or lost
    ],
)
def test_the_last_other_release_is_the_last_good_one(
    lines: list[tuple[str, str, str]], current: str, expected: str
) -> None:
    assert probe.last_other(journal(*lines) + "{cut off", current) == expected


SHOWN = """\
Id=sanderling-edge.service
MainPID=42
NRestarts=3
NeedDaemonReload=yes
LoadState=loaded
ActiveState=active
SubState=running
UnitFileState=enabled
Result=success
StatusText=known to its master=yes

Id=sanderling-master.service
MainPID=0
NRestarts=0
LoadState=not-found
ActiveState=inactive
SubState=dead
"""


def test_units_as_systemctl_shows_them() -> None:
    found: dict[str, Any] = probe.units_of(SHOWN, lambda pid: "1-b" if pid else "")
    facts = parse({"hostname": "", "machine": "", "python": "", "units": found})
    edge = facts.units["sanderling-edge.service"]
    assert (edge.active, edge.enabled, edge.restarts, edge.running) == (
        "active", "enabled", 3, "1-b"
    )  # fmt: skip
    assert edge.needs_reload
    assert edge.status == "known to its master=yes"
    assert facts.units["sanderling-master.service"].load == "not-found"
    assert probe.units_of("", lambda pid: "") == {}


@pytest.mark.parametrize("end", ["\x0b", "\x0c", "\x1c", "\x85", "\u2028", "\r"])
def test_an_agent_s_status_names_no_other_property(end: str) -> None:
    said = SHOWN.replace("known to its master", f"up{end}MainPID=none{end}NRestarts=few{end}Id=x")
    found = probe.units_of(said, lambda pid: "1-b" if pid else "")
    assert {*found} == {"sanderling-edge.service", "sanderling-master.service"}
    edge = found["sanderling-edge.service"]
    assert (edge["restarts"], edge["running"]) == (3, "1-b")
    assert edge["status"].startswith(f"up{end}MainPID=none")


def test_an_agent_s_status_may_be_of_any_length() -> None:
    said = SHOWN.replace("known to its master", "\N{MULTIPLICATION SIGN}" * 2_000)
    found = probe.units_of(said, lambda pid: "1-b" if pid else "")
    facts = parse({"hostname": "", "machine": "", "python": "", "units": found})
    assert len(facts.units["sanderling-edge.service"].status) == 512
