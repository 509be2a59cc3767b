"""A disk in virtual time: slow if need be, and what waits for it is lost with its process."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


class Disk:
    """A `DiskWriter` whose jobs are done in order by `work`, each `takes_s` after it was begun."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.takes_s = 0.0
        self._clock = clock
        self._jobs: deque[tuple[Callable[[], Any], Callable[[Any], object]]] = deque()
        self._done_s = 0.0
        self._killed = False
        self.fileno = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        """Never readable."""

    def submit(self, job: Callable[[], T], then: Callable[[T], object]) -> None:
        """Do it after those that wait."""
        if self._killed:
            return
        if not self._jobs:
            self._done_s = self._clock() + self.takes_s
        self._jobs.append((job, then))

    @property
    def under_way(self) -> int:
        """Number of jobs that are not done."""
        return len(self._jobs)

    def work(self) -> None:
        """Do what is done by now."""
        while self._jobs and self._done_s <= self._clock():
            self._do()
            self._done_s += self.takes_s

    def _do(self) -> None:
        job, then = self._jobs.popleft()
        then(job())

    def turn(self) -> None:
        """As of a thread that has done nothing."""

    def drain(self) -> None:
        """Do all."""
        while self._jobs:
            self._do()

    def kill(self) -> None:
        """Its process is no more: what waits is lost, and nothing follows."""
        self._killed = True
        self._jobs.clear()

    def close(self, within_s: float | None = None) -> None:
        """Do all, and end."""
        self.drain()
        os.close(self.fileno)
