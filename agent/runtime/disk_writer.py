"""Disk writer: a thread for disk I/O, so that an agent's event loop never blocks on the disk.

The loop submits jobs: a transaction, an append with its sync, the rotation of a file. The thread
runs them one at a time, in the order submitted, and returns each result to the loop, which calls
the job's continuation. A step that requires the job's data to be durable goes into the
continuation.

The data that a job uses belongs to the writer until the continuation is called. The queue is
unbounded: each component has one job in progress, collects further work up to its own limit, and
refuses what exceeds it.

Other blocking work has a thread of this kind, too: large replies (`reply_writer`), webhooks.
"""

from __future__ import annotations

import os
import threading
from _queue import SimpleQueue  # all of queue takes 0.1 MiB
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple, Protocol, TypeVar

T = TypeVar("T")


class DiskWriter(Protocol):
    """Runs jobs in order."""

    def submit(self, job: Callable[[], T], then: Callable[[T], object]) -> None:
        """Run `job`, then call `then` with its result in the loop's thread."""

    def drain(self) -> None:
        """Wait until no job is in progress, including jobs submitted by continuations."""


class InlineDiskWriter:
    """Runs each job and its continuation in the submitting thread: for tests, and for tools without
    an event loop."""

    def submit(self, job: Callable[[], T], then: Callable[[T], object]) -> None:
        """Run both now."""
        then(job())

    def drain(self) -> None:
        """Return at once: no job is ever in progress."""


class _Done(NamedTuple):
    then: Callable[[Any], object]
    result: Any
    error: BaseException | None


class DiskWriterThread:
    """Runs jobs in a thread of its own, started by the first job.

    The loop must call `turn` whenever `fileno` is readable. `turn` raises a job's exception, so a
    job whose failure is expected returns it instead. All methods are for the loop's thread.
    """

    def __init__(self, name: str = "disk writer", *, nice: int = 0) -> None:
        """`nice` is added to the thread's niceness: jobs that compute leave processors to the
        loop."""
        self._name = name
        self._nice = nice
        self._jobs: SimpleQueue[tuple[Callable[[], Any], Callable[[Any], object]] | None] = (
            SimpleQueue()
        )
        self._done: SimpleQueue[_Done] = SimpleQueue()
        self._under_way = 0
        self._thread: threading.Thread | None = None
        self.fileno = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)

    def submit(self, job: Callable[[], T], then: Callable[[T], object]) -> None:
        """Queue `job` for the thread; `turn` or `drain` calls `then`."""
        if self._thread is None:
            # A daemon, so that a failing agent ends without waiting for it.
            self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            self._thread.start()
        self._under_way += 1
        self._jobs.put((job, then))

    @property
    def under_way(self) -> int:
        """Number of jobs whose continuation has not been called yet."""
        return self._under_way

    def turn(self) -> None:
        """Call the continuations of finished jobs."""
        with suppress(BlockingIOError):
            os.eventfd_read(self.fileno)
        for _ in range(self._done.qsize()):
            self._finish(self._done.get_nowait())

    def drain(self) -> None:
        """Wait for all jobs and their continuations. It blocks on the disk: only for an agent's
        startup and shutdown."""
        while self._under_way:
            self._finish(self._done.get())

    def close(self, within_s: float | None = None) -> None:
        """Finish the queued jobs, within `within_s` seconds if given, and end the thread; a thread
        still busy then ends with the process."""
        if within_s is None:
            self.drain()
        if self._thread is not None:
            self._jobs.put(None)
            self._thread.join(within_s)
            self.turn()
            if self._thread.is_alive():
                return
            self._thread = None
        os.close(self.fileno)

    def _finish(self, done: _Done) -> None:
        self._under_way -= 1
        if done.error is not None:
            raise done.error
        done.then(done.result)

    def _run(self) -> None:
        if self._nice:
            with suppress(PermissionError):  # a service's filter of system calls may forbid it
                os.nice(self._nice)  # of this thread alone, as Linux counts it
        while (submitted := self._jobs.get()) is not None:
            job, then = submitted
            try:
                done = _Done(then, job(), None)
            except BaseException as error:  # noqa: BLE001 - it is raised again in the loop's thread
                done = _Done(then, None, error)
            self._done.put(done)
            # What they hold would stay in memory until the next job.
            del submitted, job, then, done
            os.eventfd_write(self.fileno, 1)
