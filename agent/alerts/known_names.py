"""The names that alerts may have, as far as a master knows: a filter for others is doubted."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Final

from agent.wire.predicates import Value

# Names of triggers, and of metrics, that are remembered.
MAX_HEARD: Final = 256


class KnownNames:
    """`iads` are those whose alerts may come, empty if there may be others. `metrics` gives the
    channels of this IAD's nodes; those of another IAD may have others. Triggers, and metrics of
    other IADs, are known once an alert named them. `topics`, which is set later, gives those of all
    IADs, as far as they are known."""

    def __init__(self, iads: Collection[str], metrics: Callable[[], Collection[str]]) -> None:
        self.topics: Callable[[], Collection[str]] = tuple
        self._iads = iads
        self._metrics = metrics
        self._heard: dict[str, dict[str, None]] = {"trigger": {}, "metric": {}}

    def heard(self, attributes: Mapping[str, Value]) -> None:
        """An alert with these attributes came. O(1)."""
        for attribute, heard in self._heard.items():
            name = attributes.get(attribute)
            if isinstance(name, str) and len(heard) <= MAX_HEARD:
                heard[name] = None

    def __call__(self, attribute: str) -> Collection[str]:
        """The values of this attribute that are known; empty if nothing is, or not enough."""
        heard = self._heard.get(attribute, {})
        match attribute:
            case "iad":
                return self._iads
            case "topic":
                return self.topics()
            case "metric" if len(heard) <= MAX_HEARD and (own := self._metrics()):
                return {*own, *heard}
            case "trigger" if len(heard) <= MAX_HEARD:
                return tuple(heard)
        return ()
