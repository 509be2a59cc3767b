"""The release id of the installed agent."""

from __future__ import annotations

import sys
from typing import Final

LONGEST: Final = 64


def release(prefix: str = "") -> str:
    """The release id in the file RELEASE of this virtual environment (or of `prefix`), such as
    ``0.1.0-3f9c2a1b``; empty where the agent runs from a checkout."""
    try:
        # Importing pathlib would cost the edge agent 0.6 MiB.
        with open(f"{prefix or sys.prefix}/RELEASE", encoding="ascii") as file:  # noqa: PTH123
            found = file.readline(LONGEST + 1).strip()
    except (OSError, ValueError):
        return ""
    return found if len(found) <= LONGEST and found.isprintable() else ""
