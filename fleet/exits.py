"""Exit statuses of `fleet`, and the one line that goes with a failure."""

from __future__ import annotations

import sys

DONE = 0
FAILED = 1
USAGE = 2
REFUSED = 3
NO_REPLY = 4
INTERRUPTED = 130


def fail(text: str, status: int) -> int:
    """Print one line on stderr; returns `status`."""
    sys.stderr.write(f"fleet: {' '.join(text.split())}\n")
    return status
