"""The placement as a master sees it: a world made of its own facts and of what others told."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from math import inf
from typing import Final

from msgspec.structs import replace

from _core.colocation.model import Candidates, Colocation
from agent.placement.congestion import (
    DELEGATED_S,
    ROUNDING,
    Combined,
    Congestion,
    LastResort,
    LearnedTail,
    Limits,
    Waiting,
)
from agent.placement.headroom import POISSON, keep_objectives
from agent.placement.moves import Move
from agent.placement.placement import Placement
from agent.placement.price import Price
from agent.placement.world import (
    Client,
    Flow,
    Link,
    Master,
    Objective,
    Pin,
    PlacementError,
    Topic,
    Unit,
    World,
)
from agent.wire.listing import did_you_mean, few
from agent.wire.placement import HomeFacts, PlacementFacts, PlannedMove, TopicFacts, UnitName

# Who publishes and subscribes at a master without a home of its own that moves. No client has such
# a name.
AT: Final = "@"
KINDS: Final = ("home:", "processor:", "clone:")
# Subscribers of one topic at one master that are counted.
MAX_COUNTED: Final = 32
# Between masters of which none has measured the delay.
UNKNOWN_S: Final = 0.05
UNKNOWN_CPU_S: Final = 0.001  # of a topic whose processor nobody has measured
MAX_NAMED: Final = 5  # masters in a refusal
MAX_REASONS: Final = 3  # of masters without room that are told
MAX_TOGETHER: Final = 32  # that the latency model takes
OVERHEAD_S: Final = 0.0005
MAX_CORES: Final = 4_096  # that the latency model takes; others may tell more
# Of waiting: a master's load is spread evenly over its cores, each with a queue of its own in which
# messages of one length come by chance (M/D/1). With load r a core, r²/2(1 − r) wait in one, by
# Little's law seconds of waiting a second; all cores together D²/2(γ − D). One queue for all cores
# waits less, messages of unequal lengths wait longer.
WAITING_S: Final = 0.5


class View:
    """A world of masters that are not silent, and where the units live. What contradicts itself in
    what masters told is left out, and said in `troubles`."""

    def __init__(self, facts: Iterable[PlacementFacts], model: Colocation | None = None) -> None:
        """`facts`: of each master the newest, in the order in which they are believed in doubt,
        one's own first. `model`: of latencies at every master; by default one that nobody has
        trained, with the master's cores. O(masters² + units · masters)."""
        self.model = model
        told = [_without_stand_ins(each) for each in facts]
        self.facts: dict[str, PlacementFacts] = {each.iad: each for each in told}
        # The master that takes what no other has room for; "" if none is named, or it is silent.
        self.delegate = next((each.delegate for each in told if each.delegate in self.facts), "")
        self.troubles: list[str] = []
        # Peers of a topic that no master here has told.
        self.unseen: dict[str, list[str]] = {}
        topics = self._topics(told)
        self._homes = self._lives()
        self.placement = Placement(self._world(topics))
        self._place(topics)
        self._pin(told)
        self.price = Price(self.placement, self.congestion())

    @property
    def world(self) -> World:
        return self.placement.world

    def congestion(self) -> Congestion:
        """Cost of a full master, for prices in this world."""
        return congestion_of(self.world, self.model, self.delegate)

    def delegated(self) -> list[Unit]:
        """The topics that live at the delegate because no other master had room, or has not given
        them back yet."""
        if not self.delegate:
            return []
        pins = self.world.pins
        here = self.units(self.delegate)
        return [unit for unit in here if unit.kind == "processor" and unit not in pins]

    def cost(self) -> float:
        """The cost of the placement, in seconds of delay a second, without what delegation adds to
        prices."""
        return net(self.price.total(), processors_at(self.placement, self.delegate))

    def units(self, iad: str = "") -> list[Unit]:
        """All units that may move, or those of one master."""
        found = sorted(unit for unit, _ in self.placement.items() if not is_fixed(unit))
        return [unit for unit in found if not iad or self.where(unit) == iad]

    def where(self, unit: Unit) -> str | None:
        """The master where a unit lives, by its name."""
        at = self.placement.where(unit)
        return None if at is None else self.world.masters[at].name

    def unit(self, text: str) -> Unit:
        """The unit that `comfort`, `processor:comfort` or `home:node/n1` names. PlacementError with
        the nearest name if there is none."""
        # A client's subscription may have any name.
        kind, _, name = text.partition(":") if text.startswith(KINDS) else ("", "", text)
        units = self.units()
        found = [each for each in units if each.name == name and kind in ("", each.kind)]
        if len(found) > 1:
            both = " and ".join(f"{each.kind}:{each.name}" for each in found)
            raise PlacementError(f"{text} may be {both}: say which")
        if not found:
            raise PlacementError(_no("unit", name, [each.name for each in units]))
        return found[0]

    def master(self, iad: str, silent: Sequence[str] = ()) -> int:
        """A master's number. PlacementError if it is silent or not known, with the nearest name."""
        if iad in silent:
            raise PlacementError(f"master {iad} is silent, and takes no units")
        if iad not in self.world.number:
            raise PlacementError(self._no_master(iad, silent))
        return self.world.number[iad]

    def _no_master(self, iad: str, silent: Sequence[str]) -> str:
        text = _no("master", iad, [*self.world.number, *silent])
        own, *others = self.facts
        if not others or not text.endswith("?"):  # all are named already
            return text
        return f"{text} {own} moves units only to {few(sorted(others), MAX_NAMED)}"

    # -- from facts ------------------------------------------------------------------------------

    def _topics(self, told: list[PlacementFacts]) -> dict[str, tuple[str, TopicFacts]]:
        found: dict[str, tuple[str, TopicFacts]] = {}
        for facts in told:
            for topic in facts.topics:
                first, _ = found.setdefault(topic.name, (facts.iad, topic))
                if first != facts.iad:
                    self.troubles.append(
                        f"topic {topic.name} is kept by {first} and by {facts.iad}; "
                        f"that of {first} is counted"
                    )
        return found

    def _world(self, topics: Mapping[str, tuple[str, TopicFacts]]) -> World:
        told = sorted(self.facts.values(), key=lambda each: each.iad)
        clients: dict[str, Client] = {}
        exchanges: list[Flow] = []
        self._cpu_s = _cpu_s(told)
        # By topic.
        self._publish: dict[str, list[tuple[str, str, float]]] = {}
        self._hear: dict[str, list[str]] = {}
        self._listeners: dict[str, list[tuple[str, int]]] = {}
        for facts in told:
            for each in facts.listeners:
                self._listeners.setdefault(each.topic, []).append((facts.iad, each.count))
            for home in facts.homes:
                for name, rate in home.publishes.items():
                    self._publish.setdefault(name, []).append((facts.iad, home.name, rate))
                for name in home.hears:
                    self._hear.setdefault(name, []).append(home.name)
                delays = {
                    iad: ms / 1e3 for iad, ms in home.delays_ms.items() if iad in self.facts
                } | {facts.iad: home.delays_ms.get(facts.iad, 0.0) / 1e3}
                # Delays and place come from one teller, so that the place is within reach.
                if self._homes[home.name] == facts.iad:
                    rate = sum(each.per_s for each in home.exchanges)
                    clients[home.name] = Client(home.name, delays, home.age_s, exchanges=rate)
                    exchanges += self._exchanges(facts.iad, home, clients)
        made = [self._topic(iad, topic, clients, topics) for iad, topic in topics.values()]
        world = World(
            [_master(each) for each in told],
            self._links(told),
            clients.values(),
            made,
            [*_flows(topics), *exchanges],
            unknown_delay_s=UNKNOWN_S,
        )
        for facts in told:
            if facts.mode == "frozen":
                world.freeze(facts.iad)
            elif facts.mode == "draining":
                world.drain(facts.iad)
        return world

    def _topic(
        self,
        owner: str,
        told: TopicFacts,
        clients: dict[str, Client],
        known: Collection[str],
    ) -> Topic:
        """A topic, whose members at masters become clients that can live there only. What is
        published at masters that are not seen here comes to the topic's own. A peer that is not
        `known` is a publisher at the master that its messages came from."""
        name = told.name
        rates = {each.iad: each.per_s for each in told.sources if each.iad in self.facts}
        every = max(told.per_s or 0.0, sum(each.per_s for each in told.sources))
        peer_rate = 0.0
        for peer in told.peers:
            if peer.topic == name:
                continue
            if peer.topic in known:
                peer_rate += peer.per_s
                continue
            self.unseen.setdefault(name, []).append(peer.topic)
            every += peer.per_s
            if peer.iad in self.facts:
                rates[peer.iad] = rates.get(peer.iad, 0.0) + peer.per_s
        if (rest := every - sum(rates.values())) > ROUNDING * every:
            rates[owner] = rates.get(owner, 0.0) + rest
        publishers: dict[str, float] = {}
        for iad, home, rate in self._publish.get(name, ()):
            publishers[home] = rate
            rates[iad] = max(0.0, rates.get(iad, 0.0) - rate)
        hears = set(self._hear.get(name, ()))
        for iad, count in self._listeners.get(name, ()):
            hears.update(_fixed(iad, n, clients) for n in range(min(count, MAX_COUNTED)))
        publishers |= {_fixed(iad, 0, clients): rate for iad, rate in rates.items() if rate > 0}
        goal = told.slo
        return Topic(
            name,
            publishers,
            frozenset(hears),
            service_s=self._cpu_s.get(told.processor, UNKNOWN_CPU_S)
            if told.cpu_ms is None
            else told.cpu_ms / 1e3,
            processor=True,
            objective=Objective.told(goal.percentile, goal.latency_ms) if goal else None,
            state_bytes=told.state_bytes,
            peer_rate=peer_rate,
        )

    def _exchanges(self, owner: str, home: HomeFacts, clients: dict[str, Client]) -> list[Flow]:
        """Traffic between a home and other masters. With one that is not seen here it goes by
        way of the home's present one."""
        rates: dict[str, float] = {}
        for each in home.exchanges:
            iad = each.iad if each.iad in self.facts else owner
            rates[iad] = rates.get(iad, 0.0) + each.per_s
        return [
            Flow(Unit("home", home.name), Unit("home", _fixed(iad, 0, clients)), rate)
            for iad, rate in rates.items()
            if rate > 0
        ]

    def _links(self, told: list[PlacementFacts]) -> list[Link]:
        """Of two masters that measured, the one that did it last is believed."""
        best: dict[tuple[str, str], Link] = {}
        for facts in told:
            for delay in facts.delays:
                if delay.iad not in self.facts or delay.iad == facts.iad:
                    continue
                one, other = sorted((facts.iad, delay.iad))
                known = best.get((one, other))
                if known is None or delay.age_s < known.age_s:
                    best[one, other] = Link(one, other, delay.p50_ms / 1e3, delay.age_s)
        return list(best.values())

    def _lives(self) -> dict[str, str]:
        """The master of each home: the first that told it."""
        homes: dict[str, str] = {}
        for facts in self.facts.values():
            for home in facts.homes:
                first = homes.setdefault(home.name, facts.iad)
                if first != facts.iad:
                    self.troubles.append(f"home {home.name} is at {first} and at {facts.iad}")
        return homes

    def _place(self, topics: Mapping[str, tuple[str, TopicFacts]]) -> None:
        homes = dict(self._homes)
        for client, row in self.world.reach.items():
            if client.startswith(AT):
                at = next(n for n, delay in enumerate(row) if delay < inf)
                homes[client] = self.world.masters[at].name
        for client, iad in homes.items():
            self.placement.place(Unit("home", client), iad)
        for name, (iad, _) in topics.items():
            self.placement.place(Unit("processor", name), iad)

    def _pin(self, told: list[PlacementFacts]) -> None:
        """The word of the master where a unit lives counts; that of others is from before."""
        pins = [
            Pin(unit, each.iad)
            for facts in told
            for each in facts.pins
            if each.iad in self.facts
            and self.where(unit := Unit(each.unit.kind, each.unit.name)) == facts.iad
        ]
        kept: list[Pin] = []
        for pin in pins:
            try:
                self.world.pin([*kept, pin])
                kept.append(pin)
            except PlacementError as error:
                self.troubles.append(str(error))

    # -- questions -------------------------------------------------------------------------------

    def check_pin(self, unit: Unit, iad: str) -> None:
        """PlacementError if this pin would contradict a limit, a mode or another pin."""
        world, before = self.world, dict(self.world.pins)
        pins = [Pin(each, world.masters[at].name) for each, at in before.items() if each != unit]
        try:
            world.pin([*pins, Pin(unit, iad)])
        finally:
            world.pins = before

    def alone_s(self, unit: Unit, at: int) -> float | None:
        """The latency that a topic gets on this master alone, at the quantile of its objective, if
        that is more than the objective."""
        topic = self.world.topics.get(unit.name)
        if unit.kind != "processor" or topic is None or topic.objective is None:
            return None
        tail = _Tail(self.world, self.model)
        latency_s = tail.latency_s(self.world.masters[at], topic.name)
        return latency_s if latency_s > topic.objective.seconds else None

    def infeasible(self, unit: Unit) -> str:
        """The latency of a topic that no master could keep alone; empty if one could."""
        masters = range(len(self.world.masters))
        found = [self.alone_s(unit, at) for at in masters]
        least = min((each for each in found if each is not None), default=None)
        goal = self.world.topics[unit.name].objective if unit.kind == "processor" else None
        if None in found or least is None or goal is None:
            return ""
        return (
            f"topic {unit.name} is infeasible alone: it would get p{goal.quantile * 100:g} = "
            f"{_seconds(least)}, its objective is {_seconds(goal.seconds)}"
        )

    def no_room(self, unit: Unit) -> str:
        """Why no master may have a unit; empty if one may."""
        rows = self.price.why(unit)
        if any(row.price < inf for row in rows):
            return ""
        told = "; ".join(f"{row.master} {row.reason}" for row in rows[:MAX_REASONS])
        more = "" if self.delegate else "; no master is named that takes the rest"
        return f"no master has room for {unit}: {told}{more}"


class _Tail:
    """A latency model: the trained one, or the untrained with the masters' cores; one set of
    numbers for each number of cores."""

    def __init__(self, world: World, model: Colocation | None = None) -> None:
        self._model = model
        self._names = {name: n for n, name in enumerate(world.topics)}
        self._topics = list(world.topics.values())
        self._goals = [each.objective for each in self._topics]
        # As planners take them, so that what they plan is admitted.
        self._rates = [POISSON.raised(world.processed(each.name)) for each in self._topics]
        self._by_cores: dict[int, Candidates] = {}

    def feasible(self, master: Master, topics: Sequence[str]) -> bool:
        """Whether all these keep their objectives on that master."""
        if len(topics) > MAX_TOGETHER:
            return False
        numbers = [self._names[each] for each in topics]
        return keep_objectives(self._of(master), self._goals, numbers)

    def latency_s(self, master: Master, topic: str) -> float:
        """The latency of a topic alone."""
        return self._of(master).latencies([self._names[topic]])[0]

    def _of(self, master: Master) -> Candidates:
        if (found := self._by_cores.get(master.cores)) is None:
            goals = [goal or Objective() for goal in self._goals]
            found = self._by_cores[master.cores] = Candidates(
                self._model or model_of(master.cores),
                [max(each.service_s, 1e-6) for each in self._topics],
                self._rates,
                [0] * len(self._topics),
                [each.seconds for each in goals],
                [each.quantile for each in goals],
            )
        return found


def model_of(cores: int) -> Colocation:
    """The latency of processors that share one queue by deadline, with a worker a core; a topic's
    messages go one at a time. Not trained: `fleet placement train` makes better ones."""
    return Colocation(
        shared=True, serial=True, cores=float(cores), interference=0.0, overhead_s=OVERHEAD_S
    )


def congestion_of(world: World, model: Colocation | None = None, delegate: str = "") -> Congestion:
    """What live masters go by: hard limits, how long messages wait, the objectives of topics by a
    latency model, the untrained one by default, and a master that takes the rest."""
    parts = [Limits(), Waiting(WAITING_S), LearnedTail(_Tail(world, model).feasible)]
    return Combined([*parts, LastResort(delegate)] if delegate else parts)


def net(cost: float, delegated: int) -> float:
    """A cost without what it has for so many processors at the delegate."""
    return max(0.0, cost - DELEGATED_S * delegated)


def processors_at(placement: Placement, iad: str) -> int:
    """How many processors live at a master; 0 if it is not in this world."""
    at = placement.world.number.get(iad)
    return 0 if at is None else len(placement.accounts[at].processors)


def believed(facts: Iterable[PlacementFacts], first: Sequence[str]) -> list[PlacementFacts]:
    """Facts of masters for a view: first those of `first`, in that order. O(n log n)."""
    order = {iad: n for n, iad in enumerate(first)}
    return sorted(facts, key=lambda each: order.get(each.iad, len(order)))


def _without_stand_ins(facts: PlacementFacts) -> PlacementFacts:
    """Without homes that have the name of what stands for others: a master may tell anything."""
    if not any(each.name.startswith(AT) for each in facts.homes):
        return facts
    homes = tuple([each for each in facts.homes if not each.name.startswith(AT)])
    return replace(facts, homes=homes)


def is_fixed(unit: Unit) -> bool:
    """Whether this stands for those at a master that cannot live elsewhere."""
    return unit.kind == "home" and unit.name.startswith(AT)


def moves_of(planned: Iterable[PlannedMove]) -> list[Move]:
    """The moves of a plan as they come by wire."""
    return [
        Move(Unit(each.unit.kind, each.unit.name), each.source, each.target, gain=each.gain)
        for each in planned
    ]


def named(unit: Unit) -> UnitName:
    """A unit as it goes by wire."""
    return UnitName(unit.kind, unit.name)


def _master(facts: PlacementFacts) -> Master:
    return Master(
        facts.iad,
        inf if facts.storage_bytes is None else facts.storage_bytes,
        inf if facts.compute is None else facts.compute,
        1_000_000 if facts.most_processors is None else facts.most_processors,
        min(facts.cores, MAX_CORES),
        facts.opening_cost,
    )


def _flows(topics: Mapping[str, tuple[str, TopicFacts]]) -> list[Flow]:
    """Traffic between topics, both directions together."""
    rates: dict[tuple[str, str], float] = {}
    for name, (_, told) in topics.items():
        for peer in told.peers:
            if peer.topic in topics and peer.topic != name:
                one, other = sorted((name, peer.topic))
                rates[one, other] = rates.get((one, other), 0.0) + peer.per_s
    return [
        Flow(Unit("processor", one), Unit("processor", other), rate)
        for (one, other), rate in sorted(rates.items())
    ]


def _cpu_s(told: Iterable[PlacementFacts]) -> dict[str, float]:
    """The mean CPU time of a message by processor, of the topics that were measured."""
    found: dict[str, list[float]] = {}
    for facts in told:
        for topic in facts.topics:
            if topic.cpu_ms is not None:
                found.setdefault(topic.processor, []).append(topic.cpu_ms / 1e3)
    return {processor: sum(each) / len(each) for processor, each in found.items()}


def _fixed(iad: str, number: int, clients: dict[str, Client]) -> str:
    name = f"{AT}{iad}" + (f"#{number}" if number else "")
    clients.setdefault(name, Client(name, {iad: 0.0}, stand_in=True))
    return name


def _no(what: str, name: str, known: Sequence[str]) -> str:
    there = f"known are {few(known, 5)}" if known else "none are"
    return f"no {what} {name} is known here; {did_you_mean(name, known, there)}"


def _seconds(seconds: float) -> str:
    return f"{seconds:.3g} s" if seconds >= 1 else f"{seconds * 1e3:.3g} ms"
