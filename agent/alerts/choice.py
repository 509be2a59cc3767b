"""The masters among which a subscription may move, and what it is given meanwhile."""

from __future__ import annotations

from collections import Counter

import msgspec

from agent.alerts.inbox_events import Content
from agent.wire.overlay import Notification
from agent.wire.predicates import Filter
from agent.wire.push import GivenMaster, Subscribe
from agent.wire.topics import STAYS


class Choice:
    """`masters` are as its client was given them, the one here first; `topics` those that its
    filter names. `given` counts the other notifications, by the IAD that put them out."""

    __slots__ = ("given", "masters", "stays", "topics")

    def __init__(self, masters: tuple[GivenMaster, ...], wanted: Filter) -> None:
        self.masters = masters
        self.topics = topics_in(wanted)
        self.given: Counter[str] = Counter()
        # It hears what no other master gives: a clone that does not leave its IAD.
        self.stays = any(map(_stays, self.topics))

    def again(self, masters: tuple[GivenMaster, ...], wanted: Filter) -> Choice:
        """The same after its client has subscribed again."""
        found = Choice(masters, wanted)
        found.given, found.stays = self.given, found.stays or self.stays
        return found

    def count(self, content: Content) -> None:
        """It is given this. O(1)."""
        if not isinstance(content, Notification):
            self.given[content.publisher] += 1
            return
        topic = content.attributes.get("topic")
        if topic not in self.topics:
            self.given[content.origin.publisher] += 1
        self.stays = self.stays or _stays(topic)


def masters_in(message: Subscribe) -> tuple[GivenMaster, ...]:
    """Those among which the subscription may move; none if it may not. What is not durable ends
    with its master."""
    return message.masters if message.durable and len(message.masters) > 1 else ()


def masters_bytes(masters: tuple[GivenMaster, ...]) -> int:
    """What these count beside the filter, in MessagePack. O(masters)."""
    return len(msgspec.msgpack.encode(masters)) if masters else 0


def topics_in(wanted: Filter) -> frozenset[str]:
    """The topics that a filter names. O(predicates)."""
    return frozenset(
        name
        for conjunction in wanted
        for each in conjunction
        if each.attribute == "topic" and each.operator in ("=", "in")
        for name in each.operands
        if isinstance(name, str)
    )


def _stays(topic: object) -> bool:
    return isinstance(topic, str) and topic.startswith(STAYS)
