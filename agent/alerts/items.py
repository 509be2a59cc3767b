"""Received notifications, reference-counted: one copy for any number of subscriptions."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from agent.alerts.inbox_events import (
    Content,
    ForgetBody,
    ForgetItem,
    InboxChange,
    StoreItem,
)
from agent.wire.overlay import Notification, Origin
from agent.wire.push import Lost, ShortContent

Key = Origin | Lost


class _Key(Struct, frozen=True, array_like=True):
    """An origin (`count` 0), or a range of lost notifications."""

    publisher: str
    history: str
    first: int
    last: int = 0
    count: int = 0


class Item:
    """A notification, or a range of lost ones. `kept` counts the inboxes that must still deliver
    it, `known` those that remember it; `stored` says that the item is on disk, `whole` that its
    content is, too. If no inbox keeps it, its content is not in memory."""

    __slots__ = ("_short", "bytes", "content", "kept", "key", "known", "number", "stored", "whole")

    def __init__(self, number: int, key: Key) -> None:
        self.number = number
        self.key = key
        self.content: Content | None = None
        # The content in short form, for the names that were asked for last.
        self._short: tuple[tuple[str, ...], ShortContent | None] | None = None
        self.bytes = 0
        self.kept = 0
        self.known = 0
        self.stored = False
        self.whole = False

    def short(self, names: tuple[str, ...]) -> ShortContent | None:
        """The content in short form for a client that knows these names, one object for all of
        them; None if it has none."""
        if self._short is None or self._short[0] != names:
            content = self.content
            made = ShortContent.of(content, names) if isinstance(content, Notification) else None
            self._short = names, made
        return self._short[1]

    def drop_content(self) -> None:
        """No inbox keeps it."""
        self.content = self._short = None

    def __repr__(self) -> str:
        return f"<item {self.number} {self.key} kept {self.kept} known {self.known}>"


class Items:
    """Items by identity, with the number of inboxes that hold each. All O(1)."""

    def __init__(self) -> None:
        self._by_key: dict[Key, Item] = {}
        self._numbers = 0
        self.bytes = 0  # of their contents

    def __len__(self) -> int:
        return len(self._by_key)

    def find(self, content: Content) -> Item:
        """The item with this content, created if it is new."""
        return self.at(content.origin if isinstance(content, Notification) else content)

    def get(self, key: Key) -> Item | None:
        """The item of this identity, if there is one."""
        return self._by_key.get(key)

    def at(self, key: Key) -> Item:
        """The item of this identity, created if it is new."""
        item = self._by_key.get(key)
        if item is None:
            self._numbers += 1
            item = self._add(self._numbers, key)
        return item

    def _add(self, number: int, key: Key) -> Item:
        if isinstance(key, Origin):
            key = key.interned()
        item = self._by_key[key] = Item(number, key)
        return item

    def hold(self, item: Item, content: Content, *, durable: bool) -> list[InboxChange]:
        """One more inbox keeps and remembers the item."""
        item.kept += 1
        item.known += 1
        stored = item.whole or not durable
        if item.content is None:
            body = msgspec.msgpack.encode(content)
            item.content, item.bytes = content, len(body)
            self.bytes += item.bytes
        elif not stored:
            # That which other inboxes counted, whatever comes as the same.
            body = msgspec.msgpack.encode(item.content)
        if stored:
            return []
        item.stored = item.whole = True
        return [StoreItem(item.number, _written(item.key), body)]

    def remember(self, item: Item) -> list[InboxChange]:
        """One more durable inbox remembers the item, whose content it does not need."""
        item.known += 1
        if item.stored:
            return []
        item.stored = True
        return [StoreItem(item.number, _written(item.key), None)]

    def give_up(self, item: Item) -> list[InboxChange]:
        """One inbox fewer keeps the item."""
        item.kept -= 1
        if item.kept:
            return []
        self._drop_content(item)
        if not item.whole:
            return []
        item.whole = False
        return [ForgetBody(item.number)]

    def _drop_content(self, item: Item) -> None:
        if item.content is not None:
            self.bytes -= item.bytes
        item.drop_content()

    def forget(self, item: Item) -> list[InboxChange]:
        """One inbox fewer remembers the item."""
        item.known -= 1
        if item.known:
            return []
        del self._by_key[item.key]
        return [ForgetItem(item.number)] if item.stored else []

    def drop_unheld(self, item: Item) -> None:
        """Forget an item that no inbox accepted."""
        if not item.known:
            self._by_key.pop(item.key, None)

    def restore(self, number: int, key: bytes, body: bytes | None) -> Item:
        """Restore an item from disk; MsgspecError if this version cannot read it."""
        found = _read(key)
        item = self._add(number, found)
        item.stored = True
        if body is not None:
            item.content = (
                found
                if isinstance(found, Lost)
                else msgspec.msgpack.decode(body, type=Notification)
            )
            item.bytes = len(body)
            self.bytes += item.bytes
            item.whole = True
        self._numbers = max(self._numbers, number)
        return item

    def tidy(self) -> list[InboxChange]:
        """After a restart: forget the items of inboxes that no longer exist."""
        changes: list[InboxChange] = []
        for item in list(self._by_key.values()):
            if not item.known:
                self._drop_content(item)
                del self._by_key[item.key]
                changes.append(ForgetItem(item.number))
            elif not item.kept:
                self._drop_content(item)
                if item.whole:
                    item.whole = False
                    changes.append(ForgetBody(item.number))
        return changes

    def check_invariants(self) -> None:
        """For tests: what must hold between any two events."""
        for key, item in self._by_key.items():
            assert item.key == key
            assert 0 <= item.kept <= item.known
            assert item.known, "nobody holds it"
            assert (item.content is not None) == (item.kept > 0)
        contents = [each for each in self._by_key.values() if each.content is not None]
        assert self.bytes == sum(each.bytes for each in contents)


def readable(number: int, key: bytes, body: bytes | None) -> tuple[int, bytes, bytes | None]:
    """The same row, or what stands for one that cannot be read: without it, the positions before
    it would follow no gap, and be lost as well. It has no body, so it is not delivered."""
    try:
        Items().restore(number, key, body)
    except (msgspec.MsgspecError, ValueError):
        body = None
    try:
        _read(key)
    except (msgspec.MsgspecError, ValueError):
        key = _written(Origin("", "damaged", number))
    return number, key, body


def _written(key: Key) -> bytes:
    if isinstance(key, Lost):
        written = _Key(key.publisher, key.history, key.first, key.last, key.count)
    else:
        written = _Key(key.publisher, key.history, key.sequence)
    return msgspec.msgpack.encode(written)


def _read(key: bytes) -> Key:
    read = msgspec.msgpack.decode(key, type=_Key)
    if read.count:
        return Lost(read.publisher, read.history, read.first, read.last, read.count)
    return Origin(read.publisher, read.history, read.first)
