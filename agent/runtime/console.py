"""Log lines for the operator: standard error, prefixed with the agent's name."""

from __future__ import annotations

import sys
from collections.abc import Callable

# Takes a line including its newline.
Say = Callable[[str], object]


def operator_log(name: str) -> Say:
    """The function that writes lines of the agent `name`."""
    return lambda line: sys.stderr.write(f"{name}: {line}")


def listening(addresses: dict[str, str]) -> str:
    """``listening on tcp://… (public), tcp://… (operator)``; empty addresses are omitted."""
    said = ", ".join(f"{address} ({whom})" for whom, address in addresses.items() if address)
    return f"listening on {said}\n"
