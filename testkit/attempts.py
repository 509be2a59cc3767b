"""Polling until a condition holds, at a pace that leaves the processor to the process under
test."""

from __future__ import annotations

import os
import select
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import ExitStack

ATTEMPTS = 10_000
PAUSE_MS = 5


def attempts(processes: Iterable[subprocess.Popen[str]]) -> Iterator[None]:
    """Up to `ATTEMPTS` attempts while these processes run. Between two it waits for the end of
    one, which is an AssertionError."""
    with ExitStack() as stack:
        ends = select.poll()
        for process in processes:
            fileno = os.pidfd_open(process.pid)
            stack.callback(os.close, fileno)
            ends.register(fileno, select.POLLIN)
        for _ in range(ATTEMPTS):
            yield
            assert not ends.poll(PAUSE_MS), "a process ended"
