"""Programs that talk to a person at a terminal."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from contextlib import suppress


def shown(terminal: int) -> str:
    """What a pseudoterminal shows until its other end is closed; it may come in several pieces."""
    pieces = bytearray()
    with suppress(OSError):  # how Linux tells of that end
        while piece := os.read(terminal, 1 << 16):
            pieces += piece
    return pieces.decode()


def asked(program: str, typed: bytes) -> tuple[str, str]:
    """Run a Python program whose input and errors are a terminal, where somebody types; what it
    prints, and what the terminal shows, the echo included."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-c", program]
    try:
        with subprocess.Popen(
            command, stdin=theirs, stderr=theirs, stdout=subprocess.PIPE
        ) as process:
            os.close(theirs)
            os.write(ours, typed)
            assert process.stdout is not None
            printed = process.stdout.read().decode()
        return printed, shown(ours)
    finally:
        os.close(ours)
