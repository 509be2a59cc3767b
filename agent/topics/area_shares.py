"""How many areas one client may publish for: processors keep a state for each of at most 4,096."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Hashable
from typing import Any, Final

from agent.wire.processor_limits import AREA_KEPT_S, MAX_AREAS

# Of one client, for one topic, as long as a processor keeps the state of an area that is silent. A
# client may take as many new ones as all clients leave free, so one alone half of them.
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

    def forget(self) -> tuple[str, int]:
        """Forget what was published for longest ago; returns it."""
        at, _ = self.areas.popitem(last=False)
        _less(self.topics, at[0])
        return at


def _less(counted: Counter[Any], key: Hashable) -> bool:
    """Count one less; whether none is left."""
    counted[key] -= 1
    if counted[key]:
        return False
    del counted[key]
    return True


class AreaShares:
    """The areas that clients published for lately. O(1) amortised, and O(clients) where room must
    be made."""

    def __init__(self) -> None:
        # Whoever published longest ago first.
        self._clients: OrderedDict[str, _Client] = OrderedDict()
        self._kept = 0
        self._holders: Counter[tuple[str, int]] = Counter()  # clients of an area of a topic
        self._areas: Counter[str] = Counter()  # different areas of a topic

    def why_not(self, client: str, topic: str, area: str, now: float) -> str:
        """Why this client may not publish for another area; else empty, and it counts."""
        own = self._clients.setdefault(client, _Client())
        self._clients.move_to_end(client)
        self._end(own, now)
        at = (topic, hash(area))
        if at not in own.areas:
            self._drop_silent(own, now)
            # An area that another client publishes for takes no further place.
            free = MAX_AREAS - (0 if at in self._holders else self._areas[topic])
            if own.topics[topic] >= min(MAX_OF_CLIENT, free):
                return (
                    f"this client published to {topic} for {own.topics[topic]:,} areas within an "
                    f"hour, as many as are left free of the {MAX_AREAS:,} that its processor "
                    "keeps; go on with those, or take another topic"
                )
            if self._kept >= MAX_KEPT and not self._makes_room(own):
                return (
                    f"this client published for {len(own.areas):,} areas of topics within an hour, "
                    "and there is no room for more; go on with those"
                )
            self._kept += 1
            own.topics[topic] += 1
            self._areas[topic] += at not in self._holders
            self._holders[at] += 1
        own.areas[at] = now
        own.areas.move_to_end(at)
        return ""

    def _drop_silent(self, own: _Client, now: float) -> None:
        """Forget the clients that published nothing within an hour."""
        while (first := next(iter(self._clients.values()))) is not own:
            self._end(first, now)
            if first.areas:
                break
            self._clients.popitem(last=False)

    def _makes_room(self, own: _Client) -> bool:
        """Make room for one more, unless this client itself has most."""
        most = max(self._clients.values(), key=lambda each: len(each.areas))
        if len(most.areas) <= len(own.areas):
            return False
        self._forget(most)
        return True

    def _end(self, client: _Client, now: float) -> None:
        """Forget what that client has not published for within an hour."""
        while client.areas and next(iter(client.areas.values())) <= now - AREA_KEPT_S:
            self._forget(client)

    def _forget(self, client: _Client) -> None:
        at = client.forget()
        self._kept -= 1
        if _less(self._holders, at):
            _less(self._areas, at[0])
