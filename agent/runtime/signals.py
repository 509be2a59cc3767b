"""What an agent's process has from the system: who waits for it, its signal to stop, its files."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from types import TracebackType
from typing import NoReturn, Self

INTERRUPTED = 130


class Start:
    """Somebody waits for `serves`, if `background`: the process that was started, of which this one
    is a child from here on. It ends with status 0 then, or, if this one ends before, with the
    status of that. Make it before there is any thread, socket or file.
    """

    def __init__(self, *, background: bool) -> None:
        self._waiting: int | None = None
        if background:
            read, write = os.pipe()
            if (child := os.fork()) != 0:
                os.close(write)
                _wait(read, child)
            os.close(read)
            self._waiting = write

    def serves(self) -> None:
        """This agent does what it is for, from now on."""
        if self._waiting is not None:
            with suppress(BrokenPipeError):  # somebody ended who waited
                os.write(self._waiting, b"\n")
            os.close(self._waiting)
            self._waiting = None


def _wait(read: int, child: int) -> NoReturn:
    """End as soon as the child serves or has ended. It hears a Ctrl-C, too."""
    try:
        if os.read(read, 1):
            sys.stdout.write(f"{sys.argv[0].rpartition('/')[2]} serves: kill {child} ends it\n")
            sys.stdout.flush()
            os._exit(0)
        _, ended = os.waitpid(child, 0)
    except KeyboardInterrupt:
        os._exit(INTERRUPTED)
    status = os.waitstatus_to_exitcode(ended)
    os._exit(status if status >= 0 else 128 - status)


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
