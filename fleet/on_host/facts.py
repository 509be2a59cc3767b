"""The facts of a host as one JSON document; read-only. A fact that cannot be read is left out,
so that a host with one fault still reports the others."""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import platform
import pwd
import re
import subprocess
import sys
import time
from typing import Any

from fleet.on_host.files import at_once, read
from fleet.on_host.places import CONFIGURATION, JOURNAL, SYSUSERS

OPT = "/opt/sanderling"
MANAGED = (CONFIGURATION,)
MANAGED_FILES = (
    "/etc/systemd/system/sanderling-edge.service",
    "/etc/systemd/system/sanderling-master.service",
    SYSUSERS,
    "/usr/lib/udev/rules.d/60-sanderling.rules",
)
UNITS = ("sanderling-edge.service", "sanderling-master.service", "sanderling-firstboot.service")
SHOWN = {
    "LoadState": "load",
    "ActiveState": "active",
    "SubState": "sub",
    "UnitFileState": "enabled",
    "Result": "result",
    "StatusText": "status",
}
MAX_BYTES = 1 << 20
# The operator takes no longer one (`Word` in fleet/inspect/facts/facts.py); a status may be 4 KB.
MAX_WORD = 512
THROTTLED = "/sys/devices/platform/soc/soc:firmware/get_throttled"
# adjtimex(2): the state that says that the clock is not synchronised.
TIME_ERROR = 5


def facts(root: str) -> dict[str, Any]:
    """All facts of the host whose file system is at `root`."""
    real = root == "/"
    found: dict[str, Any] = {
        "ok": True,
        "hostname": platform.node() if real else _word(root, "/etc/hostname"),
        "machine": platform.machine(),
        "python": ".".join(platform.python_version_tuple()[:2]),
        "kernel": platform.release(),
        "model": _word(root, "/proc/device-tree/model"),
        "boot_id": _word(root, "/proc/sys/kernel/random/boot_id"),
        "uptime_s": _first_number(root, "/proc/uptime"),
        "load": _first_number(root, "/proc/loadavg"),
        "reboot_required": os.path.exists(_at(root, "/run/reboot-required")),
        "user": _has_user(root),
        "disks": _disks(root),
        "releases": _releases(root),
        "files": _files(root),
        "written": _written(root),
        "units": _units() if real else {},
        "failed_units": _failed_units() if real else [],
        "systemd": _systemd() if real else 0,
        "clock": _clock(),
        "pending": _pending(root),
        "uploaded": _uploaded(root),
        "celsius": _celsius(root),
        "throttled": _throttled(root),
    }
    found.update(_os(root))
    found.update(_memory(root))
    return found


def _at(root: str, path: str) -> str:
    return root.rstrip("/") + path


def _text(root: str, path: str) -> str:
    try:
        path = _at(root, path)
        with open(path, encoding="utf-8", errors="replace", opener=at_once) as file:
            return file.read(MAX_BYTES)
    except OSError:
        return ""


def _word(root: str, path: str) -> str:
    return _text(root, path).replace("\0", "").strip()


def _first_number(root: str, path: str) -> float:
    words = _text(root, path).split()
    return float(words[0]) if words else 0.0


def _json(root: str, path: str) -> Any:
    try:
        return json.loads(_text(root, path))
    except (ValueError, RecursionError):
        return None


def _os(root: str) -> dict[str, str]:
    rows = dict(re.findall(r'(?m)^(\w+)="?([^"\n]*)"?$', _text(root, "/etc/os-release")))
    return {"os": rows.get("PRETTY_NAME", ""), "os_id": rows.get("ID", "")}


def _memory(root: str) -> dict[str, int]:
    rows = dict(re.findall(r"(?m)^(\w+):\s+(\d+) kB", _text(root, "/proc/meminfo")))
    return {
        "memory_total_bytes": int(rows.get("MemTotal", 0)) * 1024,
        "memory_available_bytes": int(rows.get("MemAvailable", 0)) * 1024,
    }


def _has_user(root: str) -> bool:
    if root == "/":
        try:
            return pwd.getpwnam("sanderling") is not None
        except KeyError:
            return False
    return re.search(r"(?m)^sanderling:", _text(root, "/etc/passwd")) is not None


def _celsius(root: str) -> float | None:
    found = _word(root, "/sys/class/thermal/thermal_zone0/temp")
    return int(found) / 1000 if found.lstrip("-").isdigit() else None


def _throttled(root: str) -> int | None:
    """The firmware's throttling bits. A kernel without them has the under-voltage alarm, which
    stays set, so it counts as an event since boot."""
    try:
        return int(_word(root, THROTTLED), 16)
    except ValueError:
        pass
    for number in range(16):
        if _word(root, f"/sys/class/hwmon/hwmon{number}/name") == "rpi_volt":
            alarm = _word(root, f"/sys/class/hwmon/hwmon{number}/in0_lcrit_alarm")
            return 1 << 16 if alarm == "1" else 0
    return None


def _clock() -> dict[str, Any]:
    found: dict[str, Any] = {"now_s": time.time()}
    try:
        size = ctypes.sizeof(ctypes.c_long)
        timex = ctypes.create_string_buffer(64 * size)
        state = ctypes.CDLL(None, use_errno=True).adjtimex(timex)
        if state >= 0:
            found["synchronised"] = state != TIME_ERROR
            # Fields modes, offset, freq, maxerror (microseconds), each the size of a long.
            error_us = int.from_bytes(timex.raw[3 * size : 4 * size], sys.byteorder)
            found["max_error_s"] = error_us / 1e6
    except (OSError, AttributeError):
        pass
    return found


def _disks(root: str) -> dict[str, Any]:
    """File systems, each by the first of these folders that lies on it."""
    found: dict[str, Any] = {}
    seen = set()
    for path in ("/", "/opt", "/var/lib", "/var/log", "/boot/firmware", "/tmp"):  # noqa: S108 - asked for its room only
        try:
            device = os.stat(_at(root, path)).st_dev
            if device in seen:
                continue
            seen.add(device)
            room = os.statvfs(_at(root, path))
        except OSError:
            continue
        found[path] = {
            "total_bytes": room.f_blocks * room.f_frsize,
            "free_bytes": room.f_bavail * room.f_frsize,
            "free_inodes": room.f_favail if room.f_files else 1 << 40,
            "read_only": bool(room.f_flag & os.ST_RDONLY),
            "device": _device(root, device),
            "life_used_percent": _life(root, device),
        }
    return found


def _block(root: str, device: int) -> str:
    """The folder in /sys of a file system's block device; empty if there is none."""
    path = _at(root, f"/sys/dev/block/{os.major(device)}:{os.minor(device)}")
    return os.path.realpath(path) if os.path.exists(path) else ""


def _device(root: str, device: int) -> str:
    return os.path.basename(_block(root, device))


def _life(root: str, device: int) -> int | None:
    """A card's wear indicator in steps of 10 %: the worse of its two types of cells."""
    block = _block(root, device)
    for folder in (block, os.path.dirname(block)):
        try:
            with open(f"{folder}/device/life_time", encoding="ascii") as file:
                return min(100, 10 * max(int(word, 16) for word in file.read().split()))
        except (OSError, ValueError):
            continue
    return None


def _releases(root: str) -> dict[str, Any]:
    folder = _at(root, f"{OPT}/releases")
    try:
        stored = sorted(
            (name for name in os.listdir(folder) if os.path.isfile(f"{folder}/{name}/RELEASE")),
            key=lambda name: os.stat(f"{folder}/{name}/RELEASE").st_mtime,
        )
    except OSError:
        stored = []
    try:
        current = os.path.basename(os.readlink(_at(root, f"{OPT}/current")))
    except OSError:
        current = ""
    kept = _json(root, f"{JOURNAL}/kept.json")
    before = kept.get("before", "") if isinstance(kept, dict) else ""
    if before not in stored or kept.get("release") != current:
        before = ""
    previous = last_other(_text(root, f"{JOURNAL}/journal.jsonl"), current)
    return {
        "current": current,
        "previous": previous if previous in stored else "",
        "before": before,
        "run": kept["run"] if before and isinstance(kept.get("run"), str) else "",
        "stored": [name for name in stored if not name.endswith(".partial")],
        "python": _made_for(folder, current),
    }


def last_other(journal: str, current: str) -> str:
    """The last good release before the current one, by the host's own journal; empty if unknown."""
    used: list[str] = []
    for text in journal.splitlines():
        try:
            line = json.loads(text)
            release, before, outcome = line["release"], line["before"], line["outcome"]
        except (ValueError, TypeError, KeyError, RecursionError):
            continue
        if release == before:  # files alone were changed
            continue
        if outcome == "kept":
            used += [name for name in (before, release) if name and name not in used[-1:]]
        elif used[-1:] == [release]:  # it was kept, and then rolled back
            used.pop()
    return next((name for name in reversed(used) if name != current), "")


def _written(root: str) -> dict[str, list[str]]:
    found = _json(root, f"{JOURNAL}/written.json")
    return found if isinstance(found, dict) else {}


def _made_for(folder: str, release: str) -> str:
    """The Python that a release is built for, from its lib/pythonX.Y; empty if there is none."""
    try:
        names = os.listdir(f"{folder}/{release}/lib") if release else []
    except OSError:
        return ""
    return next((n[len("python") :] for n in sorted(names) if n.startswith("python3.")), "")


def _files(root: str) -> dict[str, Any]:
    paths = list(MANAGED_FILES)
    for top in MANAGED:
        for folder, _, names in os.walk(_at(root, top)):
            inside = folder[len(root.rstrip("/")) :]
            paths += [f"{inside}/{name}" for name in names]
    found = {}
    for path in sorted(paths):
        try:
            content, status = read(_at(root, path))
        except OSError:
            continue
        found[path] = {
            "sha256": hashlib.sha256(content).hexdigest(),
            "mode": status.st_mode & 0o7777,
            "owner": _name(root, "/etc/passwd", status.st_uid),
            "group": _name(root, "/etc/group", status.st_gid),
        }
    return found


def _name(root: str, table: str, number: int) -> str:
    for line in _text(root, table).splitlines():
        fields = line.split(":")
        if len(fields) > 2 and fields[2] == str(number):
            return fields[0]
    return str(number)


def _run(*command: str) -> str:
    try:
        done = subprocess.run(command, capture_output=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.decode(errors="replace")


def _systemd() -> int:
    if not os.path.isdir("/run/systemd/system"):
        return 0
    match = re.search(r"systemd (\d+)", _run("systemctl", "--version"))
    return int(match[1]) if match else 0


def _units() -> dict[str, Any]:
    wanted = ",".join(["Id", "MainPID", "NRestarts", "NeedDaemonReload", *SHOWN])
    return units_of(_run("systemctl", "show", "-p", wanted, *UNITS), _running)


def units_of(text: str, running: Any) -> dict[str, Any]:
    """Units by name, from the output of `systemctl show`; `running` returns a process's release."""
    found = {}
    for block in text.strip().split("\n\n"):
        # A status is what the agent says: form feeds and such end no line.
        rows = dict(line.split("=", 1) for line in block.split("\n") if "=" in line)
        if "Id" not in rows:
            continue
        unit: dict[str, Any] = {name: rows.get(key, "")[:MAX_WORD] for key, name in SHOWN.items()}
        unit["restarts"] = int(rows.get("NRestarts") or 0)
        unit["needs_reload"] = rows.get("NeedDaemonReload") == "yes"
        unit["running"] = running(int(rows.get("MainPID") or 0))
        found[rows["Id"]] = unit
    return found


def _running(pid: int) -> str:
    """The release that a process was started from, according to its loaded libraries."""
    try:
        with open(f"/proc/{pid}/maps", encoding="utf-8", errors="replace") as file:
            for line in file:
                if f"{OPT}/releases/" in line:
                    return line.split(f"{OPT}/releases/", 1)[1].split("/", 1)[0]
    except OSError:
        pass
    return ""


def _failed_units() -> list[str]:
    text = _run("systemctl", "list-units", "--failed", "--plain", "--no-legend", "--no-pager")
    return [line.split()[0] for line in text.splitlines() if line.strip()]


def _pending(root: str) -> dict[str, Any] | None:
    found = _json(root, f"{JOURNAL}/pending.json")
    if not isinstance(found, dict):
        return None
    same_boot = found.get("boot_id") == _word(root, "/proc/sys/kernel/random/boot_id")
    deadline_s = found.get("deadline_s")
    left = None
    if same_boot and isinstance(deadline_s, int | float):
        left = deadline_s - time.monotonic()
    return {
        "run": found.get("run", ""),
        "by": found.get("by", ""),
        "release": found.get("release", ""),
        "before": found.get("before", ""),
        "seconds_left": left,
    }


def _uploaded(root: str) -> dict[str, Any] | None:
    folder = _at(root, f"{OPT}/releases")
    try:
        names = [name for name in os.listdir(folder) if name.endswith(".upload")]
        name = max(names, key=lambda each: os.stat(f"{folder}/{each}").st_mtime)
        return {"name": name, "bytes": os.stat(f"{folder}/{name}").st_size}
    except (OSError, ValueError):
        return None


def answer(request: dict[str, Any]) -> None:
    """Print what is asked for."""
    sys.stdout.write(json.dumps(facts(request["root"])) + "\n")
