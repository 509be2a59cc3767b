"""Interface of outputs: each takes rooms and alerts from the gateway, and reports its state."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal, NamedTuple, Protocol

from msgspec import Struct

from agent.gateway.feed.alert_log import AlertLog, Logged
from agent.gateway.feed.hub import Listener
from agent.gateway.feed.raised import RaisedNow
from agent.gateway.feed.rooms import Room
from agent.runtime.console import Say

Health = Literal["starting", "up", "down", "stopped"]


class OutputState(Struct, frozen=True):
    """How an output is doing, for the page *Outputs*. `waiting`: what it has not delivered yet;
    `delivered`, `failed`: since the start. `last_error` is one line without addresses' secrets."""

    kind: str
    name: str
    state: Health
    waiting: int = 0
    delivered: int = 0
    failed: int = 0
    last_error: str = ""


class Output(Protocol):
    """An output. Its methods but `state` are called in the gateway's loop; what blocks belongs into
    a thread of the output's own, which ends within a second of `end_soon`."""

    @property
    def kind(self) -> str:
        """Such as ``mqtt``."""

    @property
    def name(self) -> str:
        """Its name in the configuration, and of its cursor in the log of alerts."""

    def start(self) -> None:
        """Begin."""

    def end_soon(self) -> None:
        """Begin to end, without waiting, so that several outputs end at the same time."""

    def stop(self) -> None:
        """End; what is not delivered stays in the log of alerts, behind the cursor."""

    def state(self) -> OutputState:
        """How it is doing now; for any thread."""


class RoomSource(Protocol):
    """Source of rooms: the hub."""

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Call `listener` with the rooms that changed, in the gateway's loop, and have the fleet
        watched meanwhile; the function that is returned ends both."""

    def all_rooms(self) -> list[Room]:
        """Every room as it shows now."""

    def name_of(self, area: str) -> str:
        """The area's name for people, or nothing; for any thread."""

    def raised(self) -> list[RaisedNow]:
        """Alerts that are raised now; for any thread."""


class Sources(NamedTuple):
    """Context in which outputs are made. `gateway` is the gateway's name, `folder` that of its
    configuration."""

    gateway: str
    folder: Path
    rooms: RoomSource
    alerts: AlertLog
    say: Say


class AlertReader:
    """Reads the log of alerts for one output. While it cannot be read there are none: the output
    asks again when the log grows, or sooner. `say` takes lines for the operator."""

    def __init__(self, alerts: AlertLog, say: Say) -> None:
        self._alerts = alerts
        self._say = say
        self.error = ""  # why it cannot be read now

    def read(self, after: int, most: int) -> Sequence[Logged]:
        """Up to `most` entries after that position."""
        try:
            found = self._alerts.read(after, most)
        except OSError as error:
            if not self.error:
                self._say(f"{error}; it is tried again\n")
            self.error = str(error)
            return ()
        self.error = ""
        return found
