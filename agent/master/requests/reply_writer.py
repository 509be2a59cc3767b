"""Encoder of large JSON replies, in a thread of its own so that the loop goes on."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Hashable, Sequence
from functools import partial
from typing import Final

from agent.runtime.disk_writer import DiskWriterThread
from agent.runtime.reactor import Reactor
from agent.scheduling.shared_budget import SharedBudget
from agent.wire.base import Message
from agent.wire.codec import JSON, encode_into
from agent.wire.messages import Answer, AreaResult, TaskResult
from agent.wire.too_large import bytes_in, numbers_of
from agent.wire.watches import Round

# Some 2 ms of work; handing a reply over and back takes 0.1 ms.
LARGE_NUMBERS: Final = 20_000
# If more replies wait, the loop encodes them itself, which slows the clients down.
MAX_NUMBERS: Final = 20_000_000
STOPPING_S: Final = 2.0
# The loop, with everybody else's answers, goes first where processors are short.
NICE: Final = 10
# Of a number in JSON with its comma, at most: -1.234568e-38, or 1377298800000.
NUMBER_BYTES: Final = 15
# Of a result or a missing area, without numbers, and of all the rest; those that are larger are
# rare, and cost a move.
RESULT_BYTES: Final = 1_024
REST_BYTES: Final = 1 << 16

_new_bytearray: Final = ctypes.pythonapi.PyByteArray_FromStringAndSize
_new_bytearray.restype = ctypes.py_object
_new_bytearray.argtypes = (ctypes.c_void_p, ctypes.c_ssize_t)

# (identity, codec, message, its frame, who pays)
Send = Callable[[bytes, bytes, Message, bytearray, Hashable], None]


class ReplyWriter:
    """Replies of one socket. What follows a large one to the same peer goes through here, too, so
    that nothing overtakes it. What waits to be written counts in `budget`."""

    def __init__(self, reactor: Reactor, send: Send, budget: SharedBudget | None = None) -> None:
        self._reactor = reactor
        self._send = send
        self._budget = budget or SharedBudget()
        self._waiting: dict[bytes, int] = {}
        self._numbers = 0
        self._thread = DiskWriterThread("replies", nice=NICE)
        reactor.listen(self._thread.fileno, self._thread.turn)

    def takes(
        self, identity: bytes, codec: bytes, message: Message, payer: Hashable = None
    ) -> bool:
        """Whether this reply is written here and sent later; otherwise the caller does both."""
        behind = identity in self._waiting
        numbers = numbers_in(message) if codec == JSON else 0
        if not behind and (
            numbers < LARGE_NUMBERS or (self._numbers and self._numbers + numbers > MAX_NUMBERS)
        ):
            return False
        self._waiting[identity] = self._waiting.get(identity, 0) + 1
        self._numbers += numbers
        size = sum(map(bytes_in, _results_of(message)))
        self._budget.add(payer, size)
        self._thread.submit(
            partial(_written, message, codec),
            partial(self._sends, identity, codec, message, numbers, payer, size),
        )
        return True

    def close(self) -> None:
        """Send what can be encoded in a short time."""
        self._reactor.ignore(self._thread.fileno)
        self._thread.close(STOPPING_S)

    def _sends(
        self,
        identity: bytes,
        codec: bytes,
        message: Message,
        numbers: int,
        payer: Hashable,
        size: int,
        frame: bytearray,
    ) -> None:
        self._numbers -= numbers
        self._budget.add(payer, -size)
        left = self._waiting.pop(identity) - 1
        if left:
            self._waiting[identity] = left
        self._send(identity, codec, message, frame, payer)


def _written(message: Message, codec: bytes) -> bytearray:
    """Runs in the thread; an exception is raised in the loop, as if the loop had encoded the
    reply."""
    encode_into(message, codec, frame := _unwritten(most_bytes(message)))
    return frame


def _unwritten(size: int) -> bytearray:
    """A buffer whose memory nothing has touched; `bytearray(size)` would fill it with zeros, and
    one that grows is moved: both keep the loop waiting, for milliseconds."""
    made: bytearray = _new_bytearray(None, size)
    return made


def most_bytes(message: Message) -> int:
    """Upper bound of the size of the reply as JSON. O(results)."""
    if isinstance(message, Round):
        message = message.answer
    if not isinstance(message, Answer | TaskResult):
        return REST_BYTES
    parts = len(message.results) + len(message.missing)
    return NUMBER_BYTES * numbers_in(message) + RESULT_BYTES * parts + REST_BYTES


def numbers_in(message: Message) -> int:
    """How many numbers the columns of an answer have, about. O(areas)."""
    return sum(map(numbers_of, _results_of(message)))


def _results_of(message: Message) -> Sequence[AreaResult]:
    if isinstance(message, Round):
        message = message.answer
    return message.results if isinstance(message, Answer | TaskResult) else ()
