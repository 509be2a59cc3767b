"""Log lines for the operator, on standard error."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress

from agent.runtime.printable import printable

# Takes a line including its newline.
Say = Callable[[str], object]


def write(line: str) -> None:
    """Write to standard error. Where that is a file on a full disk, the agent goes on without."""
    with suppress(OSError):
        sys.stderr.write(line)


def operator_log(name: str) -> Say:
    """The function that writes lines of the agent `name`, whatever others' words are in them."""
    return lambda line: write(f"{name}: {printable(line.rstrip())}\n")


def listening(addresses: dict[str, str]) -> str:
    """``listening on tcp://… (public), tcp://… (operator)``; empty addresses are omitted."""
    said = ", ".join(f"{address} ({whom})" for whom, address in addresses.items() if address)
    return f"listening on {said}\n"
