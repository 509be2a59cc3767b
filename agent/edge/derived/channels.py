"""Channels of derived values: which are kept, under which names, and as which rows."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from agent.edge.history.columns import NAN
from agent.wire.base import MAX_DERIVED, RAW

# Before a name that one of the node's sensors has: a computed value is never taken for a reading.
PREFIX: Final = "derived_"
LONGEST: Final = 32  # characters of a channel's name


class DerivedChannels:
    """The channels so far. `wanted` are those to keep, () for all that come, up to MAX_DERIVED;
    `taken` are the sensors' own. O(values)."""

    def __init__(self, wanted: tuple[str, ...], taken: Collection[str]) -> None:
        self._wanted = frozenset(wanted)
        self._taken = frozenset(taken)
        self._columns: dict[str, str] = {}  # by name of the value
        self.left_out: set[str] = set()

    @property
    def names(self) -> tuple[str, ...]:
        """The channels of a row, in order."""
        return tuple(self._columns.values())

    def row(self, values: Mapping[str, float]) -> tuple[float, ...]:
        """The values as a row of `names`, which may be more than before; () if none is kept."""
        for name in values:
            if name not in self._columns:
                self._add(name)
        if not any(name in values for name in self._columns):
            return ()
        return tuple([values.get(name, NAN) for name in self._columns])

    def _add(self, name: str) -> None:
        channel = name
        if name in self._taken or name.removesuffix(RAW) in self._taken:
            channel = PREFIX + name
        if (
            (self._wanted and name not in self._wanted)
            or len(self._columns) >= MAX_DERIVED
            or len(channel) > LONGEST
            or channel in self._columns.values()
            or channel in self._taken
        ):
            if len(self.left_out) < MAX_DERIVED:
                self.left_out.add(name)
            return
        self._columns[name] = channel
