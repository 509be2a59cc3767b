"""Membership by bootstrap addresses and gossip.

It is HyParView (Leitão, Pereira, Rodrigues 2007): each master has a small symmetric *active view*
of partners with which it has connections and exchanges facts, and a larger *passive view* of
addresses. Addresses travel by shuffles between partners, with ages as in Cyclon (Voulgaris et al.
2005), and what is new is told first and a few times, as SWIM (Das et al. 2002) disseminates. Other
than there nobody declares a third master dead: an address that nobody renews is forgotten.

What is heard of others only says where to dial. A master is believed to be where it is once it has
answered there, on a connection that its key has proved; the shell sees to that.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from math import ceil
from random import Random
from typing import Final

from msgspec import Struct

from agent.runtime.back_off import pause_after
from agent.wire.membership import MAX_TOLD_ADDRESSES, MemberAddress, Members

# All in rounds, but for numbers of things.
SHUFFLES: Final = 2  # partners that a round's messages go to
TOLD: Final = 8  # addresses in a message
NEWS: Final = 8  # messages in which an address counts as new
NEW_AFTER: Final = 6  # a master that was silent for so long and is heard again is news
DIALS: Final = 2  # new connections in a round
TRIAL: Final = 4  # a new connection is given so long
DEAD: Final = 3  # without a connection a partner is kept so long
SILENT: Final = 30  # and with one that says nothing
STALE: Final = 60  # an address is kept after its master was heard by anybody
PROBE: Final = 12  # between looks at an address outside the active view
MIX: Final = 48  # between exchanges of one partner for another
MAX_PAUSE: Final = 64
# Addresses in store, and partners at most, those that are needed included.
MAX_ADDRESSES: Final = 512
MAX_ACTIVE: Final = 64
# An active view fills itself up to this part; the rest is for those who ask.
OWN_PART: Final = 2 / 3

assert TOLD <= MAX_TOLD_ADDRESSES


class _Known:
    """Address of a master, known or reported."""

    __slots__ = ("address", "dial_s", "failures", "heard_s", "iad", "news", "other", "sure", "told")

    def __init__(self, iad: str, address: str, heard_s: float) -> None:
        self.iad = iad
        self.address = address
        self.other = ""  # what else was said; dialled if the first does not answer
        self.sure = False  # it said so itself
        self.heard_s = heard_s  # when anybody heard it
        self.news = NEWS  # in so many messages it is told before others
        self.told = 0  # the number of the message that told it last
        self.failures = 0
        self.dial_s = 0.0


class _Partner(Struct):
    heard_s: float
    missed: int = 0  # rounds without a connection
    asked: int = 0  # the number of the message that it got last


class _Trial(Struct):
    """A connection that has still to prove itself. `wants`: for the active view."""

    address: str
    until_s: float
    wants: bool
    told_s: float | None = None


class Turn(Struct, frozen=True):
    """The connections to have now, by the name of a master or a bootstrap address, with their
    addresses; and what is to be sent on them."""

    links: Mapping[str, str]
    tell: list[tuple[str, Members]]


class Membership:
    """A master's knowledge of others. `now` is its own monotonic clock. `admits(iad)`: whether its
    operator calls that master one of its own; others are neither kept nor dialled. `fixed` are
    partners by configuration: their connections are not of this machine, and stay."""

    def __init__(
        self,
        iad: str,
        address: str,
        bootstrap: Collection[str],
        fixed: Collection[str],
        *,
        view: int,
        round_s: float,
        now: float,
        random: Random,
        admits: Callable[[str], bool] = lambda _: True,
    ) -> None:
        self._iad = iad
        self._address = address
        self._doors = [each for each in dict.fromkeys(bootstrap) if each != address]
        self._fixed = frozenset(fixed)
        self._view = view
        self._own_part = max(1, ceil(view * OWN_PART))
        self._round_s = round_s
        self._random = random
        self._admits = admits
        self._known: dict[str, _Known] = {}
        self._active: dict[str, _Partner] = {}
        self._trials: dict[str, _Trial] = {}
        # Those of the configuration that take part in this: when they were asked last.
        self._taking_part: dict[str, int] = {}
        self._needed: Collection[str] = ()
        self._number = 0
        self._dials = DIALS
        self._round_at_s = now
        self._probe_s = now
        self._mix_s = now + self._mix_pause_s
        self.next_due = now
        self.counters = {"members_dialled": 0, "members_failed": 0, "members_lost": 0}

    # --- what is known -------------------------------------------------------------------------

    @property
    def partners(self) -> dict[str, str]:
        """Name and address of the masters in the active view that were found."""
        return {iad: self._known[iad].address for iad in self._active}

    @property
    def addresses(self) -> dict[str, str]:
        """All masters that are known, partners or not."""
        return {iad: each.address for iad, each in self._known.items()}

    @property
    def _mix_pause_s(self) -> float:
        return MIX * self._round_s * self._random.uniform(0.5, 1.5)

    # --- time ----------------------------------------------------------------------------------

    def turn(self, now: float, connected: Collection[str], needed: Collection[str]) -> Turn:
        """Call when it is due. `connected`: links, fixed ones included, that the other end has
        accepted. `needed`: masters that have to be in the active view. O(known · log known)."""
        self._needed = needed
        tell: list[tuple[str, Members]] = []
        whole = now >= self._round_at_s
        if whole:
            self._round_at_s = now + self._round_s
            self._dials = DIALS
            self._forget(now)
            self._look_after_partners(now, connected)
        self._look_after_trials(now, connected, tell)
        self._fill(now)
        if whole:
            if now >= self._probe_s:
                self._probe(now, connected, tell)
            self._shuffle(now, connected, tell)
        waits = any(each.told_s is None for each in self._trials.values())
        soon = now + self._round_s / 4 if waits else self._round_at_s
        self.next_due = min(self._round_at_s, soon)
        trials = {name: each.address for name, each in self._trials.items()}
        return Turn({**self.partners, **trials}, tell)

    def _forget(self, now: float) -> None:
        for iad, each in list(self._known.items()):
            stale = now - each.heard_s > STALE * self._round_s
            if not self._admits(iad) or (stale and iad not in self._active):
                self._drop(iad)
                self._trials.pop(iad, None)
                del self._known[iad]

    def _look_after_partners(self, now: float, connected: Collection[str]) -> None:
        for iad, each in list(self._active.items()):
            each.missed = 0 if iad in connected else each.missed + 1
            if each.missed > DEAD or now - each.heard_s > SILENT * self._round_s:
                self.counters["members_lost"] += 1
                self._drop(iad)
                self.failed(iad, now)

    def _look_after_trials(
        self, now: float, connected: Collection[str], tell: list[tuple[str, Members]]
    ) -> None:
        for name, each in list(self._trials.items()):
            if now >= each.until_s:
                del self._trials[name]
                self.failed(name, now)
            elif name in connected and (each.told_s is None or now - each.told_s >= self._round_s):
                each.told_s = now
                tell.append((name, self._message(name, each.wants, now)))

    def _fill(self, now: float) -> None:
        for iad in sorted(self._needed):
            if iad not in self._fixed and iad not in self._active:
                self._dial(iad, True, now)
        wanted = sum(each.wants for each in self._trials.values())
        lacks = self._own_part - len(self._fixed) - len(self._active) - wanted
        if lacks > 0 and self._dials > 0:
            for iad in self._others(min(lacks, self._dials), now):
                self._dial(iad, True, now)
        if not self._active and not self._taking_part and not self._trials and self._doors:
            self._dial_door(now)

    def _probe(
        self, now: float, connected: Collection[str], tell: list[tuple[str, Members]]
    ) -> None:
        """Look outside the active view, and now and then exchange one of it: so the parts of a
        partition find each other again, and partners of the configuration that have learned to
        take part are found."""
        self._probe_s = now + PROBE * self._round_s * self._random.uniform(0.75, 1.25)
        quiet = sorted(self._fixed.intersection(connected) - self._taking_part.keys())
        if quiet:
            iad = self._random.choice(quiet)
            tell.append((iad, self._message(iad, True, now)))
        if self._doors and self._random.random() < 0.5:
            self._dial_door(now)
            return
        for iad in self._others(1, now):
            wants = now >= self._mix_s and len(self._active) + len(self._fixed) < self._view
            if wants:
                self._mix_s = now + self._mix_pause_s
            self._dial(iad, wants, now)

    def _shuffle(
        self, now: float, connected: Collection[str], tell: list[tuple[str, Members]]
    ) -> None:
        asked = {iad: each.asked for iad, each in self._active.items()} | self._taking_part
        ready = [iad for iad in asked if iad in connected]
        self._random.shuffle(ready)
        for iad in sorted(ready, key=lambda each: asked[each])[:SHUFFLES]:
            tell.append((iad, self._message(iad, True, now)))
            if iad in self._active:
                self._active[iad].asked = self._number
            else:
                self._taking_part[iad] = self._number

    # --- connections ---------------------------------------------------------------------------

    def _others(self, count: int, now: float) -> list[str]:
        """Some at random that are neither partners nor on trial, and may be dialled."""
        free = [
            iad
            for iad, each in self._known.items()
            if each.dial_s <= now
            and not (iad in self._active or iad in self._trials or iad in self._fixed)
        ]
        return self._random.sample(free, min(count, len(free)))

    def _dial(self, iad: str, wants: bool, now: float) -> None:
        known = self._known.get(iad)
        if known is None or known.dial_s > now:
            return
        self._try(iad, known.address, wants, now)

    def _dial_door(self, now: float) -> None:
        """Ask a bootstrap address who is there; its answer counts as hearsay, too."""
        door = self._random.choice(self._doors)
        here = [iad for iad, each in self._known.items() if each.sure and each.address == door]
        if here and here[0] in self._active:
            return
        self._try(door, door, False, now)

    def _try(self, name: str, address: str, wants: bool, now: float) -> None:
        if self._dials <= 0 or name in self._trials:
            return
        self._dials -= 1
        self.counters["members_dialled"] += 1
        self._trials[name] = _Trial(address, now + TRIAL * self._round_s, wants)

    def failed(self, name: str, now: float) -> None:
        """That connection has come to nothing, or cannot be made."""
        self._trials.pop(name, None)
        self._active.pop(name, None)
        if (known := self._known.get(name)) is None:
            return
        self.counters["members_failed"] += 1
        pause = pause_after(known.failures, 1.0, MAX_PAUSE) * self._random.uniform(0.5, 1.0)
        known.dial_s = now + pause * self._round_s
        known.failures += 1
        if known.other:
            known.address, known.other = known.other, known.address
            known.sure = False

    def _drop(self, iad: str) -> None:
        self._active.pop(iad, None)

    # --- messages ------------------------------------------------------------------------------

    def heard(self, message: Members, now: float) -> Members | None:
        """A master has said this, and has proved who it is; the answer. None: it is not one of this
        operator's."""
        iad = message.iad
        if iad == self._iad or not self._admits(iad):
            return None
        self._confirm(message, now)
        if iad in self._fixed:
            self._taking_part.setdefault(iad, 0)
        elif (partner := self._active.get(iad)) is not None:
            partner.heard_s = now
            if not message.view and iad not in self._needed:
                self._drop(iad)
        elif message.view and self._has_room(iad, needs=message.needs):
            self._join(iad, now)
        return self._message(iad, self._wants(iad), now)

    def answered(self, name: str, message: Members, now: float) -> None:
        """The answer on the connection of this name."""
        iad, trial = message.iad, self._trials.pop(name, None)
        if name not in self._known and name not in self._fixed:  # a bootstrap address
            if iad == self._iad:
                self._doors = [door for door in self._doors if door != name]
                return
            self._hear([MemberAddress(iad, message.address, 0), *message.known], now)
            return
        if iad != name:
            self._drop(name)
            self.failed(name, now)
            return
        if not self._admits(iad):
            return
        known = self._confirm(message, now)
        known.failures = 0
        if iad in self._fixed:
            self._taking_part.setdefault(iad, 0)
        elif (partner := self._active.get(iad)) is not None:
            partner.heard_s = now
            if not message.view:
                self._drop(iad)
        elif trial is not None and trial.wants and message.view and self._has_place:
            self._join(iad, now)
            self._part_with_one(now, iad)
        known.dial_s = now + self._round_s * self._random.uniform(1.0, 4.0)

    def _wants(self, iad: str) -> bool:
        trial = self._trials.get(iad)
        return iad in self._active or iad in self._fixed or (trial is not None and trial.wants)

    def _has_room(self, iad: str, *, needs: bool) -> bool:
        if needs or iad in self._needed or self._wants(iad):
            return self._has_place
        return len(self._active) + len(self._fixed) < self._view

    def _part_with_one(self, now: float, newest: str) -> None:
        """A view that this master made too large itself loses one."""
        if len(self._active) + len(self._fixed) <= self._own_part or newest in self._needed:
            return
        free = sorted(iad for iad in self._active if iad != newest and iad not in self._needed)
        if free:
            iad = self._random.choice(free)
            self._drop(iad)
            # It is told so before the connection ends.
            until_s = now + TRIAL * self._round_s
            self._trials[iad] = _Trial(self._known[iad].address, until_s, wants=False)

    @property
    def _has_place(self) -> bool:
        return len(self._active) < MAX_ACTIVE

    def _join(self, iad: str, now: float) -> None:
        self._trials.pop(iad, None)
        self._active[iad] = _Partner(now)

    def _message(self, to: str, view: bool, now: float) -> Members:
        self._number += 1
        needs = view and (to in self._needed or to in self._fixed)
        return Members(self._iad, self._address, view, needs, tuple(self._selection(to, now)))

    def _selection(self, to: str, now: float) -> list[MemberAddress]:
        """New entries, newest first; then those that were told longest ago."""
        oldest = now - STALE * self._round_s
        rows = [e for e in self._known.values() if e.heard_s >= oldest and e.iad != to]
        rows.sort(key=lambda e: (0, -e.heard_s) if e.news else (1, e.told))
        for each in rows[:TOLD]:
            each.news = max(0, each.news - 1)
            each.told = self._number
        return [
            MemberAddress(e.iad, e.address, ceil(max(0.0, now - e.heard_s) * 1e3))
            for e in rows[:TOLD]
        ]

    def _confirm(self, message: Members, now: float) -> _Known:
        """A master itself says where it is."""
        known = self._known.get(message.iad)
        if known is None:
            if len(self._known) >= MAX_ADDRESSES:
                self._make_room()
            known = self._known[message.iad] = _Known(message.iad, message.address, now)
        elif known.address != message.address:
            known.address, known.other, known.news, known.dial_s = message.address, "", NEWS, now
        elif now - known.heard_s > NEW_AFTER * self._round_s:
            known.news, known.dial_s = NEWS, min(known.dial_s, now)
        known.sure, known.heard_s = True, now
        self._hear(message.known, now)
        return known

    def _make_room(self) -> None:
        free = [each for each in self._known.values() if each.iad not in self._active]
        away = min(free, key=lambda each: (each.sure, each.heard_s))
        self._trials.pop(away.iad, None)
        del self._known[away.iad]

    def _hear(self, told: Iterable[MemberAddress], now: float) -> None:
        """Take the statements of others about masters."""
        for each in told:
            heard_s = now - each.age_ms / 1e3
            if each.iad == self._iad or each.age_ms / 1e3 > STALE * self._round_s:
                continue
            known = self._known.get(each.iad)
            if known is None:
                if len(self._known) < MAX_ADDRESSES and self._admits(each.iad):
                    self._known[each.iad] = _Known(each.iad, each.address, heard_s)
            elif known.address == each.address:
                if heard_s - known.heard_s > NEW_AFTER * self._round_s:
                    known.news = max(known.news, NEWS // 2)
                known.heard_s = max(known.heard_s, heard_s)
            elif known.sure or heard_s <= known.heard_s:
                known.other = each.address
            else:
                known.address, known.other, known.heard_s = each.address, known.address, heard_s
                known.news = NEWS
