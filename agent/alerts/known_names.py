"""The names that alerts may have, as far as a master knows: a filter for others is doubted."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Final

from agent.wire.predicates import Value

# Names of triggers that are remembered.
MAX_TRIGGERS: Final = 256


class KnownNames:
    """`iads` are those whose alerts may come, empty if there may be others. `metrics` gives the
    channels of this IAD's nodes; those of another IAD may have others. Triggers are known once an
    alert named them."""

    def __init__(self, iads: Collection[str], metrics: Callable[[], Collection[str]]) -> None:
        self._iads = iads
        self._metrics = metrics
        self._triggers: dict[str, None] = {}

    def heard(self, attributes: Mapping[str, Value]) -> None:
        """An alert with these attributes came. O(1)."""
        trigger = attributes.get("trigger")
        if isinstance(trigger, str) and len(self._triggers) <= MAX_TRIGGERS:
            self._triggers[trigger] = None

    def __call__(self, attribute: str) -> Collection[str]:
        """The values of this attribute that are known; empty if nothing is, or not enough."""
        match attribute:
            case "iad":
                return self._iads
            case "metric":
                return self._metrics()
            case "trigger" if len(self._triggers) <= MAX_TRIGGERS:
                return tuple(self._triggers)
        return ()
