"""Events and instructions of an MQTT publisher."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from agent.gateway.feed.rooms import Room
from agent.gateway.outputs.alert_line import Entry
from agent.gateway.outputs.retained import Components


class _Struct(Struct, frozen=True):
    """Immutable."""


# --- events --------------------------------------------------------------------------------------


class Started(_Struct, frozen=True):
    """The first event."""


class Connected(_Struct, frozen=True):
    """A session with the broker has begun."""


class Disconnected(_Struct, frozen=True):
    """The session has ended, or none could be begun."""

    why: str


class Delivered(_Struct, frozen=True):
    """The broker has the message of a `Publish`; or it refused it, and `refused` says why."""

    number: int
    refused: str = ""


class Written(_Struct, frozen=True):
    """The store has what `Write` said; or it has not, and `why` says why."""

    wrote: Mapping[str, Components | None]
    why: str = ""


class AllRooms(_Struct, frozen=True):
    """Every room that there is."""

    rooms: Sequence[Room]


class SomeRooms(_Struct, frozen=True):
    """Rooms that have changed."""

    rooms: Sequence[Room]


class Raised(_Struct, frozen=True):
    """Every trigger that is raised now, with its area."""

    now: frozenset[tuple[str, str]]


class LogGrew(_Struct, frozen=True):
    """There may be alerts in the log that were not read."""


class AlertsRead(_Struct, frozen=True):
    """Entries that `ReadAlerts` found, in order."""

    entries: Sequence[Entry]


class Heard(_Struct, frozen=True):
    """A message on a topic that was subscribed to. Anybody may have published it."""

    topic: str
    payload: bytes


class MqttDue(_Struct, frozen=True):
    """A timer has expired: `MqttPublisher.next_tick` says when to send this."""


MqttEvent = (
    Started
    | Connected
    | Disconnected
    | Delivered
    | Written
    | AllRooms
    | SomeRooms
    | Raised
    | LogGrew
    | AlertsRead
    | Heard
    | MqttDue
)

# --- instructions --------------------------------------------------------------------------------


class Connect(_Struct, frozen=True):
    """Begin a session; answered by `Connected` or `Disconnected`."""


class Publish(_Struct, frozen=True):
    """Publish this, answered by `Delivered` unless the session ends before."""

    number: int
    topic: str
    payload: bytes
    qos: int
    retain: bool


class Write(_Struct, frozen=True):
    """Write this to the store, answered by `Written`: components of a topic, None for a topic that
    goes."""

    changes: Mapping[str, Components | None]


class ReadAlerts(_Struct, frozen=True):
    """Read at most so many entries of the alert log after this position; answered by
    `AlertsRead`."""

    after: int
    most: int


class MoveCursor(_Struct, frozen=True):
    """The broker has all alerts up to this position."""

    position: int


class Tell(_Struct, frozen=True):
    """One line for the operator."""

    line: str


MqttInstruction = Connect | Publish | Write | ReadAlerts | MoveCursor | Tell
