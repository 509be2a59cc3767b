"""systemd units: those of the agents, and those that undo an unconfirmed switch."""

from __future__ import annotations

import contextlib
import os
import sys

from fleet.on_host.files import is_there, sync_folder, write
from fleet.on_host.host import Failure, Host
from fleet.on_host.places import JOURNAL, UNDO, UNITS

UNDO_UNIT = "sanderling-deploy-undo"
# A transient timer that earlier versions armed; systemd does not create one if a file of that name
# exists.
FORMER_UNIT = "sanderling-undo"
BOOT_UNIT = "sanderling-deploy-undo-boot"
# More than TimeoutStopSec= of the agents' units.
STOP_S = 45.0


def start(host: Host, unit: str, patience_s: float) -> None:
    """Restart a unit and wait until it is ready; Failure with the unit's own last line."""
    stop(host, unit)
    try:
        host.run("systemctl", "restart", unit, timeout_s=patience_s)
    except Failure as error:
        raise Failure(f"{unit} does not start: {last_word(host, unit) or error}") from None


def stop(host: Host, unit: str) -> None:
    """Stop a unit, if there is one. Its agent may ask systemd for more time again and again: one
    that has not ended by then is killed."""
    with contextlib.suppress(Failure):
        host.run("systemctl", "stop", unit, timeout_s=STOP_S)
        return
    if _states(host, unit).get("ActiveState") == "deactivating":
        with contextlib.suppress(Failure):
            host.run("systemctl", "kill", "--signal=KILL", unit)
            host.run("systemctl", "stop", unit)


def last_word(host: Host, unit: str) -> str:
    """The last line that the agent itself wrote since its last start."""
    try:
        started = host.run("systemctl", "show", "--value", "-p", "InvocationID", unit).strip()
        text = host.run(
            "journalctl", f"_SYSTEMD_INVOCATION_ID={started}", "-n", "1", "-o", "cat",
            "--no-pager", "-q",
        )  # fmt: skip
    except Failure:
        return ""
    return text.strip().splitlines()[-1].strip()[:300] if text.strip() else ""


def unit_state(host: Host, unit: str) -> tuple[bool, bool]:
    """Whether a unit is active, and whether it is enabled."""
    rows = _states(host, unit)
    return rows.get("ActiveState") == "active", rows.get("UnitFileState") == "enabled"


def _states(host: Host, unit: str) -> dict[str, str]:
    try:
        text = host.run("systemctl", "show", "-p", "ActiveState,UnitFileState", unit)
    except Failure:
        return {}
    return dict(line.split("=", 1) for line in text.splitlines() if "=" in line)


def arm(host: Host, window_s: float, archive: bytes) -> None:
    """Let systemd undo the switch after `window_s` unless `confirm` comes first, even if units or
    the host are restarted."""
    write(host, UNDO, archive, 0o700)
    disarm(host)
    for name, text in undo_units(host, window_s).items():
        if not is_there(host, f"{UNITS}/{name}", text.encode(), 0o644, (0, 0)):
            write(host, f"{UNITS}/{name}", text.encode())
    enable(host, "timers.target", f"{UNDO_UNIT}.timer")
    enable(host, "multi-user.target", f"{BOOT_UNIT}.service")
    host.run("systemctl", "daemon-reload")
    host.run("systemctl", "start", f"{UNDO_UNIT}.timer")


def undo_units(host: Host, window_s: float) -> dict[str, str]:
    """The units that undo a switch, by name: they stay installed, and do nothing if none is
    pending."""
    pending = host.at(f"{JOURNAL}/pending.json")
    program = f"{sys.executable or '/usr/bin/python3'} -I {host.at(UNDO)}"
    return {
        f"{UNDO_UNIT}.service": f"""[Unit]
Description=Undo a deployment that nobody confirmed

[Service]
Type=oneshot
ExecStart={program}
""",
        f"{UNDO_UNIT}.timer": f"""[Unit]
Description=Wait for the verdict on a deployment
# Also at each start of the host: then it waits for the whole time again.
ConditionPathExists={pending}

[Timer]
OnActiveSec={window_s:.0f}
AccuracySec=1s
""",
        f"{BOOT_UNIT}.service": f"""[Unit]
Description=Undo a deployment with which this host does not stay up
ConditionPathExists={pending}
Before=sanderling-edge.service sanderling-master.service

[Service]
Type=oneshot
ExecStart={program} boot
# The agents wait for it.
TimeoutStartSec=60
""",
    }


def enable(host: Host, target: str, unit: str) -> None:
    """As `systemctl enable` does, and on the disk when it returns."""
    folder = host.at(f"{UNITS}/{target}.wants")
    if os.path.lexists(f"{folder}/{unit}"):
        return
    os.makedirs(folder, mode=0o755, exist_ok=True)
    os.symlink(f"{UNITS}/{unit}", f"{folder}/{unit}")
    sync_folder(folder)


def disarm(host: Host) -> None:
    for place, unit in ((UNITS, UNDO_UNIT), ("/run/systemd/transient", FORMER_UNIT)):
        if not os.path.exists(host.at(f"{place}/{unit}.timer")):
            continue
        with contextlib.suppress(Failure):  # there is none
            host.run("systemctl", "stop", f"{unit}.timer")
        with contextlib.suppress(Failure):  # it has not failed
            host.run("systemctl", "reset-failed", f"{unit}.timer", f"{unit}.service")
