"""Membership rollout for pools that this master owns: every change becomes a new version that is
delivered to all members, however long that takes.

A delivery is a Join or Leave that a member has not acknowledged. Deliveries of a lower stage come
first: a new IAD serves before others send it tasks, and leaves after they have stopped. An
unreachable member delays the next stage by at most `STAGE_S`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from _core.deadlines.order_statistics import task_percentile
from agent.market.terms import Instruction
from agent.runtime.back_off import BackOff
from agent.wire.market import Join, Joined, Leave, Member, Propose, Release, Service, Terms
from agent.wire.operator import CreateService

FIRST_RETRY_S = 0.05
MAX_RETRY_S = 30.0
STAGE_S = 30.0
# Interval at which a settled pool is sent again, so that a member that lost its disk regains its
# services.
REFRESH_S = 60.0


class Delivery(Struct, frozen=True):
    """A change that a member has not acknowledged yet: the current pool, or its removal from it."""

    member: Member
    stage: int = 0
    leave: bool = False


class Owned(Struct, frozen=True):
    """A pool as its owner keeps it on disk.

    `request` is the operator's request. `forming`: the set-up has not ended; a process that
    restores such a pool undoes it. `dropped`: only the deliveries are left.
    """

    request: CreateService
    service: Service
    deliveries: tuple[Delivery, ...] = ()
    forming: bool = False
    dropped: bool = False


class Contact(Instruction, frozen=True):
    """Have a link to that IAD's master."""

    iad: str
    address: str
    keys: tuple[str, ...]


class Send(Instruction, frozen=True):
    iad: str
    message: Propose | Release | Join | Leave


class KeepOwned(Instruction, frozen=True):
    """Write it to disk; `urgent`: before the next instruction."""

    owned: Owned
    urgent: bool


class ForgetOwned(Instruction, frozen=True):
    service_id: str


class Acknowledged(Struct, frozen=True):
    """A member accepted a version (`refusal` empty), or gave its reason not to."""

    service_id: str
    delivery: Delivery
    refusal: str


class Retry:
    """Retransmission timer: short intervals at first, then longer ones."""

    __slots__ = ("_pauses", "due_s")

    def __init__(self, now: float) -> None:
        self.due_s = now
        self._pauses = BackOff(FIRST_RETRY_S, MAX_RETRY_S)

    def sent(self, now: float) -> None:
        """It was sent at `now`."""
        self.due_s = now + self._pauses.next()


class _Open:
    """A delivery in progress."""

    __slots__ = ("delivery", "message_id", "retry")

    def __init__(self, delivery: Delivery, message_id: str, now: float) -> None:
        self.delivery = delivery
        self.message_id = message_id
        self.retry = Retry(now)


class _Pool:
    __slots__ = ("open", "owned", "refresh_s", "stage_until_s")

    def __init__(self, owned: Owned, now: float) -> None:
        self.owned = owned
        self.open: dict[str, _Open] = {}
        self.stage_until_s = now + STAGE_S
        self.refresh_s = now + REFRESH_S

    def sendable(self, now: float) -> list[_Open]:
        """The deliveries that no earlier stage blocks."""
        if now >= self.stage_until_s:
            return list(self.open.values())
        stage = min((o.delivery.stage for o in self.open.values()), default=0)
        return [o for o in self.open.values() if o.delivery.stage == stage]


class MembershipRollout:
    """The owned pools by service id.

    `wall_offset_s` is wall time minus the clock of `now`, updated before every event: versions are
    milliseconds since 1970, or one more than the last, so that a service that is set up again has a
    higher version than before.
    """

    def __init__(self, iad: str, new_id: Callable[[], str], wall_offset_s: float) -> None:
        self._iad = iad
        self._new_id = new_id
        self.wall_offset_s = wall_offset_s
        self._pools: dict[str, _Pool] = {}

    def __contains__(self, service_id: str) -> bool:
        return service_id in self._pools

    def __getitem__(self, service_id: str) -> Owned:
        return self._pools[service_id].owned

    @property
    def living(self) -> dict[str, Owned]:
        """The pools that are not dropped."""
        return {s: p.owned for s, p in self._pools.items() if not p.owned.dropped}

    @property
    def partners(self) -> set[str]:
        """Members, and former members that have not acknowledged their removal."""
        pools = self._pools.values()
        members = {member.iad for pool in pools for member in pool.owned.service.members}
        return members.union(*(pool.open for pool in pools))

    def load(self, kept: Iterable[Owned], now: float) -> list[Instruction]:
        """Restore the state of the previous process."""
        done: list[Instruction] = []
        for owned in kept:
            self._pools[owned.service.id] = pool = _Pool(owned, now)
            if owned.forming:
                done += self.drop(owned.service.id, now)
                continue
            done += [Contact(m.iad, m.address, m.keys) for m in owned.service.members]
            done += self._open(pool, owned.deliveries, now)
        return done

    def version(self, now: float, after: int = 0) -> int:
        """The next version."""
        return max(after + 1, int((now + self.wall_offset_s) * 1e3))

    # --- changes -----------------------------------------------------------------------------

    def form(self, request: CreateService, service: Service, now: float) -> list[Instruction]:
        """A new pool: everybody joins it."""
        deliveries = tuple(Delivery(member) for member in service.members)
        pool = _Pool(Owned(request, service, forming=True), now)
        self._pools[service.id] = pool
        return self._change(pool, service, deliveries, now)

    def formed(self, service_id: str) -> list[Instruction]:
        """The set-up succeeded."""
        pool = self._pools[service_id]
        pool.owned = replace(pool.owned, forming=False)
        return [KeepOwned(pool.owned, urgent=True)]

    def add(
        self, service_id: str, member: Member, terms: Terms | None, now: float
    ) -> list[Instruction]:
        """The member joins, or starts to serve if it only scheduled; it is told first, then the
        others."""
        pool = self._pools[service_id]
        service = pool.owned.service
        others = [m for m in service.members if m.iad != member.iad]
        changed = replace(
            service,
            version=self.version(now, service.version),
            members=(*others, member),
            terms=terms,
        )
        deliveries = (Delivery(member), *(Delivery(m, stage=1) for m in others))
        return self._change(pool, changed, deliveries, now)

    def remove(self, service_id: str, iads: Sequence[str], now: float) -> list[Instruction]:
        """The members leave after the others have been told. The owner itself goes on
        scheduling."""
        pool = self._pools[service_id]
        service = pool.owned.service
        leaving = [m for m in service.members if m.iad in iads and m.iad != self._iad]
        staying = [
            replace(m, areas=(), rate_per_s=0.0) if m.iad in iads else m
            for m in service.members
            if m not in leaving
        ]
        changed = replace(
            service,
            version=self.version(now, service.version),
            members=tuple(staying),
            terms=pool_terms(pool.owned.request, service.terms, staying),
        )
        deliveries = [Delivery(m) for m in staying]
        deliveries += [Delivery(m, stage=1, leave=True) for m in leaving]
        return self._change(pool, changed, deliveries, now)

    def drop(self, service_id: str, now: float) -> list[Instruction]:
        """All members leave."""
        pool = self._pools[service_id]
        service = pool.owned.service
        changed = replace(service, version=self.version(now, service.version), members=())
        pool.owned = replace(pool.owned, forming=False, dropped=True)
        deliveries = [Delivery(member, leave=True) for member in service.members]
        return self._change(pool, changed, deliveries, now)

    def _change(
        self, pool: _Pool, service: Service, deliveries: Sequence[Delivery], now: float
    ) -> list[Instruction]:
        told = {d.member.iad for d in deliveries}
        # Members that left before and have not acknowledged that must still be told.
        still = [
            replace(o.delivery, stage=0)
            for iad, o in pool.open.items()
            if o.delivery.leave and iad not in told
        ]
        pool.owned = replace(pool.owned, service=service, deliveries=(*deliveries, *still))
        pool.stage_until_s = now + STAGE_S
        return [KeepOwned(pool.owned, urgent=True), *self._open(pool, pool.owned.deliveries, now)]

    def _open(self, pool: _Pool, deliveries: Iterable[Delivery], now: float) -> list[Instruction]:
        pool.open = {d.member.iad: _Open(d, self._new_id(), now) for d in deliveries}
        members = [d.member for d in deliveries]
        contacts = [Contact(m.iad, m.address, m.keys) for m in members]
        return [*contacts, *self._send_due(pool, now)]

    # --- deliveries --------------------------------------------------------------------------

    def waiting(self, service_id: str) -> list[Delivery]:
        """Deliveries that are not acknowledged."""
        pool = self._pools.get(service_id)
        return [o.delivery for o in pool.open.values()] if pool else []

    def joined(
        self, iad: str, joined: Joined, now: float
    ) -> tuple[Acknowledged | None, list[Instruction]]:
        """Handle a member's reply; returns its meaning and the instructions."""
        found = self._under_way(iad, joined.id)
        if found is None:
            return None, []
        pool, under_way = found
        service_id = pool.owned.service.id
        said = Acknowledged(service_id, under_way.delivery, "" if joined.ok else joined.message)
        if not joined.ok and not under_way.delivery.leave:
            said = replace(said, refusal=joined.message or "no reason given")
            return said, []
        del pool.open[iad]
        left = tuple(o.delivery for o in pool.open.values())
        pool.owned = replace(pool.owned, deliveries=left)
        if pool.owned.dropped and not left:
            del self._pools[service_id]
            return said, [ForgetOwned(service_id)]
        return said, [KeepOwned(pool.owned, urgent=False), *self._send_due(pool, now)]

    def _under_way(self, iad: str, message_id: str) -> tuple[_Pool, _Open] | None:
        for pool in self._pools.values():
            one = pool.open.get(iad)
            if one is not None and one.message_id == message_id:
                return pool, one
        return None

    @property
    def next_due(self) -> float | None:
        """When `tick` is due next."""
        dues = []
        for pool in self._pools.values():
            if pool.open:
                stage = min(o.delivery.stage for o in pool.open.values())
                dues += [
                    o.retry.due_s
                    if o.delivery.stage == stage
                    else max(o.retry.due_s, pool.stage_until_s)
                    for o in pool.open.values()
                ]
            if not pool.owned.dropped:
                dues.append(pool.refresh_s)
        return min(dues, default=None)

    def tick(self, now: float) -> list[Instruction]:
        """Send again what is due."""
        done: list[Instruction] = []
        for pool in self._pools.values():
            done += self._send_due(pool, now)
            if pool.refresh_s <= now:
                pool.refresh_s = now + REFRESH_S
                done += self._refresh(pool)
        return done

    def _send_due(self, pool: _Pool, now: float) -> list[Instruction]:
        done: list[Instruction] = []
        service = pool.owned.service
        for one in pool.sendable(now):
            if one.retry.due_s <= now:
                one.retry.sent(now)
                message: Join | Leave = Join(one.message_id, service)
                if one.delivery.leave:
                    message = Leave(one.message_id, service.id, service.version, service.owner)
                done.append(Send(one.delivery.member.iad, message))
        return done

    def _refresh(self, pool: _Pool) -> list[Instruction]:
        if pool.owned.dropped or pool.owned.forming:
            return []
        service = pool.owned.service
        return [
            Send(member.iad, Join(self._new_id(), service))
            for member in service.members
            if member.iad not in pool.open
        ]


def pool_terms(
    request: CreateService, terms: Terms | None, members: Sequence[Member]
) -> Terms | None:
    """The terms of a pool with these members: each query may ask all that serve, so the percentile
    of a task is Eq. 2's for all of them, and the slowest rate is the pool's."""
    sellers = [member for member in members if member.areas]
    if terms is None or not sellers:
        return None
    return Terms(
        min(member.rate_per_s for member in sellers),
        task_percentile(request.slo.percentile, len(sellers)),
        terms.budget_ms,
    )


def numbered(run: str) -> Callable[[], str]:
    """Message ids that no earlier process used: `run` differs between starts."""
    numbers = itertools.count(1)
    return lambda: f"{run}-{next(numbers)}"
