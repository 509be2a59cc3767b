"""Codec of frames: ``[major][minor][codec][body]``, the first three as ASCII characters.

``10J{"type":"query",…}`` is version 1.0 in JSON, ``10M…`` the same in MessagePack. Any minor
version of the same major is accepted: unknown fields are ignored, new ones have defaults.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, Generic, TypeAlias, TypeVar

import msgspec

from _core.wire.elements import elements
from agent.wire.base import Message
from agent.wire.packed import PackedColumn

MAJOR: Final = b"1"
MINOR: Final = b"0"
HEADER_BYTES: Final = 3
MESSAGEPACK: Final = b"M"
JSON: Final = b"J"

# A query of 1,024 long areas stays below the first, a node's three days of eight channels below
# the second, hundreds of rooms below the third.
MAX_REQUEST_BYTES: Final = 1 << 20
MAX_SUBTASK_RESULT_BYTES: Final = 1 << 24
MAX_RESULT_BYTES: Final = 1 << 28
# Maximum packed size of the readings in one subtask result; the rest of the message fits into the
# remainder. For a task and an answer it is half, as JSON takes more space.
MAX_SUBTASK_SERIES_BYTES: Final = MAX_SUBTASK_RESULT_BYTES - (1 << 16)
MAX_SERIES_BYTES: Final = MAX_RESULT_BYTES // 2

# msgspec checks the length of a JSON array only after decoding all of it, at 0.7 µs per element. A
# request of 1,024 areas has some 1,100 commas. In MessagePack the length comes first.
MAX_JSON_COMMAS: Final = 4_096
# In MessagePack each list states its length, but a key may be repeated, with a list each time: all
# are decoded, the last one stays. A node's 128 events have 4,700 values; a frame of fewer bytes has
# fewer values, and is not counted.
MAX_VALUES: Final = 1 << 14
# The same of messages that may be as large as their frame, at about 1 µs for a value.
MAX_BULK_VALUES: Final = 1 << 17
# Of a task's result: 14,000 rooms with an aggregate of eight channels each. Decoded in 0.4 s, to
# 100 MiB at most; a frame of the largest size took 17 s, or 3.6 GB.
MAX_RESULT_VALUES: Final = 1 << 21
GLIMPSE_BYTES: Final = 1 << 14
# Bytes at the start of an undecoded message that are searched for its id.
ID_WITHIN: Final = 512
_JSON_ID: Final = re.compile(rb'"id"\s*:\s*"([A-Za-z0-9_.:-]{1,64})"')
_PACKED_ID: Final = re.compile(rb"\xa2id(?:[\xa1-\xbf]|\xd9[\x20-\x40])([A-Za-z0-9_.:-]{1,64})")

# The type of a message where encoders write it: first.
_JSON_TYPE: Final = re.compile(rb'\s*\{\s*"type"\s*:\s*"([a-z_]{1,64})"')
_PACKED_TYPE: Final = re.compile(
    rb"(?:[\x80-\x8f]|\xde..|\xdf....)\xa4type(?:[\xa1-\xbf]|\xd9[\x20-\x40])([a-z_]{1,64})",
    re.DOTALL,
)

_QUERY: Final = re.compile(rb'"type"\s*:\s*"query"|\xa4type\xa5query')
_PACKED_AREAS: Final = re.compile(rb"\xa5areas\xdc(..)", re.DOTALL)
# Commas of a query in JSON, without those between its areas: 16 fields, and 64 channels.
OTHER_COMMAS: Final = 80

NO_BULK: Final[Mapping[tuple[bytes, str], int]] = {}

T = TypeVar("T")
# A frame received from a socket; a large one is a view of libzmq's memory.
Frame: TypeAlias = bytes | memoryview


class WireError(ValueError):
    """A frame cannot be decoded. `codec` is the one to answer in; `id` is the message's, if
    found."""

    def __init__(self, message: str, codec: bytes = JSON, sender_id: str = "") -> None:
        super().__init__(message)
        self.codec = codec
        self.sender_id = sender_id


def _pack_for_messagepack(value: Any) -> bytes:
    if isinstance(value, PackedColumn):
        return value.data
    raise _unknown(value)


def _pack_for_json(value: Any) -> msgspec.Raw:
    if isinstance(value, PackedColumn):
        return msgspec.Raw(value.json())
    raise _unknown(value)


def _unknown(value: Any) -> TypeError:
    kind = type(value)
    return TypeError(
        f"cannot send {kind.__module__}.{kind.__qualname__}; convert it, such as with int(), "
        "float() or str()"
    )


def unpack(kind: type[Any], value: Any) -> Any:
    """msgspec's hook for packed columns: bytes from MessagePack, a list of numbers from JSON."""
    if issubclass(kind, PackedColumn):
        if isinstance(value, bytes):
            return kind(value)
        if isinstance(value, list):
            return kind.from_json(value)
        raise ValueError("expected a packed column: bytes in MessagePack, numbers in JSON")
    raise NotImplementedError(f"cannot decode {kind.__name__}")


_ENCODERS: Final[dict[bytes, msgspec.msgpack.Encoder | msgspec.json.Encoder]] = {
    MESSAGEPACK: msgspec.msgpack.Encoder(enc_hook=_pack_for_messagepack),
    JSON: msgspec.json.Encoder(enc_hook=_pack_for_json),
}
_ENCODE: Final[dict[bytes, Callable[[Any], bytes]]] = {
    codec: encoder.encode for codec, encoder in _ENCODERS.items()
}
_HEADERS: Final = {codec: MAJOR + MINOR + codec for codec in _ENCODERS}


def encode(message: Message, codec: bytes = MESSAGEPACK) -> bytes:
    """Encode `message` as one frame."""
    return _HEADERS[codec] + _ENCODE[codec](message)


def to_json(document: object) -> bytes:
    """JSON of a message, or of a part of one, without a header."""
    return _ENCODE[JSON](document)


def encode_into(message: Message, codec: bytes, frame: bytearray) -> None:
    """Encode into `frame`, which saves a copy of a large message. Whatever it held is gone; if it
    has the size of the message, or more, it is not moved."""
    frame[:HEADER_BYTES] = _HEADERS[codec]
    _ENCODERS[codec].encode_into(message, frame, HEADER_BYTES)


class _SenderId(msgspec.Struct):
    id: str = ""


class Decoder(Generic[T]):
    """The typed decoder of a socket: `union` has the messages that may arrive there.

    `decode` gives (message, codec) or raises `WireError` with one line for the sender.
    """

    def __init__(
        self,
        union: Any,
        max_bytes: int = MAX_REQUEST_BYTES,
        *,
        bounded: bool = False,
        bulk: Mapping[tuple[bytes, str], int] = NO_BULK,
    ) -> None:
        """`bounded`: a frame of more than MAX_JSON_COMMAS or MAX_VALUES is refused undecoded. The
        messages of `bulk`, each a codec and a type, may have as many values as it says instead."""
        self._max_bytes = max_bytes
        self._bounded = bounded
        self._bulk = bulk
        decoders: dict[bytes, Callable[[memoryview | bytes], T]] = {
            MESSAGEPACK: msgspec.msgpack.Decoder(union, dec_hook=unpack).decode,
            JSON: msgspec.json.Decoder(union, dec_hook=unpack).decode,
        }
        # One look-up for all accepted headers.
        self._by_header = {
            MAJOR + b"%d" % minor + codec: (decode, codec)
            for minor in range(10)
            for codec, decode in decoders.items()
        }

    def decode(self, frame: Frame, *, bulk: bool = True) -> tuple[T, bytes]:
        """The message in `frame` and its codec; `WireError` if it is invalid. Without `bulk` no
        message may have more values than others: its sender has no business with those."""
        known = self._by_header.get(bytes(frame[:HEADER_BYTES]))
        if known is None or len(frame) > self._max_bytes:
            raise WireError(self._frame_problem(frame), codec=_codec_of(frame))
        decode, codec = known
        if self._bounded and len(frame) > MAX_JSON_COMMAS:
            self._check_values(frame, codec, bulk=bulk)
        body = memoryview(frame)[HEADER_BYTES:]
        try:
            return decode(body), codec
        except UnicodeDecodeError:
            raise WireError("text is not valid UTF-8", codec=codec) from None
        except (msgspec.MsgspecError, RecursionError) as error:
            raise WireError(
                _one_line(str(error)), codec=codec, sender_id=_sender_id(frame, codec)
            ) from None

    def _check_values(self, frame: Frame, codec: bytes, *, bulk: bool) -> None:
        most = MAX_JSON_COMMAS if codec == JSON else MAX_VALUES
        if bulk and self._bulk:
            most = self._bulk.get((codec, type_of(frame, codec)), most)
        if codec == JSON:
            if _has_more(frame, b",", most):
                raise WireError(
                    f"JSON of more than {most} elements is over the limit; "
                    "a message of so many has to be MessagePack",
                    codec=codec,
                    sender_id=glimpse(frame)[1],
                )
        elif len(frame) > most and elements(frame, HEADER_BYTES, most) > most:
            raise WireError(
                f"more than {most} values in one message are over the limit",
                codec=codec,
                sender_id=glimpse(frame)[1],
            )

    def _frame_problem(self, frame: Frame) -> str:
        start = bytes(frame[:HEADER_BYTES])
        if not frame:
            return "empty frame, or a message of several: a message here is one frame"
        if len(frame) > self._max_bytes:
            return f"frame of {len(frame)} bytes is over the limit of {self._max_bytes}"
        if start[:2].isdigit() and start[:1] != MAJOR:
            return (
                f"version {start[0:1].decode()}.{start[1:2].decode()} is not spoken here; "
                f"this is version {MAJOR.decode()}.{MINOR.decode()}"
            )
        return (
            "not a Sanderling frame: it starts with two version digits and a codec, b'10J' for "
            f"JSON or b'10M' for MessagePack; got {start!r}"
        )


def _has_more(frame: Frame, character: bytes, limit: int) -> bool:
    """Whether `character` occurs more than `limit` times; if frequent, a part of the frame is
    enough to tell."""
    found = 0
    for start in range(0, len(frame), GLIMPSE_BYTES):
        found += bytes(frame[start : start + GLIMPSE_BYTES]).count(character)
        if found > limit:
            return True
    return False


def type_of(frame: Frame, codec: bytes) -> str:
    """The type of an undecoded message that begins with it; else empty. O(1)."""
    pattern = _JSON_TYPE if codec == JSON else _PACKED_TYPE
    found = pattern.match(frame, HEADER_BYTES, ID_WITHIN)
    return "" if found is None else _text(frame, found, codec)


def glimpse(frame: Frame) -> tuple[bytes, str]:
    """The codec to answer a frame in, and its message's id if that is near the start: for refusals
    that cost less than decoding. O(1)."""
    codec = _codec_of(frame)
    pattern = _JSON_ID if codec == JSON else _PACKED_ID
    found = pattern.search(frame, HEADER_BYTES, ID_WITHIN)
    if found is None:
        return codec, ""
    return codec, _text(frame, found, codec)


def _text(frame: Frame, found: re.Match[bytes], codec: bytes) -> str:
    """The text in the first group, whose length is in the byte before in MessagePack."""
    text = found[1].decode()
    if codec == JSON:
        return text
    length = frame[found.start(1) - 1]
    return text[: length - 0xA0 if length >= 0xA1 else length]


def glimpse_areas(frame: Frame) -> int:
    """About how many areas an undecoded query asks for, at most as many as it does; 0 for what does
    not say near its start that it is a query. O(1)."""
    if _QUERY.search(frame, HEADER_BYTES, ID_WITHIN) is None:
        return 0
    if _codec_of(frame) == JSON:
        return max(1, bytes(frame[:GLIMPSE_BYTES]).count(b",") - OTHER_COMMAS)
    found = _PACKED_AREAS.search(frame, HEADER_BYTES, ID_WITHIN)
    return 1 if found is None else int.from_bytes(found[1])


def _codec_of(frame: Frame) -> bytes:
    return MESSAGEPACK if frame[2:3] == MESSAGEPACK else JSON


def _one_line(text: str) -> str:
    return " ".join(text.split())[:500]


def _sender_id(frame: Frame, codec: bytes) -> str:
    """The id of an invalid message, so that the sender can tell which one was refused; for a large
    message only if it is near the start, to bound the cost."""
    if len(frame) > GLIMPSE_BYTES:
        return glimpse(frame)[1]
    body = memoryview(frame)[HEADER_BYTES:]
    decode = msgspec.json.decode if codec == JSON else msgspec.msgpack.decode
    try:
        return decode(body, type=_SenderId).id[:64]
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return ""
