"""Hosts that start before the verdict, and what former versions left on them."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from fleet.on_host.host import Failure
from fleet.ssh.remote import host_program
from tests.fleet.on_host.rig import (
    CONFIG,
    SECRET,
    UNIT,
    Fake,
    confirm,
    pending,
    start_host,
    switch,
    undo,
    units,
)


def test_a_host_that_is_started_before_the_verdict_waits_for_it_anew(host: Fake) -> None:
    start_host(host, 0)
    switch(host, "1-a", {CONFIG: "one"})
    before = pending(host)
    assert host.calls
    start_host(host, 1)
    assert pending(host)["deadline_s"] > before["deadline_s"]
    assert pending(host)["boot_id"] == "boot-1"  # so that facts know that a timer runs
    start_host(host, 1)  # somebody started the unit by hand
    assert host.calls == []
    assert host.files["etc/sanderling/edge.toml"] == b"one"
    assert confirm(host) == {"ok": True}
    start_host(host, 2)
    assert host.files["etc/sanderling/edge.toml"] == b"one"


def test_a_host_that_does_not_stay_up_with_a_release_goes_back_before_its_agent_starts(
    host: Fake,
) -> None:
    start_host(host, 0)
    switch(host, "1-a", {CONFIG: "one"})
    confirm(host)
    before = host.files
    switch(host, "1-b", {CONFIG: "two"}, "r2")
    start_host(host, 1)
    assert host.files != before
    assert host.calls
    assert start_host(host, 2)["release"] == "1-a"
    assert host.files == before
    assert host.journal[-1]["outcome"] == "rolled_back"
    assert "started 2 times" in host.journal[-1]["reason"]
    # It must not wait for a unit that waits for it.
    calls = host.calls
    assert f"systemctl --no-block restart {UNIT}" in calls
    assert not [call for call in calls if call.startswith(("systemctl restart", "systemctl start"))]
    with pytest.raises(Failure, match="went back before the verdict came: it was started 2 times"):
        confirm(host, "r2")


def test_a_new_switch_has_its_own_starts(host: Fake) -> None:
    start_host(host, 0)
    switch(host, "1-a", {CONFIG: "one"})
    start_host(host, 1)
    switch(host, "1-b", {CONFIG: "two"}, "r2")
    start_host(host, 2)
    assert host.files["etc/sanderling/edge.toml"] == b"two"


def test_systemd_starts_what_undoes_at_each_start_of_the_host(host: Fake) -> None:
    switch(host, "1-a", {CONFIG: "one"})
    wants = {path.parent.name: path for path in units(host).glob("*.wants/*")}
    assert set(wants) == {"timers.target.wants", "multi-user.target.wants"}
    for path in wants.values():
        assert path.readlink() == Path("/etc/systemd/system") / path.name
        assert (units(host) / path.name).exists()
    there = host.at("/var/lib/sanderling-deploy/pending.json")
    for name in ("sanderling-deploy-undo.timer", "sanderling-deploy-undo-boot.service"):
        assert f"\nConditionPathExists={there}\n" in (units(host) / name).read_text()
    assert (
        f"{host.at('/var/lib/sanderling-deploy/undo.py')} boot\n"
        in (units(host) / "sanderling-deploy-undo-boot.service").read_text()
    )
    host.calls  # noqa: B018 - empties it
    switch(host, "1-b", {CONFIG: "two"}, "r2")
    stop = host.calls.index("systemctl stop sanderling-deploy-undo.timer")
    assert stop == 0, "the time of the switch before is over"


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd-analyze")
def test_systemd_knows_every_line_of_its_units(host: Fake) -> None:
    switch(host, "1-a", {CONFIG: "one"})
    for path in units(host).glob("sanderling-deploy-undo*"):
        done = subprocess.run(
            ["systemd-analyze", "verify", "--man=no", path],
            capture_output=True,
            text=True,
            check=False,
        )
        said = [line for line in done.stderr.splitlines() if "sanderling-deploy-undo" in line]
        assert (done.returncode, said) == (0, []), done.stderr


@pytest.mark.parametrize("argument", [(), ("boot",)])
def test_the_program_left_on_the_host_undoes_by_itself(
    host: Fake, argument: tuple[str, ...]
) -> None:
    """As the timer starts it, or the host's second start: without a request."""
    start_host(host, 0)
    switch(host, "1-a", {"/etc/sanderling/edge.toml": "one"})
    if argument:
        start_host(host, 1)
        (host.folder / "proc/sys/kernel/random/boot_id").write_text("boot-2\n")
    record = host.folder / "var/lib/sanderling-deploy/pending.json"
    record.write_text(json.dumps(pending(host) | {"deadline_s": 0.0}))
    program = host.at("/var/lib/sanderling-deploy/undo.py")
    done = subprocess.run(
        [sys.executable, "-I", program, *argument],
        env={"PATH": f"{host.tools}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
    )
    last = json.loads(done.stdout.splitlines()[-1])
    assert last["ok"]
    assert host.files == {}


FORMER = {
    "before": "1-a",
    "folder": "saved-1",
    "files": [
        {
            "path": CONFIG,
            "saved": "0",
            "mode": 0o644,
            "owner": [0, 0],
            "wrote": [hashlib.sha256(b"two").hexdigest()],
        },
        {"path": SECRET, "saved": None, "wrote": [hashlib.sha256(b"key").hexdigest()]},
    ],
    "unit": UNIT,
    "was_active": True,
    "was_enabled": True,
    "run": "r2",
    "release": "1-b",
    "boots": 1,
    "boot_id": "boot-1",
    "window_s": 100,
    "deadline_s": 1.0,
}


@pytest.mark.parametrize("way", ["boot", "pending", "kept", "switch"])
def test_what_the_program_of_one_file_left_on_a_host_is_understood(host: Fake, way: str) -> None:
    """As of 0.1.0, whose undo.py was that file; units and files have the same names."""
    switch(host, "1-a", {CONFIG: "one"})
    confirm(host)
    before = host.files
    switch(host, "1-b", {CONFIG: "two", SECRET: "key"}, "r2")
    there = host.folder / "var/lib/sanderling-deploy"
    (there / "undo.py").write_text("# one file\n")
    for path in ("pending.json", "kept.json"):
        (there / path).unlink(missing_ok=True)
    (there / "saved-1").mkdir()
    (there / "saved-1/0").write_text("one")
    (there / ("kept.json" if way == "kept" else "pending.json")).write_text(json.dumps(FORMER))
    if way == "boot":
        start_host(host, 2)
    elif way == "switch":
        switch(host, "1-c", {CONFIG: "three"}, "r3")
        assert (there / "undo.py").read_bytes() == host_program()
        undo(host)
    else:
        undo(host, way)
    assert host.files == before
