"""Diagnosis of a host as one JSON document: the checks that take longer than its facts.

Read-only; the only packets sent are the connection attempts that the request names.
"""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import threading
from typing import Any

MAX_LINES = 5
MAX_LINE = 300
CONNECT_S = 3.0
# Kernel messages about a failing card, file system or power supply.
CARD = re.compile(
    r"mmc\d+: .*(error|timeout|timed out|tuning)|mmcblk\d+\w*: .*error|"
    r"I/O error, dev mmcblk|EXT4-fs (error|warning)|EXT4-fs .*remounting|JBD2: .*error|"
    r"Buffer I/O error|FAT-fs .*(error|corrupt)|nvme\d+: .*(error|timeout|timed out)",
    re.IGNORECASE,
)
# Priorities of warnings and worse.
COMPLAINTS = frozenset("01234")
POWER = re.compile(r"under-?voltage detected|voltage normalised", re.IGNORECASE)


def diagnosis(request: dict[str, Any]) -> dict[str, Any]:
    """The requested checks; those that cannot be read are left out."""
    connects = _connects(request["connect"])  # they wait while the journal is read
    units = {unit: _own(_journal("-b", "-u", unit), unit) for unit in request["units"]}
    kernel = [_entry(row) for row in _journal("-k", "-b", "-p", "warning")]
    found = {
        "ok": True,
        "agent": {unit: complaints(rows) for unit, rows in units.items()},
        "last": {unit: _entry(rows[-1]) for unit, rows in units.items() if rows},
        "card": [row for row in kernel if CARD.search(row["text"])][-MAX_LINES:],
        "power": [row for row in kernel if POWER.search(row["text"])][-MAX_LINES:],
        "time": _time(),
    }
    for thread in connects["threads"]:
        thread.join()
    found["connects"] = connects["found"]
    return found


def _own(rows: list[dict[str, Any]], unit: str) -> list[dict[str, Any]]:
    """The entries that the unit itself wrote, without systemd's about it."""
    return [row for row in rows if row.get("_SYSTEMD_UNIT") == unit]


def complaints(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The last entries of a unit that are warnings or worse, the oldest first."""
    found = [_entry(row) for row in rows if _one(row.get("PRIORITY")) in COMPLAINTS]
    return [row for row in found if row["text"]][-MAX_LINES:]


def _entry(row: dict[str, Any]) -> dict[str, Any]:
    return {
        "time_s": int(row.get("__REALTIME_TIMESTAMP") or 0) / 1e6,
        "text": _one(row.get("MESSAGE")).strip()[:MAX_LINE],
        "kind": _one(row.get("SANDERLING_KIND"))[:MAX_LINE],
        "sensor": _one(row.get("SANDERLING_SENSOR"))[:MAX_LINE],
    }


def _one(value: Any) -> str:
    """A field's value, whatever its writer made of it: text, a list of bytes, null where it is
    long, or a list of several of these, of which the last counts."""
    if isinstance(value, list) and value:
        if all(isinstance(each, int) for each in value):
            return bytes(value).decode(errors="replace")
        return _one(value[-1])
    return value if isinstance(value, str) else ""


def _journal(*arguments: str) -> list[dict[str, Any]]:
    """The latest entries, the oldest first."""
    text = _run("journalctl", "-o", "json", "--no-pager", "-q", "-n", "500", *arguments) or ""
    found = []
    for line in text.splitlines():
        try:
            found.append(json.loads(line))
        except ValueError:
            continue
    return found


def _run(*command: str) -> str | None:
    """The command's output; None if it could not be run, or failed."""
    try:
        done = subprocess.run(command, capture_output=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.decode(errors="replace")


def _time() -> dict[str, Any]:
    """The service that sets the clock, and how many of its sources answer."""
    sources = _run("chronyc", "-n", "-c", "sources")
    if sources is not None:  # "" where it knows no server
        return chrony(sources)
    shown = _run("timedatectl", "show-timesync", "-p", "ServerAddress", "-p", "NTPMessage")
    return timesyncd(shown) if shown else {"service": ""}


def chrony(sources: str) -> dict[str, Any]:
    """From `chronyc -c sources`: the sixth column is the register of the last eight polls."""
    rows = [line.split(",") for line in sources.splitlines()]
    reach = [row[5] for row in rows if len(row) > 5]
    answering = sum(register.strip("0") != "" for register in reach)
    return {"service": "chrony", "sources": len(reach), "answering": answering}


def timesyncd(shown: str) -> dict[str, Any]:
    """From `timedatectl show-timesync`: a server, and a message once one has answered."""
    rows = dict(line.split("=", 1) for line in shown.splitlines() if "=" in line)
    return {
        "service": "systemd-timesyncd",
        "sources": int(bool(rows.get("ServerAddress"))),
        "answering": int(bool(rows.get("NTPMessage"))),
    }


def _connects(wanted: list[list[Any]]) -> dict[str, Any]:
    """The connection attempts, all in parallel."""
    found: list[dict[str, Any]] = [
        {"host": host, "port": port, "error": f"no answer within {CONNECT_S:g} s"}
        for host, port in wanted
    ]

    def attempt(row: dict[str, Any]) -> None:
        try:
            with socket.create_connection((row["host"], row["port"]), CONNECT_S):
                row["error"] = ""
        except socket.gaierror as error:
            row["error"] = f"the name has no address there ({error.strerror})"
        except TimeoutError:
            pass
        except OSError as error:
            row["error"] = os.strerror(error.errno) if error.errno else str(error)

    threads = [threading.Thread(target=attempt, args=(row,), daemon=True) for row in found]
    for thread in threads:
        thread.start()
    return {"threads": threads, "found": found}


def answer(request: dict[str, Any]) -> None:
    """Print what is asked for."""
    sys.stdout.write(json.dumps(diagnosis(request)) + "\n")
