"""Random schedules of a small overlay, held against what users are owed.

A schedule is some phases: users subscribe, advertise, publish and change their minds while messages
are under way in a random order; then all comes to rest. Owed is what was published under an
advertisement that stood unchanged since the rest before, to each subscription that stood unchanged
from then until the rest after.
"""

from __future__ import annotations

from collections import Counter
from random import Random

from agent.overlay.broker import NOT_ADVERTISED
from agent.overlay.events import LinkMeasured
from agent.overlay.limits import Limits
from agent.overlay.scot import BrokerId as At
from agent.overlay.scot import Scot
from agent.wire.overlay import Origin
from agent.wire.predicates import Filter
from tests.overlay.world import EVENTS, FILTERS, NEVER, PATIENT, World, scot_of


class Schedule:
    """One run. `check` and `withdraw` raise if something is not as it has to be."""

    def __init__(self, rng: Random, scot: Scot, limits: Limits = PATIENT) -> None:
        self.rng = rng
        self.scot = scot
        self.ats = list(self.scot.brokers())
        self.world = World(scot, rng, routing=rng.choice(["snr", "idr"]), limits=limits)
        # By broker and name, the events that it holds for, as bits.
        self.subscriptions: dict[tuple[At, str], int] = {}
        self.advertisements: dict[tuple[At, str], int] = {}
        # Unchanged since the last rest.
        self.stable_subscriptions: dict[tuple[At, str], int] = {}
        self.stable_advertisements: dict[tuple[At, str], int] = {}
        # By notification, its event and its home, and whether a stable advertisement announced it.
        self.published: dict[Origin, tuple[int, At, bool]] = {}
        self.crashed: set[At] = set()
        # Of this phase: every subscription that there was, with all that it ever held for.
        self.ever: dict[tuple[At, str], int] = {}
        # How often a user changed something.
        self.changes: Counter[str] = Counter()
        self.names = 0
        self.fails = False
        # How often which kind, see `fail`.
        self.failures = [4, 4, 2, 3, 3, 1, 1]
        self.world.start_all()
        self.rest()

    # --- what users do ---------------------------------------------------------------------------

    def act(self) -> None:
        """One random thing, then some messages."""
        kind = self.rng.choices(
            ["subscribe", "unsubscribe", "advertise", "unadvertise", "publish", "congest"],
            [4, 2, 3, 1, 6, 2],
        )[0]
        getattr(self, kind)()
        self.world.run(self.rng.randrange(12))

    def _some_broker(self) -> At:
        return self.rng.choice([at for at in self.ats if self.world.works(at)])

    def _some(self, table: dict[tuple[At, str], int]) -> tuple[At, str] | None:
        able = [each for each in table if self.world.works(each[0])]
        return self.rng.choice(able) if able else None

    def subscribe(self) -> None:
        known = self._some(self.subscriptions) if self.rng.random() < 0.2 else None
        at, name = known or (self._some_broker(), self._name("s"))
        self.subscribe_as(at, name, *self.rng.choice(FILTERS))

    def subscribe_as(self, at: At, name: str, filter_: Filter, bits: int) -> None:
        if self.world.shells[at].subscriptions.get(name) == filter_:
            return
        self.changes["subscriptions"] += 1
        self.world.subscribe(at, name, filter_)
        self.subscriptions[at, name] = bits
        self.ever[at, name] = self.ever.get((at, name), 0) | bits
        self.stable_subscriptions.pop((at, name), None)

    def unsubscribe(self) -> None:
        known = self._some(self.subscriptions)
        if known is not None:
            self.unsubscribe_as(*known)

    def unsubscribe_as(self, at: At, name: str) -> None:
        self.changes["subscriptions"] += 1
        self.world.unsubscribe(at, name)
        del self.subscriptions[at, name]
        self.stable_subscriptions.pop((at, name), None)

    def advertise(self) -> None:
        known = self._some(self.advertisements) if self.rng.random() < 0.2 else None
        at, name = known or (self._some_broker(), self._name("a"))
        self.advertise_as(at, name, *self.rng.choice(FILTERS))

    def advertise_as(self, at: At, name: str, filter_: Filter, bits: int) -> None:
        if self.world.shells[at].advertisements.get(name) == filter_:
            return
        self.changes["advertisements"] += 1
        self.world.advertise(at, name, filter_)
        self.advertisements[at, name] = bits
        self.stable_advertisements.pop((at, name), None)

    def unadvertise(self) -> None:
        known = self._some(self.advertisements)
        if known is not None:
            self.unadvertise_as(*known)

    def unadvertise_as(self, at: At, name: str) -> None:
        self.changes["advertisements"] += 1
        self.world.unadvertise(at, name)
        del self.advertisements[at, name]
        self.stable_advertisements.pop((at, name), None)

    def publish(self) -> None:
        known = self._some(self.advertisements)
        if known is not None:
            self.publish_as(known[0], self.rng.choice(_events(self.advertisements[known])))

    def publish_as(self, at: At, event: int) -> None:
        origin = self.world.publish(at, EVENTS[event])
        self.published[origin] = event, at, self._announced(at, event)

    def _announced(self, at: At, event: int) -> bool:
        stable = self.stable_advertisements.items()
        return any(here == at and bits >> event & 1 for (here, _), bits in stable)

    def congest(self) -> None:
        at = self._some_broker()
        neighbours = self.scot.cluster_neighbours(at) + self.scot.region_neighbours(at)
        for neighbour in neighbours:
            length = self.rng.choice([0, 0, 5, 50])
            self.world.do(at, LinkMeasured(neighbour, length, self.rng.randrange(3), length))

    def fail(self) -> None:
        """Something breaks, or is whole again; or time passes."""
        world, rng = self.world, self.rng
        kinds = ["down", "up", "crash", "start", "wait", "wedge", "go_on"]
        kind = rng.choices(kinds, self.failures)[0]
        links = sorted(map(sorted, world.links))
        if kind == "down" and world.up:
            world.link_down(frozenset(rng.choice(sorted(map(sorted, world.up)))))
        elif kind == "up" and links:
            world.link_up(frozenset(rng.choice(links)))
        elif kind == "crash":
            able = [at for at in self.ats if world.works(at)]
            if len(able) > 1:
                at = rng.choice(able)
                self.crashed.add(at)
                world.crash(at)
        elif kind == "start":
            dead = [at for at in self.ats if not world.shells[at].alive]
            if dead:
                world.start(rng.choice(dead))
        elif kind == "wait":
            world.wait(rng.choice([0.1, 1.0, 6.0, 31.0]))
        elif kind == "wedge":
            able = [at for at in self.ats if world.works(at)]
            if len(able) > 1:
                world.wedge(rng.choice(able))
        elif kind == "go_on" and world.wedged:
            world.wedged.remove(rng.choice(sorted(world.wedged)))
        world.run(rng.randrange(12))

    def _name(self, letter: str) -> str:
        self.names += 1
        return f"{letter}{self.names}"

    # --- rest ------------------------------------------------------------------------------------

    def rest(self) -> None:
        """Until nothing is under way, then everything is checked."""
        self.world.rest()
        self.check()
        self.stable_subscriptions = dict(self.subscriptions)
        self.stable_advertisements = dict(self.advertisements)
        self.ever = dict(self.subscriptions)
        self.published.clear()
        self.world.deliveries.clear()
        self.world.settled.clear()
        self.world.undeliverable.clear()
        self.world.entered.clear()
        self.world.copies.clear()
        self.crashed.clear()

    def check(self) -> None:
        self.check_deliveries()
        if not self.fails:
            self.check_clusters()
        self.check_bits()

    def check_deliveries(self) -> None:
        """Each once, all that are owed, none that nobody wants, and all is settled.

        Who crashed may have one twice. What is published again, after a crash or because it was
        given up, is refused if its advertisement was withdrawn meanwhile."""
        world = self.world
        for (at, name, origin), times in world.deliveries.items():
            event, _, _ = self.published[origin]
            assert times == 1 or at in self.crashed, f"{name} at {at} has {origin} {times} times"
            assert self.ever[at, name] >> event & 1, f"{name} at {at} has {origin}, unwanted"
        refused = {each.origin for each in world.undeliverable if each.reason == NOT_ADVERTISED}
        given_up = {e.origin for e in world.undeliverable if e.reason.startswith("more than")}
        for origin, (event, home, announced) in self.published.items():
            if origin in refused:
                assert home in self.crashed or origin in given_up
                assert not self._announced(home, event)
            else:
                assert world.settled[origin], f"{origin} is not settled"
                if announced and (home not in self.crashed or self._announced(home, event)):
                    self._check_delivered(origin, event)
        assert not world.held()

    def _check_delivered(self, origin: Origin, event: int) -> None:
        for (at, name), bits in self.stable_subscriptions.items():
            if bits >> event & 1:
                assert self.world.deliveries[at, name, origin], f"{name} at {at} misses {origin}"

    def calm(self) -> None:
        """Until nothing is under way, and what found no way has tried another."""
        for _ in range(3):
            self.world.quiet()
            self.world.wait(6.0)
        self.world.quiet()

    def begin_without(self, down: At) -> None:
        """Owed from now on is what everybody but that broker wants and announces."""
        subscriptions, advertisements = self.subscriptions, self.advertisements
        self.stable_subscriptions = {k: subscriptions[k] for k in subscriptions if k[0] != down}
        self.stable_advertisements = {k: advertisements[k] for k in advertisements if k[0] != down}
        for origin, (event, home, _) in self.published.items():
            self.published[origin] = event, home, False

    def check_owed(self) -> None:
        """What is owed is there, though not all may be settled."""
        for origin, (event, _, announced) in self.published.items():
            if announced:
                self._check_delivered(origin, event)

    def check_clusters(self) -> None:
        """No notification enters a cluster twice, or its own again, or comes to a broker twice."""
        for (origin, at), times in self.world.copies.items():
            assert times == 1, f"{origin} came to {at} {times} times"
        for (origin, cluster), times in self.world.entered.items():
            assert times == 1, f"{origin} entered cluster {cluster} {times} times"
            assert not origin.publisher.endswith(f"-{cluster}"), f"{origin} came back"

    def check_bits(self) -> None:
        """A bit is set if and only if some subscription of that cluster may want it."""
        for (at, name), announced in self.advertisements.items():
            wanted = {
                home.cluster
                for (home, _), bits in self.subscriptions.items()
                if bits & announced and home.cluster != at.cluster
            }
            assert self.world.brokers[at].targets_of(name) == sorted(wanted), (at, name)

    def withdraw(self) -> None:
        """Everything; then all tables are empty."""
        for table, withdraw in (
            (self.subscriptions, self.world.unsubscribe),
            (self.advertisements, self.world.unadvertise),
        ):
            for at, name in self.world.shuffled(table):
                withdraw(at, name)
                self.world.run(self.rng.randrange(6))
            table.clear()
        self.rest()
        for at, broker in self.world.brokers.items():
            assert (broker.srt_entries, broker.prt_entries, broker.held) == (0, 0, 0), at


def _size(rng: Random) -> tuple[int, int]:
    """Most are small; a few are as large as 8 vertices and 4 clusters."""
    if rng.random() < 0.03:
        return rng.randint(1, 8), rng.randint(1, 4)
    return rng.randint(1, 4), rng.randint(1, 3)


def _events(bits: int) -> list[int]:
    return [i for i in range(len(EVENTS)) if bits >> i & 1]


def without_failures(seed: int) -> World:
    """One schedule in which no link and no broker fails."""
    rng = Random(seed)
    schedule = Schedule(rng, scot_of(rng, *_size(rng)))
    world, scot = schedule.world, schedule.scot
    before = world.sent.copy()
    for _ in range(rng.randint(1, 3)):
        for _ in range(rng.randint(5, 30)):
            schedule.act()
        schedule.rest()
    sent = world.sent - before
    assert sent.keys() <= _NORMAL, sent
    advertisements, subscriptions = (schedule.changes[each] for each in _TABLES)
    assert sent["AdvertisementChange"] == advertisements * (scot.clusters - 1)
    assert sent["SubscriptionChange"] == subscriptions * (len(scot.vertices) - 1)
    assert sent["Have"] <= sent["Notify"] * scot.clusters
    schedule.withdraw()
    assert world.needless_bits == 0
    assert world.subscription_hops <= scot.tree.diameter
    # The bound of agent.overlay.routing: each cluster is walked through once.
    assert world.notification_hops <= scot.clusters * (scot.tree.diameter + 1)
    return world


def with_failures(seed: int, limits: Limits = PATIENT, failures: list[int] | None = None) -> World:
    """One schedule in which links go down and up, and brokers crash and start again, or do nothing
    for a while."""
    rng = Random(seed)
    schedule = Schedule(rng, scot_of(rng, *_size(rng)), limits)
    schedule.fails = True
    schedule.failures = failures or schedule.failures
    for _ in range(rng.randint(1, 3)):
        for _ in range(rng.randint(3, 20)):
            schedule.act()
        schedule.rest()
        often = rng.choice([0.1, 0.3, 0.5])
        for _ in range(rng.randint(5, 40)):
            if rng.random() < often:
                schedule.fail()
            else:
                schedule.act()
        schedule.world.start_all()
        schedule.rest()
    schedule.withdraw()
    return schedule.world


def with_little_room(seed: int) -> World:
    """The same where few notifications are kept: they are given up, and published again. Word that
    they are settled waits a little."""
    most_held = Random(seed).randint(1, 4)
    return with_failures(seed, Limits(unknown_s=NEVER, most_held=most_held, batch_s=0.05))


def with_impatience(seed: int) -> World:
    """The same where a neighbour soon counts as one that does nothing: rightly or not."""
    limits = Limits(unknown_s=NEVER, resend_s=0.5, stuck_s=0.5)
    return with_failures(seed, limits, failures=[1, 1, 1, 2, 10, 6, 2])


def with_one_down(seed: int) -> World:
    """One schedule in which users change their minds while a broker is down: once all have heard
    of it, they are owed what is published while it is still down."""
    rng = Random(seed)
    schedule = Schedule(rng, scot_of(rng, rng.randint(2, 5), rng.randint(2, 3)))
    schedule.fails = True
    world = schedule.world
    for _ in range(rng.randint(5, 20)):
        schedule.act()
    schedule.rest()
    down = rng.choice(schedule.ats)
    schedule.crashed.add(down)
    world.crash(down)
    world.quiet()
    for _ in range(rng.randint(1, 15)):
        schedule.act()
    schedule.calm()
    schedule.begin_without(down)
    for _ in range(rng.randint(1, 10)):
        schedule.publish()
        world.run(rng.randrange(12))
    schedule.calm()
    schedule.check_owed()
    world.start_all()
    schedule.rest()
    schedule.withdraw()
    return world


_TABLES = ("advertisements", "subscriptions")
_NORMAL = {
    "SubscriptionChange",
    "AdvertisementChange",
    "CibSet",
    "CibClear",
    "Notify",
    "Have",
}
