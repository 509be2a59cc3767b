"""Events and instructions of standing queries, and the interface of their triggers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from msgspec import Struct

from agent.scheduling.events import Peer
from agent.wire.base import Count
from agent.wire.messages import Answer, AreaResult, Query
from agent.wire.overlay import Notification
from agent.wire.principals import Sender
from agent.wire.push import PushReply, PushRequest
from agent.wire.watches import Acknowledge, Cancel, Watch, WatchReply

# The owner of a watch, and its id.
WatchKey = tuple[str, str]


class _Struct(Struct, frozen=True, gc=False):
    """Immutable, and never part of a reference cycle."""


# --- events ---------------------------------------------------------------------------------------


class WatchArrived(_Struct, frozen=True):
    peer: Peer
    sender: Sender
    watch: Watch


class AcknowledgeArrived(_Struct, frozen=True):
    sender: Sender
    message: Acknowledge


class CancelArrived(_Struct, frozen=True):
    peer: Peer
    sender: Sender
    message: Cancel


class ClientGone(_Struct, frozen=True):
    """A message of this watch was dropped, as that connection of its client was found closed."""

    key: WatchKey
    peer: Peer


class WatchNotKept(_Struct, frozen=True):
    """The disk did not take this new watch, of which its client has heard nothing."""

    key: WatchKey
    why: str


class RoundAnswered(_Struct, frozen=True):
    """The answer to the query of `AskRound` with this `token`."""

    token: int
    answer: Answer


class RoundsDue(_Struct, frozen=True):
    """A timer has expired. `WatchScheduler.next_tick` says when to send this."""


class InboxSaid(_Struct, frozen=True):
    """A message from the inbox of a watch on alerts. None: an `AskInbox` was not accepted, and the
    inbox is unavailable."""

    key: WatchKey
    message: PushReply | None


class ClockSet(_Struct, frozen=True):
    """The wall clock was set, forward by this many seconds, or back if they are below 0."""

    by_s: float


class Resumed(_Struct, frozen=True):
    """This process was stopped for longer than it takes nodes and masters to miss it."""


WatchSchedulerEvent = (
    WatchArrived
    | AcknowledgeArrived
    | CancelArrived
    | ClientGone
    | Resumed
    | WatchNotKept
    | RoundAnswered
    | RoundsDue
    | InboxSaid
    | ClockSet
)

# --- instructions ---------------------------------------------------------------------------------


class AskRound(_Struct, frozen=True):
    """Run `query` for `sender`; its answer comes back as `RoundAnswered` with the same `token`."""

    token: int
    query: Query
    sender: Sender


class SendWatch(_Struct, frozen=True):
    peer: Peer
    message: WatchReply


class SavedWatch(_Struct, frozen=True):
    """A watch as kept on disk from its start: its owner, its start in milliseconds since 1970 UTC,
    and the readings per second that count towards the limit of its `payer` (0 and empty: not known,
    in a file of an earlier version)."""

    client: str
    start_ms: Count
    watch: Watch
    load: Count = 0
    payer: str = ""


class Cursor(_Struct, frozen=True):
    """Progress of a watch: the client has acknowledged rounds up to `acknowledged`; rounds up to
    `settled` are acknowledged or skipped."""

    acknowledged: Count = 0
    settled: Count = 0


class SaveWatch(_Struct, frozen=True):
    """Must be on disk before anything that follows is sent."""

    key: WatchKey
    saved: SavedWatch


class SaveCursor(_Struct, frozen=True):
    """May be written late: a client that comes back says itself what it has."""

    key: WatchKey
    cursor: Cursor


class Gathered(_Struct, frozen=True):
    """Alerts of one round: their number, the latest of them, and the latest date of all in
    milliseconds since 1970 UTC."""

    count: Count = 0
    latest_ms: int = 0
    alerts: tuple[Notification, ...] = ()


class SavedAlerts(_Struct, frozen=True):
    """The alerts of a watch as kept on disk: its `subscription` (empty: ended) and the `position`
    up to which its alerts are included; `rounds` up to number `made`, the last at `made_ms`; those
    `gathered` for the next round; how many are known to be `missed`, and how often the inbox lost
    its content."""

    subscription: str
    position: Count = 0
    made: Count = 0
    made_ms: int = 0
    rounds: tuple[Gathered, ...] = ()
    gathered: Gathered = Gathered()
    missed: Count = 0
    losses: Count = 0


class SaveAlerts(_Struct, frozen=True):
    """If `at_once`, it must be on disk before any `AskInbox` or `SendWatch` that follows: the inbox
    deletes what is acknowledged, and a client that got a round asks for the next ones."""

    key: WatchKey
    saved: SavedAlerts
    at_once: bool


class AskInbox(_Struct, frozen=True):
    """A request to the inboxes, with the watch as their durable client; replies come as
    `InboxSaid`. The subscription that it acknowledges must be renewed until the watch
    unsubscribes."""

    key: WatchKey
    message: PushRequest


class ForgetWatch(_Struct, frozen=True):
    key: WatchKey


WatchInstruction = (
    AskRound | SendWatch | SaveWatch | SaveCursor | SaveAlerts | AskInbox | ForgetWatch
)

# --- triggers -------------------------------------------------------------------------------------


class Trigger(Protocol):
    """A condition on one area's answer for a window."""

    @property
    def channels(self) -> tuple[str, ...]:
        """The channels that it uses."""

    @property
    def needs_series(self) -> bool:
        """Whether it needs series, because aggregates are not enough."""

    def holds(self, result: AreaResult) -> bool:
        """Whether the condition holds; missing or bad values never satisfy it."""


# Parses a trigger; ValueError in one line if the text is invalid.
ReadTrigger = Callable[[str], Trigger]
