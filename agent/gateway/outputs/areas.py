"""Channels and triggers of each area, and the time since when it is missing, for outputs that keep
documents about it."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final

from agent.gateway.feed.rooms import Room

MAX_TRIGGERS: Final = 64  # of one area
# Areas that only alerts have named, and where none is raised now: whoever raises alerts may name
# ever new ones.
MAX_NAMED: Final = 1_024


class Area:
    """One area. `channels`: those it has had lately, with their units."""

    def __init__(self, area: str, now: float) -> None:
        self.area = area
        self.name = ""
        self.room: Room | None = None
        self.channels: dict[str, str] = {}
        self.triggers: dict[str, bool] = {}  # raised or not
        self.told = False  # Home Assistant knows it, in this session
        # It was there before this gateway was started; what channels it has is not known yet.
        self.waits = False
        self._seen_s: dict[str, float] = {}
        self.since_s = self.there_s = now  # first, and last, seen among all rooms

    @property
    def is_live(self) -> bool:
        """Whether it is measured now."""
        return self.room is not None and self.room.state == "live"

    def take(self, room: Room, now: float, keep_s: float) -> bool:
        """Another state of the room; whether what there is of it has changed. A channel that is
        missed for `keep_s` while others are measured is gone."""
        before = (self.name, dict(self.channels))
        self.room, self.name = room, room.name
        self.waits = self.waits and not room.channels
        for name, reading in room.channels.items():
            self.channels[name] = reading.unit
            self._seen_s[name] = now
        if room.state == "live":
            for name in [n for n in self.channels if now - self._seen_s[n] >= keep_s]:
                del self.channels[name], self._seen_s[name]
        return before != (self.name, self.channels)

    def values(self) -> dict[str, float | None]:
        """Each channel's value, None where there is no measurement: every channel that was heard
        lately, every time."""
        assert self.room is not None
        found = {name: self.room.channels.get(name) for name in self.channels}
        return {
            name: None if each is None or each.quality == "bad" else each.value
            for name, each in found.items()
        }

    def qualities(self) -> dict[str, str]:
        """Each channel's quality."""
        assert self.room is not None
        found = {name: self.room.channels.get(name) for name in self.channels}
        return {name: "bad" if each is None else each.quality for name, each in found.items()}

    def time_ms(self) -> int:
        """When the newest reading was taken."""
        assert self.room is not None
        return max((each.time_ms for each in self.room.channels.values()), default=0)


class Areas:
    """All of them, by area. `keep_s`: seconds for which one that is missed is kept."""

    def __init__(self, keep_s: float) -> None:
        self.keep_s = keep_s
        self.all: dict[str, Area] = {}
        self._known_s = -math.inf  # when it was last known which are there

    def at(self, area: str, now: float) -> Area:
        """The area, which may be new."""
        found = self.all.get(area)
        if found is None:
            found = self.all[area] = Area(area, now)
        return found

    def are_there(self, areas: Iterable[str], now: float) -> None:
        """These are there, and no others."""
        self._known_s = now
        for each in areas:
            self.at(each, now).there_s = now

    def missed(self) -> list[Area]:
        """Those that were missed for too long: they have no channels any more, and are forgotten
        unless a trigger is raised there."""
        missed = [e for e in self.all.values() if self._known_s - e.there_s >= self.keep_s]
        for each in missed:
            each.room, each.waits = None, False
            each.channels.clear()
            if not any(each.triggers.values()):
                del self.all[each.area]
        return missed

    def only_named(self) -> list[Area]:
        """Those that are no rooms and have nothing raised, beyond the last `MAX_NAMED`: they are
        forgotten."""
        named = [
            each
            for each in self.all.values()
            if each.room is None and not each.waits and not any(each.triggers.values())
        ]
        beyond = named[: max(0, len(named) - MAX_NAMED)]
        for each in beyond:
            del self.all[each.area]
        return beyond

    def waited(self, now: float) -> list[Area]:
        """Those of which nothing was heard since the start, for too long: they wait no more."""
        waited = [e for e in self.all.values() if e.waits and now - e.since_s >= self.keep_s]
        for each in waited:
            each.waits = False
        return waited
