"""Custody of notifications: which ones a broker must keep, because a broker behind it may not have
them.

Custody is handed on hop by hop: a broker that was asked to serve something reports to the asker
when it is done, and not before. What is asked for and reported is a **part** of a notification: a
neighbour, and a cluster that it is responsible for. A primary neighbour is responsible for the
brokers behind it in the tree, a secondary one for all of its own cluster, and either for any other
cluster whose bit it took.

A part in the own cluster depends only on parts farther along the tree, no matter which broker asks
for it or how often. So a notification may enter at several places, as it does after failures, and
no broker waits for itself. For the same reason no broker waits for a part that it must serve
itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import chain
from sys import getsizeof
from typing import Final, NamedTuple

from agent.overlay.scot import BrokerId, Scot
from agent.wire.overlay import Notification, Origin

Part = tuple[BrokerId, int]
# In a cluster's tree: the neighbour in whose direction the notification was not served; there may
# be none.
Direction = str | None
MAX_ALIKE: Final = 1_024
# Of attributes, as they are in memory: an alert takes one place. A notification may have 64 KiB, of
# which ten thousand took 1.2 GiB.
PLACE_BYTES: Final = 2_048


def places_of(notification: Notification) -> int:
    """The places that a notification takes in custody. O(attributes)."""
    attributes = notification.attributes
    held = sum(map(getsizeof, chain(attributes, attributes.values())))
    return max(1, -(-held // PLACE_BYTES))


class Memory(NamedTuple):
    """Record of a settled notification: the one direction in which it was not requested, if there
    is exactly one, and the clusters that were served. `nothing`: only this broker's subscribers
    have it."""

    uncovered: Direction
    clusters: frozenset[int]
    nothing: bool


class Held:
    """A notification in custody."""

    __slots__ = (
        "asked",
        "before",
        "brought_by",
        "notification",
        "parts",
        "places",
        "since",
        "spared",
        "told_stuck",
        "waiting",
    )

    def __init__(
        self,
        notification: Notification,
        brought_by: BrokerId | None,
        before: Memory | None,
        places: int,
        now: float,
    ) -> None:
        self.notification = notification
        # The neighbour that it came from first; None: published here.
        self.brought_by = brought_by
        self.before = before
        self.places = places
        # All parts ever made, and those not settled, in order of creation.
        self.parts: set[Part] = set()
        self.waiting: dict[Part, None] = {}
        # The brokers to notify of each cluster; None is the publisher here.
        self.asked: dict[BrokerId | None, set[int]] = {}
        self.since = now
        self.told_stuck = False
        # Resends on which some neighbours were skipped because they were making progress.
        self.spared = 0


class Custody:
    """The notifications in custody of one broker, and the memory of those that are settled.

    Memory: `most_held` notifications, or fewer large ones (`places_of`), with a part for each
    neighbour, and for each broker that is served in place of an unreachable one; `most_remembered`
    origins.
    """

    def __init__(self, own: BrokerId, scot: Scot, most_held: int, most_remembered: int) -> None:
        self._own = own
        self._scot = scot
        self._most_held = most_held
        self._most_remembered = most_remembered
        # Least recently (re)sent first; and the same by the neighbour that brought it.
        self._held: dict[Origin, Held] = {}
        self._brought: dict[BrokerId | None, dict[Origin, None]] = {}
        self._places: Counter[BrokerId | None] = Counter()
        self._memory: dict[Origin, Memory] = {}
        self._alike: dict[Memory, Memory] = {}

    def __len__(self) -> int:
        return len(self._held)

    def __iter__(self) -> Iterator[Held]:
        return iter(list(self._held.values()))

    def get(self, origin: Origin) -> Held | None:
        """O(1)."""
        return self._held.get(origin)

    def is_new(self, origin: Origin) -> bool:
        """Whether this broker has never handled it, as far as it remembers. O(1)."""
        return origin not in self._held and origin not in self._memory

    def has_room(self, places: int) -> bool:
        """Whether there is room for one more of so many places, which there is for any that is
        alone. O(neighbours)."""
        return not self._held or self._places.total() + places <= self._most_held

    def take(
        self, notification: Notification, places: int, brought_by: BrokerId | None, now: float
    ) -> Held:
        """Take a notification into custody that is not there; `places` as `places_of` it. O(1)."""
        origin = notification.origin
        held = Held(notification, brought_by, self._memory.pop(origin, None), places, now)
        self._held[origin] = held
        self._brought.setdefault(brought_by, {})[origin] = None
        self._places[brought_by] += places
        return held

    def direction(self, other: BrokerId) -> Direction:
        """The next vertex towards that broker in the tree; None for the same vertex. O(1)."""
        if other.vertex == self._own.vertex:
            return None
        return self._scot.next_vertex(self._own.vertex, other.vertex)

    def covers(self, held: Held, neighbour: BrokerId, cluster: int) -> bool:
        """Whether that part was made before, or settled and remembered. O(1)."""
        if (neighbour, cluster) in held.parts:
            return True
        before = held.before
        if before is None or before.nothing:
            return False
        if cluster != self._own.cluster:
            return cluster in before.clusters
        return before.uncovered is None or self.direction(neighbour) != before.uncovered

    def serves(self, held: Held, cluster: int, asker: BrokerId | None) -> bool:
        """Whether another cluster is served, by any broker but the asker. O(parts)."""
        before = held.before
        if before is not None and not before.nothing and cluster in before.clusters:
            return True
        return any(bit == cluster and to != asker for to, bit in held.parts)

    def add(self, held: Held, neighbour: BrokerId, clusters: Iterable[int]) -> None:
        """Add parts that the neighbour must settle."""
        for cluster in clusters:
            part = neighbour, cluster
            if part not in held.parts:
                held.parts.add(part)
                held.waiting[part] = None

    def ask(self, held: Held, asker: BrokerId | None, clusters: Iterable[int]) -> None:
        """Register a broker to be notified when these parts are done."""
        held.asked.setdefault(asker, set()).update(clusters)

    def settle(self, held: Held, neighbour: BrokerId, clusters: Iterable[int]) -> None:
        """The neighbour has settled these. Parts behind it that were given to other brokers while
        it was unreachable are settled, too. O(clusters · waiting)."""
        waiting = held.waiting
        for cluster in clusters:
            waiting.pop((neighbour, cluster), None)
            if not waiting:
                return
            if cluster == self._own.cluster:
                toward = self.direction(neighbour)
                if neighbour.vertex != toward:
                    continue  # the parts in front of it are not settled
                behind = [p for p in waiting if p[1] == cluster and self.direction(p[0]) == toward]
            elif neighbour == (self._own.vertex, cluster):
                behind = [part for part in waiting if part[1] == cluster]
            else:
                continue
            for part in behind:
                del waiting[part]

    def done(self, held: Held) -> list[tuple[BrokerId | None, list[int]]]:
        """The brokers to notify now and of which clusters, each once; then, if no part is waiting,
        the notification leaves custody. O(askers · clusters · waiting)."""
        told = []
        for asker, clusters in held.asked.items():
            ready = sorted(c for c in clusters if not self._waits(held, asker, c))
            if ready and (asker is not None or len(ready) == len(clusters)):
                clusters.difference_update(ready)
                told.append((asker, ready))
        if not held.waiting:
            self._forget(held, nothing=False)
        return told

    def _waits(self, held: Held, asker: BrokerId | None, cluster: int) -> bool:
        if asker is None:
            return bool(held.waiting)
        if cluster != self._own.cluster:
            return any(bit == cluster and to != asker for to, bit in held.waiting)
        excluded = self.direction(asker)
        return any(bit == cluster and self.direction(to) != excluded for to, bit in held.waiting)

    def again(self, held: Held, now: float) -> None:
        """Record that the notification was sent again now."""
        held.since = now
        origin = held.notification.origin
        self._held[origin] = self._held.pop(origin)
        brought = self._brought[held.brought_by]
        brought[origin] = brought.pop(origin)

    def sent_before(self, time: float) -> list[Held]:
        """The notifications last sent before that time. O(results)."""
        found = []
        for held in self._held.values():
            if held.since > time:
                break
            found.append(held)
        return found

    @property
    def oldest(self) -> float | None:
        """When the least recently sent notification was sent."""
        for held in self._held.values():
            return held.since
        return None

    def loser(self, brought_by: BrokerId | None) -> BrokerId | None:
        """The neighbour that loses a notification to make room for one that `brought_by` (None: a
        publisher here) brings: the neighbour whose notifications take the most places, or
        `brought_by` itself if no other has more. A publisher here, whose spool keeps refused
        notifications, displaces only a neighbour that has at least two more. O(neighbours)."""
        places = self._places
        most = max(places, key=lambda each: places[each])
        return brought_by if places[most] <= places[brought_by] + (brought_by is None) else most

    def first_of(self, brought_by: BrokerId | None) -> Held | None:
        """Of the notifications that this neighbour brought, the least recently sent."""
        for origin in self._brought.get(brought_by, ()):
            return self._held[origin]
        return None

    def give_up(self, held: Held) -> None:
        """Drop a notification from custody although some subscriber may not have it: only its
        delivery to this broker's subscribers is remembered. O(1)."""
        self._forget(held, nothing=True)

    def _forget(self, held: Held, *, nothing: bool) -> None:
        origin = held.notification.origin
        del self._held[origin]
        brought = self._brought[held.brought_by]
        del brought[origin]
        self._places[held.brought_by] -= held.places
        if not brought:
            del self._brought[held.brought_by], self._places[held.brought_by]
        self._memory[origin.interned()] = self._remembered(held, nothing)
        if len(self._memory) > self._most_remembered:
            del self._memory[next(iter(self._memory))]

    def _remembered(self, held: Held, nothing: bool) -> Memory:
        before = held.before
        if nothing:
            return self._shared(Memory(None, frozenset(), nothing=True))
        clusters = {bit for _, bit in held.parts if bit != self._own.cluster}
        # No broker has asked for the direction of the only asker.
        directions = {None if each is None else self.direction(each) for each in held.asked}
        if before is not None and not before.nothing:
            clusters |= before.clusters
            directions.add(before.uncovered)
        uncovered = directions.pop() if len(directions) == 1 else None
        return self._shared(Memory(uncovered, frozenset(clusters), nothing=False))

    def _shared(self, memory: Memory) -> Memory:
        """One object for all that are alike: each would take 300 bytes, and few differ."""
        if len(self._alike) >= MAX_ALIKE:
            self._alike.clear()
        return self._alike.setdefault(memory, memory)
