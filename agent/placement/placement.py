"""A placement, unit → master, with accounts that each change updates in O(degree).

A topic's spool is stored once at each master that is home of at least one of its publishers
(RELOC); load and the states of processors add up. Besides, each topic knows how much is published,
and how many subscribe, at each master: so a price looks at the masters of a topic, not at its
members.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from math import inf

import msgspec

from agent.placement.world import Client, Flow, PlacementError, Topic, Unit, World


class Account:
    """A master's load: `units`, `stand_ins` among them, and `homes` that are none; `processors`,
    `storage` in bytes, `load` in CPU-seconds a second.

    `deliveries` (a second) are those of messages that homes here process themselves, and `distance`
    is the delay between homes that these have: Σ rate · delay, in seconds a second.
    """

    __slots__ = (
        "deliveries",
        "distance",
        "homes",
        "load",
        "processors",
        "stand_ins",
        "storage",
        "topics",
        "units",
    )

    def __init__(self) -> None:
        self.units = 0
        self.stand_ins = 0
        self.homes = 0
        self.storage = 0.0
        self.load = 0.0
        self.deliveries = 0.0
        self.distance = 0.0
        self.processors: dict[str, None] = {}
        self.topics: dict[str, int] = {}  # topic → its publishers here

    @property
    def in_use(self) -> bool:
        """Whether the master has anything that could be elsewhere."""
        return self.units > self.stand_ins


class Members:
    """Places of a topic's members, by master: the rate that is published, the number of
    subscribers, and `own`, the rate of those who do both and are not sent their own messages."""

    __slots__ = ("own", "published", "subscribers")

    def __init__(self) -> None:
        self.published: dict[int, float] = {}
        self.subscribers: dict[int, int] = {}
        self.own: dict[int, float] = {}


class Placement:
    """Place of each unit. `place`, `remove` and the changes of members keep the accounts."""

    def __init__(self, world: World, places: Iterable[tuple[Unit, str]] = ()) -> None:
        """PlacementError if a unit has two owners, or names what is not there."""
        self.world = world
        self.accounts = [Account() for _ in world.masters]
        self.members: dict[str, Members] = {}
        self._where: dict[Unit, int] = {}
        for unit, name in places:
            self.place(unit, name)

    # -- reading ---------------------------------------------------------------------------------

    def where(self, unit: Unit) -> int | None:
        """The number of the master where a unit lives, or None. O(1)."""
        return self._where.get(unit)

    def items(self) -> Iterator[tuple[Unit, int]]:
        """All units that are placed, with the numbers of their masters."""
        yield from self._where.items()

    def by_name(self) -> Mapping[Unit, str]:
        """All units that are placed, with the names of their masters. O(units)."""
        return {unit: self.world.masters[at].name for unit, at in self._where.items()}

    def copy(self) -> Placement:
        """A placement of the same world that changes by itself. O(units · degree)."""
        copied = Placement(self.world)
        for unit, at in self._where.items():
            copied.put(unit, at)
        return copied

    # -- changes of places -----------------------------------------------------------------------

    def place(self, unit: Unit, master: str) -> None:
        """Put a unit that is nowhere yet at a master; PlacementError if it has an owner already, or
        a client cannot reach it. O(degree)."""
        self.world.require(unit)
        at = self.world.master(master)
        owner = self._where.get(unit)
        if owner is not None:
            names = f"{self.world.masters[owner].name} and {master}"
            raise PlacementError(f"{unit} has two owners: {names}")
        if unit.kind == "home" and self.world.reach[unit.name][at] == inf:
            raise PlacementError(f"client {unit.name} cannot reach {master}")
        self.put(unit, at)

    def remove(self, unit: Unit) -> int:
        """Take a unit away; returns the number of its master. O(degree)."""
        at = self._where.pop(unit, None)
        if at is None:
            raise PlacementError(f"{unit} is nowhere")
        self._account(unit, at, -1)
        return at

    def move(self, unit: Unit, target: int) -> None:
        """Move a unit that is placed. O(degree)."""
        self.remove(unit)
        self.put(unit, target)

    # -- changes of the world --------------------------------------------------------------------

    def put_topic(self, topic: Topic) -> None:
        """Add a topic or replace it, such as by one with other members. O(its members), and
        O(degree) for each of those that it changes for. PlacementError, and nothing changes, if it
        contradicts itself or names what is not there."""
        self.world.check_topic(topic)
        if not topic.processor:
            self._drop_flows(Unit("processor", topic.name))
        changed = self._changed(self.world.topics.get(topic.name), topic)
        places = [(unit, self.remove(unit)) for unit in changed if unit in self._where]
        self.world.put_topic(topic)
        for unit, at in places:
            if self.world.has(unit):
                self.put(unit, at)

    def drop_topic(self, name: str) -> None:
        """Remove a topic and its processor. O(its members · degree)."""
        if name not in self.world.topics:
            raise PlacementError(f"there is no topic {name!r}")
        topic = self.world.topics[name]
        self._drop_flows(Unit("processor", name))
        self.put_topic(msgspec.structs.replace(topic, publishers={}, subscribers=frozenset()))
        if Unit("processor", name) in self._where:
            self.remove(Unit("processor", name))
        self.world.drop_topic(name)
        self.members.pop(name, None)

    def put_flow(self, flow: Flow) -> None:
        """Set the rate of a flow; 0 removes it. O(1)."""
        before = self.world.peers.get(flow.one, {}).get(flow.other, 0.0)
        self.world.put_flow(flow)
        for unit in (flow.one, flow.other):
            at = self._where.get(unit)
            if at is not None and unit.kind == "clone":
                self.accounts[at].load += flow.rate - before

    def join(
        self, client: Client, publishes: Mapping[str, float], subscribes: Iterable[str] = ()
    ) -> Unit:
        """A client appears as a member of these topics; its home is nowhere yet. PlacementError,
        and nothing changes, if it is there already, a topic is not, or a rate or delay is not a
        number of 0 or more. O(members of its topics)."""
        subscribed = dict.fromkeys(subscribes)
        unit = Unit("home", client.name)
        if self.world.has(unit):
            raise PlacementError(f"client {client.name} is there already")
        for name in (*publishes, *subscribed):
            if name not in self.world.topics:
                raise PlacementError(f"client {client.name}: there is no topic {name!r}")
        for name, rate in publishes.items():
            self.world.check_rate(name, client.name, rate)
        self.world.put_client(client)
        for name in {**dict.fromkeys(publishes), **subscribed}:
            topic = self.world.topics[name]
            publishers, subscribers = topic.publishers, topic.subscribers
            if name in publishes:
                publishers = publishers | {client.name: publishes[name]}
            if name in subscribed:
                subscribers = subscribers | {client.name}
            self.put_topic(
                msgspec.structs.replace(topic, publishers=publishers, subscribers=subscribers)
            )
        return unit

    def leave(self, name: str) -> None:
        """A client disappears, with its home, flows and memberships. O(members of its topics)."""
        unit = Unit("home", name)
        self.world.require(unit)
        self._drop_flows(unit)
        if unit in self._where:
            self.remove(unit)
        topics = {**self.world.published.get(name, {}), **self.world.subscribed.get(name, {})}
        for each in topics:
            topic = self.world.topics[each]
            publishers = {who: rate for who, rate in topic.publishers.items() if who != name}
            subscribers = topic.subscribers - {name}
            self.put_topic(
                msgspec.structs.replace(topic, publishers=publishers, subscribers=subscribers)
            )
        self.world.drop_client(name)

    # -- accounts --------------------------------------------------------------------------------

    def _drop_flows(self, unit: Unit) -> None:
        """The clones at the other ends have less load from now on. O(flows)."""
        for peer in list(self.world.peers.get(unit, ())):
            self.put_flow(Flow(unit, peer, 0.0))

    def _changed(self, before: Topic | None, after: Topic) -> list[Unit]:
        """The units whose share in the accounts another version of a topic changes."""
        old = Topic(after.name) if before is None else before
        clients = {**old.publishers, **after.publishers}
        clients |= dict.fromkeys(sorted(old.subscribers | after.subscribers), 0.0)
        kept = ("spool_bytes", "service_s", "processor", "state_bytes", "peer_rate")
        if all(getattr(old, each) == getattr(after, each) for each in kept):
            clients = {
                client: 0.0
                for client in clients
                if old.publishers.get(client) != after.publishers.get(client)
                or (client in old.subscribers) != (client in after.subscribers)
            }
        return [Unit("processor", after.name), *(Unit("home", client) for client in clients)]

    def put(self, unit: Unit, at: int) -> None:
        """As `place`, by the master's number and without checks. O(degree)."""
        self._where[unit] = at
        self._account(unit, at, 1)

    def _account(self, unit: Unit, at: int, sign: int) -> None:
        account = self.accounts[at]
        account.units += sign
        account.load += sign * self.world.load_of(unit)
        account.storage += sign * self.world.storage_of(unit)
        if unit.kind == "home":
            if unit.name in self.world.stand_ins:
                account.stand_ins += sign
            else:
                account.homes += sign
            self._account_home(unit.name, at, sign)
        elif unit.kind == "processor":
            if sign > 0:
                account.processors[unit.name] = None
            else:
                del account.processors[unit.name]
        if not account.units:  # What rounding has left over goes, too.
            account.storage = account.load = account.deliveries = account.distance = 0.0

    def _account_home(self, client: str, at: int, sign: int) -> None:
        """A client's own message is not delivered back to it: deliveries from and to others are
        counted while its own memberships are not."""
        published = self.world.published.get(client, {})
        subscribed = self.world.subscribed.get(client, {})
        if sign < 0:
            self._count(published, subscribed, at, -1)
        topics, accounts, row = self.world.topics, self.accounts, self.world.between[at]
        for name in subscribed:
            members = self.members.get(name)
            if members is None or topics[name].processor:
                continue
            for master, rate in members.published.items():
                accounts[master].deliveries += sign * rate
                accounts[master].distance += sign * rate * row[master]
        mine = accounts[at]
        for name, rate in published.items():
            members = self.members.get(name)
            if members is None or topics[name].processor:
                continue
            for master, number in members.subscribers.items():
                mine.deliveries += sign * rate * number
                mine.distance += sign * rate * number * row[master]
        if sign > 0:
            self._count(published, subscribed, at, 1)

    def _count(
        self, published: Mapping[str, float], subscribed: Mapping[str, None], at: int, sign: int
    ) -> None:
        account = self.accounts[at]
        for name, rate in published.items():
            members = self.members.setdefault(name, Members())
            rates = members.published
            number = account.topics.get(name, 0)
            if not number or number + sign == 0:  # Stored once for all publishers here.
                account.storage += sign * self.world.topics[name].spool_bytes
            if number + sign:
                account.topics[name] = number + sign
                rates[at] = rates.get(at, 0.0) + sign * rate
            else:
                del account.topics[name], rates[at]
                members.own.pop(at, None)
            if name in subscribed and at in rates:
                members.own[at] = members.own.get(at, 0.0) + sign * rate
        for name in subscribed:
            numbers = self.members.setdefault(name, Members()).subscribers
            numbers[at] = numbers.get(at, 0) + sign
            if not numbers[at]:
                del numbers[at]
