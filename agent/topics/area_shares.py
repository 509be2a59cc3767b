"""How many areas one client may publish for: processors keep a state for each of at most 4,096."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from agent.wire.processor_limits import AREA_KEPT_S, MAX_AREAS

# Of one client, for one topic, as long as a processor keeps the state of an area that is silent.
MAX_OF_CLIENT: Final = MAX_AREAS // 2
# Of all clients and topics; beyond that those of whoever published longest ago are forgotten.
MAX_KEPT: Final = 1 << 16


class AreaShares:
    """The areas that clients published for lately. O(1) amortised."""

    def __init__(self) -> None:
        # By client and topic: when each area was published for last, the longest ago first.
        self._areas: OrderedDict[tuple[str, str], OrderedDict[str, float]] = OrderedDict()
        self._kept = 0

    def why_not(self, client: str, topic: str, area: str, now: float) -> str:
        """Why this client may not publish for another area; else empty, and it counts."""
        areas = self._areas.setdefault((client, topic), OrderedDict())
        self._areas.move_to_end((client, topic))
        while areas and next(iter(areas.values())) <= now - AREA_KEPT_S:
            areas.popitem(last=False)
            self._kept -= 1
        if area not in areas:
            if len(areas) >= MAX_OF_CLIENT:
                return (
                    f"this client published to {topic} for {MAX_OF_CLIENT:,} areas within an hour, "
                    "half of what its processor keeps; go on with those, or take another topic"
                )
            self._kept += 1
        areas[area] = now
        areas.move_to_end(area)
        while self._kept > MAX_KEPT:
            _, forgotten = self._areas.popitem(last=False)
            self._kept -= len(forgotten)
        return ""
