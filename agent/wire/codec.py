"""Bytes on a socket: ``[major][minor][codec][body]``, the first three as ASCII characters.

``10J{"type":"query",…}`` is version 1.0 in JSON, ``10M…`` the same in MessagePack. Any minor
version of the same major is understood: unknown fields are ignored, new ones have defaults.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar

import msgspec

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

T = TypeVar("T")


class WireError(ValueError):
    """A frame that cannot be read. `codec` is the one to answer in; `id` the sender's, if seen."""

    def __init__(self, message: str, codec: bytes = JSON, sender_id: str = "") -> None:
        super().__init__(message)
        self.codec = codec
        self.sender_id = sender_id


def _pack_for_messagepack(value: Any) -> bytes:
    if isinstance(value, PackedColumn):
        return value.data
    raise NotImplementedError(f"cannot encode {type(value).__name__}")


def _pack_for_json(value: Any) -> list[Any]:
    if isinstance(value, PackedColumn):
        return value.json_numbers()
    raise NotImplementedError(f"cannot encode {type(value).__name__}")


def unpack(kind: type[Any], value: Any) -> Any:
    """msgspec's hook for packed columns: bytes from MessagePack, a list of numbers from JSON."""
    if issubclass(kind, PackedColumn):
        if isinstance(value, bytes):
            return kind(value)
        if isinstance(value, list):
            return kind.from_json(value)
        raise ValueError("expected a packed column: bytes in MessagePack, numbers in JSON")
    raise NotImplementedError(f"cannot decode {kind.__name__}")


_ENCODERS: Final[dict[bytes, Callable[[Any], bytes]]] = {
    MESSAGEPACK: msgspec.msgpack.Encoder(enc_hook=_pack_for_messagepack).encode,
    JSON: msgspec.json.Encoder(enc_hook=_pack_for_json).encode,
}
_HEADERS: Final = {codec: MAJOR + MINOR + codec for codec in _ENCODERS}


def encode(message: Message, codec: bytes = MESSAGEPACK) -> bytes:
    """One frame holding `message`."""
    return _HEADERS[codec] + _ENCODERS[codec](message)


class _SenderId(msgspec.Struct):
    id: str = ""


class Decoder(Generic[T]):
    """The one typed decoder of a socket: `union` is what may arrive there.

    `decode` gives (message, codec) or raises `WireError` with one line for the sender.
    """

    def __init__(self, union: Any, max_bytes: int = MAX_REQUEST_BYTES) -> None:
        self._max_bytes = max_bytes
        decoders: dict[bytes, Callable[[memoryview | bytes], T]] = {
            MESSAGEPACK: msgspec.msgpack.Decoder(union, dec_hook=unpack).decode,
            JSON: msgspec.json.Decoder(union, dec_hook=unpack).decode,
        }
        # One look-up accepts every header that is understood.
        self._by_header = {
            MAJOR + b"%d" % minor + codec: (decode, codec)
            for minor in range(10)
            for codec, decode in decoders.items()
        }

    def decode(self, frame: bytes) -> tuple[T, bytes]:
        """The message in `frame` and the codec it came in; `WireError` if there is none."""
        known = self._by_header.get(frame[:HEADER_BYTES])
        if known is None or len(frame) > self._max_bytes:
            raise WireError(self._frame_problem(frame), codec=_codec_of(frame))
        decode, codec = known
        body = memoryview(frame)[HEADER_BYTES:]
        try:
            return decode(body), codec
        except UnicodeDecodeError:
            raise WireError("text is not valid UTF-8", codec=codec) from None
        except (msgspec.MsgspecError, RecursionError) as error:
            raise WireError(
                _one_line(str(error)), codec=codec, sender_id=_sender_id(body, codec)
            ) from None

    def _frame_problem(self, frame: bytes) -> str:
        start = frame[:HEADER_BYTES]
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


def _codec_of(frame: bytes) -> bytes:
    return MESSAGEPACK if frame[2:3] == MESSAGEPACK else JSON


def _one_line(text: str) -> str:
    return " ".join(text.split())[:500]


def _sender_id(body: memoryview, codec: bytes) -> str:
    """The id of a message that is otherwise wrong, so that its sender knows which one it was."""
    decode = msgspec.json.decode if codec == JSON else msgspec.msgpack.decode
    try:
        return decode(body, type=_SenderId).id[:64]
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return ""
