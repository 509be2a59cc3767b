"""The queue of messages to one neighbour: flows take turns, so that none of them starves another.

A flow is what must stay in order. The notifications of one publisher that one neighbour brought are
one, this broker's own words about tables are one, and so are those that one neighbour had it relay:
else they would overtake each other, and be asked for again. Flows are served in turn within their
group, and groups among each other; a group is whatever one neighbour brought, so that a neighbour
gets no more by making up publishers, or by relays.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from typing import Final, Generic, NamedTuple, TypeVar

from agent.overlay.events import Send
from agent.wire.overlay import Have, Notify, NoWay, Relay

T = TypeVar("T")


class Flow(NamedTuple):
    """Which turn a message waits for. `kept`: it may be lost, because somebody keeps it and sends
    it again until it is settled, or as any relay may that goes a way of several hops."""

    group: Hashable
    name: Hashable
    kept: bool


ANY: Final = Flow("", "", kept=False)


def flow_of(send: Send) -> Flow:
    """Of what a broker sends. O(1)."""
    message, passed_on = send.message, False
    if isinstance(message, Relay | NoWay):
        message, passed_on = message.message, send.brought_by is not None
    if isinstance(message, Notify):
        return Flow(send.brought_by, message.notification.origin.publisher, kept=True)
    kind = "settled" if isinstance(message, Have) else "tables"
    if passed_on:
        # A tuple, and so the name of no publisher.
        return Flow(send.brought_by, (kind,), kept=True)
    return Flow(kind, "", kept=False)


class _Turns(Generic[T]):
    """Values by key, in turn."""

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
        """The first one had its turn; it is forgotten if nothing waits there any more."""
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


class FairQueue(Generic[T]):
    """First in, first out within a flow. Memory: what waits."""

    def __init__(self) -> None:
        self._groups: _Turns[_Group[T]] = _Turns()
        self._length = 0
        self.bytes = 0

    def __len__(self) -> int:
        return self._length

    def waiting(self, group: Hashable) -> int:
        """Of one group. O(1)."""
        found = self._groups.by_key.get(group)
        return 0 if found is None else found.length

    def bytes_waiting(self, group: Hashable) -> int:
        """Of one group. O(1)."""
        found = self._groups.by_key.get(group)
        return 0 if found is None else found.bytes

    def put(self, flow: Flow, item: T, size: int = 0) -> None:
        """At the end of its flow; `size` is in bytes. O(1)."""
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
        """The next one; then it is the turn of another group, and of another flow in this one.
        IndexError if there is none. O(1)."""
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
        """Nothing waits any more."""
        self._groups = _Turns()
        self._length = self.bytes = 0
