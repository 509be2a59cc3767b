"""Retained messages: what a broker has for a gateway against what it should have.

A topic stands in a store on disk from before it is first published until the broker has confirmed
its empty payload, so nothing that was ever retained is forgotten: a topic that is no longer wanted
is emptied, also after a restart of the gateway, a change of its configuration, or while the broker
was away. A broker may come back empty, so everything is published again with each session.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple

# Of a discovery document: the ids of its components, each with its platform.
Components = Mapping[str, str]

EMPTY: Final = b""
NONE: Final[Components] = {}


class Document(NamedTuple):
    """A payload that shall be retained. A discovery document also has `components`, and
    `without` makes its payload while some that were there are taken away."""

    payload: bytes
    components: Components = NONE
    without: Callable[[Components], bytes] | None = None

    def payload_for(self, gone: Components) -> bytes:
        """The payload while `gone` are taken away."""
        return self.without(gone) if gone and self.without is not None else self.payload


class Retained:
    """`store` is what the disk has: topics, each with the components that Home Assistant may have.

    The caller writes what `to_write` returns and reports with `written`; publishes what `next`
    returns and reports with `confirmed`. All O(1) a topic, `connected` O(topics).
    """

    def __init__(self, store: Mapping[str, Components]) -> None:
        self._store: dict[str, Components] = dict(store)
        self._wanted: dict[str, Document] = {}
        self._left: set[str] = set()
        self._had: dict[str, bytes] = {}  # confirmed in this session
        self._under_way: dict[str, bytes] = {}
        self._to_look: dict[str, None] = {}  # in this order
        # To be written first, and changes of the store that may be lost.
        self._to_record: dict[str, Components] = {}
        self._behind: dict[str, Components | None] = {}
        self._connected = False

    @property
    def topics(self) -> frozenset[str]:
        """Every topic that may be retained."""
        return frozenset(self._store) | frozenset(self._to_record)

    @property
    def waiting(self) -> int:
        """How many are not as they shall be, as far as is known."""
        return len(self._to_look) + len(self._to_record) + len(self._under_way)

    def want(self, topic: str, document: Document | None) -> None:
        """The topic shall be retained, or shall not (None)."""
        self._left.discard(topic)
        if document is not None and self._wanted.get(topic) == document:
            return
        if document is None:
            self._wanted.pop(topic, None)
            if self._to_record.pop(topic, None) is not None and topic not in self._store:
                self._behind[topic] = None  # the disk may have it
        else:
            self._wanted[topic] = document
        self._look(topic)

    def leave(self, topic: str) -> None:
        """Whatever is there stays until it is known whether the topic is wanted."""
        self._left.add(topic)

    def connected(self) -> None:
        """A session has begun; nothing is known of what the broker has."""
        self.disconnected()
        self._connected = True
        for topic in [*self._wanted, *self._store]:
            self._look(topic)

    def disconnected(self) -> None:
        """The session has ended; what was under way may have arrived or not."""
        self._connected = False
        self._had.clear()
        self._under_way.clear()
        self._to_look.clear()

    def again(self, topics: Iterable[str]) -> None:
        """Publish these again."""
        for topic in topics:
            self._had.pop(topic, None)
            self._look(topic)

    # --- the store -------------------------------------------------------------------------------

    def to_write(self) -> dict[str, Components | None]:
        """Changes for the disk: components of a topic, None for a topic that goes. What may be
        lost waits until nothing else is to do."""
        if not self._to_record and self._to_look:
            return {}
        return self._behind | self._to_record

    def written(self, wrote: Mapping[str, Components | None]) -> None:
        """The disk has it."""
        for topic, components in wrote.items():
            if self._behind.get(topic, NONE) == components:
                self._behind.pop(topic, None)
            if components is not None and self._to_record.get(topic) == components:
                del self._to_record[topic]
                self._store[topic] = components
                self._look(topic)

    # --- the broker ----------------------------------------------------------------------------

    def next(self, most: int) -> list[tuple[str, bytes]]:
        """At most so many to be published now, topic and payload."""
        found: list[tuple[str, bytes]] = []
        while self._to_look and len(found) < most:
            topic = next(iter(self._to_look))
            del self._to_look[topic]
            payload = self._payload(topic)
            if payload is not None:
                self._under_way[topic] = payload
                found.append((topic, payload))
        return found

    def _payload(self, topic: str) -> bytes | None:
        document, kept = self._wanted.get(topic), self._store.get(topic)
        if document is None:
            stays = kept is None or topic in self._left or self._had.get(topic) == EMPTY
            return None if stays else EMPTY
        if kept is None or not document.components.items() <= kept.items():
            self._to_record[topic] = {**(kept or NONE), **document.components}
            self._behind.pop(topic, None)
            return None
        payload = document.payload_for(_gone(kept, document))
        return None if self._had.get(topic) == payload else payload

    def confirmed(self, topic: str, *, refused: bool = False) -> None:
        """The broker has what was under way; or it refused it, and is not asked again in this
        session."""
        payload = self._under_way.pop(topic, None)
        if payload is None:
            return
        self._had[topic] = payload
        if not refused:
            self._settle(topic, payload)
        self._look(topic)

    def _settle(self, topic: str, payload: bytes) -> None:
        if payload == EMPTY:
            del self._store[topic], self._had[topic]
            self._behind[topic] = None
            return
        document = self._wanted.get(topic)
        if document is None or not (gone := _gone(self._store[topic], document)):
            return
        if payload == document.payload_for(gone):
            self._store[topic] = self._behind[topic] = dict(document.components)

    def _look(self, topic: str) -> None:
        if self._connected and topic not in self._under_way:
            self._to_look[topic] = None

    def check_invariants(self) -> None:
        """For tests: what must hold between any two events."""
        assert not self._to_look.keys() & self._under_way.keys()
        assert self._under_way.keys() <= self._store.keys()
        assert self._connected or not (self._to_look or self._under_way)


def _gone(kept: Components, document: Document) -> Components:
    return {each: kind for each, kind in kept.items() if each not in document.components}
