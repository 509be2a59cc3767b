"""Streams logs to the operator: the frames of `history` or `records`
(fleet/lake/pull/host_source.py) as lines of JSON."""

from __future__ import annotations

import base64
import hashlib
import importlib
import json
import os
import resource
import sys
import threading
import time
import zlib
from typing import Any

from fleet.on_host.owner import become_owner

BEAT_S = 2.0
# This level shrinks records to an eighth, and leaves a Pi time for other work.
LEVEL = 1

printing = threading.Lock()


def say(**line: Any) -> None:
    """A line to the operator."""
    text = json.dumps(line, separators=(",", ":"))
    with printing:
        sys.stdout.write(f"{text}\n")
        sys.stdout.flush()


def frame(header: dict[str, Any], data: bytes) -> dict[str, Any]:
    """A frame as a line has it."""
    return {
        "header": header,
        "sha256": hashlib.sha256(data).hexdigest(),
        "data": base64.b64encode(zlib.compress(data, LEVEL)).decode(),
    }


def beat() -> None:
    """Send lines while it runs: the operator takes silence for a lost connection."""
    try:
        while True:
            time.sleep(BEAT_S)
            say(beat=True)
    except (OSError, ValueError):
        os._exit(1)  # nobody is there any more


def bound_memory() -> None:
    """Have what takes more than half of the memory end this program alone: its unit's MemoryMax=
    bounds the agent that wrote what is read, not who reads it."""
    half = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
    hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
    soft = half if hard == resource.RLIM_INFINITY else min(half, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def answer(request: dict[str, Any]) -> None:
    """Run the program, and print one final line with its outcome."""
    threading.Thread(target=beat, daemon=True).start()
    try:
        bound_memory()
        program = importlib.import_module(request["program"])
        if place := program.place(request["asked"]):
            become_owner(place)
        for header, data in program.frames(request["asked"]):
            say(**frame(header, data))
    except BrokenPipeError:
        os._exit(1)  # as above
    except MemoryError:
        say(kind="failed", error="what is there takes more than half of the host's memory")
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        say(kind="failed", error=f"{where}{error.strerror or error}")
    except Exception as error:  # noqa: BLE001 - whatever it is, the operator is told in one line
        say(kind="failed", error=str(error) or type(error).__name__)
    else:
        say(ok=True)
