"""A disk writer whose jobs are done when the test says so."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any


class HeldWriter:
    """As long as it is not `slow` it does all at once."""

    def __init__(self, *, slow: bool = False) -> None:
        self.slow = slow
        self.jobs: deque[tuple[Callable[[], Any], Callable[[Any], object]]] = deque()

    def submit(self, job, then):
        self.jobs.append((job, then))
        if not self.slow and len(self.jobs) == 1:
            self.drain()

    def do(self):
        """The oldest job."""
        job, then = self.jobs[0]
        result = job()
        self.jobs.popleft()
        then(result)

    def drain(self):
        while self.jobs:
            self.do()
