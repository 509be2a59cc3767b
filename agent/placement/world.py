"""The facts that placement decides on: masters, clients, topics, flows and delays.

A unit is what lives on one master at a time: the home of a client (RELOC), the processor of a topic
(k-TCP), or the clone of a device (Flock). Delays are seconds one way and symmetric; rates are
messages a second; load and compute are CPU-seconds a second.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from math import inf, isfinite
from typing import Final, Literal

from msgspec import Struct, field

Kind = Literal["home", "processor", "clone"]

SHORTEST_S: Final = 1e-9  # of an objective


class PlacementError(ValueError):
    """Facts, a placement or a plan that contradict themselves; one line says what is wrong."""


class Unit(Struct, frozen=True, order=True):
    """Unit of placement: `home` of the client, `processor` of the topic, `clone` of the device."""

    kind: Kind
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


class Master(Struct, frozen=True):
    """A master and its limits. `opening_cost` is paid while it has any unit, in the unit of prices:
    seconds of delay a second."""

    name: str
    storage_bytes: float = inf
    compute: float = inf
    max_processors: int = 1_000_000
    cores: int = 1
    opening_cost: float = 0.0


class Objective(Struct, frozen=True):
    """This quantile of a topic's latencies is at most `seconds`."""

    quantile: float = 0.9
    seconds: float = 1.0

    @classmethod
    def told(cls, percentile: float, latency_ms: float) -> Objective:
        """That of another master's topic. Its latency may be so short that it is no time in
        seconds, and must not stop what is placed of others."""
        return cls(percentile / 100.0, max(latency_ms / 1e3, SHORTEST_S))


class Topic(Struct, frozen=True):
    """A topic: its publishers (clients) with the rate of each, and its subscribers (clients).

    Without a processor each publisher's home processes that publisher's messages (RELOC). With one,
    messages go from the publisher's home to the processor's master, and on to the subscribers'.
    `state_bytes` are stored there: the processor's state, and its inbox. `peer_rate`: the
    messages a second that a processor takes from other units besides; their ways are flows.
    """

    name: str
    publishers: dict[str, float] = field(default_factory=dict)
    subscribers: frozenset[str] = frozenset()
    spool_bytes: float = 0.0
    service_s: float = 0.0
    processor: bool = False
    objective: Objective | None = None
    state_bytes: float = 0.0
    peer_rate: float = 0.0

    @property
    def rate(self) -> float:
        """Messages a second of all publishers together. O(publishers)."""
        return sum(self.publishers.values())


class Client(Struct, frozen=True):
    """An edge node or subscriber: the delay to each master that may be its home, and how many
    seconds ago these were measured. One that is a `stand_in` is no unit that anybody keeps: it
    stands for those at a master that are not placed. `exchanges`: messages a second between it and
    its home besides those of topics; their further ways are flows."""

    name: str
    delays: dict[str, float] = field(default_factory=dict)
    age_s: float = 0.0
    stand_in: bool = False
    exchanges: float = 0.0


class Flow(Struct, frozen=True):
    """Messages a second between two units besides those of topics, such as between clones."""

    one: Unit
    other: Unit
    rate: float


class Link(Struct, frozen=True):
    """The delay between two masters, measured `age_s` seconds ago."""

    one: str
    other: str
    seconds: float
    age_s: float = 0.0


class Pin(Struct, frozen=True):
    """An operator's word: this unit lives there, whatever plan and price say."""

    unit: Unit
    master: str


def checked(what: str, value: float, *, infinite: bool = False) -> float:
    """The value; PlacementError if it is NaN, negative, or infinite where it may not be."""
    if not (value >= 0 and (infinite or isfinite(value))):
        raise PlacementError(f"{what} is {value}: give a number of 0 or more")
    return float(value)


class World:
    """Masters (numbered in the order given), clients, topics, flows, delays, pins.

    Everything is checked on the way in. What has a `Placement` is changed by the placement's
    methods only, which keep its accounts.
    """

    def __init__(
        self,
        masters: Iterable[Master],
        links: Iterable[Link] = (),
        clients: Iterable[Client] = (),
        topics: Iterable[Topic] = (),
        flows: Iterable[Flow] = (),
        *,
        unknown_delay_s: float | None = None,
    ) -> None:
        """`unknown_delay_s` stands for delays between masters that `links` lacks; if it is None,
        PlacementError names the first such pair. O(masters² + clients · masters + members)."""
        self.masters: list[Master] = []
        self.number: dict[str, int] = {}
        for master in masters:
            self._add_master(master)
        self.between = self._matrix(links, unknown_delay_s)
        self.reach: dict[str, array[float]] = {}  # inf: not a choice of this client
        self.ages: dict[str, float] = {}
        self.stand_ins: set[str] = set()
        self.exchanges: dict[str, float] = {}  # of clients that have any
        self.topics: dict[str, Topic] = {}
        self.rates: dict[str, float] = {}  # of topics: all publishers together, but no peers
        self.published: dict[str, dict[str, float]] = {}  # client → topic → rate
        self.subscribed: dict[str, dict[str, None]] = {}  # client → topics, in order
        self.peers: dict[Unit, dict[Unit, float]] = {}
        self.pins: dict[Unit, int] = {}
        self.frozen: set[int] = set()
        self.draining: set[int] = set()
        for client in clients:
            self.put_client(client)
        for topic in topics:
            self.put_topic(topic)
        for flow in flows:
            self.put_flow(flow)

    # -- what there is ---------------------------------------------------------------------------

    def master(self, name: str) -> int:
        """A master's number; PlacementError if there is none of this name."""
        number = self.number.get(name)
        if number is None:
            raise PlacementError(f"there is no master {name!r}: known are {self._known()}")
        return number

    def units(self) -> Iterator[Unit]:
        """All units: homes, then processors, then clones, each in the order in which they came."""
        yield from (Unit("home", client) for client in self.reach)
        yield from (Unit("processor", each.name) for each in self.topics.values() if each.processor)
        yield from (unit for unit in self.peers if unit.kind == "clone")

    def has(self, unit: Unit) -> bool:
        """Whether there is such a unit. O(1)."""
        if unit.kind == "home":
            return unit.name in self.reach
        if unit.kind == "processor":
            topic = self.topics.get(unit.name)
            return topic is not None and topic.processor
        return unit in self.peers

    def require(self, unit: Unit) -> None:
        """PlacementError if there is no such unit."""
        if not self.has(unit):
            raise PlacementError(f"there is no {unit}")

    def load_of(self, unit: Unit) -> float:
        """The CPU-seconds a second that a unit takes of its master. A clone's is its demand: the
        rate of all its flows (Flock's D_i). O(degree)."""
        if unit.kind == "processor":
            return self.topics[unit.name].service_s * self.processed(unit.name)
        if unit.kind == "clone":
            return sum(self.peers[unit].values())
        topics = self.topics
        return sum(
            rate * topics[name].service_s
            for name, rate in self.published.get(unit.name, {}).items()
            if not topics[name].processor
        )

    def processed(self, topic: str) -> float:
        """The messages a second that a topic's processor takes, those of peers included. O(1)."""
        return self.rates[topic] + self.topics[topic].peer_rate

    def storage_of(self, unit: Unit) -> float:
        """The bytes that a unit stores at its master by itself; homes store the spools of topics,
        each once. O(1)."""
        return self.topics[unit.name].state_bytes if unit.kind == "processor" else 0.0

    def traffic_of(self, client: str) -> float:
        """Deliveries a second that pass between a client and its home. A client's own message is
        not delivered back to it, except as a processor's output. O(its topics)."""
        subscribed = self.subscribed.get(client, {})
        published = self.published.get(client, {})
        total = self.exchanges.get(client, 0.0)
        for name, rate in published.items():
            topic = self.topics[name]
            own = not topic.processor and name in subscribed
            total += rate * (len(topic.subscribers) - own)
        for name in subscribed:
            own_rate = 0.0 if self.topics[name].processor else published.get(name, 0.0)
            total += self.rates[name] - own_rate
        return total

    # -- changes ---------------------------------------------------------------------------------

    def put_client(self, client: Client) -> None:
        """Add a client, or replace its delays. O(masters)."""
        exchanges = checked(f"what client {client.name} exchanges", client.exchanges)
        row = array("d", [inf]) * len(self.masters)
        for name, seconds in client.delays.items():
            what = f"the delay from client {client.name} to master {name}"
            row[self.master(name)] = checked(what, seconds)
        self.ages[client.name] = checked(f"the age of {client.name}'s delays", client.age_s)
        self.reach[client.name] = row
        self.exchanges.pop(client.name, None)
        if exchanges:
            self.exchanges[client.name] = exchanges
        (self.stand_ins.add if client.stand_in else self.stand_ins.discard)(client.name)

    def drop_client(self, name: str) -> None:
        """Remove a client that is a member of no topic any more. O(its flows)."""
        topics = [*self.published.get(name, {}), *self.subscribed.get(name, {})]
        if topics:
            raise PlacementError(f"client {name} is a member of topic {topics[0]}")
        unit = Unit("home", name)
        self.require(unit)
        del self.reach[name], self.ages[name]
        self.stand_ins.discard(name)
        self.exchanges.pop(name, None)
        self.published.pop(name, None)
        self.subscribed.pop(name, None)
        self.pins.pop(unit, None)
        for peer in self.peers.pop(unit, {}):
            del self.peers[peer][unit]

    def put_topic(self, topic: Topic) -> None:
        """Add a topic, or replace it by its name. O(members)."""
        self.check_topic(topic)
        self._withdraw(topic.name)
        self.topics[topic.name] = topic
        self.rates[topic.name] = topic.rate
        for client, rate in topic.publishers.items():
            self.published.setdefault(client, {})[topic.name] = float(rate)
        for client in sorted(topic.subscribers):
            self.subscribed.setdefault(client, {})[topic.name] = None

    def drop_topic(self, name: str) -> None:
        """Remove a topic. O(members)."""
        if name not in self.topics:
            raise PlacementError(f"there is no topic {name!r}")
        self._withdraw(name)
        del self.topics[name], self.rates[name]
        unit = Unit("processor", name)
        self.pins.pop(unit, None)
        for peer in self.peers.pop(unit, {}):
            del self.peers[peer][unit]

    def put_flow(self, flow: Flow) -> None:
        """Set the rate of a flow; 0 removes it. A clone exists from its first flow on. O(1)."""
        if flow.one == flow.other:
            raise PlacementError(f"a flow of {flow.one} to itself")
        rate = checked(f"the rate between {flow.one} and {flow.other}", flow.rate)
        for unit in (flow.one, flow.other):
            if unit.kind != "clone":
                self.require(unit)
        for one, other in ((flow.one, flow.other), (flow.other, flow.one)):
            peers = self.peers.setdefault(one, {})
            peers[other] = rate
            if not rate:
                del peers[other]

    def freeze(self, master: str, *, frozen: bool = True) -> None:
        """A frozen master keeps its units and takes no others."""
        (self.frozen.add if frozen else self.frozen.discard)(self.master(master))

    def drain(self, master: str, *, draining: bool = True) -> None:
        """A draining master takes no units, and those it has are moved away."""
        (self.draining.add if draining else self.draining.discard)(self.master(master))

    def pin(self, pins: Iterable[Pin]) -> None:
        """Replace all pins. PlacementError, and nothing changes, if they name what is not there,
        pin a unit to two masters, or contradict a master's limits together. O(pins · degree)."""
        self.pins = self._checked_pins(pins)

    # -- checks ----------------------------------------------------------------------------------

    def check_topic(self, topic: Topic) -> None:
        """PlacementError if `put_topic` would refuse the topic. O(members)."""
        where = f"topic {topic.name}:"
        for client, rate in topic.publishers.items():
            self.check_rate(topic.name, client, rate)
        for client in (*topic.publishers, *topic.subscribers):
            if client not in self.reach:
                raise PlacementError(f"{where} there is no client {client!r}")
        checked(f"{where} spool_bytes", topic.spool_bytes)
        checked(f"{where} state_bytes", topic.state_bytes)
        checked(f"{where} service_s", topic.service_s)
        checked(f"{where} peer_rate", topic.peer_rate)
        goal = topic.objective
        if goal is not None and not (0 < goal.quantile < 1 and 0 < goal.seconds < inf):
            raise PlacementError(f"{where} an objective needs 0 < quantile < 1 and seconds > 0")

    def check_rate(self, topic: str, client: str, rate: float) -> None:
        """PlacementError if a client cannot publish to a topic at this rate."""
        checked(f"topic {topic}: the rate of publisher {client}", rate)

    def _checked_pins(self, pins: Iterable[Pin]) -> dict[Unit, int]:
        found: dict[Unit, int] = {}
        for pin in pins:
            self.require(pin.unit)
            at = self.master(pin.master)
            if found.setdefault(pin.unit, at) != at:
                first = self.masters[found[pin.unit]].name
                raise PlacementError(f"{pin.unit} is pinned to {first} and to {pin.master}")
            if pin.unit.kind == "home" and self.reach[pin.unit.name][at] == inf:
                raise PlacementError(f"{pin.unit} is pinned to {pin.master}, which it cannot reach")
            if at in self.draining:
                raise PlacementError(f"{pin.unit} is pinned to {pin.master}, which is draining")
        for at in dict.fromkeys(found.values()):
            self._check_limits(at, [unit for unit, where in found.items() if where == at])
        return found

    def _check_limits(self, at: int, pinned: list[Unit]) -> None:
        master = self.masters[at]
        spooled = {
            name for u in pinned if u.kind == "home" for name in self.published.get(u.name, {})
        }
        stored = sum(self.topics[name].spool_bytes for name in spooled)
        stored += sum(self.storage_of(unit) for unit in pinned)
        load = sum(self.load_of(unit) for unit in pinned)
        processors = sum(unit.kind == "processor" for unit in pinned)
        for needed, limit, what in (
            (stored, master.storage_bytes, "bytes of storage"),
            (load, master.compute, "CPU-seconds a second"),
            (processors, master.max_processors, "processors"),
        ):
            if needed > limit:
                raise PlacementError(
                    f"what is pinned to {master.name} needs {needed:g} {what}, it has {limit:g}"
                )

    def _add_master(self, master: Master) -> None:
        if master.name in self.number:
            raise PlacementError(f"there are two masters {master.name!r}")
        checked(f"storage_bytes of master {master.name}", master.storage_bytes, infinite=True)
        checked(f"compute of master {master.name}", master.compute, infinite=True)
        checked(f"opening_cost of master {master.name}", master.opening_cost)
        checked(f"max_processors of master {master.name}", master.max_processors)
        if master.cores < 1:
            raise PlacementError(f"master {master.name} has {master.cores} cores: give 1 or more")
        self.number[master.name] = len(self.masters)
        self.masters.append(master)

    def _matrix(self, links: Iterable[Link], unknown: float | None) -> list[list[float]]:
        count = len(self.masters)
        if unknown is not None:
            checked("unknown_delay_s", unknown)
        # Lists, since prices read whole rows: an array makes a float of each entry each time.
        rows = [[-1.0 if unknown is None else unknown] * count for _ in range(count)]
        for one in range(count):
            rows[one][one] = 0.0
        for link in links:
            what = f"the delay between masters {link.one} and {link.other}"
            one, other = self.master(link.one), self.master(link.other)
            rows[one][other] = rows[other][one] = checked(what, link.seconds)
            checked(f"the age of {what}", link.age_s)
            if one == other and link.seconds > 0:
                raise PlacementError(f"{what} is {link.seconds}: that of a master to itself is 0")
        for one, row in enumerate(rows):
            for other, seconds in enumerate(row):
                if seconds < 0:
                    names = f"{self.masters[one].name} and {self.masters[other].name}"
                    raise PlacementError(f"the delay between masters {names} is not known")
        return rows

    def _withdraw(self, name: str) -> None:
        before = self.topics.get(name)
        if before is not None:
            for client in before.publishers:
                self.published[client].pop(name, None)
            for client in before.subscribers:
                self.subscribed[client].pop(name, None)

    def _known(self) -> str:
        names = [each.name for each in self.masters[:5]]
        return ", ".join(names) + (" …" if len(self.masters) > 5 else "") or "none"
