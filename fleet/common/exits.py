"""Exit statuses of `fleet`, and the exception that carries a status and its one-line message."""

from __future__ import annotations

import sys

DONE = 0
FAILED = 1
USAGE = 2
REFUSED = 3
NO_REPLY = 4
NOTHING = 5
# As EX_IOERR of sysexits.h.
OUTPUT = 74
INTERRUPTED = 130


class CommandError(Exception):
    """Ends a command with an error that its user can fix; the text is one line that says how."""

    status = USAGE


def fail(text: str, status: int) -> int:
    """Print one line on stderr; returns `status`. Others may have written a part of it, such as a
    file's name: no terminal obeys it."""
    line = "".join([c if c.isprintable() else "?" for c in " ".join(text.split())])
    sys.stderr.write(f"fleet: {line}\n")
    return status
