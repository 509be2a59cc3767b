"""How many areas one client may publish for: processors keep a state for each of at most 4,096."""

from __future__ import annotations

from collections import Counter, OrderedDict
from typing import Final

from agent.wire.processor_limits import AREA_KEPT_S, MAX_AREAS

# Of one client, for one topic, as long as a processor keeps the state of an area that is silent.
MAX_OF_CLIENT: Final = MAX_AREAS // 2
# Of all clients and topics, some 200 bytes each. Beyond that the client that has most forgets its
# oldest for others, and gets no more itself: what is forgotten would no longer count.
MAX_KEPT: Final = 1 << 16


class _Client:
    __slots__ = ("areas", "topics")

    def __init__(self) -> None:
        # By topic and hash of the area, which may be long: when it was published for last, the
        # longest ago first.
        self.areas: OrderedDict[tuple[str, int], float] = OrderedDict()
        self.topics: Counter[str] = Counter()

    def forget(self) -> None:
        """What was published for longest ago."""
        (topic, _), _ = self.areas.popitem(last=False)
        self.topics[topic] -= 1
        if not self.topics[topic]:
            del self.topics[topic]


class AreaShares:
    """The areas that clients published for lately. O(1) amortised, and O(clients) where room must
    be made."""

    def __init__(self) -> None:
        # Whoever published longest ago first.
        self._clients: OrderedDict[str, _Client] = OrderedDict()
        self._kept = 0

    def why_not(self, client: str, topic: str, area: str, now: float) -> str:
        """Why this client may not publish for another area; else empty, and it counts."""
        own = self._clients.setdefault(client, _Client())
        self._clients.move_to_end(client)
        self._end(own, now)
        at = (topic, hash(area))
        if at not in own.areas:
            if own.topics[topic] >= MAX_OF_CLIENT:
                return (
                    f"this client published to {topic} for {MAX_OF_CLIENT:,} areas within an hour, "
                    "half of what its processor keeps; go on with those, or take another topic"
                )
            if self._kept >= MAX_KEPT and not self._makes_room(own, now):
                return (
                    f"this client published for {len(own.areas):,} areas of topics within an hour, "
                    "and there is no room for more; go on with those"
                )
            self._kept += 1
            own.topics[topic] += 1
        own.areas[at] = now
        own.areas.move_to_end(at)
        return ""

    def _makes_room(self, own: _Client, now: float) -> bool:
        """Make room for one more, unless this client itself has most."""
        while (first := next(iter(self._clients.values()))) is not own:
            self._end(first, now)
            if first.areas:
                break
            self._clients.popitem(last=False)
        if self._kept < MAX_KEPT:
            return True
        most = max(self._clients.values(), key=lambda each: len(each.areas))
        if len(most.areas) <= len(own.areas):
            return False
        most.forget()
        self._kept -= 1
        return True

    def _end(self, client: _Client, now: float) -> None:
        """Forget what that client has not published for within an hour."""
        while client.areas and next(iter(client.areas.values())) <= now - AREA_KEPT_S:
            client.forget()
            self._kept -= 1
