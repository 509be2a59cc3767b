"""Encoder of large JSON replies, in a thread of its own so that the loop goes on."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from agent.runtime.disk_writer import DiskWriterThread
from agent.runtime.reactor import Reactor
from agent.wire.base import Message
from agent.wire.codec import JSON, encode_into
from agent.wire.messages import Answer, Series
from agent.wire.watches import Round

# Some 2 ms of work; handing a reply over and back takes 0.1 ms.
LARGE_NUMBERS: Final = 20_000
# If more replies wait, the loop encodes them itself, which slows the clients down.
MAX_NUMBERS: Final = 20_000_000
STOPPING_S: Final = 2.0

# (identity, codec, message, its frame)
Send = Callable[[bytes, bytes, Message, bytearray], None]


class ReplyWriter:
    """Replies of one socket. Replies that follow a large one to the same peer go through here, too,
    to keep their order."""

    def __init__(self, reactor: Reactor, send: Send) -> None:
        self._reactor = reactor
        self._send = send
        self._waiting: dict[bytes, int] = {}
        self._numbers = 0
        self._thread = DiskWriterThread("replies")
        reactor.listen(self._thread.fileno, self._thread.turn)

    def takes(self, identity: bytes, codec: bytes, message: Message) -> bool:
        """Whether this reply is encoded here and sent later; otherwise the caller does both."""
        behind = identity in self._waiting
        numbers = numbers_in(message) if codec == JSON else 0
        if not behind and (
            numbers < LARGE_NUMBERS or (self._numbers and self._numbers + numbers > MAX_NUMBERS)
        ):
            return False
        self._waiting[identity] = self._waiting.get(identity, 0) + 1
        self._numbers += numbers
        self._thread.submit(
            partial(_written, message, codec),
            partial(self._sends, identity, codec, message, numbers),
        )
        return True

    def close(self) -> None:
        """Send what can be encoded in a short time."""
        self._reactor.ignore(self._thread.fileno)
        self._thread.close(STOPPING_S)

    def _sends(
        self, identity: bytes, codec: bytes, message: Message, numbers: int, frame: bytearray
    ) -> None:
        self._numbers -= numbers
        left = self._waiting.pop(identity) - 1
        if left:
            self._waiting[identity] = left
        self._send(identity, codec, message, frame)


def _written(message: Message, codec: bytes) -> bytearray:
    """Runs in the thread; an exception is raised in the loop, as if the loop had encoded the
    reply."""
    encode_into(message, codec, frame := bytearray())
    return frame


def numbers_in(message: Message) -> int:
    """Approximate count of the numbers in an answer's series. O(areas)."""
    if isinstance(message, Round):
        message = message.answer
    if not isinstance(message, Answer):
        return 0
    return sum(_numbers(result.series) for result in message.results if result.series is not None)


def _numbers(series: Series) -> int:
    columns = 1 + len(series.values) + len(series.quality)
    columns += (series.source_time_ms is not None) + (series.age_ms is not None)
    return len(series.time_ms) * columns
