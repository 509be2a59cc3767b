"""Installs what a command needs and this checkout has not yet, when it is first used."""

from __future__ import annotations

import importlib
import os
import signal
import subprocess
import sys
from contextlib import suppress
from typing import Final

import click

from fleet.common import exits, extras

END_S: Final = 1.0


class MissingError(exits.CommandError):
    """A library is missing; the text says how to install it."""


class InstallError(exits.CommandError):
    """Installing failed; what the installer said stands above."""

    status = exits.FAILED


def require(*libraries: str) -> None:
    """Return if these top-level modules can be imported; in a checkout, on a terminal, offer to
    install what is missing. MissingError, InstallError."""
    line = extras.lacking(*libraries)
    if not line:
        return
    root = extras.checkout()
    if root is None or not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise MissingError(line)
    question = f"This needs {extras.WHAT}: {extras.SIZE}, once. Install them now?"
    if not click.confirm(question, default=True, err=True):
        raise MissingError(line)
    install(["make", "--no-print-directory", "-C", str(root), extras.TARGET])
    importlib.invalidate_caches()
    if line := extras.lacking(*libraries):
        raise InstallError(line)


def install(command: list[str]) -> None:
    """Run the installer, whose output goes to stderr; it ends with this process. InstallError."""
    environment = {name: value for name, value in os.environ.items() if name != "MAKEFLAGS"}
    # Until the process is known, Ctrl-C waits: what has just begun would go on.
    pressed: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _frame: pressed.append(number))
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=sys.stderr.fileno(),
            env=environment,
            start_new_session=True,  # so that all of it can be ended, wherever Ctrl-C is pressed
        )
    except OSError as error:
        signal.signal(signal.SIGINT, before)
        raise InstallError(f"{command[0]}: {error.strerror}") from None
    try:
        signal.signal(signal.SIGINT, before)
        if pressed:
            signal.raise_signal(signal.SIGINT)
        status = _ended(process)
    except BaseException:
        _end(process)
        raise
    if status:
        raise InstallError(f"installing failed (see above); try `{' '.join(command)}`")


def _ended(process: subprocess.Popen[bytes]) -> int:
    """Its exit status. A wait without an end may begin just as Ctrl-C comes, and would not be
    interrupted by it."""
    while True:
        with suppress(subprocess.TimeoutExpired):
            return process.wait(END_S)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ask all of its session to end, then have it ended."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with suppress(subprocess.TimeoutExpired):
            process.wait(END_S)
