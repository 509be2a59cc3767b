"""Lease plane: whether this master is alive, and others are, by the word of a majority of its pool.

`agent.placement.membership.member_lease` decides; here are its clock, its messages and its disk.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable
from functools import partial
from typing import Final

import msgspec

from agent.master.requests.peers import Peers
from agent.master.requests.public_plane import PublicPlane
from agent.master.requests.request_plane import RequestOrigin
from agent.master.storage.state import State
from agent.placement.membership import member_lease as m
from agent.wire.leases import LeaseTold

# Kind and key of the document in the state.
TERMS: Final = "member_terms"
# For how many leases a master with a new state asks for none: it may have lost what it had, which
# its standbys have, and take over when it is silent.
NEW: Final = 2.0


def suspended_too(clock: Callable[[], float]) -> Callable[[], float]:
    """The clock that goes on while the machine is suspended, in place of the one that does not."""
    if clock is time.monotonic:
        return lambda: time.clock_gettime(time.CLOCK_BOOTTIME)
    return clock


class LeasePlane:
    """`members` are all masters that are named in the configuration, this one too: the same at
    each. `life` is greater than at any earlier start. `clock` goes on while this machine is
    suspended: the others' clocks do. Without `turn` it only answers. `new`: nothing was on this
    master's disk at its start."""

    def __init__(
        self,
        clock: Callable[[], float],
        iad: str,
        members: Collection[str],
        state: State,
        public: PublicPlane,
        peers: Peers,
        life: int,
        *,
        new: bool = False,
        timing: m.LeaseTiming | None = None,
    ) -> None:
        self._clock = clock
        self._iad = iad
        self._state = state
        self._peers = peers
        terms = state.read(TERMS, msgspec.msgpack.Decoder(m.Terms).decode).get("", m.Terms())
        timing = timing or m.LeaseTiming()
        self._lease = m.MemberLease(iad, members, terms, timing, self._clock(), life)
        if new:
            self._lease.ask_s += NEW * timing.lease_s
        public.takes(LeaseTold, self._heard)

    @property
    def members(self) -> tuple[str, ...]:
        """All of the pool, this one among them."""
        return self._lease.members

    @property
    def judges(self) -> bool:
        """Whether there is a majority without a master that is dead."""
        return self._lease.majority < len(self._lease.members)

    @property
    def term(self) -> int:
        """In which this master holds, or asks for, its lease."""
        return self._lease.term

    def held(self) -> int | None:
        """The term of the lease that this master holds now; None if it holds none."""
        term = self._lease.term
        return term if self._lease.holds(term, self._clock()) else None

    def silent(self, master: str) -> bool:
        """Whether that master has asked for nothing for as long as a lease."""
        return self._lease.silent(master, self._clock())

    def dead(self, master: str, term: int) -> bool:
        """Whether that term of the master is over, for good."""
        return self._lease.dead(master, term)

    def turn(self, watched: Iterable[tuple[str, int]]) -> None:
        """Ask for the lease, if it is time; judge those masters, each with its term, that are
        silent. A few times a second."""
        now = self._clock()
        self._perform(self._lease.tick(now))
        for master, term in watched:
            if self._lease.silent(master, now) and not self._lease.dead(master, term):
                self._perform(self._lease.judge(master, term, now))

    # --- messages, disk ------------------------------------------------------------------------

    def _heard(self, origin: RequestOrigin, told: LeaseTold, _now: float) -> None:
        sender = origin.sender
        # Without keys a master is whom it says it is, as in all that masters say.
        named = sender.role == "anyone" or (sender.role, sender.name) == ("iad", told.iad)
        if named and told.iad != self._iad and (said := _read(told)) is not None:
            self._perform(self._lease.handle(said, told.iad, self._clock()))

    def _perform(self, instructions: Iterable[m.Instruction]) -> None:
        for each in instructions:
            match each:
                case m.Tell(to, message):
                    self._peers.send(to, _told(self._iad, message))
                case m.Keep(terms):
                    self._state.put(TERMS, "", msgspec.msgpack.encode(terms))
                    self._state.when_durable(partial(self._kept, terms))

    def _kept(self, terms: m.Terms) -> None:
        self._perform(self._lease.handle(m.Written(terms), self._iad, self._clock()))


def _told(iad: str, message: m.Message) -> LeaseTold:
    match message:
        case m.Renew(term, life, asked):
            return LeaseTold(iad, "renew", term, life, asked)
        case m.Granted(term, life, asked):
            return LeaseTold(iad, "granted", term, life, asked)
        case m.Judge(master, term):
            return LeaseTold(iad, "judge", term, master=master)
        case m.Over(master, term):
            return LeaseTold(iad, "over", term, master=master)


def _read(told: LeaseTold) -> m.Message | None:
    """The lease message; None for a word on nobody."""
    kinds: dict[str, Callable[[], m.Message]] = {
        "renew": lambda: m.Renew(told.term, told.life, told.asked_s),
        "granted": lambda: m.Granted(told.term, told.life, told.asked_s),
    }
    if told.what in kinds:
        return kinds[told.what]()
    if told.master is None:
        return None
    kind = m.Judge if told.what == "judge" else m.Over
    return kind(told.master, told.term)
