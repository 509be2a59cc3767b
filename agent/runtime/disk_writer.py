"""A thread that writes to the disk, so that an agent's loop never waits for one.

The loop submits jobs: a transaction, an append and its sync, the rotation of a file. The thread
runs them one at a time, in the order in which they were submitted, and hands each result back to
the loop, which calls the job's continuation. What has to be durable before something else follows
puts that into the continuation.

Whatever a job touches belongs to the writer until the continuation is called. A queue has no bound
here: a part has one job under way, gathers meanwhile up to a limit of its own, and refuses beyond.

Other work that would stop the loop has such a thread of its own: large replies (`reply_writer`).
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from typing import Any, NamedTuple, Protocol, TypeVar

T = TypeVar("T")


class DiskWriter(Protocol):
    """Runs jobs in order."""

    def submit(self, job: Callable[[], T], then: Callable[[T], object]) -> None:
        """Run `job`, and after it call `then` with its result, in the loop's thread."""

    def drain(self) -> None:
        """Return when nothing is under way any more, nor what continuations submitted."""


class InlineDiskWriter:
    """Runs each job and its continuation where they are submitted: for tests, and for tools that
    have no loop."""

    def submit(self, job: Callable[[], T], then: Callable[[T], object]) -> None:
        """Run both, now."""
        then(job())

    def drain(self) -> None:
        """Nothing is ever under way."""


class _Done(NamedTuple):
    then: Callable[[Any], object]
    result: Any
    error: BaseException | None


class DiskWriterThread:
    """Runs jobs in a thread of its own, the first of which starts it.

    Have the loop call `turn` whenever `fileno` can be read. An exception of a job is raised there:
    a job whose failure is expected returns it. All methods are for the loop's thread.
    """

    def __init__(self, name: str = "disk writer") -> None:
        self._name = name
        self._jobs: SimpleQueue[tuple[Callable[[], Any], Callable[[Any], object]] | None] = (
            SimpleQueue()
        )
        self._done: SimpleQueue[_Done] = SimpleQueue()
        self._under_way = 0
        self._thread: threading.Thread | None = None
        self.fileno = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)

    def submit(self, job: Callable[[], T], then: Callable[[T], object]) -> None:
        """Have the thread run `job`; `turn` or `drain` calls `then`."""
        if self._thread is None:
            # An agent that fails ends without it.
            self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            self._thread.start()
        self._under_way += 1
        self._jobs.put((job, then))

    @property
    def under_way(self) -> int:
        """Jobs whose continuation was not called yet."""
        return self._under_way

    def turn(self) -> None:
        """Call the continuations of what is done."""
        with suppress(BlockingIOError):
            os.eventfd_read(self.fileno)
        for _ in range(self._done.qsize()):
            self._finish(self._done.get_nowait())

    def drain(self) -> None:
        """Wait until nothing is under way, continuations included. It takes as long as the disk
        does: for the start and the end of an agent."""
        while self._under_way:
            self._finish(self._done.get())

    def close(self, within_s: float | None = None) -> None:
        """Finish what is under way, or what can be within so many seconds, and end the thread: one
        that is at work still ends with the process."""
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
        while (submitted := self._jobs.get()) is not None:
            job, then = submitted
            try:
                done = _Done(then, job(), None)
            except BaseException as error:  # noqa: BLE001 - it is raised again in the loop's thread
                done = _Done(then, None, error)
            self._done.put(done)
            os.eventfd_write(self.fileno, 1)
