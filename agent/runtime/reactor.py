"""Event loop: dispatches readable sockets, executes instructions, fires timers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, ParamSpec, Protocol

import zmq

from agent.runtime.signals import StopSignal

# A blocking poll that took longer than this has waited: nothing was readable before it returned. A
# non-blocking poll may take as long because another thread held the GIL, or another process the
# core.
WAITED_S = 1e-3
# poll's timeout overflows above 24 days.
MAX_POLL_MS = 60_000

P = ParamSpec("P")


class Timekeeper(Protocol):
    """A component with a timer."""

    @property
    def next_due(self) -> float | None:
        """When to call `tick` next, on the reactor's clock; None: not needed."""

    def tick(self, now: float) -> None:
        """Do everything due by `now`."""


class Reactor:
    """Connects the components of a process without knowing any of them."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock = clock
        self._poller = zmq.Poller()
        self._turns: dict[Any, Callable[[], None]] = {}
        self._performers: dict[type, Callable[[Any], None]] = {}
        self._timekeepers: list[Timekeeper] = []
        self._often: list[Timekeeper] = []
        # When the first of the other timekeepers is due; None: some of them may have changed.
        self._rest_due: float | None = None
        self._brief: set[Any] = set()
        self._last: set[Any] = set()
        # When each readable source was last seen empty, and an upper bound on when the last poll
        # looked.
        self._empty_s: dict[Any, float] = {}
        self._woken_s = clock()

    def listen(self, source: Any, turn: Callable[[], None], *, brief: bool = False) -> None:
        """Call `turn` whenever `source`, a socket or a file descriptor, is readable. A `brief` turn
        calls `changed` if another timekeeper than those asked often may be due at another time."""
        self._turns[source] = turn
        if brief:
            self._brief.add(source)
        self._poller.register(source, zmq.POLLIN)

    def serve_last(self, source: Any) -> None:
        """Call the turn of `source` after those of all other sources that are readable, too."""
        self._last.add(source)

    def await_room(self, source: Any, *, wanted: bool) -> None:
        """Call the turn of `source` also whenever it is writable, as long as that is wanted."""
        self._poller.modify(source, zmq.POLLIN | (zmq.POLLOUT if wanted else 0))

    def ignore(self, source: Any) -> None:
        """Stop listening to `source`."""
        del self._turns[source]
        self._last.discard(source)
        self._brief.discard(source)
        self._poller.unregister(source)

    def performs(
        self, kind: type, performer: Callable[[Any], None], *, brief: bool = False
    ) -> None:
        """Register `performer` for instructions of this kind; `brief` as in `listen`."""
        self._performers[kind] = performer if brief else self.changing(performer)

    def add_timer(self, part: Timekeeper, *, often: bool = False) -> None:
        """Call `part.tick` whenever `part.next_due` is reached. It is asked when that is after
        everything that is not brief; `often`: in each turn of the loop. A master has some thirty of
        these parts, and to ask them all costs more than to serve a subtask's result."""
        (self._often if often else self._timekeepers).append(part)
        self.changed()

    def changed(self) -> None:
        """Any timekeeper may be due at another time than before."""
        self._rest_due = None

    def changing(self, do: Callable[P, None]) -> Callable[P, None]:
        """`do`, which may change when timekeepers are due, for a brief turn."""

        def doing(*arguments: P.args, **named: P.kwargs) -> None:
            self._rest_due = None
            do(*arguments, **named)

        return doing

    def perform(self, instructions: Iterable[Any]) -> None:
        """Execute the instructions in order."""
        performers = self._performers
        for instruction in instructions:
            performers[type(instruction)](instruction)

    def late_s(self, source: Any, now: float) -> float:
        """Upper bound on how long a message read from `source` at `now` waited for its turn."""
        return now - self._empty_s.get(source, now)

    def drained(self, source: Any) -> None:
        """`source` is empty now; its reader calls this when nothing more is readable."""
        self._empty_s[source] = self.clock()

    def serve(self, stop: StopSignal) -> None:
        """Run the loop until `stop` is requested."""
        for fileno in stop.filenos:
            self.listen(fileno, partial(stop.woken, fileno))
        while not stop.requested:
            due = self._next_due()
            for source in self._readable(due):
                # An earlier turn may have closed the source.
                if (turn := self._turns.get(source)) is not None:
                    if source not in self._brief:
                        self._rest_due = None
                    turn()
            if (now := self.clock()) >= due:
                self._tick(now)

    def _readable(self, due: float) -> list[Any]:
        """Wait for readable sources, at most until `due`."""
        pause_ms = self._milliseconds_until(due)
        began_s = self.clock()
        found = [source for source, _ in self._poller.poll(pause_ms)]
        woken_s = self.clock()
        if len(found) > 1:
            found.sort(key=self._last.__contains__)
        # A source that the last poll did not return was empty then.
        known, before_s = self._empty_s, self._woken_s
        if pause_ms != 0 and woken_s - began_s > WAITED_S:
            self._empty_s = dict.fromkeys(found, woken_s)
        else:
            self._empty_s = {source: known.get(source, before_s) for source in found}
        # A non-blocking poll is only known to have looked after it began.
        self._woken_s = woken_s if pause_ms != 0 else began_s
        return found

    def _tick(self, now: float) -> None:
        _tick_due(self._often, now)
        if self._rest_due is None or now >= self._rest_due:
            self._rest_due = None
            _tick_due(self._timekeepers, now)

    def _next_due(self) -> float:
        if self._rest_due is None:
            self._rest_due = _first_due(self._timekeepers)
        return min(self._rest_due, _first_due(self._often))

    def _milliseconds_until(self, due: float) -> int | None:
        # Rounded up: a poll that returns too early would only be repeated.
        if due == math.inf:
            return None
        return min(MAX_POLL_MS, max(0, math.ceil((due - self.clock()) * 1e3)))


def _first_due(parts: Iterable[Timekeeper]) -> float:
    return min([at for part in parts if (at := part.next_due) is not None], default=math.inf)


def _tick_due(parts: Iterable[Timekeeper], now: float) -> None:
    for part in parts:
        if (at := part.next_due) is not None and at <= now:
            part.tick(now)
