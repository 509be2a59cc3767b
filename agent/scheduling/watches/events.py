"""What happens to the standing queries (events) and what they want done (instructions)."""

from __future__ import annotations

from msgspec import Struct

from agent.scheduling.events import Peer
from agent.wire.base import Count
from agent.wire.messages import Answer, Query
from agent.wire.overlay import Notification
from agent.wire.principals import Sender
from agent.wire.push import PushReply, PushRequest
from agent.wire.watches import Acknowledge, Cancel, Watch, WatchReply

# Whose watch, and its id.
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


class RoundAnswered(_Struct, frozen=True):
    """The answer to the query of `AskRound` with this `token`."""

    token: int
    answer: Answer


class RoundsDue(_Struct, frozen=True):
    """Time has passed: what is due is asked. `WatchScheduler.next_tick` says when."""


class InboxSaid(_Struct, frozen=True):
    """From the inbox of a watch on alerts. None: it took no `AskInbox`, and takes nothing now."""

    key: WatchKey
    message: PushReply | None


class ClockSet(_Struct, frozen=True):
    """The wall clock was set, forward by so many seconds, or back if they are below 0."""

    by_s: float


WatchSchedulerEvent = (
    WatchArrived
    | AcknowledgeArrived
    | CancelArrived
    | RoundAnswered
    | RoundsDue
    | InboxSaid
    | ClockSet
)

# --- instructions ---------------------------------------------------------------------------------


class AskRound(_Struct, frozen=True):
    """Ask `query` for `sender`; its answer comes back as `RoundAnswered` with the same `token`."""

    token: int
    query: Query
    sender: Sender


class SendWatch(_Struct, frozen=True):
    peer: Peer
    message: WatchReply


class SavedWatch(_Struct, frozen=True):
    """What the disk keeps of a watch from its start: whose it is, and when it started in
    milliseconds since 1970 UTC."""

    client: str
    start_ms: Count
    watch: Watch


class Cursor(_Struct, frozen=True):
    """How far a watch has come: rounds up to `acknowledged` are at the client, up to `settled` at
    the client or not worth sending."""

    acknowledged: Count = 0
    settled: Count = 0


class SaveWatch(_Struct, frozen=True):
    """To be on disk before anything that follows is sent."""

    key: WatchKey
    saved: SavedWatch


class SaveCursor(_Struct, frozen=True):
    """May reach the disk later: a client that comes back says itself what it has."""

    key: WatchKey
    cursor: Cursor


class Gathered(_Struct, frozen=True):
    """Alerts that made a round, or will: how many, the latest of them, and the latest date of all
    in milliseconds since 1970 UTC."""

    count: Count = 0
    latest_ms: int = 0
    alerts: tuple[Notification, ...] = ()


class SavedAlerts(_Struct, frozen=True):
    """What the disk keeps of the alerts of a watch: its `subscription` (empty: ended) and the
    `position` up to which they are in here; `rounds` up to number `made`, the last at `made_ms`;
    what is `gathered` for the next; how many are known to be `missed`, and how often what the
    inbox kept was lost."""

    subscription: str
    position: Count = 0
    made: Count = 0
    made_ms: int = 0
    rounds: tuple[Gathered, ...] = ()
    gathered: Gathered = Gathered()
    missed: Count = 0
    losses: Count = 0


class SaveAlerts(_Struct, frozen=True):
    """If `at_once`, to be on disk before any `AskInbox` or `SendWatch` that follows: what is
    acknowledged there is nowhere else, and whoever got a round asks for what is after it."""

    key: WatchKey
    saved: SavedAlerts
    at_once: bool


class AskInbox(_Struct, frozen=True):
    """Ask the inboxes, for the watch as their durable client; what they say is `InboxSaid`. Of what
    is acknowledged the client is to be renewed until it unsubscribes."""

    key: WatchKey
    message: PushRequest


class ForgetWatch(_Struct, frozen=True):
    key: WatchKey


WatchInstruction = (
    AskRound | SendWatch | SaveWatch | SaveCursor | SaveAlerts | AskInbox | ForgetWatch
)
