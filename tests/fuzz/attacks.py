"""Hostile connections: bytes that are ZMTP or nearly, and how the connection ends. Pure.

The form of frames, commands and greetings is that of https://rfc.zeromq.org/spec/23.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Sequence
from typing import Final, Literal

from msgspec import Struct

from tests.net.raw_zmtp import GREETING, READY

MORE, LONG, COMMAND = 1, 2, 4
CURVE: Final = GREETING.replace(b"NULL\0", b"CURVE")
# What else may come first: older versions, other protocols, nothing.
OTHER_GREETINGS: Final = (
    b"\x01\0", b"\xff\0\0\0\0\0\0\0\1\x7f", b"\xff\0\0\0\0\0\0\0\1\x7f\1\5\0\0", b"\xff" * 64,
    bytes(64), b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", b"\x16\x03\1\2\0\1\0\1\xfc\x03\x03", b"",
    GREETING.replace(b"NULL\0", b"PLAIN"), GREETING.replace(b"NULL" + bytes(16), b"\xff" * 20),
)  # fmt: skip
NAMES: Final = (
    b"", b"ping", b"PINGPING", b"READY", b"ERROR", b"SUBSCRIBE", b"CANCEL", b"JOIN", b"LEAVE",
    b"HELLO", b"WELCOME", b"INITIATE", b"MESSAGE", b"\0\xff", b"X" * 255,
)  # fmt: skip
TYPES: Final = (b"ROUTER", b"PUB", b"REP", b"STREAM", b"", b"dealer", b"D" * 300)
# A ping has a time to live of two bytes and a context of at most 16.
CONTEXTS: Final = (0, 1, 15, 16, 17, 255, 256, 5_000, 70_000)
# Stated by a header, and not sent: around the limits of sockets, and of integers.
SIZES: Final = (
    256, 1 << 20, (1 << 20) + (1 << 16) + 1, (1 << 24) + 1, 1 << 31, 1 << 40, 1 << 63, (1 << 64) - 1
)  # fmt: skip
LENGTHS: Final = (0, 1, 2, 16, 255, 256, 8_192)
# More than libzmq's usual limit of messages that wait, whose reader cannot keep up.
FLOOD: Final = 1_500
SOUND_GREETING: Final = 0.85
SOUND_READY: Final = 0.8
CUT: Final = 0.5
PARTS: Final = (0, 1, 2, 5, 12, 30)

End = Literal["reset", "close", "stay"]


class Attack(Struct, frozen=True):
    """Bytes, each piece sent by itself, and how the connection ends; what stays is ended later. The
    other end's part of the handshake is awaited after so many pieces."""

    pieces: tuple[bytes, ...]
    end: End
    awaited: int


def frame(flags: int, body: bytes, size: int | None = None) -> bytes:
    """A frame whose header says `size`, or the truth."""
    stated = len(body) if size is None else size
    if stated > 255 or flags & LONG:
        return struct.pack(">BQ", flags | LONG, stated) + body
    return bytes([flags, stated]) + body


def command(name: bytes, body: bytes) -> bytes:
    """A command; its name has at most 255 bytes."""
    return frame(COMMAND, bytes([len(name)]) + name + body)


class Attacks:
    """An endless series of attacks on a socket, the same for a seed. `messages` are some that it
    takes; with `keyed` it speaks CURVE, so that no handshake succeeds; with `floods` some are more
    messages than wait anywhere, then a PING."""

    def __init__(
        self,
        seed: str,
        messages: Sequence[bytes],
        *,
        keyed: bool = False,
        floods: bool = True,
    ) -> None:
        self._draw = random.Random(seed)
        self._messages = messages
        self._keyed = keyed
        self._parts = [
            *[self._message, self._ping] * 4,
            *[self._noise, self._unknown, self._flags, self._endless, self._oversized] * 2,
            self._misnamed,
            *[self._flood] * floods,
        ]

    def next(self) -> Attack:
        """The next attack."""
        draw = self._draw
        greets, shakes = draw.random() < SOUND_GREETING, draw.random() < SOUND_READY
        greeting = (CURVE if self._keyed else GREETING) if greets else self._greeting()
        ready = READY if shakes and not self._keyed else self._ready()
        rest = b"".join(draw.choice(self._parts)() for _ in range(draw.choice(PARTS)))
        pieces = [greeting, ready, *self._split(rest)]
        if draw.random() < CUT:
            pieces = self._cut(pieces)
        greets &= pieces[0] == greeting
        shakes &= greets and not self._keyed and pieces[1] == ready
        awaited = min(draw.randrange(3), greets + shakes)
        end: End = draw.choice(("reset", "reset", "reset", "close", "stay"))
        return Attack(tuple(pieces), end, awaited)

    def _cut(self, pieces: list[bytes]) -> list[bytes]:
        """At any byte: half of them within the handshake."""
        draw = self._draw
        left = draw.randrange(1 + len(b"".join(pieces[: draw.choice((2, len(pieces)))])))
        kept = []
        for piece in pieces:
            kept.append(piece[:left])
            left -= len(kept[-1])
        return kept

    def _split(self, data: bytes) -> list[bytes]:
        places = sorted(
            self._draw.randrange(len(data) + 1) for _ in range(self._draw.choice((0, 0, 1, 3)))
        )
        return [data[a:b] for a, b in zip([0, *places], [*places, len(data)], strict=True)]

    def _bytes(self) -> bytes:
        return self._draw.randbytes(self._draw.choice(LENGTHS))

    def _changed(self, data: bytes) -> bytes:
        changed = bytearray(data)
        for _ in range(self._draw.randint(1, 3)):
            changed[self._draw.randrange(len(changed))] ^= 1 << self._draw.randrange(8)
        return bytes(changed)

    # --- handshake ------------------------------------------------------------------------------

    def _greeting(self) -> bytes:
        sound = CURVE if self._keyed else GREETING
        if self._draw.random() < 0.5:
            return self._changed(sound)
        return self._draw.choice(OTHER_GREETINGS)

    def _ready(self) -> bytes:
        draw = self._draw
        if self._keyed and draw.random() < 0.7:
            # A client's HELLO, of the right length; its box cannot be opened.
            hello = command(b"HELLO", b"\1\0" + bytes(72) + draw.randbytes(32 + 8 + 80))
            return hello if draw.random() < 0.5 else self._changed(hello)
        match draw.randrange(6):
            case 0:
                return self._changed(READY)
            case 1:
                return command(b"READY", self._property(b"Socket-Type", draw.choice(TYPES)))
            case 2:
                named = self._property(b"Identity", draw.randbytes(draw.choice(LENGTHS)))
                return command(b"READY", READY[8:] + named)
            case 3:
                return command(b"READY", READY[8 : -draw.randrange(1, 12)])
            case 4:
                return READY * 2
            case _:
                return command(b"ERROR", draw.choice((b"", b"\0", b"\xffno", b"\2no")))

    def _property(self, name: bytes, value: bytes) -> bytes:
        return bytes([len(name)]) + name + struct.pack(">I", len(value)) + value

    # --- after it -------------------------------------------------------------------------------

    def _message(self) -> bytes:
        draw = self._draw
        body = draw.choice([*self._messages, self._bytes()])
        before = frame(MORE, b"") * draw.choice((0, 0, 1))
        return before + frame(draw.choice((0, 0, 0, LONG)), body)

    def _ping(self) -> bytes:
        draw = self._draw
        name = draw.choice((b"PING", b"PING", b"PONG"))
        body = draw.choice((b"", b"\0", b"\0\0", b"\0\1", b"\xff\xff"))
        return command(name, body + draw.randbytes(draw.choice(CONTEXTS)) * (len(body) > 1))

    def _noise(self) -> bytes:
        return self._bytes()

    def _unknown(self) -> bytes:
        return command(self._draw.choice(NAMES), self._bytes())

    def _misnamed(self) -> bytes:
        """A command without a name, or with less of it than it says."""
        return frame(COMMAND, self._draw.choice((b"", b"\4", b"\xc8PING", b"\4PIN")))

    def _flags(self) -> bytes:
        return frame(self._draw.randrange(256), self._bytes())

    def _endless(self) -> bytes:
        """A message whose last part does not come."""
        return frame(MORE, self._draw.choice((b"", b"a"))) * self._draw.choice((1, 3, 17, 2_000))

    def _oversized(self) -> bytes:
        """A frame or command of which the header says more than comes."""
        draw = self._draw
        return frame(draw.choice((0, MORE, COMMAND)), self._bytes(), draw.choice(SIZES))

    def _flood(self) -> bytes:
        return frame(0, b"abc") * FLOOD + command(b"PING", b"\0\0")
