"""Threads that ask a master, each by a connection of its own, and the answers in the loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, Generic, Protocol, TypeVar

R = TypeVar("R")


class Closable(Protocol):
    """A client."""

    def close(self) -> None:
        """Close its connection."""


C = TypeVar("C", bound=Closable)


class BusyError(Exception):
    """All threads are at work, and as many requests wait as may."""


class Askers(Generic[C]):
    """Up to `most` threads, which start when they are needed; as many requests may wait as there
    are threads. For the loop's thread. They are daemons: a master that keeps one waiting does not
    keep the gateway from ending."""

    def __init__(self, name: str, most: int, connect: Callable[[], C]) -> None:
        self._name = name
        self._most = most
        self._connect = connect
        self._jobs: SimpleQueue[tuple[Callable[[C], Any], asyncio.Future[Any]] | None] = (
            SimpleQueue()
        )
        self._threads = 0
        self._under_way = 0

    async def ask(self, job: Callable[[C], R]) -> R:
        """The result of `job` with a client, in one of the threads; what it raises is raised.
        BusyError."""
        if self._under_way >= 2 * self._most:
            raise BusyError
        loop = asyncio.get_running_loop()
        future: asyncio.Future[R] = loop.create_future()
        self._under_way += 1
        if self._under_way > self._threads and self._threads < self._most:
            self._threads += 1
            threading.Thread(target=self._run, args=(loop,), name=self._name, daemon=True).start()
        self._jobs.put((job, future))
        return await asyncio.shield(future)

    def close(self) -> None:
        """Let the threads end that have nothing to do."""
        for _ in range(self._threads):
            self._jobs.put(None)

    def _run(self, loop: asyncio.AbstractEventLoop) -> None:
        client: C | None = None
        while (submitted := self._jobs.get()) is not None:
            job, future = submitted
            found, error = None, None
            try:
                client = client or self._connect()
                found = job(client)
            except BaseException as failed:  # noqa: BLE001 - it is raised again in the loop
                error = failed
            try:
                loop.call_soon_threadsafe(self._done, future, found, error)
            except RuntimeError:
                break  # the loop is closed
            del submitted, job, future, found, error
        if client is not None:
            client.close()

    def _done(
        self, future: asyncio.Future[Any], found: object, error: BaseException | None
    ) -> None:
        self._under_way -= 1
        if future.cancelled():
            return
        if error is None:
            future.set_result(found)
        else:
            future.set_exception(error)
            future.exception()  # who asked may have gone: it is no warning then
