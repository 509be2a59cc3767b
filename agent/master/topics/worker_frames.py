"""Frames between a master and its worker processes: [length, 4 bytes][MessagePack]."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Final

import msgspec

from agent.processing.events import Answer, Failed, Request

LENGTH: Final = struct.Struct("!I")
# The largest state, and room for what stands beside it.
MAX_FRAME: Final = 65 * 2**20
# Of an answer: what stands beside its outputs and its state.
REST_BYTES: Final = 64 * 1_024
READ_AT_ONCE: Final = 256 * 1_024
MAX_LINE: Final = 300  # of an error, which goes to the log

decode_request: Final = msgspec.msgpack.Decoder(Request).decode
_decode_answer: Final[Callable[[bytes], Answer]] = msgspec.msgpack.Decoder(Answer).decode
_encode: Final = msgspec.msgpack.Encoder().encode


def frame(message: Request | Answer) -> bytes:
    """A message as it is sent."""
    body = _encode(message)
    return LENGTH.pack(len(body)) + body


class FrameError(ValueError):
    """The received bytes are no frame, or no answer."""


def decode_answer(body: bytes) -> Answer:
    """The answer in a frame; FrameError. A worker, in which user code runs, is never trusted."""
    try:
        answer: Answer = _decode_answer(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise FrameError(f"no answer: {error}") from None
    if isinstance(answer, Failed) and not (
        len(answer.text) <= MAX_LINE and answer.text.isprintable()
    ):
        raise FrameError("no answer: an error that is not one line")
    return answer


class Frames:
    """Cuts the bytes received into frames."""

    def __init__(self, most: int = MAX_FRAME) -> None:
        self.most = most
        self._held = bytearray()

    def take(self, data: bytes) -> list[bytes]:
        """The bodies that are complete now; FrameError if one would be too large. O(bytes)."""
        self._held += data
        bodies = []
        at = 0
        while len(self._held) - at >= LENGTH.size:
            (length,) = LENGTH.unpack_from(self._held, at)
            if length > self.most:
                raise FrameError(f"a frame of {length} bytes")
            end = at + LENGTH.size + length
            if end > len(self._held):
                break
            bodies.append(bytes(self._held[at + LENGTH.size : end]))
            at = end
        del self._held[:at]
        return bodies
