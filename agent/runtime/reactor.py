"""A process's loop: which source wakes whom, who performs which instruction, who keeps time."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Protocol

import zmq

from agent.runtime.signals import StopSignal

# A poll that took longer has waited: nothing could be read before it returned. Not so one that was
# not to wait: another thread had the interpreter, or another process the core.
WAITED_S = 1e-3
# More than 24 days overflow what poll takes.
LONGEST_POLL_MS = 60_000


class Timekeeper(Protocol):
    """A part that wants to be woken at a certain time."""

    @property
    def next_due(self) -> float | None:
        """When to call `tick` next, on the board's clock."""

    def tick(self, now: float) -> None:
        """Do what is due by `now`."""


class Reactor:
    """Connects the parts of a process; knows none of them."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock = clock
        self._poller = zmq.Poller()
        self._turns: dict[Any, Callable[[], None]] = {}
        self._performers: dict[type, Callable[[Any], None]] = {}
        self._timekeepers: list[Timekeeper] = []
        # When each source that can be read was seen empty last, and when the last poll looked, if
        # not later.
        self._empty_s: dict[Any, float] = {}
        self._woken_s = clock()

    def listen(self, source: Any, turn: Callable[[], None]) -> None:
        """Call `turn` whenever `source`, a socket or a file descriptor, can be read."""
        self._turns[source] = turn
        self._poller.register(source, zmq.POLLIN)

    def ignore(self, source: Any) -> None:
        """Do not listen to `source` any more."""
        del self._turns[source]
        self._poller.unregister(source)

    def performs(self, kind: type, performer: Callable[[Any], None]) -> None:
        """`performer` carries out instructions of this kind."""
        self._performers[kind] = performer

    def add_timer(self, part: Timekeeper) -> None:
        """Wake `part` when it is due."""
        self._timekeepers.append(part)

    def perform(self, instructions: Iterable[Any]) -> None:
        """Carry the instructions out, in order."""
        performers = self._performers
        for instruction in instructions:
            performers[type(instruction)](instruction)

    def late_s(self, source: Any, now: float) -> float:
        """How long what is read from `source` at `now` may have waited for its turn, at most."""
        return now - self._empty_s.get(source, now)

    def drained(self, source: Any) -> None:
        """Nothing more can be read from `source` now: whoever reads it says so."""
        self._empty_s[source] = self.clock()

    def serve(self, stop: StopSignal) -> None:
        """Serve until told to stop."""
        for fileno in stop.filenos:
            self.listen(fileno, partial(stop.woken, fileno))
        while not stop.requested:
            due = self._next_due()
            for source in self._readable(due):
                # A turn before this one may have closed the source.
                if (turn := self._turns.get(source)) is not None:
                    turn()
            if (now := self.clock()) >= due:
                for part in self._timekeepers:
                    if (at := part.next_due) is not None and at <= now:
                        part.tick(now)

    def _readable(self, due: float) -> list[Any]:
        """Wait for sources, until `due` at most."""
        pause_ms = self._milliseconds_until(due)
        began_s = self.clock()
        found = [source for source, _ in self._poller.poll(pause_ms)]
        woken_s = self.clock()
        # What was not found last time was empty then.
        known, before_s = self._empty_s, self._woken_s
        if pause_ms != 0 and woken_s - began_s > WAITED_S:
            self._empty_s = dict.fromkeys(found, woken_s)
        else:
            self._empty_s = {source: known.get(source, before_s) for source in found}
        # Of one that was not to wait it is known only that it looked after it began.
        self._woken_s = woken_s if pause_ms != 0 else began_s
        return found

    def _next_due(self) -> float:
        return min(
            [at for part in self._timekeepers if (at := part.next_due) is not None],
            default=math.inf,
        )

    def _milliseconds_until(self, due: float) -> int | None:
        # Rounded up: a poll that returns a hair early would only turn round again.
        if due == math.inf:
            return None
        return min(LONGEST_POLL_MS, max(0, math.ceil((due - self.clock()) * 1e3)))
