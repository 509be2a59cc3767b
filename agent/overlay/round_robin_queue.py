"""Fair queue of messages to one neighbour: flows are served round-robin, so that none starves
another.

A flow is a sequence whose order must be preserved: the notifications of one publisher that arrived
from one neighbour, this broker's own table updates, or the relayed messages of one neighbour.
Reordering within these would trigger retransmission requests. Flows are served round-robin within
their group, and so are groups; a group holds everything that one neighbour brought, so that a
neighbour cannot raise its share by inventing publishers, or by relaying.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from typing import Final, Generic, NamedTuple, TypeVar

from agent.overlay.events import Send
from agent.wire.overlay import Have, Notify, NoWay, Relay

T = TypeVar("T")


class Flow(NamedTuple):
    """The flow and group of a message. `kept`: it may be lost, because a broker keeps it and
    resends it until it is settled, or because it is a relay, which may be lost on its way over
    several hops."""

    group: Hashable
    name: Hashable
    kept: bool


ANY: Final = Flow("", "", kept=False)


def flow_of(send: Send) -> Flow:
    """The flow of a message that a broker sends. O(1)."""
    message, passed_on = send.message, False
    if isinstance(message, Relay | NoWay):
        message, passed_on = message.message, send.brought_by is not None
    if isinstance(message, Notify):
        return Flow(send.brought_by, message.notification.origin.publisher, kept=True)
    kind = "settled" if isinstance(message, Have) else "tables"
    if passed_on:
        # A tuple, so that it equals no publisher's name.
        return Flow(send.brought_by, (kind,), kept=True)
    return Flow(kind, "", kept=False)


class _Turns(Generic[T]):
    """Round-robin over values by key."""

    __slots__ = ("by_key", "keys")

    def __init__(self) -> None:
        self.by_key: dict[Hashable, T] = {}
        self.keys: deque[Hashable] = deque()

    def add(self, key: Hashable, value: T) -> None:
        self.by_key[key] = value
        self.keys.append(key)

    def first(self) -> T:
        return self.by_key[self.keys[0]]

    def served(self, *, empty: bool) -> None:
        """The first key was served; it is forgotten if nothing is left under it."""
        key = self.keys.popleft()
        if empty:
            del self.by_key[key]
        else:
            self.keys.append(key)


class _Group(Generic[T]):
    __slots__ = ("bytes", "flows", "length")

    def __init__(self) -> None:
        self.flows: _Turns[deque[tuple[T, int]]] = _Turns()
        self.length = self.bytes = 0


class RoundRobinQueue(Generic[T]):
    """First in, first out within a flow. Memory: the queued messages."""

    def __init__(self) -> None:
        self._groups: _Turns[_Group[T]] = _Turns()
        self._length = 0
        self.bytes = 0

    def __len__(self) -> int:
        return self._length

    def waiting(self, group: Hashable) -> int:
        """Queued messages of one group. O(1)."""
        found = self._groups.by_key.get(group)
        return 0 if found is None else found.length

    def bytes_waiting(self, group: Hashable) -> int:
        """Queued bytes of one group. O(1)."""
        found = self._groups.by_key.get(group)
        return 0 if found is None else found.bytes

    def put(self, flow: Flow, item: T, size: int = 0) -> None:
        """Append to its flow; `size` is in bytes. O(1)."""
        group = self._groups.by_key.get(flow.group)
        if group is None:
            group = _Group()
            self._groups.add(flow.group, group)
        items = group.flows.by_key.get(flow.name)
        if items is None:
            items = deque()
            group.flows.add(flow.name, items)
        items.append((item, size))
        group.length += 1
        group.bytes += size
        self._length += 1
        self.bytes += size

    def pop(self) -> T:
        """The next message; then another group, and another flow within this group, is served.
        IndexError if the queue is empty. O(1)."""
        group = self._groups.first()
        items = group.flows.first()
        item, size = items.popleft()
        group.length -= 1
        group.bytes -= size
        self._length -= 1
        self.bytes -= size
        group.flows.served(empty=not items)
        self._groups.served(empty=not group.length)
        return item

    def clear(self) -> None:
        """Drop everything that is queued."""
        self._groups = _Turns()
        self._length = self.bytes = 0
