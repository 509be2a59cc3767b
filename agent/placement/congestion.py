"""Cost of load at a master: the papers' four models behind one interface.

The cost of a master is a function of its account alone, in seconds of delay a second, so a unit's
price is exactly by how much it raises the cost of all (a toll, in Flock's game). An infinite price
means that the master may not have the unit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from math import inf
from typing import Final

from agent.placement.latency_model import LatencyModel, Tail
from agent.placement.placement import Account, Placement
from agent.placement.world import Master, World, checked

# Sums of floats that were added and taken away again may be off by this share.
ROUNDING = 1e-9
# What a processor costs at the delegate, in seconds of delay a second: more than the opening of a
# master and a move may, and little enough for a float to tell nanoseconds beside it.
DELEGATED_S: Final = 1e7
# Of waiting: a master's load is spread evenly over its cores, each with a queue of its own in which
# messages of one length come by chance (M/D/1). With load r a core, r²/2(1 − r) wait in one, by
# Little's law seconds of waiting a second; all cores together D²/2(γ − D). One queue for all cores
# waits less, messages of unequal lengths wait longer.
WAITING_S: Final = 0.5


class Addition:
    """A unit's addition to a master's account."""

    __slots__ = (
        "deliveries",
        "distance",
        "load",
        "processor",
        "published",
        "storage",
        "subscribed",
    )

    def __init__(
        self,
        load: float = 0.0,
        storage: float = 0.0,
        deliveries: float = 0.0,
        distance: float = 0.0,
        processor: str | None = None,
        published: Mapping[str, float] | None = None,
        subscribed: Mapping[str, None] | None = None,
    ) -> None:
        self.load = load
        self.storage = storage
        self.deliveries = deliveries
        self.distance = distance
        self.processor = processor
        self.published = published or {}
        self.subscribed = subscribed or {}


NOTHING = Addition()


class Congestion:
    """No congestion at all; the kinds below override what differs for them."""

    far_s = 0.0  # how long a delegated message takes between two homes

    def check(self, world: World) -> None:
        """PlacementError, once before any price, if it names what is not in the world."""

    def cost(self, placement: Placement, at: int, plus: Addition) -> float:
        """Cost of the master's account with this addition; infinity if it may not be so."""
        return 0.0

    def toll(self, placement: Placement, at: int, plus: Addition) -> float:
        """By how much the master's cost rises with this addition; infinity if it may not be."""
        after = self.cost(placement, at, plus)
        if not after or after == inf:  # Nothing is cheaper for one unit more.
            return after
        now = self.cost(placement, at, NOTHING)
        # Were the master full without it, and not with it, it would cost nothing to let it in.
        return after - (now if now < inf else 0.0)

    def tolls(self, placement: Placement, plus: Addition) -> list[float]:
        """The toll of the same addition at each master. O(masters) of `toll`."""
        return [self.toll(placement, at, plus) for at in range(len(placement.accounts))]

    def delegated(self, placement: Placement, at: int, topic: str) -> float:
        """The share of a topic's messages of publishers here that goes to the cloud."""
        return 0.0

    def reason(self, placement: Placement, at: int, plus: Addition) -> str:
        """Why the cost is infinite, in a few words."""
        return "full"


def fits(master: Master, account: Account, plus: Addition) -> bool:
    """Whether the account keeps the master's limits with the addition."""
    return (
        account.storage + plus.storage <= master.storage_bytes * (1 + ROUNDING)
        and account.load + plus.load <= master.compute * (1 + ROUNDING)
        and len(account.processors) + (plus.processor is not None) <= master.max_processors
    )


class Limits(Congestion):
    """Hard limits of storage, compute and processors.

    With `delegate` (a master's name, the papers' cloud), homes of the others may exceed them: whole
    topics go there, those with the largest spools first, so that few do; see `topics`.
    """

    def __init__(self, delegate: str | None = None, delay_s: float = 0.0) -> None:
        """`delay_s` is the delay from a master to the delegate."""
        self.delegate = delegate
        self.far_s = 2 * checked("the delay to the delegate", delay_s)

    def check(self, world: World) -> None:
        if self.delegate is not None:
            world.master(self.delegate)

    def cost(self, placement: Placement, at: int, plus: Addition) -> float:
        """By how much delegated messages take longer; 0 within the limits. O(1) within them, else
        O(topics with publishers there · their masters)."""
        if fits(placement.world.masters[at], placement.accounts[at], plus):
            return 0.0
        elsewhere = self.delegate not in {None, placement.world.masters[at].name}
        chosen = self.topics(placement, at, plus) if elsewhere else None
        if chosen is None:
            return inf
        return sum(self._longer(placement, at, name, plus) for name in chosen)

    def topics(self, placement: Placement, at: int, plus: Addition = NOTHING) -> list[str] | None:
        """The topics that a master has to delegate, or None if even all of them are not enough.
        They depend on publishers and limits only. O(n log n) in the topics there."""
        world, account = placement.world, placement.accounts[at]
        master = world.masters[at]
        if fits(master, account, plus):
            return []
        if len(account.processors) + (plus.processor is not None) > master.max_processors:
            return None
        # How much has to go, with room for rounding.
        storage = account.storage + plus.storage - master.storage_bytes * (1 + ROUNDING)
        load = account.load + plus.load - master.compute * (1 + ROUNDING)
        here = dict.fromkeys((*account.topics, *plus.published))
        topics = (world.topics[name] for name in here)
        chosen = []
        for topic in sorted(topics, key=lambda each: (-each.spool_bytes, each.name)):
            eases = load > 0 and not topic.processor
            if storage > 0 or eases:
                chosen.append(topic.name)
                storage -= topic.spool_bytes
                if not topic.processor:
                    load -= self._rate(placement, at, topic.name, plus) * topic.service_s
        return chosen if storage <= 0 and load <= 0 else None

    def delegated(self, placement: Placement, at: int, topic: str) -> float:
        master = placement.world.masters[at]
        if self.delegate == master.name or fits(master, placement.accounts[at], NOTHING):
            return 0.0
        return float(topic in (self.topics(placement, at) or ()))

    def reason(self, placement: Placement, at: int, plus: Addition) -> str:
        master, account = placement.world.masters[at], placement.accounts[at]
        for used, limit, what in (
            (account.storage + plus.storage, master.storage_bytes, "bytes of storage"),
            (account.load + plus.load, master.compute, "CPU-seconds a second"),
        ):
            if used > limit * (1 + ROUNDING):
                return f"needs {used:g} {what}, has {limit:g}"
        processors = len(account.processors) + (plus.processor is not None)
        return f"would have {processors} processors, at most {master.max_processors}"

    def _rate(self, placement: Placement, at: int, topic: str, plus: Addition) -> float:
        members = placement.members.get(topic)
        here = 0.0 if members is None else members.published.get(at, 0.0)
        return here + plus.published.get(topic, 0.0)

    def _longer(self, placement: Placement, at: int, topic: str, plus: Addition) -> float:
        """By how much longer the messages of a topic's publishers here take by way of the
        delegate. Without a cost for topics with processors: their messages pass one anyway."""
        if placement.world.topics[topic].processor:
            return 0.0
        rate = self._rate(placement, at, topic, plus)
        members = placement.members.get(topic)
        subscribers = {} if members is None else members.subscribers
        row = placement.world.between[at]
        distance = rate * sum(number * row[n] for n, number in subscribers.items())
        new = topic in plus.subscribed
        own = 0.0 if members is None else members.own.get(at, 0.0)
        own += plus.published.get(topic, 0.0) if new else 0.0
        deliveries = rate * (sum(subscribers.values()) + new) - own
        return self.far_s * deliveries - distance


class Delegation(Congestion):
    """RELOC: of a master's messages the share w = min(1, M/m, C/l) is processed there, the rest in
    the cloud, at `delay_s` each way."""

    def __init__(self, delay_s: float) -> None:
        self.far_s = 2 * checked("the delay to the cloud", delay_s)

    def cost(self, placement: Placement, at: int, plus: Addition) -> float:
        account = placement.accounts[at]
        share = self._share(placement.world.masters[at], account, plus)
        deliveries = account.deliveries + plus.deliveries
        return share * (self.far_s * deliveries - account.distance - plus.distance)

    def delegated(self, placement: Placement, at: int, topic: str) -> float:
        return self._share(placement.world.masters[at], placement.accounts[at], NOTHING)

    @staticmethod
    def _share(master: Master, account: Account, plus: Addition) -> float:
        storage, load = account.storage + plus.storage, account.load + plus.load
        here = 1.0
        if storage > master.storage_bytes:
            here = master.storage_bytes / storage
        if load > master.compute:
            here = min(here, master.compute / load)
        return 1.0 - here


class Waiting(Congestion):
    """Flock: every message waits ρ = δ · D / (γ − D) at its master, D the load there and γ its
    compute. The cost is g(D) = D · ρ(D), so a unit's price has the toll g(D + D_i) − g(D). With a
    load in CPU-seconds a second δ = ½ is the waiting of queues M/D/1, one a core."""

    def __init__(self, delta_s: float) -> None:
        self.delta_s = delta_s

    def cost(self, placement: Placement, at: int, plus: Addition) -> float:
        load = placement.accounts[at].load + plus.load
        if load <= 0.0:
            return 0.0
        spare = placement.world.masters[at].compute - load
        return self.delta_s * load * load / spare if spare > 0 else inf

    def tolls(self, placement: Placement, plus: Addition) -> list[float]:
        """The same as the tolls one by one, for clones that look at a hundred masters."""
        more, delta_s = plus.load, self.delta_s
        found = []
        for account, master in zip(placement.accounts, placement.world.masters, strict=True):
            load = account.load
            after = load + more
            spare = master.compute - after
            if after <= 0.0:
                found.append(0.0)
            elif not spare > 0:
                found.append(inf)
            elif load <= 0.0:
                found.append(delta_s * after * after / spare)
            else:
                now = delta_s * load * load / (master.compute - load)
                found.append(delta_s * after * after / spare - now)
        return found

    def reason(self, placement: Placement, at: int, plus: Addition) -> str:
        master = placement.world.masters[at]
        load = placement.accounts[at].load + plus.load
        return f"would have a load of {load:g}, less than {master.compute:g} is served"


class LastResort(Congestion):
    """A master that takes the processors for which no other has room, and no others: each costs
    `DELEGATED_S` there, more than anything else can cost. So it comes there only where all other
    prices are infinite, goes back when one is not, and plans have as few there as they can. It is a
    function of the account as all costs are, so drift ends as without it."""

    def __init__(self, name: str) -> None:
        self.name = name

    def check(self, world: World) -> None:
        world.master(self.name)

    def cost(self, placement: Placement, at: int, plus: Addition) -> float:
        if placement.world.masters[at].name != self.name:
            return 0.0
        return DELEGATED_S * (len(placement.accounts[at].processors) + (plus.processor is not None))


class LearnedTail(Congestion):
    """k-TCP: processors share a master while each topic's predicted latency keeps its objective. A
    processor alone is always let in: nothing better can be done for it."""

    def __init__(self, feasible: Callable[[Master, tuple[str, ...]], bool]) -> None:
        self.feasible = feasible

    def cost(self, placement: Placement, at: int, plus: Addition) -> float:
        others = placement.accounts[at].processors
        if plus.processor is None or not others:
            return 0.0
        topics = (*others, plus.processor)
        return 0.0 if self.feasible(placement.world.masters[at], topics) else inf

    def reason(self, placement: Placement, at: int, plus: Addition) -> str:
        others = len(placement.accounts[at].processors)
        return f"a topic would miss its objective beside {others} other processors"


class Combined(Congestion):
    """Several kinds at once: their costs add up. At most one of them delegates."""

    def __init__(self, parts: Iterable[Congestion]) -> None:
        self.parts = list(parts)
        delegating = [each for each in self.parts if each.far_s > 0]
        if len(delegating) > 1:
            raise ValueError("two kinds of congestion delegate messages")
        self.far_s = delegating[0].far_s if delegating else 0.0

    def check(self, world: World) -> None:
        for each in self.parts:
            each.check(world)

    def cost(self, placement: Placement, at: int, plus: Addition) -> float:
        total = 0.0
        for each in self.parts:
            total += each.cost(placement, at, plus)
            if total == inf:
                break
        return total

    def delegated(self, placement: Placement, at: int, topic: str) -> float:
        return max(each.delegated(placement, at, topic) for each in self.parts)

    def reason(self, placement: Placement, at: int, plus: Addition) -> str:
        reasons = (
            each.reason(placement, at, plus)
            for each in self.parts
            if each.cost(placement, at, plus) == inf
        )
        return next(reasons, "full")


def congestion_of(
    world: World, model: LatencyModel | None = None, delegate: str = ""
) -> Congestion:
    """What live masters go by: hard limits, how long messages wait, the objectives of topics by a
    latency model, the untrained one by default, and a master that takes the rest."""
    parts = [Limits(), Waiting(WAITING_S), LearnedTail(Tail(world, model).feasible)]
    return Combined([*parts, LastResort(delegate)] if delegate else parts)
