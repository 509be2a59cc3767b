"""Frames of an event stream: what browsers get, made and compressed once for all of them.

Pure. A frame is a piece of a gzip stream that refers to nothing before it, so the same bytes fit
into every stream: who opens one, and when, does not matter.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal

import msgspec
from msgspec import UNSET, Struct, UnsetType

from agent.gateway.feed.alert_log import Logged
from agent.gateway.feed.raised import RaisedNow
from agent.gateway.feed.rooms import Reading, Room, Rooms, spark_of
from agent.wire.overlay import Origin
from agent.wire.predicates import Value

# Begin of a gzip stream: deflate, no name, no time, of no particular system.
GZIP_BEGIN: Final = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"
LEVEL: Final = 6
ABSENT: Final = "-"
STATES: Final = {"live": "l", "stale": "s", "missing": "m"}
QUALITIES: Final = {"good": "g", "suspect": "s", "bad": "b"}
KEEP_ALIVE: Final = b":\n\n"

Link = Literal["starting", "up", "away", "idle"]


class Source(Struct, frozen=True):
    """How the gateway and its master are: `idle` while nobody looks, `away` with a `message` while
    the master does not answer. `alerts` says why no alerts come; it is not there while they do."""

    state: Link
    message: str = ""
    alerts: str | UnsetType = UNSET


class Frame:
    """A part of an event stream: `plain`, and `packed` as a piece of a gzip stream."""

    __slots__ = ("_packed", "plain")

    def __init__(self, plain: bytes) -> None:
        self.plain = plain
        self._packed: bytes | None = None

    @property
    def size(self) -> int:
        """Bytes that it holds."""
        return len(self.plain) + len(self._packed or b"")

    def pack(self) -> None:
        """Compress it now; in any thread, before it is shared."""
        self._packed = self.packed

    @property
    def packed(self) -> bytes:
        """Compressed when it is first asked for."""
        if self._packed is None:
            deflate = zlib.compressobj(LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS)
            self._packed = deflate.compress(self.plain) + deflate.flush(zlib.Z_FULL_FLUSH)
        return self._packed


class Packing:
    """One gzip stream of frames."""

    __slots__ = ("_bytes", "_sum")

    def __init__(self) -> None:
        self._bytes = self._sum = 0

    @property
    def begin(self) -> bytes:
        """Before the first frame."""
        return GZIP_BEGIN

    def add(self, frame: Frame) -> bytes:
        """The next frame."""
        self._sum = zlib.crc32(frame.plain, self._sum)
        self._bytes += len(frame.plain)
        return frame.packed

    @property
    def end(self) -> bytes:
        """After the last frame: an empty block, and the sums."""
        return b"\x03\x00" + struct.pack("<II", self._sum, self._bytes & 0xFFFFFFFF)


def event(name: str, data: Any, position: int | None = None) -> Frame:
    """One server-sent event; `position` is its id."""
    lines = [b"event: ", name.encode(), b"\ndata: ", msgspec.json.encode(data), b"\n\n"]
    if position is not None:
        lines = [b"id: %d\n" % position, *lines]
    return Frame(b"".join(lines))


# --- alerts --------------------------------------------------------------------------------------


class AlertItem(Struct, frozen=True, omit_defaults=True):
    """An entry of the log of alerts as HTTP has it: a notification, or in `gap` what was lost."""

    position: int
    received_ms: int
    origin: Origin | UnsetType = UNSET
    time_ms: int | UnsetType = UNSET
    attributes: dict[str, Value] | UnsetType = UNSET
    gap: dict[str, Any] | UnsetType = UNSET


def alert_item(entry: Logged) -> AlertItem:
    """The entry as HTTP has it."""
    if entry.notification is not None:
        told = entry.notification
        return AlertItem(
            entry.position, entry.received_ms, told.origin, told.time_ms, told.attributes
        )
    loss = entry.loss
    assert loss is not None
    gap = {"message": loss.message, "first": loss.first, "last": loss.last}
    return AlertItem(entry.position, entry.received_ms, gap=gap)


def alert_frame(entry: Logged) -> Frame:
    """Event `alert` or `gap`, with its position as its id."""
    item = alert_item(entry)
    if entry.notification is not None:
        return event("alert", item, entry.position)
    return event("gap", item.gap, entry.position)


def raised_frame(raised: Iterable[RaisedNow]) -> Frame:
    """Event `raised`: all that is raised now."""
    return event("raised", {"raised": list(raised)})


# --- rooms ---------------------------------------------------------------------------------------


class GapItem(Struct, frozen=True):
    """Areas without an answer of which no room is known."""

    area: str
    reason: str


class Snapshot(Struct, frozen=True):
    """Event `snapshot`: all there is. The place of a room in `rooms` is its number in `rooms`
    events."""

    version: int
    time_ms: int
    every_s: float
    source: Source
    rooms: list[msgspec.Raw]
    missing: list[GapItem]
    raised: list[RaisedNow]
    position: int


class ChannelColumns(Struct, frozen=True):
    """One channel in a `rooms` event, a place for each room: values rounded as people read them,
    seconds between the value's time and the event's, and a letter of its quality (`g`ood,
    `s`uspect, `b`ad; ``-``: the room has no such channel)."""

    values: list[float | None]
    ages_s: list[int]
    quality: str


class Changes(Struct, frozen=True, omit_defaults=True):
    """Event `rooms`: what changed, in columns. `rooms` are the numbers of the rooms, [first, last]
    where they are all from the first to the last; `states` has a letter for each (`l`ive, `s`tale,
    `m`issing), `reasons` are by number where there are any. New rooms, channels and names come in
    another `snapshot`, which replaces the one before."""

    version: int
    time_ms: int
    rooms: list[int]
    dense: bool
    states: str
    channels: dict[str, ChannelColumns]
    reasons: dict[str, str] = {}
    missing: list[GapItem] = []


def gaps_of(rooms: Rooms) -> list[GapItem]:
    """The gaps that no room stands for."""
    return [GapItem(area, reason) for area, reason in rooms.gaps.items()]


def room_item(room: Room, sparks: Mapping[str, Iterable[float]]) -> msgspec.Raw:
    """A room as the snapshot has it, in JSON: each channel with its last means, the oldest first;
    null where it had none."""
    shown: dict[str, Any] = msgspec.structs.asdict(room)
    shown["channels"] = {
        name: {**msgspec.structs.asdict(reading), "spark": spark_of(sparks.get(name, ()))}
        for name, reading in room.channels.items()
    }
    # One by one, so that a thread that encodes thousands lets the loop's thread run between them.
    return msgspec.Raw(msgspec.json.encode(shown))


def changes(rooms: Rooms, since: int, now_ms: int) -> Changes:
    """Changes after version `since`, for a reader with a snapshot of the same shape. O(rooms)."""
    found = rooms.since(since)
    places = [place for place, _ in found]
    dense = len(places) > 1 and places[-1] - places[0] + 1 == len(places)
    names = dict.fromkeys(name for _, room in found for name in room.channels)
    return Changes(
        rooms.version,
        now_ms,
        [places[0], places[-1]] if dense else places,
        dense,
        "".join([STATES[room.state] for _, room in found]),
        {name: _columns([room.channels.get(name) for _, room in found], now_ms) for name in names},
        {str(place): room.reason for place, room in found if room.reason},
        gaps_of(rooms),
    )


def _columns(readings: list[Reading | None], now_ms: int) -> ChannelColumns:
    return ChannelColumns(
        [None if each is None else _short(each.value) for each in readings],
        [
            0 if each is None else max(0, (now_ms - each.time_ms + 500) // 1_000)
            for each in readings
        ],
        "".join([ABSENT if each is None else QUALITIES[each.quality] for each in readings]),
    )


def _short(value: float | None) -> float | None:
    """Two decimals; of small values three digits."""
    if value is None or value == 0.0:
        return value
    return round(value, 2) if abs(value) >= 1.0 else float(f"{value:.3g}")
