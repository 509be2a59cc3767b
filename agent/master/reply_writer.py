"""Writes large replies in JSON in a thread of its own: the loop goes on meanwhile."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from typing import Final

from msgspec import Struct

from agent.board import Board
from agent.wire.base import Message
from agent.wire.codec import JSON, encode_into
from agent.wire.messages import Answer, Series
from agent.wire.standing import Round

# Some 2 ms; handing a reply over and back takes 0.1 ms.
LARGE_NUMBERS: Final = 20_000
# Beyond so many that wait the loop writes itself, which slows down whoever asks.
MOST_NUMBERS: Final = 20_000_000
STOPPING_S: Final = 2.0

# (identity, codec, message, its frame)
Send = Callable[[bytes, bytes, Message, bytearray], None]


class _Reply(Struct, eq=False):
    """A reply that waits for its frame, or what went wrong."""

    identity: bytes
    codec: bytes
    message: Message
    numbers: int
    frame: bytearray = bytearray()
    error: BaseException | None = None


class ReplyWriter:
    """Replies of one socket. What follows a large one to the same peer goes through here, too, so
    that nothing overtakes it."""

    def __init__(self, board: Board, send: Send) -> None:
        self._board = board
        self._send = send
        self._waiting: dict[bytes, int] = {}
        self._numbers = 0
        self._asked: SimpleQueue[_Reply | None] = SimpleQueue()
        self._written: deque[_Reply] = deque()
        self._thread: threading.Thread | None = None

    def takes(self, identity: bytes, codec: bytes, message: Message) -> bool:
        """Whether this reply is written here and sent later; otherwise the caller does both."""
        behind = identity in self._waiting
        numbers = numbers_in(message) if codec == JSON else 0
        if not behind and (
            numbers < LARGE_NUMBERS or (self._numbers and self._numbers + numbers > MOST_NUMBERS)
        ):
            return False
        if self._thread is None:
            self._start()
        self._waiting[identity] = self._waiting.get(identity, 0) + 1
        self._numbers += numbers
        self._asked.put(_Reply(identity, codec, message, numbers))
        return True

    def close(self) -> None:
        """Send what can be written in a little time."""
        if self._thread is None:
            return
        self._asked.put(None)
        self._thread.join(STOPPING_S)
        self._turn()
        self._board.ignore(self._fileno)
        if not self._thread.is_alive():
            os.close(self._fileno)
            os.close(self._waker)

    def _start(self) -> None:
        self._fileno, self._waker = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._board.listen(self._fileno, self._turn)
        self._thread = threading.Thread(target=self._run, name="replies", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while (reply := self._asked.get()) is not None:
            try:
                encode_into(reply.message, reply.codec, frame := bytearray())
                reply.frame = frame
            except BaseException as error:  # noqa: BLE001 - the loop raises it, as if it had written
                reply.error = error
            self._written.append(reply)
            with suppress(BlockingIOError):  # full of bytes that wake just as well
                os.write(self._waker, b"\0")

    def _turn(self) -> None:
        with suppress(BlockingIOError):
            os.read(self._fileno, 4096)
        while self._written:
            reply = self._written.popleft()
            self._numbers -= reply.numbers
            left = self._waiting.pop(reply.identity) - 1
            if left:
                self._waiting[reply.identity] = left
            if reply.error is not None:
                raise reply.error
            self._send(reply.identity, reply.codec, reply.message, reply.frame)


def numbers_in(message: Message) -> int:
    """How many numbers the series of an answer have, about. O(areas)."""
    if isinstance(message, Round):
        message = message.answer
    if not isinstance(message, Answer):
        return 0
    return sum(_numbers(result.series) for result in message.results if result.series is not None)


def _numbers(series: Series) -> int:
    columns = 1 + len(series.values) + len(series.quality)
    columns += (series.source_time_ms is not None) + (series.age_ms is not None)
    return len(series.time_ms) * columns
