"""Leases of masters: one is alive while a majority of the others says so.

A master asks every member for its lease again and again, in a *term* of its own. It holds the lease
while a majority has granted it, counted from before it asked, and a tenth shorter than they count
(the idea is PaxosLease's). A member whose grant has ended may give its word, on disk, that the term
is over: it grants that term no more. When a majority has, the master is *dead in that term*: it
holds no lease, and never will again under this term. So there is nothing to elect: the only word
that can be given is "over", and it is never taken back.

Times are each master's own monotonic clock. Clocks may run apart by `APART`.
"""

from __future__ import annotations

from collections.abc import Collection
from math import inf
from typing import Final

from msgspec import Struct

# By how much shorter the holder counts.
SHORTER: Final = 0.1
# How much faster or slower than it should a master's clock may run: (1 − SHORTER) / (1 − APART) is
# less than 1 / (1 + APART).
APART: Final = 0.05
# A term this far beyond what is known of a master is no term: one word of one member must not use
# up all numbers that there are. A master that dies with each lease gets there in ten days.
MAX_AHEAD: Final = 1 << 20


class Terms(Struct, frozen=True, array_like=True):
    """A member's state on disk: its own term, and by master up to which term it is over."""

    own: int = 1
    over: dict[str, int] = {}


# -- messages ------------------------------------------------------------------------------------


class Renew(Struct, frozen=True, tag=True):
    """Holder → member: the lease in this term, please. `asked` is the holder's clock, `life` a
    number of this process."""

    term: int
    life: int
    asked: float


class Granted(Struct, frozen=True, tag=True):
    """Member → holder: yes, to that question."""

    term: int
    life: int
    asked: float


class Judge(Struct, frozen=True, tag=True):
    """Member → member: is this term of that master over?"""

    master: str
    term: int


class Over(Struct, frozen=True, tag=True):
    """Member → member, or → the master itself: it is over up to this term, on disk."""

    master: str
    term: int


Message = Renew | Granted | Judge | Over


class Written(Struct, frozen=True):
    """The shell: these are on stable storage."""

    terms: Terms


Event = Message | Written


# -- instructions --------------------------------------------------------------------------------


class Tell(Struct, frozen=True):
    """Send a message. It may be lost: whoever needs the answer asks again."""

    to: str
    message: Message


class Keep(Struct, frozen=True):
    """Write them, then say `Written`. Writes keep their order."""

    terms: Terms


Instruction = Tell | Keep


class LeaseTiming(Struct, frozen=True):
    """Durations in seconds."""

    lease_s: float = 3.0
    every_s: float = 1.0  # between two times that the lease is asked for


class MemberLease:
    """A master's own lease, and its word on others. One at each master; `members` are the same at
    all, this one among them. `terms` is what was on disk at the start, `life` a number that no
    earlier process of this master had. All attributes but `granted`, `until`, `said`, `asked` are
    immutable values. O(members) each."""

    __slots__ = (
        "ask_s",
        "asked",
        "granted",
        "life",
        "looked_s",
        "me",
        "members",
        "said",
        "started_s",
        "terms",
        "timing",
        "until",
        "wanted",
    )

    def __init__(
        self,
        me: str,
        members: Collection[str],
        terms: Terms,
        timing: LeaseTiming,
        now: float,
        life: int,
    ) -> None:
        self.me = me
        self.members = tuple(sorted({me, *members}))
        self.timing = timing
        self.life = life
        self.terms = terms  # on disk
        self.wanted = terms  # the same, or what is being written
        # What an earlier process granted is forgotten. It has ended a lease after the start.
        self.started_s = now
        self.looked_s = now
        self.ask_s = now
        self.granted: dict[str, float] = {}  # by member, when this term was asked for
        self.until: dict[str, float] = {}  # by master, when the grant to it ends
        self.said: dict[str, dict[str, int]] = {}  # by master and member, which term is over
        self.asked: dict[str, int] = {}  # by master, the last term that it asked for

    @property
    def majority(self) -> int:
        """How many that is."""
        return len(self.members) // 2 + 1

    @property
    def term(self) -> int:
        """In which it holds, or asks for, its lease."""
        return self.terms.own

    @property
    def until_s(self) -> float:
        """When the lease ends that a majority has granted; −inf if none has."""
        asked = sorted(self.granted.values(), reverse=True)
        if len(asked) < self.majority:
            return -inf
        return asked[self.majority - 1] + self.timing.lease_s * (1 - SHORTER)

    def holds(self, term: int, now: float) -> bool:
        """Whether this master is alive in this term, for all that others may believe: asked before
        anything is put out."""
        return term == self.term and now < self.until_s

    def silent(self, master: str, now: float) -> bool:
        """Whether the grant to that master has ended here, so that it may be judged."""
        return now >= max(self.until.get(master, -inf), self.started_s + self.timing.lease_s)

    def dead(self, master: str, term: int) -> bool:
        """Whether a majority has given its word, as far as this member knows, that this term of the
        master is over."""
        said = self.said.get(master, {}).values()
        own = self.terms.over.get(master, 0) >= term
        return sum(each >= term for each in said) + own >= self.majority

    @property
    def next_due(self) -> float:
        """When the next `tick` is due."""
        return self.ask_s

    def tick(self, now: float) -> list[Instruction]:
        """Ask for the lease, if it is time. Several times a lease."""
        if now - self.looked_s > self.timing.lease_s:
            # It was stopped or suspended: what the others said meanwhile is not read yet.
            self.started_s = now
        self.looked_s = now
        if now < self.ask_s:
            return []
        self.ask_s = now + self.timing.every_s
        if self.wanted.own == self.term:
            self.granted[self.me] = now
        return self._tell_all(Renew(self.term, self.life, now))

    def judge(self, master: str, term: int, now: float) -> list[Instruction]:
        """Ask everybody, this one too, whether that term is over. Said again until it is, or the
        master is heard."""
        others = self._tell_all(Judge(master, term))
        return [*self._judged(Judge(master, term), self.me, now), *others]

    def handle(self, event: Event, sender: str, now: float) -> list[Instruction]:
        """The instructions that follow from a message of that member, or the shell's report."""
        if isinstance(event, Written):
            return self._written(event.terms)
        if sender not in self.members:
            return []
        match event:
            case Renew():
                return self._asked(event, sender, now)
            case Granted(term, life, asked) if (term, life) == (self.term, self.life):
                if self.wanted.own == term and asked <= now:
                    self.granted[sender] = max(asked, self.granted.get(sender, asked))
            case Judge():
                return self._judged(event, sender, now)
            case Over(self.me, term):
                return self._ended(term, now)
            case Over(master, term) if master in self.members:
                said = self.said.setdefault(master, {})
                said[sender] = max(term, said.get(sender, 0))
        return []

    def _asked(self, renew: Renew, sender: str, now: float) -> list[Instruction]:
        if renew.term <= (over := self.wanted.over.get(sender, 0)):
            # While it is only being written nobody is told: it may be lost with this process.
            known = self.terms.over.get(sender, 0) == over
            return [Tell(sender, Over(sender, over))] if known else []
        self.asked[sender] = renew.term
        self.until[sender] = now + self.timing.lease_s
        return [Tell(sender, Granted(renew.term, renew.life, renew.asked))]

    def _judged(self, judge: Judge, sender: str, now: float) -> list[Instruction]:
        master, term = judge.master, judge.term
        over = self.terms.over.get(master, 0)
        if over >= term:
            return [] if sender == self.me else [Tell(sender, Over(master, over))]
        known = master in self.members and master != self.me
        if term > max(over, self.asked.get(master, 0)) + MAX_AHEAD:
            return []
        if not known or self.wanted.over.get(master, 0) >= term or not self.silent(master, now):
            return []
        return self._keep(Terms(self.wanted.own, {**self.wanted.over, master: term}))

    def _ended(self, term: int, now: float) -> list[Instruction]:
        """A member grants this term no more. While a majority does, it is as good as any."""
        if not self.wanted.own <= term <= self.wanted.own + MAX_AHEAD or now < self.until_s:
            return []
        self.granted = {}
        return self._keep(Terms(term + 1, self.wanted.over))

    def _keep(self, terms: Terms) -> list[Instruction]:
        self.wanted = terms
        return [Keep(terms)]

    def _written(self, terms: Terms) -> list[Instruction]:
        before, self.terms = self.terms, terms
        told: list[Instruction] = []
        for master, term in terms.over.items():
            if term > before.over.get(master, 0):
                told += self._tell_all(Over(master, term))
        if terms.own != before.own:
            self.ask_s = -inf  # It has a term that it can hold.
        return told

    def _tell_all(self, message: Message) -> list[Instruction]:
        return [Tell(to, message) for to in self.members if to != self.me]
