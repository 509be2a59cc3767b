"""What an agent's process has from the system: its signal to stop, its files."""

from __future__ import annotations

import os
import signal
import sys
from types import TracebackType
from typing import Self


class StopSignal:
    """A file descriptor that becomes readable when the process is told to stop.

    That is SIGTERM, SIGINT and, if asked for, the end of standard input. Use it as a context
    manager in the main thread; `filenos` go into the poller, `requested` tells after a wake-up.
    """

    def __init__(self, *, on_stdin_eof: bool) -> None:
        self._on_stdin_eof = on_stdin_eof
        self.requested = False

    def __enter__(self) -> Self:
        if self._on_stdin_eof and sys.stdin is None:  # it was closed before the start
            self._on_stdin_eof, self.requested = False, True
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


def allow_all_files() -> None:
    """Have as many open files as the system lets this process have: with the usual 1,024, so many
    connections that never speak would keep everybody else out, from all sockets."""
    import resource  # an edge node has no use for it

    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
