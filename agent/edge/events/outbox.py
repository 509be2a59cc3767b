"""Event outbox: store-and-forward delivery of a node's events, as a pure state machine.

An event is on stable storage before the outbox learns of it, and leaves the store when the master
has it on stable storage too. Live events, raised while the link is joined, are sent at once. The
backlog of older events follows, oldest first, at a bounded rate; it is read from the store one
batch at a time and never kept in memory. Unacknowledged events are sent again, so the master may
receive an event twice and recognises it by its sequence.

Events go in with the monotonic time in seconds, instructions come out;
`agent.edge.events.forwarding` carries them out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Final

from msgspec import Struct

from agent.wire.base import MAX_EVENTS
from agent.wire.node_messages import NodeEvent

RESEND_S: Final = 10.0  # without an acknowledgement
BATCH_S: Final = (
    0.5  # a batch of the backlog: what the rate allows in this time, at least one event
)
MAX_LIVE: Final = MAX_EVENTS  # unacknowledged live events; further ones join the backlog
MAX_OLD: Final = 64  # unacknowledged events of the backlog
BEFORE_ALL: Final = -1  # below every sequence


# --- events -----------------------------------------------------------------------------------


class Joined(Struct, frozen=True):
    """The master welcomed the node; a master of an earlier version does not support events. Of this
    history it has events up to `to`, and expects none below `settled`."""

    takes_events: bool
    settled: int = 0
    to: int = 0


class Cut(Struct, frozen=True):
    """The link is no longer joined; unacknowledged messages may be lost."""


class Raised(Struct, frozen=True):
    """These events are new in the store, in any order."""

    events: tuple[NodeEvent, ...]


class Page(Struct, frozen=True):
    """The events of the store after the sequence named by a `Read`: as many as requested, or all.
    `read` identifies that instruction, in case others followed it."""

    events: tuple[NodeEvent, ...]
    read: Read | None = None


class Taken(Struct, frozen=True):
    """The master has these events on stable storage."""

    sequences: tuple[int, ...]


class Tick(Struct, frozen=True):
    """Time has passed; due at `Outbox.wake_at`, harmless before."""


Event = Joined | Cut | Raised | Page | Taken | Tick


# --- instructions -----------------------------------------------------------------------------


class SendEvents(Struct, frozen=True):
    """Send these events in one message."""

    events: tuple[NodeEvent, ...]


class Read(Struct, frozen=True):
    """Answer with a `Page` of at most `most` events after that sequence. If the store cannot be
    read now, do not answer: the outbox repeats the read with the next batch."""

    after: int
    most: int


class Remove(Struct, frozen=True):
    """Remove these events from the store."""

    sequences: tuple[int, ...]


Instruction = SendEvents | Read | Remove
Instructions = list[Instruction]


class _Flight(Struct, frozen=True):
    """An event that was sent and not yet acknowledged."""

    event: NodeEvent
    due: float  # when to send it again


class Outbox:
    """One node's outbox; `backlog_per_s` bounds the backlog's rate, repeats included: in any t
    seconds at most backlog_per_s · t events plus one batch."""

    def __init__(self, backlog_per_s: float) -> None:
        self.wake_at = float("inf")
        self._batch = max(1, min(MAX_OLD, int(backlog_per_s * BATCH_S)))
        self._pause_s = self._batch / backlog_per_s
        self._sending = False
        self._live: dict[int, _Flight] = {}
        self._old: dict[int, _Flight] = {}
        # Where the backlog continues, whether it may have more, and its earliest time.
        self._cursor = BEFORE_ALL
        self._behind = False
        self._batch_at = 0.0
        self._asked = 0
        self._repeated = 0  # events repeated by the last turn
        # The highest sequence without room since the last page, which may predate it.
        self._late = BEFORE_ALL

    def handle(self, event: Event, now: float) -> Instructions:
        """Actions for `event` at monotonic time `now`."""
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
        # Events before this page became readable after it was requested.
        back = event.read is not None and self._cursor < event.read.after
        last = event.events[-1].sequence if event.events else BEFORE_ALL
        missed, self._late = event.read is not None and self._late > last, BEFORE_ALL
        self._behind = back or missed or len(event.events) >= asked
        if event.events and not back:
            self._cursor = last
        new = [e for e in event.events if not self._under_way(e.sequence)]
        # A page may be late: repeats used part of its batch, and the next is a full pause away.
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
        """When the next action is due; O(events in flight)."""
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
