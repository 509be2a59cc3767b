"""Events and instructions of the publisher's spool."""

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
    """The notifications of one event of a node, one for each of its areas."""

    sequence: int
    notifications: tuple[Notification, ...]


class Brought(_Struct, frozen=True):
    """The node sends these events of its `history`, possibly duplicates; it has none below the
    sequence `oldest` left to send. `Accepted` returns the opaque `token`."""

    token: Any
    node: str
    history: str
    oldest: int
    events: tuple[EventAlerts, ...]


class Settled(_Struct, frozen=True):
    """Every subscriber has it."""

    origin: Origin


class Undeliverable(_Struct, frozen=True):
    """Some subscriber may not have it: it is to be published again."""

    origin: Origin


class LostTold(_Struct, frozen=True):
    """Every affected subscriber was told that these are lost."""

    lost: Lost


class SpoolDue(_Struct, frozen=True):
    """A timer has expired: `Spool.next_tick` says when to send this."""


SpoolEvent = Brought | Settled | Undeliverable | LostTold | SpoolDue

# --- instructions: to be on disk before those that follow ----------------------------------------


class StoreSpooled(_Struct, frozen=True):
    """Write a notification; a `number` is never reused."""

    number: int
    body: bytes


class ForgetSpooled(_Struct, frozen=True):
    number: int


class SaveTaken(_Struct, frozen=True):
    """Write the deduplication window of a node's history, in place of the earlier one."""

    node: str
    history: str
    taken: Taken


class ForgetTaken(_Struct, frozen=True):
    node: str
    history: str


class SaveLost(_Struct, frozen=True):
    """Write the losses of a history, in place of the earlier ones."""

    lost: Lost


class ForgetLost(_Struct, frozen=True):
    publisher: str
    history: str


SpoolChange = StoreSpooled | ForgetSpooled | SaveTaken | ForgetTaken | SaveLost | ForgetLost

# --- instructions ---------------------------------------------------------------------------------


class Accepted(_Struct, frozen=True):
    """All of `Brought` is stored: its node may forget it."""

    token: Any


class PublishSpooled(_Struct, frozen=True):
    """Give it to the broker; `Settled` or `Undeliverable` follows."""

    notification: Notification


class TellLost(_Struct, frozen=True):
    """Send a loss notice to this publisher's subscribers; `LostTold` follows."""

    lost: Lost


SpoolInstruction = SpoolChange | Accepted | PublishSpooled | TellLost


class SavedSpool(_Struct, frozen=True):
    """State that was kept on disk, each in the order of creation."""

    spooled: tuple[tuple[int, bytes], ...] = ()
    taken: tuple[tuple[str, str, Taken], ...] = ()  # node, history
    lost: tuple[Lost, ...] = ()
