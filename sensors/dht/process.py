"""The reader's process as the agent holds it: two pipes and a number. Nothing here decides.

`subprocess` would take a MiB of the agent's memory.
"""

# ruff: noqa: PTH123 - pathlib takes 0.6 MiB of memory, on every node

from __future__ import annotations

import os
import select
import signal
import sys
from contextlib import suppress
from typing import Final

from sensors.dht.protocol import MAX_LINE, Job

PROGRAM: Final = "from sensors.dht.reader import main; main()"
TICK_S: Final = 1 / os.sysconf("SC_CLK_TCK")
AT_ONCE: Final = 64 * 1024  # bytes taken in one go: what writes more is not a reader


class Process:
    """A reader that runs `job`, in a process group of its own; OSError if it cannot be."""

    def __init__(self, job: Job) -> None:
        its_in, self._in = os.pipe2(os.O_CLOEXEC)
        self._out, its_out = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(self._out, False)
        self._rest = b""
        try:
            self._pid = os.posix_spawn(
                sys.executable,
                # -P: modules are not looked for in whatever folder this process stands in.
                [sys.executable, "-P", "-c", PROGRAM, *job.arguments()],
                os.environ,
                file_actions=[
                    (os.POSIX_SPAWN_DUP2, its_in, 0),
                    (os.POSIX_SPAWN_DUP2, its_out, 1),
                    (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
                ],
                setpgroup=0,
            )
        except OSError:
            self.close()
            raise
        finally:
            os.close(its_in)
            os.close(its_out)

    @property
    def pid(self) -> int:
        """Of the process and of its group."""
        return self._pid

    def start(self, first_ms: int) -> None:
        """Tell it when to start the sensor for the first time."""
        with suppress(BrokenPipeError):  # its end is seen elsewhere
            os.write(self._in, b"start %d\n" % first_ms)

    def lines(self) -> list[bytes]:
        """The whole lines that it has written since the last call, without waiting. A line that is
        too long comes in pieces, and no piece is a line."""
        taken, data = [self._rest], b""
        with suppress(BlockingIOError):
            while sum(map(len, taken)) < AT_ONCE and (data := os.read(self._out, 4096)):
                taken.append(data)
        *lines, self._rest = b"".join(taken).split(b"\n")
        if len(self._rest) > MAX_LINE:
            lines.append(self._rest)
            self._rest = b""
        return lines

    def wait_for_line(self, patience_s: float) -> None:
        """Wait until it has written something or has ended."""
        poller = select.poll()
        poller.register(self._out, select.POLLIN)
        poller.poll(patience_s * 1000)

    def cpu_s(self) -> float:
        """Processor time that it and its children have taken, in seconds; 0 where that cannot be
        seen any more."""
        with suppress(OSError, ValueError, IndexError):
            with open(f"/proc/{self._pid}/task/{self._pid}/children", "rb") as file:
                children = file.read().split()
            return sum([_ticks(pid) for pid in (self._pid, *map(int, children))]) * TICK_S
        return 0.0

    def end(self, *, hard: bool) -> None:
        """Ask it to end; or end it and all of its group, which is certain."""
        with suppress(ProcessLookupError):
            if hard:
                os.killpg(self._pid, signal.SIGKILL)
            else:
                os.kill(self._pid, signal.SIGTERM)

    def reap(self, patience_s: float = 0.0) -> str | None:
        """How it ended, once it has, waiting so long; None if it runs on. What is left of its group
        ends too, and no zombie stays."""
        if patience_s:
            fd = os.pidfd_open(self._pid)
            poller = select.poll()
            poller.register(fd, select.POLLIN)
            poller.poll(patience_s * 1000)
            os.close(fd)
        # Not reaped yet, its number, and so that of its group, is nobody else's.
        if os.waitid(os.P_PID, self._pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            return None
        self.end(hard=True)
        status = os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])
        return f"was ended by signal {-status}" if status < 0 else f"ended with status {status}"

    def close(self) -> None:
        """Let go of its pipes, which tells it that nobody needs it."""
        os.close(self._in)
        os.close(self._out)


def _ticks(pid: int) -> int:
    with open(f"/proc/{pid}/stat", "rb") as file:
        # The name in parentheses may hold anything; utime, stime and those of waited-for children
        # are fields 14 to 17, counted from 1.
        fields = file.read().rpartition(b")")[2].split()
    return sum(map(int, fields[11:15]))
