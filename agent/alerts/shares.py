"""Shares of a full inbox: which publisher has most of what it keeps."""

from __future__ import annotations

from collections import deque
from typing import Final

from _core.queue.edf import EdfQueue
from agent.alerts.inbox_events import Content
from agent.wire.push import Lost

ALERT: Final = "alert"
MESSAGE: Final = "message"
LOSS: Final = "loss"


def path_of(content: Content) -> tuple[str, str, str]:
    """Kind, IAD and history of a notification. Clients choose the histories of their messages, but
    only a master says that something is an alert, and from which IAD."""
    if isinstance(content, Lost):
        return LOSS, content.publisher, content.history
    kind = MESSAGE if "topic" in content.attributes else ALERT
    return kind, content.origin.publisher, content.origin.history


class _Share:
    """Number and bytes of what some publishers have, and of each part; of one publisher, its
    positions."""

    __slots__ = ("by_bytes", "by_count", "bytes", "count", "handles", "parts", "positions")

    def __init__(self) -> None:
        self.count = self.bytes = 0
        self.parts: dict[str, _Share] = {}
        # Keys are negative: the largest leaves first.
        self.by_count: EdfQueue[_Share] | None = None
        self.by_bytes: EdfQueue[_Share] | None = None
        self.handles = (-1, -1)
        self.positions: deque[int] = deque()

    def grow(self, name: str, count: int, bytes_: int) -> _Share:
        """One part grows, or shrinks; it ends when it has nothing. O(log parts)."""
        if self.by_count is None or self.by_bytes is None:
            self.by_count, self.by_bytes = EdfQueue(), EdfQueue()
        part = self.parts.get(name)
        if part is None:
            part = self.parts[name] = _Share()
            part.handles = self.by_count.push(0.0, part), self.by_bytes.push(0.0, part)
        part.count += count
        part.bytes += bytes_
        if part.count:
            self.by_count.rekey(part.handles[0], -part.count)
            self.by_bytes.rekey(part.handles[1], -part.bytes)
        else:
            self.by_count.remove(part.handles[0])
            self.by_bytes.remove(part.handles[1])
            del self.parts[name]
        return part

    def largest(self, *, in_bytes: bool) -> _Share | None:
        """The part that has most; None if there are no parts."""
        queue = self.by_bytes if in_bytes else self.by_count
        return queue.peek() if queue is not None else None


class Shares:
    """Equal shares at each level: kinds, the IADs of a kind, the histories of an IAD. Each call is
    O(log publishers)."""

    def __init__(self) -> None:
        self._all = _Share()

    def add(self, content: Content, size: int, position: int) -> None:
        """Something is kept at a position above all others."""
        self._change(content, 1, size).positions.append(position)

    def remove_oldest(self, content: Content, size: int) -> None:
        """It is kept no longer; its publisher has nothing that is older."""
        self._change(content, -1, -size).positions.popleft()

    def oldest_of_largest(self, *, in_bytes: bool) -> int:
        """The position to be dropped: the oldest of the publisher that has most, in bytes or in
        number. At each level it has at least an equal share."""
        share = self._all
        while (part := share.largest(in_bytes=in_bytes)) is not None:
            share = part
        return share.positions[0]

    def _change(self, content: Content, count: int, size: int) -> _Share:
        share = self._all
        for name in path_of(content):
            share = share.grow(name, count, size)
        return share
