"""An overlay of brokers without sockets: queues in order, links interleaved at random.

A link that goes down loses what was under way in both directions, and each end learns of it, and of
its coming up, in the order of its queue. The shell of a broker here keeps what a real one keeps on
disk: subscriptions, advertisements, and what was published and not settled.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator
from random import Random
from typing import Any

from agent.overlay.broker import NOT_ADVERTISED, Broker
from agent.overlay.events import (
    Advertise,
    Deliver,
    Event,
    LinkDown,
    LinkUp,
    Publish,
    Received,
    Reopen,
    Send,
    Settled,
    Subscribe,
    Tick,
    Unadvertise,
    Undeliverable,
    Unsubscribe,
)
from agent.overlay.limits import Limits
from agent.overlay.scot import BrokerId as At
from agent.overlay.scot import Scot
from agent.wire.overlay import (
    CibClear,
    CibSet,
    Notification,
    Notify,
    Origin,
    Relay,
    SubscriptionChange,
)
from agent.wire.predicates import Filter, Predicate

NEVER = 1e9
PATIENT = Limits(unknown_s=NEVER)

# --- notifications of a small world ---------------------------------------------------------------

NUMBERS = range(5)
WORDS = ("a", "b")
EVENTS = tuple({"x": float(x), "y": y} for x in NUMBERS for y in WORDS)


def between(low: int, high: int, word: str | None = None) -> Filter:
    """x from low to high, and y the word, if there is one."""
    conjunction = [Predicate("x", ">=", (float(low),)), Predicate("x", "<=", (float(high),))]
    if word is not None:
        conjunction.append(Predicate("y", "=", (word,)))
    return (tuple(conjunction),)


EVERYTHING: Filter = ((),)


def _filters() -> Iterator[tuple[Filter, int]]:
    """Each with the events that it holds for, as bits: closed ranges of whole numbers share a
    notification if and only if they share one of these."""
    simple = [EVERYTHING] + [
        between(low, high, word)
        for low in NUMBERS
        for high in NUMBERS[low:]
        for word in (None, *WORDS)
    ]
    for filter_ in simple:
        yield filter_, _bits(filter_)
    for a, b in zip(simple[1:], simple[-1:0:-1], strict=True):
        yield (*a, *b), _bits((*a, *b))


def _bits(filter_: Filter) -> int:
    return sum(1 << i for i, event in enumerate(EVENTS) if any(_holds(c, event) for c in filter_))


def _holds(conjunction: Iterable[Predicate], event: dict[str, Any]) -> bool:
    compare = {"=": "__eq__", ">=": "__ge__", "<=": "__le__"}
    return all(getattr(event[p.attribute], compare[p.operator])(p.operands[0]) for p in conjunction)


FILTERS = tuple(_filters())

# --- the world -----------------------------------------------------------------------------------


class _Marker:
    """In a queue: what the receiver learns of the link itself."""

    def __init__(self, event: type[LinkUp | LinkDown]) -> None:
        self.event = event


class Shell:
    """What a master keeps on disk for its broker."""

    def __init__(self) -> None:
        self.epoch = 0
        self.alive = False
        self.crashes = 0
        self.subscriptions: dict[str, Filter] = {}
        self.advertisements: dict[str, Filter] = {}
        self.spool: dict[Origin, Notification] = {}


class World:
    def __init__(
        self, scot: Scot, rng: Random, *, routing: Any = "idr", limits: Limits = PATIENT
    ) -> None:
        self.scot = scot
        self.rng = rng
        self.routing = routing
        self.limits = limits
        self.now = 0.0
        self.brokers: dict[At, Broker] = {}
        self.shells = {at: Shell() for at in scot.brokers()}
        self.links = {frozenset(pair) for pair in (*scot.a_links(), *scot.i_links())}
        self.up: set[frozenset[At]] = set()
        self.queues: dict[tuple[At, At], deque[tuple[int, Any]]] = {}
        self.busy: list[tuple[At, At]] = []
        # Their links are up, and they do nothing.
        self.wedged: set[At] = set()
        # Links that come up again, and when.
        self.paused: list[tuple[float, frozenset[At]]] = []
        # What happened.
        self.sent: Counter[str] = Counter()
        self.deliveries: Counter[tuple[At, str, Origin]] = Counter()
        self.settled: Counter[Origin] = Counter()
        self.undeliverable: list[Undeliverable] = []
        self.entered: Counter[tuple[Origin, int]] = Counter()
        self.copies: Counter[tuple[Origin, At]] = Counter()
        # Bits that a host was told to be set; and how often it was told what it knew.
        self.bits: set[tuple[At, At, int]] = set()
        self.needless_bits = 0
        self.subscription_hops = 0
        self.notification_hops = 0
        self.handled = 0
        # Of links that were reopened, in order.
        self.pauses: list[float] = []
        self.published = 0

    # --- brokers and links -----------------------------------------------------------------------

    def start(self, at: At) -> None:
        """The broker, with what its shell has kept; its links stay down."""
        shell = self.shells[at]
        shell.alive = True
        shell.epoch += 1
        self.brokers[at] = Broker(
            at, self.scot, epoch=shell.epoch, routing=self.routing, limits=self.limits
        )
        for name, filter_ in shell.subscriptions.items():
            self._handle(at, Subscribe(name, filter_))
        for name, filter_ in shell.advertisements.items():
            self._handle(at, Advertise(name, filter_))
        for notification in list(shell.spool.values()):
            self._handle(at, Publish(notification))

    def crash(self, at: At) -> None:
        self.shells[at].alive = False
        self.wedged.discard(at)
        self.shells[at].crashes += 1
        for link in self._links_of(at) & self.up:
            self.link_down(link)
        del self.brokers[at]
        for neighbour in self._neighbours(at):
            self._queue(neighbour, at).clear()

    def _neighbours(self, at: At) -> tuple[At, ...]:
        return self.scot.cluster_neighbours(at) + self.scot.region_neighbours(at)

    def _links_of(self, at: At) -> set[frozenset[At]]:
        return {frozenset((at, each)) for each in self._neighbours(at)}

    def link_up(self, link: frozenset[At]) -> None:
        if link in self.up or not all(self.shells[at].alive for at in link):
            return
        self.up.add(link)
        a, b = sorted(link)
        self._put(a, b, 0, _Marker(LinkUp))
        self._put(b, a, 0, _Marker(LinkUp))

    def link_down(self, link: frozenset[At]) -> None:
        if link not in self.up:
            return
        self.up.remove(link)
        a, b = sorted(link)
        for sender, receiver in ((a, b), (b, a)):
            queue = self._queue(sender, receiver)
            # What it has to learn of the link is not under way.
            markers = [each for each in queue if isinstance(each[1], _Marker)]
            queue.clear()
            queue.extend(markers)
            self._put(sender, receiver, 0, _Marker(LinkDown))

    def works(self, at: At) -> bool:
        return self.shells[at].alive and at not in self.wedged

    def wedge(self, at: At) -> None:
        """It hears nothing and says nothing from now on, though its links stay up."""
        self.wedged.add(at)

    def start_all(self) -> None:
        """Everything that is not there, in a random order of everything; who did nothing goes on
        with what came meanwhile."""
        self.wedged.clear()
        for at in self.shuffled(self.shells):
            if not self.shells[at].alive:
                self.start(at)
        for link in self.shuffled(sorted(map(sorted, self.links))):
            self.link_up(frozenset(At(*each) for each in link))

    def shuffled(self, things: Iterable[Any]) -> list[Any]:
        listed = list(things)
        self.rng.shuffle(listed)
        return listed

    def _queue(self, sender: At, receiver: At) -> deque[tuple[int, Any]]:
        return self.queues.setdefault((sender, receiver), deque())

    def _put(self, sender: At, receiver: At, hops: int, message: Any) -> None:
        queue = self._queue(sender, receiver)
        if not queue:
            self.busy.append((sender, receiver))
        queue.append((hops, message))

    # --- what users do ---------------------------------------------------------------------------

    def subscribe(self, at: At, name: str, filter_: Filter) -> None:
        self.shells[at].subscriptions[name] = filter_
        self._handle(at, Subscribe(name, filter_))

    def unsubscribe(self, at: At, name: str) -> None:
        del self.shells[at].subscriptions[name]
        self._handle(at, Unsubscribe(name))

    def advertise(self, at: At, name: str, filter_: Filter) -> None:
        self.shells[at].advertisements[name] = filter_
        self._handle(at, Advertise(name, filter_))

    def unadvertise(self, at: At, name: str) -> None:
        del self.shells[at].advertisements[name]
        self._handle(at, Unadvertise(name))

    def publish(self, at: At, attributes: dict[str, Any]) -> Origin:
        self.published += 1
        origin = Origin(f"{at.vertex}-{at.cluster}", "h", self.published)
        notification = Notification(origin, 0, attributes)
        self.shells[at].spool[origin] = notification
        self._handle(at, Publish(notification))
        return origin

    def do(self, at: At, event: Event) -> None:
        self._handle(at, event)

    # --- running ---------------------------------------------------------------------------------

    def _handle(self, at: At, event: Event, hops: int = 0) -> None:
        if not self.shells[at].alive:
            return
        self.handled += 1
        for instruction in self.brokers[at].handle(event, self.now):
            match instruction:
                case Send(neighbour, message):
                    self._sent(at, neighbour, message, hops + 1)
                case Deliver(names, notification):
                    for name in names:
                        self.deliveries[at, name, notification.origin] += 1
                case Settled(origin):
                    self.settled[origin] += 1
                    self.shells[at].spool.pop(origin, None)
                case Undeliverable(origin, reason):
                    self.undeliverable.append(instruction)
                    if reason == NOT_ADVERTISED:
                        self.shells[at].spool.pop(origin)
                case Reopen(neighbour, pause_s):
                    self.pauses.append(pause_s)
                    link = frozenset((at, neighbour))
                    self.link_down(link)
                    self.paused.append((self.now + pause_s, link))

    def _sent(self, at: At, to: At, message: Any, hops: int) -> None:
        self.sent[type(message).__name__] += 1
        if frozenset((at, to)) not in self.up:
            return  # it has not noticed yet
        if isinstance(message, Relay):
            assert len({message.source, *message.path}) == len(message.path) + 1, "a loop"
        if isinstance(message, Notify):
            self.notification_hops = max(self.notification_hops, hops)
            self.copies[message.notification.origin, to] += 1
            if at.cluster != to.cluster:
                self.entered[message.notification.origin, to.cluster] += 1
        if isinstance(message, CibSet | CibClear):
            self.needless_bits += ((at, to, message.key) in self.bits) == isinstance(
                message, CibSet
            )
            self.bits ^= {(at, to, message.key)}
        if isinstance(message, SubscriptionChange):
            self.subscription_hops = max(self.subscription_hops, hops)
        self._put(at, to, hops, message)

    def step(self) -> bool:
        """One message of a random link; False if nothing is under way."""
        while True:
            able = range(len(self.busy))
            if self.wedged:
                able = [i for i in able if self.busy[i][1] not in self.wedged]
            if not able:
                return False
            index = able[self.rng.randrange(len(able))]
            sender, receiver = self.busy[index]
            queue = self.queues[sender, receiver]
            if len(queue) <= 1:
                self.busy[index] = self.busy[-1]
                self.busy.pop()
            if not queue:
                continue  # it was lost
            hops, message = queue.popleft()
            if isinstance(message, _Marker):
                self._handle(receiver, message.event(sender))
            else:
                self._handle(receiver, Received(sender, message), hops)
            return True

    def run(self, most: int) -> None:
        """At most so many messages."""
        for _ in range(most):
            if not self.step():
                return

    def quiet(self, most: int = 100_000) -> None:
        """Until nothing is under way; time stands still."""
        for _ in range(most):
            if not self.step():
                return
        raise AssertionError("it never ends")

    def tick(self) -> bool:
        """Time goes to the next moment that a broker waits for, and somewhat further, so that
        nobody is in step with others; False if there is none."""
        due = [b.next_tick for at, b in self.brokers.items() if at not in self.wedged]
        due += [at for at, _ in self.paused]
        moments = [each for each in due if each is not None and each < NEVER]
        if not moments:
            return False
        self.wait(max(0.0, min(moments) - self.now))
        self.now += self.rng.random()
        return True

    def wait(self, seconds: float) -> None:
        """Time goes on, whatever is under way."""
        self.now += seconds
        over = [link for at, link in self.paused if at <= self.now]
        self.paused = [each for each in self.paused if each[0] > self.now]
        for link in over:
            self.link_up(link)
        for at, broker in list(self.brokers.items()):
            if at in self.wedged:
                continue
            if broker.next_tick is not None and broker.next_tick <= self.now:
                self._handle(at, Tick())

    def rest(self, most: int = 200) -> None:
        """Until nothing is under way or kept."""
        for _ in range(most):
            self.quiet()
            if not self.tick() and not self._publish_again():
                return
        raise AssertionError(f"still kept after {most} ticks: {self.held()}")

    def _publish_again(self) -> bool:
        """Something that was given up; False if there is nothing."""
        waiting = [
            (at, origin)
            for at, shell in self.shells.items()
            for origin in shell.spool
            if self.works(at)
        ]
        if not waiting:
            return False
        at, origin = self.rng.choice(waiting)
        self._handle(at, Publish(self.shells[at].spool[origin]))
        return True

    # --- what is ----------------------------------------------------------------------------------

    def held(self) -> dict[At, int]:
        return {at: broker.held for at, broker in self.brokers.items() if broker.held}

    def message_total(self, *kinds: type) -> int:
        return sum(self.sent[kind.__name__] for kind in kinds)


def tree(rng: Random, size: int) -> list[tuple[str, str]]:
    """A random one."""
    return [(f"v{rng.randrange(i)}", f"v{i}") for i in range(1, size)]


def scot_of(rng: Random, vertices: int, clusters: int) -> Scot:
    return Scot(tree(rng, vertices), clusters, [f"v{i}" for i in range(vertices)])
