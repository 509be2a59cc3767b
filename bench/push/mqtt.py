"""The subset of MQTT 3.1.1 for publishing and subscribing with QoS 0.

Packets as in the OASIS standard of 29 October 2014, section 3. Keep-alive is off.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable, Iterator

CONNACK = 0x20
PUBLISH = 0x30
SUBACK = 0x90


def connect(client: str) -> bytes:
    """CONNECT with a clean session."""
    return _packet(0x10, _text("MQTT") + b"\x04\x02\x00\x00" + _text(client))


def subscribe(filters: Iterable[str]) -> bytes:
    """SUBSCRIBE to these topics."""
    return _packet(0x82, b"\x00\x01" + b"".join(_text(each) + b"\x00" for each in filters))


def publish(topic: str, payload: bytes) -> bytes:
    """PUBLISH with QoS 0."""
    return _packet(PUBLISH, _text(topic) + payload)


def topic_and_payload(body: bytes) -> tuple[str, bytes]:
    """Topic and payload of a PUBLISH with QoS 0."""
    end = 2 + int.from_bytes(body[:2])
    return body[2:end].decode(), body[end:]


def opened(address: tuple[str, int]) -> socket.socket:
    """A connection with TCP_NODELAY."""
    made = socket.create_connection(address, timeout=20.0)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return made


class Packets:
    """Parser of packets from a connection's bytes."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[tuple[int, bytes]]:
        """Kind and body of each packet that is complete now."""
        self._buffer += data
        while (found := _head(self._buffer)) is not None:
            start, end = found
            if len(self._buffer) < end:
                return
            kind, body = self._buffer[0] & 0xF0, bytes(self._buffer[start:end])
            del self._buffer[:end]
            yield kind, body


def _head(buffer: bytearray) -> tuple[int, int] | None:
    """Start and end of the body; None while the length is incomplete."""
    length = 0
    for place in range(1, min(len(buffer), 5)):
        length |= (buffer[place] & 0x7F) << 7 * (place - 1)
        if buffer[place] < 0x80:
            return place + 1, place + 1 + length
    return None


def _packet(kind: int, body: bytes) -> bytes:
    length, rest = b"", len(body)
    while True:
        rest, digit = rest >> 7, rest & 0x7F
        length += bytes((digit | (0x80 if rest else 0),))
        if not rest:
            return bytes((kind,)) + length + body


def _text(text: str) -> bytes:
    encoded = text.encode()
    return len(encoded).to_bytes(2) + encoded
