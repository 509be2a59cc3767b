"""The price of a unit at a master: by how much it raises the cost of the whole placement.

    cost = Σ rate · delay of deliveries + Σ congestion(master) + Σ opening cost of masters in use

A delivery is one message that reaches one subscriber, so the sum is the delay that all subscribers
see, per second. A message without a processor goes client → home → home → client (RELOC), one with
a processor client → home → processor → home → client (k-TCP); clones talk to each other (Flock).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import inf

from msgspec import Struct

from agent.placement.congestion import NOTHING, Addition, Congestion
from agent.placement.placement import Members, Placement
from agent.placement.world import PlacementError, Unit, World

EMPTY = Members()
FORBIDDEN = (inf, 0.0, 0.0, 0.0, 0.0)


class Row(Struct, frozen=True):
    """A master's price for a unit, and what it consists of; `reason` says why it is infinite."""

    master: str
    price: float
    client_s: float  # between the client and its home
    peers_s: float  # to other homes, processors, clones
    congestion_s: float
    opening_s: float
    here: bool = False
    age_s: float = 0.0  # how long ago the client's delay was measured
    reason: str = ""


class _Terms:
    """Components of the price of a unit at any master, while it is nowhere."""

    __slots__ = (
        "client",
        "far",
        "fixed",
        "load",
        "outward",
        "peers",
        "processor",
        "published",
        "reach",
        "received",
        "sent",
        "spools",
        "storage",
        "subscribed",
    )

    def __init__(self, world: World, unit: Unit) -> None:
        self.load = world.load_of(unit)
        self.storage = world.storage_of(unit)
        self.processor = unit.name if unit.kind == "processor" else None
        self.reach: Sequence[float] | None = None
        self.published: dict[str, float] = {}
        self.subscribed: dict[str, None] = {}
        self.spools: list[tuple[str, float]] = []
        if unit.kind == "home":
            self.reach = world.reach[unit.name]
            self.published = world.published.get(unit.name, {})
            self.subscribed = world.subscribed.get(unit.name, {})
            self.spools = [(name, world.topics[name].spool_bytes) for name in self.published]
        self.client = 0.0  # deliveries between client and home
        self.peers: dict[int, float] = {}  # master → deliveries to and from there
        self.outward: dict[int, float] = {}  # the same, of its own messages as a publisher
        self.sent = 0.0  # their number
        self.received: dict[int, float] = {}  # master → deliveries from homes there
        self.far: dict[int, float] = {}  # master → seconds of those that are delegated there
        self.fixed = 0.0  # seconds that it costs wherever it lives


class Price:
    """Prices of units in a placement, with one kind of congestion."""

    def __init__(self, placement: Placement, congestion: Congestion) -> None:
        """PlacementError if the congestion names a master that is not there."""
        congestion.check(placement.world)
        self.placement = placement
        self.congestion = congestion

    def at(self, unit: Unit, master: int) -> float:
        """The price of a unit at one master, were it nowhere now; infinity if it may not live
        there. O(degree): masters of its topics' members and peers."""
        self.placement.world.require(unit)
        if self._forbidden(unit, master, self.placement.where(unit)):
            return inf
        before = self._lift(unit)
        try:
            terms = self._terms(unit)
            between = self.placement.world.between[master]
            peers = sum(weight * between[at] for at, weight in terms.peers.items())
            outward = sum(weight * between[at] for at, weight in terms.outward.items())
            client, congestion, opening = self._rest(terms, master, outward)
            return terms.fixed + client + peers + outward + congestion + opening
        finally:
            self._restore(unit, before)

    def all(self, unit: Unit) -> list[float]:
        """The prices of a unit at all masters. O(degree · masters), in the innermost loop a list
        comprehension."""
        if unit.kind == "home":
            return [row[0] for row in self._rows(unit)]
        self.placement.world.require(unit)
        before = self._lift(unit)
        try:
            columns = zip(*self._columns(unit), strict=True)
            prices = [between + toll + opening for between, toll, opening in columns]
            for at in self._closed(unit, before):
                prices[at] = inf
            return prices
        finally:
            self._restore(unit, before)

    def best(self, unit: Unit) -> int | None:
        """The number of the cheapest master, or None if none may have the unit. At equal prices the
        unit stays, else the first one wins."""
        prices = self.all(unit)
        least = min(prices, default=inf)
        if least == inf:
            return None
        here = self.placement.where(unit)
        if here is not None and prices[here] <= least:
            return here
        return prices.index(least)

    def arrive(self, unit: Unit) -> int:
        """Place a unit that is nowhere at the cheapest master, and return its number.
        PlacementError, with the first master's reason, if there is none."""
        at = self.best(unit)
        if at is None:
            rows = self.why(unit)
            told = f": {rows[0].master} {rows[0].reason}" if rows else ""
            raise PlacementError(f"no master may have {unit}{told}")
        self.placement.place(unit, self.placement.world.masters[at].name)
        return at

    def why(self, unit: Unit) -> list[Row]:
        """The table of all masters' prices, cheapest first."""
        world = self.placement.world
        here = self.placement.where(unit)
        age = world.ages.get(unit.name, 0.0) if unit.kind == "home" else 0.0
        table = []
        for at, (price, client, peers, congestion, opening) in enumerate(self._rows(unit)):
            reason = "" if price < inf else self._reason(unit, at)
            name = world.masters[at].name
            row = Row(name, price, client, peers, congestion, opening, at == here, age, reason)
            table.append(row)
        return sorted(table, key=lambda row: (row.price, not row.here, row.master))

    def reason(self, unit: Unit, master: int) -> str:
        """Why a unit may not live at one master; empty if it may. O(degree)."""
        return "" if self.at(unit, master) < inf else self._reason(unit, master)

    def total(self) -> float:
        """The cost of the whole placement. O(units · degree)."""
        placement, world = self.placement, self.placement.world
        total = 0.0
        for unit, at in placement.items():
            row = world.between[at]
            for peer, rate in world.peers.get(unit, {}).items():
                other = placement.where(peer)
                if other is not None:
                    total += rate * row[other] / 2  # Each flow is met twice.
            if unit.kind == "home":
                traffic = world.traffic_of(unit.name)
                total += traffic * world.reach[unit.name][at] if traffic else 0.0
            elif unit.kind == "processor":
                weights = _processor_weights(placement, unit.name)
                total += sum(weight * row[other] for other, weight in weights.items())
        for at, account in enumerate(placement.accounts):
            total += account.distance + self.congestion.cost(placement, at, NOTHING)
            total += world.masters[at].opening_cost if account.in_use else 0.0
        return total

    # -- the parts of a price --------------------------------------------------------------------

    def _rows(self, unit: Unit) -> list[tuple[float, float, float, float, float]]:
        world = self.placement.world
        world.require(unit)
        before = self._lift(unit)
        try:
            if unit.kind != "home":
                columns = zip(*self._columns(unit), strict=True)
                rows = [(b + toll + cost, 0.0, b, toll, cost) for b, toll, cost in columns]
                for at in self._closed(unit, before):
                    rows[at] = FORBIDDEN
                return rows
            terms = self._terms(unit)
            peers = _weighted(world.between, terms.peers)
            outward = _weighted(world.between, terms.outward)
            rows = []
            for at in range(len(world.masters)):
                if self._forbidden(unit, at, before):
                    rows.append(FORBIDDEN)
                    continue
                client, congestion, opening = self._rest(terms, at, outward[at])
                between = peers[at] + outward[at]
                congestion += terms.fixed
                price = client + between + congestion + opening
                rows.append((price, client, between, congestion, opening))
            return rows
        finally:
            self._restore(unit, before)

    def _columns(self, unit: Unit) -> tuple[list[float], list[float], list[float]]:
        """Seconds to others, congestion and opening of a unit that is nowhere and is no home: it
        adds the same to each master's account."""
        placement, world = self.placement, self.placement.world
        terms = self._terms(unit)
        opening = [
            0.0 if account.units > account.stand_ins else master.opening_cost
            for account, master in zip(placement.accounts, world.masters, strict=True)
        ]
        tolls = self.congestion.tolls(placement, self._plus(terms, 0, 0.0))
        return _weighted(world.between, terms.peers), tolls, opening

    def _closed(self, unit: Unit, here: int | None) -> Iterable[int]:
        """The masters where a unit that is no home may not live whatever it costs."""
        world = self.placement.world
        pinned = world.pins.get(unit)
        if pinned is not None:
            at_all = range(len(world.masters))
            return (at for at in at_all if self._forbidden(unit, at, here))
        return (*world.draining, *(at for at in world.frozen if at != here))

    def _plus(self, terms: _Terms, at: int, outward: float) -> Addition:
        """The unit's addition to a master's account."""
        topics = self.placement.accounts[at].topics
        storage = terms.storage
        for name, spool_bytes in terms.spools:
            if name not in topics:
                storage += spool_bytes
        return Addition(
            terms.load,
            storage,
            terms.sent + terms.received.get(at, 0.0),
            outward,
            terms.processor,
            terms.published,
            terms.subscribed,
        )

    def _rest(self, terms: _Terms, at: int, outward: float) -> tuple[float, float, float]:
        """Costs that depend on the master alone: seconds to the client, congestion, opening."""
        placement = self.placement
        client = terms.client * terms.reach[at] if terms.client and terms.reach else 0.0
        used = placement.accounts[at].in_use
        opening = 0.0 if used else placement.world.masters[at].opening_cost
        toll = self.congestion.toll(placement, at, self._plus(terms, at, outward))
        return client, toll - terms.far.get(at, 0.0), opening

    def _terms(self, unit: Unit) -> _Terms:
        placement, world = self.placement, self.placement.world
        terms = _Terms(world, unit)
        for peer, rate in world.peers.get(unit, {}).items():
            _add(terms.peers, placement.where(peer), rate)
        if unit.kind == "processor":
            for at, weight in _processor_weights(placement, unit.name).items():
                _add(terms.peers, at, weight)
        elif unit.kind == "home":
            terms.client = world.traffic_of(unit.name)
            self._add_topics(terms)
        return terms

    def _add_topics(self, terms: _Terms) -> None:
        placement, world = self.placement, self.placement.world
        for name, rate in terms.published.items():
            topic = world.topics[name]
            if topic.processor:
                processor = placement.where(Unit("processor", name))
                _add(terms.peers, processor, rate * len(topic.subscribers))
                continue
            for at, number in placement.members.get(name, EMPTY).subscribers.items():
                _add(terms.outward, at, rate * number)
                terms.sent += rate * number
        far_s = self.congestion.far_s
        for name in terms.subscribed:
            if world.topics[name].processor:
                _add(terms.peers, placement.where(Unit("processor", name)), world.rates[name])
                continue
            for at, rate in placement.members.get(name, EMPTY).published.items():
                share = self.congestion.delegated(placement, at, name) if far_s else 0.0
                _add(terms.peers, at, (1 - share) * rate)
                _add(terms.received, at, rate)
                if share:
                    # At `at` itself the account's congestion has these seconds.
                    _add(terms.far, at, share * rate * far_s)
                    terms.fixed += share * rate * far_s

    # -- what is not allowed ---------------------------------------------------------------------

    def _forbidden(self, unit: Unit, at: int, here: int | None) -> str:
        """Why a unit that is at `here` may not live at a master whatever it costs, or an empty
        string."""
        world = self.placement.world
        if unit.kind == "home" and world.reach[unit.name][at] == inf:
            return "is out of the client's reach"
        pinned = world.pins.get(unit, at) if world.pins else at
        if pinned != at:
            return f"is not {world.masters[pinned].name}, where it is pinned"
        if at in world.draining:
            return "is draining"
        if at != here and at in world.frozen:
            return "is frozen"
        return ""

    def _reason(self, unit: Unit, at: int) -> str:
        before = self.placement.where(unit)
        reason = self._forbidden(unit, at, before)
        if reason:
            return reason
        self._lift(unit)
        try:
            plus = self._plus(self._terms(unit), at, 0.0)
            return self.congestion.reason(self.placement, at, plus)
        finally:
            self._restore(unit, before)

    def _lift(self, unit: Unit) -> int | None:
        at = self.placement.where(unit)
        return None if at is None else self.placement.remove(unit)

    def _restore(self, unit: Unit, at: int | None) -> None:
        if at is not None:
            self.placement.put(unit, at)


def _processor_weights(placement: Placement, topic: str) -> dict[int, float]:
    """Deliveries a second to and from a processor, by the master of the other end."""
    weights: dict[int, float] = {}
    members = placement.members.get(topic, EMPTY)
    subscribers = len(placement.world.topics[topic].subscribers)
    for at, rate in members.published.items():
        _add(weights, at, rate * subscribers)
    for at, number in members.subscribers.items():
        _add(weights, at, placement.world.rates[topic] * number)
    return weights


def _add(weights: dict[int, float], at: int | None, weight: float) -> None:
    if at is not None:
        weights[at] = weights.get(at, 0.0) + weight


def _weighted(between: list[list[float]], weights: dict[int, float]) -> list[float]:
    """Σ weight · delay for each master. Four rows at a time, in the order of one by one."""
    sums = [0.0] * len(between)
    items = list(weights.items())
    for n in range(0, len(items) - 3, 4):
        (at_a, a), (at_b, b), (at_c, c), (at_d, d) = items[n : n + 4]
        rows = zip(sums, between[at_a], between[at_b], between[at_c], between[at_d], strict=True)
        sums = [total + a * p + b * q + c * r + d * s for total, p, q, r, s in rows]
    for at, weight in items[len(items) // 4 * 4 :]:
        sums = [total + weight * delay for total, delay in zip(sums, between[at], strict=True)]
    return sums
