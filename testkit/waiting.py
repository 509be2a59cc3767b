"""Asking until something is so, at a pace that leaves the processor to whoever is asked."""

from __future__ import annotations

import os
import select
import subprocess
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from typing import Any, Final, TypeVar

Found = TypeVar("Found")

PATIENCE_S: Final = 120.0  # on a machine that is at work
PATIENCE_MS: Final = 120_000
PAUSE_S: Final = 0.005


def wait_until(
    look: Callable[[], Found],
    holds: Callable[[Found], object] = bool,
    *,
    processes: Iterable[subprocess.Popen[Any]] = (),
    patience_s: float = PATIENCE_S,
    pause_s: float = PAUSE_S,
    what: str = "",
) -> Found:
    """The first that `look` finds for which `holds` is true. AssertionError with the last one if
    there is none within `patience_s` seconds, or as soon as one of `processes` has ended."""
    deadline_s = time.monotonic() + patience_s
    with ExitStack() as stack:
        ends = select.poll()
        for process in processes:
            fileno = os.pidfd_open(process.pid)
            stack.callback(os.close, fileno)
            ends.register(fileno, select.POLLIN)
        while not holds(found := look()):
            ended = ends.poll(pause_s * 1e3)
            assert not ended, f"a process ended; {what} {found!r}"
            assert time.monotonic() < deadline_s, f"waited {patience_s:g} s; {what} {found!r}"
        return found
