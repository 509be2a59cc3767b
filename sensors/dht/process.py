"""Reader process, seen from the agent: two pipes and a process id; makes no decisions.

Importing `subprocess` would take a MiB of the agent's memory.
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
AT_ONCE: Final = 64 * 1024  # bytes read at a time: a reader never writes more


class Process:
    """A reader that runs `job`, in its own process group; OSError if it cannot be started."""

    def __init__(self, job: Job) -> None:
        its_in, self._in = os.pipe2(os.O_CLOEXEC)
        self._out, its_out = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(self._out, False)
        self._rest = b""
        try:
            self._pid = os.posix_spawn(
                sys.executable,
                # -P: do not search the current folder for modules.
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
        """The id of the process and of its group."""
        return self._pid

    def start(self, first_ms: int) -> None:
        """Send the time of the first start of the sensor."""
        with suppress(BrokenPipeError):  # `reap` detects its end
            os.write(self._in, b"start %d\n" % first_ms)

    def lines(self) -> list[bytes]:
        """The complete lines written since the last call, without waiting. A line that is too long
        is returned in pieces, none of which is a valid line."""
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
        """Wait until the reader has written something or ended."""
        poller = select.poll()
        poller.register(self._out, select.POLLIN)
        poller.poll(patience_s * 1000)

    def cpu_s(self) -> float:
        """Processor time of the reader and its children, in seconds; 0 if it is no longer
        available."""
        with suppress(OSError, ValueError, IndexError):
            with open(f"/proc/{self._pid}/task/{self._pid}/children", "rb") as file:
                children = file.read().split()
            return sum([_ticks(pid) for pid in (self._pid, *map(int, children))]) * TICK_S
        return 0.0

    def end(self, *, hard: bool) -> None:
        """Ask the reader to end; `hard` kills its whole process group."""
        with suppress(ProcessLookupError):
            if hard:
                os.killpg(self._pid, signal.SIGKILL)
            else:
                os.kill(self._pid, signal.SIGTERM)

    def reap(self, patience_s: float = 0.0) -> str | None:
        """How the reader ended, waiting up to `patience_s`; None if it is still running. Kills the
        rest of its group and leaves no zombie."""
        if patience_s:
            fd = os.pidfd_open(self._pid)
            poller = select.poll()
            poller.register(fd, select.POLLIN)
            poller.poll(patience_s * 1000)
            os.close(fd)
        # Until it is reaped, its process id, and so its group's, cannot be reused.
        if os.waitid(os.P_PID, self._pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            return None
        self.end(hard=True)
        status = os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])
        return f"was ended by signal {-status}" if status < 0 else f"ended with status {status}"

    def close(self) -> None:
        """Close the pipes, which tells the reader to end."""
        os.close(self._in)
        os.close(self._out)


def _ticks(pid: int) -> int:
    with open(f"/proc/{pid}/stat", "rb") as file:
        # The name in parentheses may contain anything; utime, stime and those of reaped children
        # are fields 14 to 17, counted from 1.
        fields = file.read().rpartition(b")")[2].split()
    return sum(map(int, fields[11:15]))
