"""What an agent says to its operator: lines on standard error, begun with its name."""

from __future__ import annotations

import sys
from collections.abc import Callable

# Takes a line with its end.
Say = Callable[[str], object]


def voice(name: str) -> Say:
    """Lines of the agent `name`."""
    return lambda line: sys.stderr.write(f"{name}: {line}")


def listening(addresses: dict[str, str]) -> str:
    """``listening on tcp://… (public), tcp://… (operator)``; an empty address is none."""
    said = ", ".join(f"{address} ({whom})" for whom, address in addresses.items() if address)
    return f"listening on {said}\n"
