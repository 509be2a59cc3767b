"""Threads that ask a master, each by a connection of its own, and the answers in the loop.

A job starts only while its caller has fewer threads than are free, or none: however many queries
time out, threads stay free for others (dynamic thresholds: Choudhury and Hahne, "Dynamic queue
length thresholds for shared-memory packet switches", IEEE/ACM ToN 6(2), 1998, with alpha = 1).
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

R = TypeVar("R")


class Closable(Protocol):
    """A client."""

    def close(self) -> None:
        """Close its connection."""


C = TypeVar("C", bound=Closable)


class BusyError(Exception):
    """All threads are at work, and as many requests wait as may."""


class _Submitted(NamedTuple):
    caller: str
    job: Callable[[Any], Any]
    future: asyncio.Future[Any]


class Askers(Generic[C]):
    """Up to `most` threads, which start when they are needed; as many requests may wait as there
    are threads. For the loop's thread. They are daemons: a master that keeps one waiting does not
    keep the gateway from ending."""

    def __init__(self, name: str, most: int, connect: Callable[[], C]) -> None:
        self._name = name
        self._most = most
        self._connect = connect
        self._jobs: SimpleQueue[_Submitted | None] = SimpleQueue()
        self._threads = 0
        self._waiting: list[_Submitted] = []
        self._running: Counter[str] = Counter()  # by caller

    async def ask(self, job: Callable[[C], R], caller: str) -> R:
        """The result of `job` with a client, in one of the threads; what it raises is raised.
        `caller` tells callers apart. BusyError."""
        if len(self._waiting) + self._running.total() >= 2 * self._most:
            raise BusyError
        future: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Submitted(caller, job, future))
        self._begin()
        return await asyncio.shield(future)

    def _begin(self) -> None:
        """Start what may start, the callers with the fewest threads first. O(waiting)."""
        while self._waiting:
            submitted = min(self._waiting, key=lambda each: self._running[each.caller])
            has, busy = self._running[submitted.caller], self._running.total()
            if busy >= self._most or (has and has >= self._most - busy):
                return
            self._waiting.remove(submitted)
            self._running[submitted.caller] += 1
            if busy == self._threads:
                self._threads += 1
                loop = asyncio.get_running_loop()
                threading.Thread(
                    target=self._run, args=(loop,), name=self._name, daemon=True
                ).start()
            self._jobs.put(submitted)

    def close(self) -> None:
        """Let the threads end that have nothing to do."""
        for _ in range(self._threads):
            self._jobs.put(None)

    def _run(self, loop: asyncio.AbstractEventLoop) -> None:
        client: C | None = None
        while (submitted := self._jobs.get()) is not None:
            found, error = None, None
            try:
                client = client or self._connect()
                found = submitted.job(client)
            except BaseException as failed:  # noqa: BLE001 - it is raised again in the loop
                error = failed
            try:
                loop.call_soon_threadsafe(self._done, submitted, found, error)
            except RuntimeError:
                break  # the loop is closed
            del submitted, found, error
        if client is not None:
            client.close()

    def _done(self, submitted: _Submitted, found: object, error: BaseException | None) -> None:
        self._running[submitted.caller] -= 1
        self._running += Counter()  # without callers that have none
        self._begin()
        future = submitted.future
        if future.cancelled():
            return
        if error is None:
            future.set_result(found)
        else:
            future.set_exception(error)
            future.exception()  # who asked may have gone: it is no warning then
