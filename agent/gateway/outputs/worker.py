"""An output's thread, and what the gateway's loop hands over to it.

Of each room only the newest state waits, so what waits is bounded however long a receiver hangs;
alerts wait in their log.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from select import POLLIN, poll
from typing import Final, NamedTuple

from agent.gateway.feed.rooms import Room
from agent.gateway.outputs.base import Sources

STOPPING_S: Final = 0.9
LOOK_S: Final = 10.0  # between looks at all rooms
MAX_WAIT_S: Final = 60.0


class Handed(NamedTuple):
    """News since the last time. `all_rooms` now and then only."""

    rooms: list[Room]
    all_rooms: list[Room] | None
    log_grew: bool


class Worker:
    """Runs `body` in a thread until `stop`. `clock` is monotonic seconds."""

    def __init__(
        self,
        name: str,
        sources: Sources,
        body: Callable[[], None],
        clock: Callable[[], float],
        *,
        rooms: bool,
        alerts: bool,
    ) -> None:
        self.ended = ""  # why, if by an error
        self._name = name
        self._sources = sources
        self._body = body
        self._clock = clock
        self._wants = rooms, alerts
        self._lock = threading.Lock()
        self._rooms: dict[str, Room] = {}
        self._all: list[Room] | None = None
        self._all_s = -LOOK_S
        self._grew = False
        self._stopping = threading.Event()
        self._stopped_s = 0.0
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._leave: list[Callable[[], None]] = []
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    @property
    def stopping(self) -> bool:
        """Whether `body` is to return."""
        return self._stopping.is_set()

    # --- in the gateway's loop -------------------------------------------------------------------

    def start(self) -> None:
        """Listen, and begin."""
        rooms, alerts = self._wants
        if rooms:
            self._changed(self._sources.rooms.all_rooms())
            self._leave.append(self._sources.rooms.listen(self._changed))
        if alerts:
            self._grow()
            self._leave.append(self._sources.alerts.listen(self._grow))
        self._thread.start()

    def end_soon(self) -> None:
        """Have `body` return, without waiting for it."""
        if self.stopping:
            return
        self._stopped_s = self._clock()
        for leave in self._leave:
            leave()
        self._stopping.set()
        self._poke()

    def stop(self) -> None:
        """End within a second of `end_soon`; a thread that hangs ends with the process."""
        self.end_soon()
        if self._thread.ident is not None:
            self._thread.join(max(0.0, self._stopped_s + STOPPING_S - self._clock()))
        if not self._thread.is_alive():
            with self._lock:
                if self._wake >= 0:
                    os.close(self._wake)
                self._wake = -1

    def _changed(self, rooms: Sequence[Room]) -> None:
        now = self._clock()
        everything = None
        if now - self._all_s >= LOOK_S:
            self._all_s, everything = now, self._sources.rooms.all_rooms()
        with self._lock:
            self._rooms.update((room.area, room) for room in rooms)
            if everything is not None:
                self._all = everything
        self._poke()

    def _grow(self) -> None:
        """In any thread."""
        self._grew = True
        self._poke()

    def _poke(self) -> None:
        with self._lock:
            if self._wake >= 0:
                os.eventfd_write(self._wake, 1)

    # --- in the thread ---------------------------------------------------------------------------

    def wait(self, timeout_s: float | None, others: dict[int, int] | None = None) -> Handed:
        """Wait until something is handed over, another descriptor is ready, or the time is up."""
        waits = poll()
        waits.register(self._wake, POLLIN)
        for fileno, mask in (others or {}).items():
            waits.register(fileno, mask)
        longest_s = MAX_WAIT_S if timeout_s is None else min(timeout_s, MAX_WAIT_S)
        waits.poll(max(0.0, longest_s) * 1e3)
        with suppress(BlockingIOError):
            os.eventfd_read(self._wake)
        grew, self._grew = self._grew, False
        with self._lock:
            rooms, self._rooms = self._rooms, {}
            all_rooms, self._all = self._all, None
        return Handed(list(rooms.values()), all_rooms, grew)

    def _run(self) -> None:
        try:
            self._body()
        except Exception as error:  # noqa: BLE001 - one output never ends the gateway
            self.ended = " ".join(f"{type(error).__name__}: {error}".split())
            self._sources.say(f"{self._name}: ended by a fault of the gateway's: {self.ended}\n")


class WorkerOutput:
    """An output whose work is done in its worker's thread."""

    _worker: Worker

    def start(self) -> None:
        """Begin."""
        self._worker.start()

    def end_soon(self) -> None:
        """Begin to end."""
        self._worker.end_soon()

    def stop(self) -> None:
        """End. An attempt under way is repeated at the next start; readings that wait are lost, and
        were never promised."""
        self._worker.stop()
