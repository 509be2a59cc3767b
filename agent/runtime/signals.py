"""Process control: start in the background, stop signals, the limit of open files."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import NoReturn, Self

INTERRUPTED = 130
UMASK = 0o027  # as in the units of images/systemd


class Start:
    """Start of an agent, with `background` in a child process: the constructor forks, and returns
    in the child. The parent exits with status 0 when the child calls `serves`, or with the child's
    status if that ends before. Create it before any thread, socket or file.

    From then on the child's lines go to the file `log`, as somebody types on that terminal.

    Files that the agent makes are closed to others and not to be written by its group, as under
    systemd: whoever could open one could hold its lock, and with it the agent.
    """

    def __init__(self, *, background: bool, log: str = "") -> None:
        os.umask(os.umask(UMASK) | UMASK)
        self._waiting: int | None = None
        self._log = log
        if background:
            read, write = os.pipe()
            if (child := os.fork()) != 0:
                os.close(write)
                _wait(read, child)
            os.close(read)
            self._waiting = write

    def serves(self) -> None:
        """Declare that the agent serves from now on. In the background it leaves its terminal,
        whose end would be its own; before, Ctrl-C there is for it, too."""
        if self._waiting is not None:
            os.setsid()
            log = _write_into(self._log) if self._log else ""
            with suppress(BrokenPipeError):  # the waiting parent has ended
                os.write(self._waiting, log.encode(errors="surrogateescape") + b"\n")
            os.close(self._waiting)
            self._waiting = None


def log_beside(config: str) -> str:
    """The log of an agent in the background: beside its configuration, named like it."""
    return config.removesuffix(".toml") + ".log"


def _write_into(log: str) -> str:
    """Append standard output and error to the file; returns its name, or an empty one if it cannot
    be written: then all stays as it is."""
    try:
        file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o640)
    except OSError:
        return ""
    sys.stdout.flush()
    for each in (1, 2):
        os.dup2(file, each)
    os.close(file)
    return log


def _wait(read: int, child: int) -> NoReturn:
    """Exit as soon as the child serves or has ended. Ctrl-C reaches the child, too."""
    try:
        if told := os.read(read, 4_096):
            log = os.fsdecode(told).rstrip("\n")
            where = f"; it writes to {log}" if log else ""
            name = sys.argv[0].rpartition("/")[2]
            sys.stdout.write(f"{name} serves: kill {child} ends it{where}\n")
            sys.stdout.flush()
            os._exit(0)
        _, ended = os.waitpid(child, 0)
    except KeyboardInterrupt:
        os._exit(INTERRUPTED)
    status = os.waitstatus_to_exitcode(ended)
    os._exit(status if status >= 0 else 128 - status)


class StopSignal:
    """File descriptors that become readable when the process is told to stop.

    Sources are SIGTERM, SIGINT and, if requested, the end of standard input. Use it as a context
    manager in the main thread; poll `filenos`, and read `requested` after a wake-up.
    """

    def __init__(self, *, on_stdin_eof: bool, say: Callable[[str], object] | None = None) -> None:
        """`say` is told in the end that the agent has stopped, if that was asked for by Ctrl-C:
        a terminal's next prompt begins a line of its own."""
        self._on_stdin_eof = on_stdin_eof
        self._say = say
        self._interrupted = False
        self.requested = False

    def __enter__(self) -> Self:
        if self._on_stdin_eof and sys.stdin is None:  # closed before the process started
            self._on_stdin_eof, self.requested = False, True
        self._read, self._write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._wakeup_before = signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        self._handlers_before = {
            number: signal.signal(number, self._handle)
            for number in (signal.SIGTERM, signal.SIGINT)
        }
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._handlers_before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._wakeup_before)
        os.close(self._read)
        os.close(self._write)
        if self._interrupted and self._say is not None:
            self._say("stopped")

    def _handle(self, number: int, _frame: object) -> None:
        self.requested = True
        self._interrupted |= number == signal.SIGINT

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
    """Raise the limit of open files to the hard limit: with the usual 1,024, as many silent
    connections would lock all other clients out of all sockets."""
    import resource  # not needed on an edge node

    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
