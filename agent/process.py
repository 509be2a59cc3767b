"""What every agent process shares: its command line, and how it is told to stop."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from agent.wire.config import ConfigError, load

C = TypeVar("C")


def arguments(program: str, what: str) -> argparse.Namespace:
    """Parse the command line of an agent: `config`, `check`, `exit_on_stdin_eof`."""
    parser = argparse.ArgumentParser(prog=program, description=what)
    parser.add_argument("--config", type=Path, required=True, help="TOML file")
    parser.add_argument("--check", action="store_true", help="only validate the file")
    parser.add_argument(
        "--exit-on-stdin-eof",
        action="store_true",
        help="stop when standard input closes, so that no agent outlives who started it",
    )
    return parser.parse_args()


def configuration(path: Path, kind: type[C]) -> C:
    """Load the config file, or end the process with one line that says what is wrong."""
    try:
        return load(path, kind)
    except ConfigError as error:
        sys.exit(f"error: {error}")


class StopSignal:
    """A file descriptor that becomes readable when the process is told to stop.

    That is SIGTERM, SIGINT and, if asked for, the end of standard input. Use it as a context
    manager in the main thread; `filenos` go into the poller, `requested` tells after a wake-up.
    """

    def __init__(self, *, on_stdin_eof: bool) -> None:
        self._on_stdin_eof = on_stdin_eof
        self.requested = False

    def __enter__(self) -> Self:
        self._read, self._write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._wakeup_before = signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        self._handlers_before = {
            number: signal.signal(number, self._handle)
            for number in (signal.SIGTERM, signal.SIGINT)
        }
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for number, handler in self._handlers_before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._wakeup_before)
        os.close(self._read)
        os.close(self._write)

    def _handle(self, _number: int, _frame: object) -> None:
        self.requested = True

    @property
    def filenos(self) -> tuple[int, ...]:
        """Descriptors to poll for reading."""
        return (self._read, sys.stdin.fileno()) if self._on_stdin_eof else (self._read,)

    def woken(self, fileno: int) -> None:
        """Call when one of `filenos` is readable."""
        data = os.read(fileno, 4096)
        if fileno != self._read and not data:
            self.requested = True
