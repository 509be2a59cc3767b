"""What happens to the spool of a publisher (events), and what it wants done (instructions)."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from agent.alerts.dedup_window import Taken
from agent.wire.overlay import Notification, Origin
from agent.wire.push import Lost


class _Struct(Struct, frozen=True, gc=False):
    """Immutable, and never part of a reference cycle."""


# --- events --------------------------------------------------------------------------------------


class EventAlerts(_Struct, frozen=True):
    """What an event of a node becomes: a notification for each of its areas."""

    sequence: int
    notifications: tuple[Notification, ...]


class Brought(_Struct, frozen=True):
    """The node brings these events, all of its `history`, perhaps again; none below the sequence
    `oldest` waits there any more. `Accepted` comes back with `token`, which is only passed on."""

    token: Any
    node: str
    history: str
    oldest: int
    events: tuple[EventAlerts, ...]


class Settled(_Struct, frozen=True):
    """Everybody who wants it has it."""

    origin: Origin


class Undeliverable(_Struct, frozen=True):
    """Somebody may not have it: it is to be published again."""

    origin: Origin


class LostTold(_Struct, frozen=True):
    """Everybody who may have wanted these was told that they are lost."""

    lost: Lost


class SpoolDue(_Struct, frozen=True):
    """Time has passed: `Spool.next_tick` says when."""


SpoolEvent = Brought | Settled | Undeliverable | LostTold | SpoolDue

# --- instructions: to be on disk before those that follow ----------------------------------------


class StoreSpooled(_Struct, frozen=True):
    """Keep a notification; a `number` is never used again."""

    number: int
    body: bytes


class ForgetSpooled(_Struct, frozen=True):
    number: int


class SaveTaken(_Struct, frozen=True):
    """Keep what was taken of a node's history, in place of what was kept before."""

    node: str
    history: str
    taken: Taken


class ForgetTaken(_Struct, frozen=True):
    node: str
    history: str


class SaveLost(_Struct, frozen=True):
    """Keep what of a history was given up, in place of what was kept before."""

    lost: Lost


class ForgetLost(_Struct, frozen=True):
    publisher: str
    history: str


SpoolChange = StoreSpooled | ForgetSpooled | SaveTaken | ForgetTaken | SaveLost | ForgetLost

# --- instructions ---------------------------------------------------------------------------------


class Accepted(_Struct, frozen=True):
    """All of `Brought` is kept: its node may forget it."""

    token: Any


class PublishSpooled(_Struct, frozen=True):
    """Give it to the broker; `Settled` or `Undeliverable` comes back."""

    notification: Notification


class TellLost(_Struct, frozen=True):
    """Tell the subscribers of this publisher; `LostTold` comes back."""

    lost: Lost


SpoolInstruction = SpoolChange | Accepted | PublishSpooled | TellLost


class SavedSpool(_Struct, frozen=True):
    """What the disk kept, each in the order in which it was made."""

    spooled: tuple[tuple[int, bytes], ...] = ()
    taken: tuple[tuple[str, str, Taken], ...] = ()  # node, history
    lost: tuple[Lost, ...] = ()
