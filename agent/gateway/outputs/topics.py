"""MQTT topics of a gateway: the kind before the path, so that ``state/b1/f4/#`` is an area."""

from __future__ import annotations

import re
from typing import Final

from agent.wire.overlay import Notification

# What a name may not have in a topic: levels, wildcards, control characters, and what is no
# character: a broker may end the session of who sends it (MQTT 5, 1.5.4).
_NONE: Final = "".join(
    f"\\U{plane << 16 | 0xFFFE:08x}\\U{plane << 16 | 0xFFFF:08x}" for plane in range(17)
)
_NOT_IN_A_LEVEL: Final = re.compile(rf"[/+#\x00-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef{_NONE}]")
# An area has no more. In an alert there may stand another text, and mosquitto ends the session of
# who sends a topic of more than 200.
MAX_LEVELS: Final = 16


class Topics:
    """The topics below ``sanderling/<gateway>/``."""

    def __init__(self, gateway: str) -> None:
        self.root = f"sanderling/{level(gateway)}/"
        self.status = f"{self.root}status"
        self.gap = f"{self.root}gap"
        self._availability = f"{self.root}availability/"

    def state(self, area: str) -> str:
        """The readings of an area; not retained."""
        return f"{self.root}state/{area}"

    def availability(self, area: str) -> str:
        """Whether the area is measured now."""
        return self._availability + area

    def area_of(self, topic: str) -> str | None:
        """The area of an availability topic."""
        if not topic.startswith(self._availability):
            return None
        return topic.removeprefix(self._availability)

    def raised(self, trigger: str, area: str) -> str:
        """Whether a trigger is raised in an area."""
        return f"{self.root}raised/{level(trigger)}/{area}"

    def raised_of(self, topic: str) -> tuple[str, str] | None:
        """The trigger and area of such a topic."""
        kind, _, rest = topic.removeprefix(self.root).partition("/")
        trigger, _, area = rest.partition("/")
        known = topic.startswith(self.root) and kind == "raised" and trigger and area
        return (trigger, area) if known else None

    def alert(self, notification: Notification) -> str:
        """The changes of a trigger in an area; without either, what there is. Messages of topics,
        whose attributes any client may choose, are apart."""
        told = notification.attributes
        if "topic" in told:
            kind, name = "topic", told["topic"]
        else:
            kind, name = "alert", told.get("trigger") or told.get("kind") or "other"
        levels = [level(str(name))]
        if area := told.get("area"):
            levels += [level(each) for each in str(area).split("/")[:MAX_LEVELS]]
        return f"{self.root}{kind}/{'/'.join(levels)}"


def level(name: str) -> str:
    """The name as one level of a topic."""
    return _NOT_IN_A_LEVEL.sub("_", name) or "_"
