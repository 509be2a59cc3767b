"""What of the node's events goes to the master, and when: a pure state machine.

Store and forward: an event is on stable storage before this hears of it, and leaves the store when
the master has it on stable storage too. Live events, raised while the link is joined, go at once.
The backlog, which waited before, follows oldest first at a bounded rate; it is read from the store
a batch at a time and never held here. What is not acknowledged is sent again, so the master may see
an event twice and knows it by its sequence.

Events go in with the monotonic time in seconds, instructions come out;
`agent.edge.events.forwarding` carries them out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Final

from msgspec import Struct

from agent.wire.base import MAX_EVENTS
from agent.wire.messages import NodeEvent

RESEND_S: Final = 10.0  # without an acknowledgement
BATCH_S: Final = 0.5  # a batch of the backlog is what may go in so long, or one event
MAX_LIVE: Final = MAX_EVENTS  # not acknowledged; what is raised beyond goes with the backlog
MAX_OLD: Final = 64  # not acknowledged, of the backlog
BEFORE_ALL: Final = -1  # below every sequence


# --- events -----------------------------------------------------------------------------------


class Joined(Struct, frozen=True):
    """The master welcomed the node; one of an earlier version knows no events."""

    takes_events: bool


class Cut(Struct, frozen=True):
    """The link is not joined any more; whatever was not acknowledged may be lost."""


class Raised(Struct, frozen=True):
    """These are new in the store; in any order."""

    events: tuple[NodeEvent, ...]


class Page(Struct, frozen=True):
    """What the store has after the sequence that a `Read` named: as many as asked for, or all.
    `read` is which one, if anything came between it and this."""

    events: tuple[NodeEvent, ...]
    read: Read | None = None


class Taken(Struct, frozen=True):
    """The master has these on stable storage."""

    sequences: tuple[int, ...]


class Tick(Struct, frozen=True):
    """Time has passed; due at `Outbox.wake_at`, harmless before."""


Event = Joined | Cut | Raised | Page | Taken | Tick


# --- instructions -----------------------------------------------------------------------------


class SendEvents(Struct, frozen=True):
    """Send these in one message."""

    events: tuple[NodeEvent, ...]


class Read(Struct, frozen=True):
    """Answer with a `Page` of at most `most` events after that sequence. Without one, because the
    store cannot be read now, the same is asked again with the next batch."""

    after: int
    most: int


class Remove(Struct, frozen=True):
    """Take these out of the store."""

    sequences: tuple[int, ...]


Instruction = SendEvents | Read | Remove
Instructions = list[Instruction]


class _Flight(Struct, frozen=True):
    """An event that was sent and is not acknowledged."""

    event: NodeEvent
    due: float  # to be sent again


class Outbox:
    """One node's outbox; `backlog_per_s` bounds what goes of the backlog, repeats included: in any
    t seconds at most backlog_per_s · t events and a batch."""

    def __init__(self, backlog_per_s: float) -> None:
        self.wake_at = float("inf")
        self._batch = max(1, min(MAX_OLD, int(backlog_per_s * BATCH_S)))
        self._pause_s = self._batch / backlog_per_s
        self._sending = False
        self._live: dict[int, _Flight] = {}
        self._old: dict[int, _Flight] = {}
        # Where the backlog goes on, whether there may be any, and not before when.
        self._cursor = BEFORE_ALL
        self._behind = False
        self._batch_at = 0.0
        self._asked = 0
        self._repeated = 0  # by the last turn
        # The highest that had no room since the last page: that may have been read before it.
        self._late = BEFORE_ALL

    def handle(self, event: Event, now: float) -> Instructions:
        """What to do about `event` at monotonic time `now`."""
        instructions = self.ACTIONS[type(event)](self, event, now)
        self.wake_at = self._next()
        return instructions

    # --- actions ---

    def _join(self, event: Joined, now: float) -> Instructions:
        self._cut(Cut(), now)
        self._sending = event.takes_events
        self._cursor, self._behind, self._late = BEFORE_ALL, True, BEFORE_ALL
        self._repeated = 0
        self._batch_at = now + self._pause_s
        return []

    def _cut(self, _: Cut, __: float) -> Instructions:
        self._sending = False
        self._live.clear()
        self._old.clear()
        return []

    def _raise(self, event: Raised, now: float) -> Instructions:
        if not self._sending:
            return []
        # A page may have been read since an event was stored.
        new = [e for e in event.events if not self._under_way(e.sequence)]
        room = MAX_LIVE - len(self._live)
        for late in new[room:]:
            self._behind = True
            self._cursor = min(self._cursor, late.sequence - 1)
            self._late = max(self._late, late.sequence)
        return self._send(self._live, new[:room], now)

    def _turn(self, _: Tick, now: float) -> Instructions:
        if not self._sending:
            return []
        instructions = self._send(self._live, _due(self._live, now), now)
        if now < self._batch_at:
            return instructions
        again = _due(self._old, now)[: self._batch]
        instructions += self._send(self._old, again, now)
        self._repeated = len(again)
        self._asked = min(self._batch - len(again), self._room)
        if self._behind and self._asked > 0:
            instructions.append(Read(self._cursor, self._asked))
        elif not again:
            return instructions
        self._batch_at = now + self._pause_s
        return instructions

    def _take_page(self, event: Page, now: float) -> Instructions:
        if not self._sending:
            return []
        asked = self._asked if event.read is None else event.read.most
        # There is something to read before this page since it was asked for.
        back = event.read is not None and self._cursor < event.read.after
        last = event.events[-1].sequence if event.events else BEFORE_ALL
        missed, self._late = event.read is not None and self._late > last, BEFORE_ALL
        self._behind = back or missed or len(event.events) >= asked
        if event.events and not back:
            self._cursor = last
        new = [e for e in event.events if not self._under_way(e.sequence)]
        # A page may be late: repeats went meanwhile, and the next batch is a whole pause from now.
        room = min(self._batch - self._repeated, self._room)
        if new[room:]:
            self._behind, self._cursor = True, min(self._cursor, new[room].sequence - 1)
        if new[:room]:
            self._batch_at = now + self._pause_s
        return self._send(self._old, new[:room], now)

    def _forget(self, event: Taken, _: float) -> Instructions:
        for sequence in event.sequences:
            self._live.pop(sequence, None)
            self._old.pop(sequence, None)
        return [Remove(event.sequences)]

    def _send(
        self, flights: dict[int, _Flight], events: list[NodeEvent], now: float
    ) -> Instructions:
        for event in events:
            flights[event.sequence] = _Flight(event, now + RESEND_S)
        return [SendEvents(tuple(events))] if events else []

    # --- what follows from the above ---

    def _under_way(self, sequence: int) -> bool:
        return sequence in self._live or sequence in self._old

    @property
    def _room(self) -> int:
        return MAX_OLD - len(self._old)

    def _next(self) -> float:
        """When there is something to do; O(events under way)."""
        if not self._sending:
            return float("inf")
        if self._behind and self._room > 0:
            backlog = self._batch_at
        else:
            again = min([flight.due for flight in self._old.values()], default=float("inf"))
            backlog = max(again, self._batch_at)
        return min([backlog, *[flight.due for flight in self._live.values()]])

    ACTIONS: ClassVar[dict[type, Callable[[Outbox, Any, float], Instructions]]] = {
        Joined: _join,
        Cut: _cut,
        Raised: _raise,
        Page: _take_page,
        Taken: _forget,
        Tick: _turn,
    }


def _due(flights: dict[int, _Flight], now: float) -> list[NodeEvent]:
    return [flight.event for flight in flights.values() if flight.due <= now]
