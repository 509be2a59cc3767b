"""Gossip between masters: versioned, lossy, idempotent. A message holds all that its master knows
of itself, so after losses, duplicates and delays the newest one stands."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Collection
from math import inf
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from agent.placement.membership.alike import alike
from agent.wire.placement import (
    MAX_PLACED,
    Delay,
    HomeFacts,
    KnownFacts,
    Listeners,
    PlacementFacts,
    SameFacts,
)

# Facts are believed for so many of the intervals that they name.
LASTS: Final = 3
ACTIVE_S: Final = 5.0
# To a master that does not answer, perhaps since its release does not know this.
IDLE_S: Final = 60.0
# An operator's look wakes this master for so long.
AWAKE_S: Final = 60.0
# What a silent master told is shown for so long.
FORGET_S: Final = 3_600.0
MAX_KNOWN: Final = 511
SAMPLES: Final = 64
UNANSWERED: Final = 4


class _Heard(Struct, frozen=True):
    """`told_as`: the number that these facts had when they were told in full."""

    facts: PlacementFacts
    at_s: float
    told_as: int


class _Peer:
    """The round trips to one master."""

    __slots__ = ("full", "has", "next_s", "numbers", "samples", "unanswered")

    def __init__(self) -> None:
        self.next_s = 0.0
        self.numbers: dict[int, float] = {}  # sent, not yet echoed
        # The number of the newest facts that were told in full, and those that it has.
        self.full: tuple[int, PlacementFacts] | None = None
        self.has: tuple[int, PlacementFacts] | None = None
        self.samples: deque[tuple[float, float]] = deque(maxlen=SAMPLES)  # (when, seconds one way)
        self.unanswered = 0


class Gossip:
    """The facts of one master about itself and the others. `now` is its own monotonic clock; no
    clock of another master is ever compared with it."""

    def __init__(
        self, iad: str, epoch: int, now: float, active_s: float = ACTIVE_S, idle_s: float = IDLE_S
    ) -> None:
        """`epoch`: greater than that of any earlier process of this master."""
        self._iad = iad
        self._epoch = epoch
        self._active_s = active_s
        self._idle_s = max(active_s, idle_s)
        self._awake_s = now
        self._idle_at_s = -inf  # when this master last said nothing, for want of a reason
        self._number = 0
        self._heard: dict[str, _Heard] = {}
        self._peers: dict[str, _Peer] = {}
        # Facts that were told, until those of now are unlike them.
        self._standing: PlacementFacts | None = None
        self._looked_at: PlacementFacts | None = None

    # -- telling ---------------------------------------------------------------------------------

    def wake(self, now: float) -> None:
        """Somebody looks, or there is something to place: tell often for a while."""
        if now >= self._awake_s:
            for peer in self._peers.values():
                peer.next_s = min(peer.next_s, now)
        self._awake_s = now + AWAKE_S

    def due(self, peers: Collection[str], busy: bool, now: float) -> list[str]:
        """The masters to tell now. `busy`: this one has something to place. O(peers)."""
        for gone in [iad for iad in self._peers if iad not in peers]:
            del self._peers[gone]
        if not self.active(busy, now):
            self._idle_at_s = now
            return []
        found = []
        for iad in sorted(peers):
            if iad == self._iad:
                continue
            peer = self._peers.setdefault(iad, _Peer())
            if peer.unanswered < UNANSWERED:
                peer.next_s = min(peer.next_s, now + self._active_s)
            if peer.next_s <= now:
                found.append(iad)
        return found

    def next_due(self, now: float) -> float:
        """When somebody is to be told next, or looked for."""
        dues = [peer.next_s for peer in self._peers.values() if peer.next_s > now]
        return min([now + self._active_s, *dues])

    def tell(self, iad: str, own: PlacementFacts, now: float) -> PlacementFacts | SameFacts:
        """The message for that master, which is being sent now: a short one, if it has said that it
        has what is as good as this."""
        peer = self._peers[iad]
        next_s = self._active_s if peer.unanswered < UNANSWERED else self._idle_s
        peer.next_s = now + next_s
        if own is self._looked_at and self._knows(peer):
            self._number += 1
            return self._same(peer, next_s)
        facts = self._numbered(own, now, next_s)
        if own is not self._looked_at:  # The others are told the same in this round.
            self._looked_at = own
            if self._standing is None or not alike(facts, self._standing):
                self._standing = facts
        if self._knows(peer):
            return self._same(peer, next_s)
        peer.full, peer.has = (self._number, self._standing or facts), None
        return _meant_for(iad, facts)

    def newest(self, iad: str, own: PlacementFacts, now: float) -> PlacementFacts:
        """What that master may know of this one now, newer than all that was told before."""
        if (peer := self._peers.get(iad)) is not None:
            peer.full = peer.has = None  # What short messages refer to is not what it has then.
        return _meant_for(iad, self._numbered(own, now, self._active_s))

    def _numbered(self, own: PlacementFacts, now: float, next_s: float) -> PlacementFacts:
        self._number += 1
        return replace(
            own, iad=self._iad, epoch=self._epoch, number=self._number, next_s=next_s,
            delays=tuple(self.delays(now)), wants=is_busy(own) or now < self._awake_s,
        )  # fmt: skip

    def _knows(self, peer: _Peer) -> bool:
        return peer.has is not None and peer.has[1] is self._standing and peer.unanswered < 2

    def _same(self, peer: _Peer, next_s: float) -> SameFacts:
        assert peer.has is not None
        return SameFacts(self._iad, self._epoch, self._number, next_s, peer.has[0])

    def sent(self, iad: str, number: int, now: float) -> None:
        """The message with this number has left for a master that is connected."""
        peer = self._peers[iad]
        peer.numbers[number] = now
        while len(peer.numbers) > UNANSWERED:
            del peer.numbers[min(peer.numbers)]
        peer.unanswered += 1

    def not_sent(self, iad: str, now: float) -> None:
        """That master is not connected now: try again soon."""
        self._peers[iad].next_s = now + self._active_s

    def echoed(self, iad: str, epoch: int, number: int, now: float, *, short: bool = False) -> None:
        """That master has answered a message; it knows `short` ones."""
        peer = self._peers.get(iad)
        if peer is None or epoch != self._epoch:
            return
        sent_s = peer.numbers.pop(number, None)
        if short and peer.full is not None and number == peer.full[0]:
            peer.has = peer.full
        if sent_s is not None:
            peer.samples.append((now, (now - sent_s) / 2))
            peer.unanswered = 0

    def delays(self, now: float) -> list[Delay]:
        """The delays to other masters, in ms one way."""
        found = []
        for iad, peer in sorted(self._peers.items()):
            if peer.samples:
                ways = sorted(way for _, way in peer.samples)
                p50, p90 = (ways[min(len(ways) - 1, len(ways) * n // 10)] for n in (5, 9))
                age_s = max(0.0, now - peer.samples[-1][0])
                found.append(Delay(iad, round(p50 * 1e3, 4), round(p90 * 1e3, 4), round(age_s, 3)))
        return found

    def active(self, busy: bool, now: float) -> bool:
        """Whether there is anything to tell: of this master, which is `busy`, or of another."""
        if now < self._awake_s or busy:
            return True
        return any(each.facts.wants and self._fresh(each, now) for each in self._known())

    # -- hearing ---------------------------------------------------------------------------------

    def heard(self, facts: PlacementFacts, now: float) -> bool:
        """Another master has told something; whether it is news. O(1), or O(masters) if as many are
        known as may be."""
        known = self._heard.get(facts.iad)
        if facts.iad == self._iad or (known is None and not self._has_room(now)):
            return False
        # A master that has lost its disk, and whose clock went back, begins below: it counts once
        # what it told before is out of date.
        if (
            known is not None
            and _version(facts) <= _version(known.facts)
            and (self._fresh(known, now) or facts.epoch == known.facts.epoch)
        ):
            return False
        self._heard[facts.iad] = _Heard(facts, now, facts.number)
        if (peer := self._peers.get(facts.iad)) is not None and peer.unanswered >= UNANSWERED:
            peer.unanswered = 1  # It is there again, and may have forgotten what it had.
        return True

    def heard_same(self, same: SameFacts, now: float) -> bool:
        """Another master says that it has nothing new; whether this one has what it means. O(1)."""
        known = self._heard.get(same.iad)
        if known is None or (known.facts.epoch, known.told_as) != (same.epoch, same.same_as):
            return False
        if same.number > known.facts.number:
            facts = replace(known.facts, number=same.number, next_s=same.next_s)
            self._heard[same.iad] = _Heard(facts, now, known.told_as)
        return True

    def told_by(self, iad: str) -> PlacementFacts:
        """The last message of that master; KeyError if nothing."""
        return self._heard[iad].facts

    def fresh(self, now: float) -> dict[str, PlacementFacts]:
        """What masters told that are not silent. O(masters)."""
        return {each.facts.iad: each.facts for each in self._known() if self._fresh(each, now)}

    def unheard(self, peers: Collection[str]) -> list[str]:
        """Those that have told nothing since this process began, or not for long. O(peers)."""
        return [iad for iad in peers if iad not in self._heard]

    def known(self, now: float) -> list[KnownFacts]:
        """Last messages of masters, those that are silent now included, by name."""
        for iad in [i for i, each in self._heard.items() if now - each.at_s > FORGET_S]:
            if self._silent(self._heard[iad], now):
                del self._heard[iad]
        found = [
            KnownFacts(each.facts, round(now - each.at_s, 3), silent=self._silent(each, now))
            for each in self._known()
        ]
        return sorted(found, key=lambda each: each.facts.iad)

    def _silent(self, heard: _Heard, now: float) -> bool:
        """Whether that master should have told something. While masters are idle none does, and
        this one has to be awake for a while before they have."""
        is_awake = now - self._idle_at_s > LASTS * self._active_s
        return is_awake and not self._fresh(heard, now)

    def _has_room(self, now: float) -> bool:
        """Partners come and go for months: the one that was heard longest ago makes room."""
        if len(self._heard) < MAX_KNOWN:
            return True
        oldest = min(self._heard.values(), key=lambda each: each.at_s)
        if self._fresh(oldest, now):
            return False
        del self._heard[oldest.facts.iad]
        return True

    def _known(self) -> list[_Heard]:
        return list(self._heard.values())

    def _fresh(self, heard: _Heard, now: float) -> bool:
        return now - heard.at_s <= LASTS * min(heard.facts.next_s, self._idle_s)


def _meant_for(iad: str, facts: PlacementFacts) -> PlacementFacts:
    """Of homes those that may live at that master."""
    return with_homes(facts, lambda home: iad in home.delays_ms)


def with_homes(facts: PlacementFacts, named: Callable[[HomeFacts], bool]) -> PlacementFacts:
    """The facts with these of the homes; what the others hear is heard by somebody at that
    master. O(homes + listeners)."""
    others = [home for home in facts.homes if not named(home)]
    if not others:
        return facts
    heard = Counter({each.topic: each.count for each in facts.listeners})
    heard.update(topic for home in others for topic in home.hears)
    listeners = [Listeners(*each) for each in sorted(heard.items())]
    return replace(
        facts, homes=tuple(filter(named, facts.homes)), listeners=tuple(listeners[:MAX_PLACED])
    )


def _version(facts: PlacementFacts) -> tuple[int, int]:
    return facts.epoch, facts.number


def is_busy(facts: PlacementFacts) -> bool:
    """Whether a master has something to place. Masters of which none has say nothing at all: so
    nothing of this crosses the border of an IAD that does not use it."""
    return bool(facts.topics or facts.homes or facts.pins or facts.mode != "open")
