"""An agent in a process of its own."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from testkit.waiting import PATIENCE_S, wait_until

Found = TypeVar("Found")

# Prefix for commands that are to be ended by Ctrl-C: a shell that runs the tests in the background
# makes all their children ignore it.
LISTENS = (
    sys.executable,
    "-c",
    (
        "import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_DFL); "
        "os.execv(sys.argv[1], sys.argv[1:])"
    ),
)


def installed(command: str) -> Path:
    """Path of a console command."""
    return Path(sys.executable).with_name(command)


class AgentProcess:
    """`command` with the configuration at `config`; it is terminated with this process at the
    latest."""

    command: tuple[str | Path, ...]
    config: Path
    process: subprocess.Popen[str]

    def start(self) -> None:
        self.process = subprocess.Popen(
            [*self.command, "--config", self.config, "--exit-on-stdin-eof"],
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def wait_for(self, look: Callable[[], Found], holds: Callable[[Found], object]) -> Found:
        """What `look` finds as soon as `holds` is true of it, as long as this process lives."""
        return wait_until(look, holds, processes=[self.process])

    def stop(self, number: int = signal.SIGTERM) -> tuple[int, str]:
        """Stop the process; returns the exit status and its output, without the line that reports
        readiness."""
        if self.process.poll() is None:
            os.kill(self.process.pid, number)
        code = self.process.wait(PATIENCE_S)
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        said = "" if self.process.stderr.closed else self.process.stderr.read()
        self.process.stderr.close()
        lines = said.splitlines(keepends=True)
        return code, "".join(line for line in lines if ": listening on tcp://" not in line)
