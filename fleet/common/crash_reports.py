"""Crash reports: one line on stderr, the traceback in a file of its own."""

from __future__ import annotations

import os
import sys
import time
import traceback
from pathlib import Path
from typing import Final

# Only the latest are kept, so that a loop that fails every second does not fill the disk.
KEPT: Final = 20
SUFFIX: Final = ".traceback"
LONGEST: Final = 300
# Set by --verbose: print tracebacks.
raised = False


def folder() -> Path:
    """The folder of the tracebacks: the user's state folder by the XDG rules."""
    named = os.environ.get("XDG_STATE_HOME", "")
    base = Path(named) if named.startswith("/") else Path.home() / ".local" / "state"
    return base / "sanderling"


def told(error: BaseException) -> str:
    """One line about the error that names the file with its traceback. Never raises."""
    text = " ".join(f"{type(error).__name__}: {error}".split())
    line = text if len(text) <= LONGEST else f"{text[:LONGEST]}…"
    try:
        return f"{line}; the traceback is in {_kept(error)}"
    except OSError as refused:
        return f"{line}; its traceback could not be kept: {refused.strerror}"
    except RuntimeError:  # this user has no home
        return line


def _kept(error: BaseException) -> Path:
    where = folder()
    where.mkdir(mode=0o700, parents=True, exist_ok=True)
    now = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    number = 1
    while True:
        path = where / f"fleet-{now}-{os.getpid()}-{number}{SUFFIX}"
        try:
            file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            break
        except FileExistsError:
            number += 1
    with os.fdopen(file, "w", encoding="utf-8", errors="backslashreplace") as opened:
        opened.write(f"{' '.join(sys.argv[:2])}\n")  # the rest may hold secrets
        opened.writelines(traceback.format_exception(error))
    for old in sorted(where.glob(f"fleet-*{SUFFIX}"))[:-KEPT]:
        old.unlink(missing_ok=True)
    return path
