"""Current state of each area: newest values, whether they still come, and their recent course.

Pure: answers and the time go in, what changed comes out.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final, Literal

from msgspec import Struct
from msgspec.structs import replace

from agent.wire.areas import with_parents
from agent.wire.base import MAX_CHANNELS
from agent.wire.messages import Aggregate, Answer, ChannelAggregate
from agent.wire.units import sign_of, usual_sign

State = Literal["live", "stale", "missing"]
Quality = Literal["good", "suspect", "bad"]

# Means kept of each channel, one a round of the watch.
SPARK: Final = 60
# Areas kept; those beyond it are not shown, and counted among the gaps.
MAX_ROOMS: Final = 20_000
# Gaps that are named; of more the number is told. Each event of a stream has them all.
MAX_GAPS: Final = 1_000
# An area is gone once the master, asked again and again, has not named it for so long: one that
# restarts names few at first.
GONE_MS: Final = 300_000
NEVER_HEARD: Final = "not heard yet"
ASKED_AGAIN: Final = "nothing new from it since it is asked again"
SILENT: Final = "nothing new from it"
LOST: Final = "the master does not answer"
NOT_SHOWN: Final = "not shown, as there are more than {most:,} areas; {count:,} in all are not"
NOT_NAMED: Final = "{why}; so are {count:,} areas that are not named"


class Reading(Struct, frozen=True):
    """The newest value of a channel. `value` is None if it is bad; `time_ms` is by the node's
    clock."""

    value: float | None
    time_ms: int
    quality: Quality
    unit: str


class Room(Struct, frozen=True):
    """An area as it shows now. `state`: `live`, `stale` if its values are old, `missing` if none
    are known; `reason` says why it is not live."""

    area: str
    name: str
    state: State
    reason: str
    channels: dict[str, Reading]


class AreaFacts(Struct, frozen=True):
    """What the master tells of an area beside readings: its name for people, and the sign of each
    of its channels' units."""

    area: str
    name: str = ""
    units: Mapping[str, str] = {}


class _Kept:
    """A room, and what does not show of it."""

    __slots__ = ("heard_ms", "lacks", "room", "sparks", "unnamed_ms", "version")

    def __init__(self, room: Room) -> None:
        self.room = room
        self.version = 0
        # By service: when it last gave readings, and why it gives none.
        self.heard_ms: dict[str, int] = {}
        self.lacks: dict[str, str] = {}
        # Since when the master, which says what there is, does not name it.
        self.unnamed_ms: int | None = None
        self.sparks: dict[str, array[float]] = {}


class Rooms:
    """All areas, in the order in which they were first seen.

    Each call that changes something increases `version` by one; a room has the version of its last
    change, so whoever knows a version finds what is newer. `shape` increases when rooms, channels,
    units or names come, change or go. `now_ms` is of a monotonic clock; nodes' clocks are never
    compared with it: an area is stale when nothing new of it came for `stale_ms` though it was
    asked, or the master says why it gives no readings, or is lost itself.
    """

    def __init__(self, stale_ms: float = 30_000.0) -> None:
        self.version = self.shape = 0
        # Areas without an answer of which no room is known, and why: perhaps a whole IAD; the
        # first of many, and of those beyond `MAX_ROOMS`, stands for them.
        self.gaps: dict[str, str] = {}
        # Areas beyond `MAX_ROOMS`, at most as many again.
        self._left_out: dict[str, None] = {}
        self._stale_ms = stale_ms
        self._asked_ms = 0
        self._is_lost = False  # the master is away
        self._kept: dict[str, _Kept] = {}
        self._facts: dict[str, AreaFacts] = {}
        self._gaps_of: dict[str, dict[str, str]] = {}
        self._sorted: tuple[int, list[str]] = (-1, [])

    def __len__(self) -> int:
        return len(self._kept)

    def __iter__(self) -> Iterator[Room]:
        return iter([kept.room for kept in self._kept.values()])

    def get(self, area: str) -> Room | None:
        """The room of exactly this area."""
        kept = self._kept.get(area)
        return None if kept is None else kept.room

    @property
    def areas(self) -> list[str]:
        """Every area in the order of names; sorted once until areas come or go."""
        if self._sorted[0] != self.shape:
            self._sorted = self.shape, sorted(self._kept)
        return self._sorted[1]

    def units(self, area: str) -> dict[str, str]:
        """The channels that an area has, heard or told, with their units."""
        kept, facts = self._kept.get(area), self._facts.get(area)
        told = {} if facts is None else dict(facts.units)
        heard = {} if kept is None else kept.room.channels
        return told | {name: reading.unit for name, reading in heard.items()}

    def since(self, version: int) -> list[tuple[int, Room]]:
        """The rooms changed after `version`, with their places in the order. O(rooms)."""
        return [
            (place, kept.room)
            for place, kept in enumerate(self._kept.values())
            if kept.version > version
        ]

    def sparks(self, area: str) -> dict[str, list[float | None]]:
        """The last means of each channel of an area, the oldest first; None where it had none."""
        kept = self._kept.get(area)
        if kept is None:
            return {}
        return {channel: spark_of(means) for channel, means in kept.sparks.items()}

    def shown(self) -> list[tuple[Room, dict[str, array[float]]]]:
        """Each room with the last means of its channels (NaN where there was none), the oldest
        first; a copy that other threads may read. O(rooms · channels)."""
        return [
            (kept.room, {channel: means[:] for channel, means in kept.sparks.items()})
            for kept in self._kept.values()
        ]

    def as_heard(self, now_ms: int) -> list[Room]:
        """Every room; after a pause, one with old values is stale until it answers. O(rooms)."""
        return [
            replace(kept.room, state="stale", reason=ASKED_AGAIN)
            if kept.room.state == "live"
            and now_ms - max(kept.heard_ms.values(), default=0) >= self._stale_ms
            else kept.room
            for kept in self._kept.values()
        ]

    # --- changes -----------------------------------------------------------------------------

    def ask(self, now_ms: int) -> None:
        """They are asked for again, after a time in which nobody did: nothing is late yet."""
        self._asked_ms = now_ms

    def apply(self, answer: Answer, now_ms: int, service: str = "default") -> list[Room]:
        """Take the answer of a service to a query for aggregates, such as a round of a watch;
        returns the rooms that changed."""
        self._is_lost = False
        changed = []
        for result in answer.results:
            if result.aggregate is None or (kept := self._of(result.area)) is None:
                continue
            kept.heard_ms[service] = now_ms
            kept.unnamed_ms = None
            kept.lacks.pop(service, None)
            facts = self._facts.get(result.area) or AreaFacts(result.area)
            if result.name and result.name != facts.name:
                facts = self._facts[result.area] = replace(facts, name=result.name)
            channels = _readings(result.aggregate, facts, kept.room.channels)
            _extend(kept.sparks, result.aggregate, channels)
            if self._show(kept, now_ms, channels):
                changed.append(kept)
        lacking = {gap.area: gap.message or gap.reason for gap in answer.missing}
        at, self._gaps_of[service] = self._apart(lacking)
        for kept, reason in at:
            kept.lacks[service] = reason
            kept.unnamed_ms = None
            if self._show(kept, now_ms):
                changed.append(kept)
        return self._changed(changed, always=self._count_gaps())

    def asks(self, services: Collection[str], now_ms: int) -> list[Room]:
        """Only these services are asked from now on, so others lack nothing; returns the rooms that
        changed. O(rooms) if one was asked before that is not now."""
        gone = self._gaps_of.keys() - set(services)
        if not gone:
            return []
        changed = []
        for kept in self._kept.values():
            # When one of them gave readings last still counts; their names are of others' making.
            heard = [ms for each, ms in kept.heard_ms.items() if each in gone or not each]
            kept.heard_ms = {
                **{each: ms for each, ms in kept.heard_ms.items() if each and each not in gone},
                **({"": max(heard)} if heard else {}),
            }
            kept.lacks = {each: why for each, why in kept.lacks.items() if each not in gone}
            if self._show(kept, now_ms):
                changed.append(kept)
        for each in gone:
            del self._gaps_of[each]
        return self._changed(changed, always=self._count_gaps())

    def learn(
        self, facts: Iterable[AreaFacts], now_ms: int, unknown: Sequence[str] | None = None
    ) -> list[Room]:
        """Take what the master tells of areas; one that it did not name before shows as missing.

        With `unknown` these are all there are but for what may be below those areas: one that is
        neither named nor heard for `GONE_MS` is dropped. O(rooms)."""
        changed = []
        if unknown is not None:
            self._left_out.clear()  # those that are still there come again
        named = set()
        for each in facts:
            named.add(each.area)
            if (kept := self._of(each.area)) is None:
                continue
            self._facts[each.area] = each
            channels = {
                name: replace(reading, unit=each.units.get(name, reading.unit))
                for name, reading in kept.room.channels.items()
            }
            if self._show(kept, now_ms, channels) or not kept.version:
                changed.append(kept)
        gone = [] if unknown is None else self._gone(named, unknown, now_ms)
        for area in gone:
            del self._kept[area]
            self._facts.pop(area, None)
        self.shape += bool(gone)
        return self._changed(changed, always=self._count_gaps() or bool(gone))

    def lose(self, now_ms: int) -> list[Room]:
        """The master is away until the next answer; returns the rooms that changed. O(rooms)."""
        self._is_lost = True
        return self.tick(now_ms)

    def _gone(self, named: set[str], unknown: Sequence[str], now_ms: int) -> list[str]:
        """The areas that are to be dropped."""
        gone = []
        above = set(unknown)
        for area, kept in self._kept.items():
            if area in named or not above.isdisjoint(with_parents(area)):
                kept.unnamed_ms = None
            elif kept.unnamed_ms is None:
                kept.unnamed_ms = now_ms
            elif now_ms - kept.unnamed_ms >= GONE_MS:
                gone.append(area)
        return gone

    def tick(self, now_ms: int) -> list[Room]:
        """The rooms that became stale because nothing came. O(rooms)."""
        return self._changed([kept for kept in self._kept.values() if self._show(kept, now_ms)])

    # --- how they come about ------------------------------------------------------------------

    def _of(self, area: str) -> _Kept | None:
        kept = self._kept.get(area)
        if kept is None:
            if len(self._kept) >= MAX_ROOMS:
                if len(self._left_out) < MAX_ROOMS:
                    self._left_out[area] = None
                return None
            kept = self._kept[area] = _Kept(Room(area, "", "missing", NEVER_HEARD, {}))
            self.shape += 1
        return kept

    def _apart(self, lacking: Mapping[str, str]) -> tuple[list[tuple[_Kept, str]], dict[str, str]]:
        """The rooms that lack an answer, with the reasons: those of these areas and, for areas that
        are no rooms, those below; and the areas without any. O(areas), and O(rooms) if some are no
        rooms: another IAD may name as many as it likes."""
        at = [(self._kept[area], why) for area, why in lacking.items() if area in self._kept]
        above = lacking.keys() - self._kept.keys()
        rooms_below = set[str]()
        for area, kept in self._kept.items() if above else ():
            parents = [each for each in with_parents(area) if each in above]
            rooms_below.update(parents)
            if parents and area not in lacking:
                at.append((kept, lacking[parents[0]]))
        without = above - rooms_below
        return at, {area: why for area, why in lacking.items() if area in without}

    def _count_gaps(self) -> bool:
        """Bring the gaps up to date; whether they changed."""
        gaps = {area: why for each in self._gaps_of.values() for area, why in each.items()}
        if (more := len(gaps) - MAX_GAPS) > 0:
            gaps = dict(islice(gaps.items(), MAX_GAPS))
            last, why = gaps.popitem()
            gaps[last] = NOT_NAMED.format(why=why, count=more)
        if self._left_out:
            first, count = next(iter(self._left_out)), len(self._left_out)
            gaps[first] = NOT_SHOWN.format(most=MAX_ROOMS, count=count)
        before, self.gaps = self.gaps, gaps
        return gaps != before

    def _show(self, kept: _Kept, now_ms: int, channels: dict[str, Reading] | None = None) -> bool:
        """Bring a room up to date; whether it changed."""
        before = kept.room
        facts = self._facts.get(before.area)
        state, reason = self._state(kept, now_ms)
        name = "" if facts is None else facts.name
        kept.room = Room(
            before.area, name, state, reason, before.channels if channels is None else channels
        )
        if kept.room == before:
            return False
        if _shape_of(kept.room) != _shape_of(before):
            self.shape += 1
        return True

    def _state(self, kept: _Kept, now_ms: int) -> tuple[State, str]:
        """An area is live while one of its services gives readings."""
        fresh = [
            service
            for service, heard_ms in kept.heard_ms.items()
            if service
            and service not in kept.lacks
            and now_ms - max(heard_ms, self._asked_ms) < self._stale_ms
        ]
        if fresh and not self._is_lost:
            return "live", ""
        reason = next(iter(kept.lacks.values()), "")
        if not kept.heard_ms:
            return "missing", reason or NEVER_HEARD
        return "stale", LOST if fresh else reason or SILENT

    def _changed(self, changed: list[_Kept], *, always: bool = False) -> list[Room]:
        if changed or always:
            self.version += 1
        for kept in changed:
            kept.version = self.version
        return list({kept.room.area: kept.room for kept in changed}.values())


def spark_of(means: Iterable[float]) -> list[float | None]:
    """Means as people read them; None where there was none."""
    return [None if math.isnan(mean) else round(mean, 2) for mean in means]


def _shape_of(room: Room) -> tuple[object, ...]:
    return room.name, [(name, reading.unit) for name, reading in room.channels.items()]


def facts_of(answer: Answer) -> list[AreaFacts]:
    """Facts about areas in an answer of form `about`."""
    return [
        AreaFacts(
            result.area,
            result.name or "",
            {each.name: sign_of(each.unit) for each in result.about.channels if each.unit},
        )
        for result in answer.results
        if result.about is not None
    ]


def _readings(
    aggregate: Aggregate, facts: AreaFacts, before: Mapping[str, Reading]
) -> dict[str, Reading]:
    """The readings of a room after an aggregate of some of its channels. The first `MAX_CHANNELS`
    stay: a node that names others each time would have every page load anew."""
    readings = dict(before)
    for name, channel in aggregate.channels.items():
        if name not in readings and len(readings) >= MAX_CHANNELS:
            continue
        unit = facts.units.get(name) or usual_sign(name)
        at_ms = aggregate.last_ms if channel.last_ms is None else channel.last_ms
        readings[name] = Reading(newest(channel), at_ms, quality_of(channel), unit)
    return readings


def newest(channel: ChannelAggregate) -> float | None:
    """The value that stands for a channel now: the newest that is not bad; None if all are."""
    value = channel.mean if channel.last is None else channel.last
    return None if value is None else float(f"{value:.7g}")  # all that a sensor's float holds


def quality_of(channel: ChannelAggregate) -> Quality:
    """One word for the readings of an aggregate."""
    if not channel.count:
        return "bad"
    return "suspect" if channel.suspect else "good"


def _extend(
    sparks: dict[str, array[float]], aggregate: Aggregate, shown: Mapping[str, Reading]
) -> None:
    for name in aggregate.channels.keys() & shown.keys():
        channel = aggregate.channels[name]
        means = sparks.setdefault(name, array("f"))
        means.append(math.nan if channel.mean is None else channel.mean)
        if len(means) > SPARK:
            del means[0]
