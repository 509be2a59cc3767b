"""Discrete-event simulation of brokers: production code in virtual time, around an event heap.

A broker is a server that handles one event at a time, in the order of arrival: it decides at once,
and its messages leave when its service time is over. Each direction of a link is a queue with a
transmission time for each message, and a propagation delay. Nothing else takes time.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, Protocol, TypeGuard

from msgspec import Struct

from agent.overlay.events import (
    Deliver,
    Instruction,
    LinkUp,
    Received,
    Send,
    Settled,
    Tick,
    Undeliverable,
)
from agent.overlay.link_congestion import LinkMonitor
from agent.overlay.scot import BrokerId, LinkKind, Scot
from agent.wire.overlay import Notification, SubscriptionVersions

TICK: Final = Tick()
SAMPLE: Final = object()


class AnyBroker(Protocol):
    """The interface that every routing scheme has."""

    def handle(self, event: Any, now: float) -> list[Instruction]:
        """Handle one event; returns the instructions."""

    @property
    def next_tick(self) -> float | None:
        """When it needs a tick, in seconds."""

    @property
    def srt_entries(self) -> int:
        """Advertisements in its table."""

    @property
    def prt_entries(self) -> int:
        """Subscriptions in its table."""


# (broker, event, its instructions) → seconds of the broker's work.
Service = Callable[[AnyBroker, Any, Sequence[Instruction]], float]
# message → seconds.
Transmission = Callable[[Any], float]
# (subscriptions, notification, time in seconds): a notification has reached its subscribers.
Delivered = Callable[[tuple[str, ...], Notification, float], None]
# (time, place, event), in order of time.
Happening = tuple[float, BrokerId, Any]


class Costs(Struct, frozen=True):
    """What takes time: `service` of a broker, `transmission` of a message by a link, and the
    propagation delay `delay_s`. An aLink has `a_link_bandwidth` times the bandwidth.

    With `one_sender` all links of a broker share one transmission at a time, in the order of the
    messages: the bottleneck is then the broker's time, not the bandwidth.
    """

    service: Service
    transmission: Transmission
    delay_s: float = 0.0
    a_link_bandwidth: float = 1.0
    one_sender: bool = False


class Reach:
    """The effects of one event of a client: the number of messages by the name of their class, and
    when (in seconds) the last broker that got one of `kinds` had handled its first."""

    __slots__ = ("began_s", "brokers", "kinds", "last_s", "messages")

    def __init__(self, kinds: frozenset[str]) -> None:
        self.kinds = kinds
        self.messages: Counter[str] = Counter()
        self.brokers: set[BrokerId] = set()
        self.began_s = self.last_s = math.nan

    @property
    def delay_s(self) -> float:
        """From the event to the last of these brokers; 0 if it reached no other."""
        return self.last_s - self.began_s


class _Link:
    """One direction of a link: when it is free again, and when notifications leave its queue; how
    many there were, and how long they waited."""

    __slots__ = (
        *("bandwidth", "copies", "free_s", "kind", "leave_s", "neighbour", "target"),
        "waited_s",
    )

    def __init__(
        self, target: _Node, kind: LinkKind, bandwidth: float, leave_s: deque[float]
    ) -> None:
        self.kind = kind
        self.copies = 0
        self.waited_s = 0.0
        self.target = target
        self.bandwidth = bandwidth
        self.neighbour = target.at
        self.free_s = 0.0
        self.leave_s = leave_s

    def left(self, now: float) -> int:
        """Number of notifications that left the queue since the last call."""
        count, waiting = 0, self.leave_s
        while waiting and waiting[0] <= now:
            waiting.popleft()
            count += 1
        return count


# Shared by all unmeasured links, because an empty queue allocates 64 entries and there are many.
_UNMEASURED: Final[deque[float]] = deque(maxlen=0)


class _Node:
    """A broker, its inbox, the links that it has used, and their monitor."""

    __slots__ = (
        *("at", "broker", "free_s", "handle", "inbox", "links", "monitor"),
        *("sampled", "sender_s", "tick_s"),
    )

    def __init__(self, at: BrokerId, broker: AnyBroker, window_s: float | None) -> None:
        self.at = at
        self.broker = broker
        self.handle = broker.handle
        self.inbox: deque[tuple[Reach | None, Any]] = deque()
        self.links: dict[BrokerId, _Link] = {}
        self.monitor = LinkMonitor(window_s) if window_s is not None else None
        self.sampled = False  # whether the end of a window is in the heap
        self.free_s = 0.0
        self.sender_s = 0.0
        self.tick_s = math.inf


class World:
    """An overlay in virtual time. Deterministic: equal events in equal order give equal results.

    A link's queue is measured by its messages of the classes named `measured`, in windows of
    `window_s` seconds; without that, not at all. `messages` counts the messages sent, by class.
    """

    def __init__(
        self,
        scot: Scot,
        make: Callable[[BrokerId], AnyBroker],
        costs: Costs,
        *,
        measured: Iterable[str] = (),
        window_s: float | None = None,
        delivered: Delivered | None = None,
    ) -> None:
        self.now = 0.0
        self.messages: Counter[str] = Counter()
        self.settled = 0
        self.undeliverable: Counter[str] = Counter()
        self._scot = scot
        self._costs = costs
        self._measured = frozenset(measured)
        self._delivered = delivered
        self._heap: list[tuple[float, int, _Node | None, Reach | None, Any]] = []
        self._pushed = 0
        self._nodes = {at: _Node(at, make(at), window_s) for at in scot.brokers()}

    def broker(self, at: BrokerId) -> AnyBroker:
        """The broker there."""
        return self._nodes[at].broker

    @property
    def brokers(self) -> list[AnyBroker]:
        """All of them, cluster by cluster."""
        return [node.broker for node in self._nodes.values()]

    def mean_wait_s(self, kind: LinkKind) -> float:
        """Mean wait of a measured message before it is sent over such a link, in seconds; 0 without
        any."""
        links = [e for node in self._nodes.values() for e in node.links.values() if e.kind == kind]
        return sum(each.waited_s for each in links) / max(1, sum(each.copies for each in links))

    def connect(self) -> int:
        """Bring all links up, and run until no events are left; returns the number of messages,
        which are not counted elsewhere."""
        for node in self._nodes.values():
            for neighbour in self._neighbours(node):
                self._push(self.now, node, None, LinkUp(neighbour))
        self.run()
        count = self.messages.total()
        self.messages.clear()
        return count

    def connect_told(self) -> None:
        """As `connect`, but brokers skip announcing to their clusters that they have no
        subscriptions: n brokers would each send n messages. Each takes it that its neighbours know
        what it knows. Requires brokers that do not wait for those not heard of."""
        for vertex in self._scot.vertices:
            for at in self._scot.region(vertex):
                node = self._nodes[at]
                for neighbour in self._neighbours(node):
                    told = node.handle(LinkUp(neighbour), self.now)
                    for compared in filter(_compares, told):
                        node.handle(Received(neighbour, compared.message), self.now)
                    self._carry_out(node, None, [e for e in told if not _compares(e)], self.now)
            self.run()
        self.messages.clear()

    def _neighbours(self, node: _Node) -> tuple[BrokerId, ...]:
        return (
            *self._scot.cluster_neighbours(node.at),
            *self._scot.region_neighbours(node.at),
        )

    def happen(
        self, at_s: float, broker: BrokerId, event: Any, kinds: frozenset[str] | None = None
    ) -> Reach:
        """A client's event at that place and time; its effects on messages of `kinds` are known
        after a run. Without kinds, no effects are recorded."""
        reach = Reach(kinds or frozenset())
        reach.began_s = reach.last_s = at_s
        self._push(at_s, self._nodes[broker], None if kinds is None else reach, event)
        return reach

    def feed(self, events: Iterator[Happening]) -> None:
        """A stream of clients' events, generated when they are due."""
        first = next(events, None)
        if first is not None:
            self._push(first[0], None, None, (first, events))

    def run(self, until_s: float = math.inf) -> None:
        """Run until no events are left, or until that time."""
        heap = self._heap
        while heap and heap[0][0] <= until_s:
            now, _, node, reach, event = heapq.heappop(heap)
            self.now = now
            if node is None:
                self._fed(*event)
            elif event is node:  # it is free again
                waited = node.inbox.popleft()
                self._serve(node, waited[0], waited[1], now)
                if node.inbox:
                    self._push(node.free_s, node, None, node)
            elif event is TICK:
                self._tick(node, now)
            elif event is SAMPLE:
                self._sample(node, now)
            else:
                self._arrive(node, reach, event, now)

    def _push(self, at_s: float, node: _Node | None, reach: Reach | None, event: Any) -> None:
        self._pushed += 1
        heapq.heappush(self._heap, (at_s, self._pushed, node, reach, event))

    def _fed(self, happening: Happening, events: Iterator[Happening]) -> None:
        at_s, broker, event = happening
        self._arrive(self._nodes[broker], None, event, at_s)
        self.feed(events)

    def _arrive(self, node: _Node, reach: Reach | None, event: Any, now: float) -> None:
        if node.inbox:
            node.inbox.append((reach, event))
        elif node.free_s > now:
            node.inbox.append((reach, event))
            self._push(node.free_s, node, None, node)
        else:
            self._serve(node, reach, event, now)

    def _serve(self, node: _Node, reach: Reach | None, event: Any, now: float) -> None:
        instructions = node.handle(event, now)
        node.free_s = end_s = now + self._costs.service(node.broker, event, instructions)
        if reach is not None and isinstance(event, Received):
            kind = type(event.message).__name__
            if kind in reach.kinds and node.at not in reach.brokers:
                reach.brokers.add(node.at)
                reach.last_s = max(reach.last_s, end_s)
        self._carry_out(node, reach, instructions, end_s)
        self._schedule_tick(node, now)

    def _tick(self, node: _Node, now: float) -> None:
        if node.tick_s > now:
            return  # superseded by a later request
        node.tick_s = math.inf
        self._carry_out(node, None, node.handle(TICK, now), max(now, node.free_s))
        self._schedule_tick(node, now)

    def _schedule_tick(self, node: _Node, now: float) -> None:
        wanted = node.broker.next_tick
        if wanted is not None and wanted < node.tick_s:
            node.tick_s = max(wanted, now)
            self._push(node.tick_s, node, None, TICK)

    def _sample(self, node: _Node, now: float) -> None:
        monitor = node.monitor
        assert monitor is not None
        for link in node.links.values():
            if link.leave_s:
                monitor.left(link.neighbour, link.left(now), now)
        for measured in monitor.sample(now):
            self._carry_out(node, None, node.handle(measured, now), max(now, node.free_s))
        node.sampled = False
        self._schedule_sample(node)
        self._schedule_tick(node, now)

    def _schedule_sample(self, node: _Node) -> None:
        if node.monitor is not None and not node.sampled and node.monitor.next_sample is not None:
            node.sampled = True
            self._push(node.monitor.next_sample, node, None, SAMPLE)

    def _carry_out(
        self, node: _Node, reach: Reach | None, instructions: Sequence[Instruction], now: float
    ) -> None:
        for instruction in instructions:
            if isinstance(instruction, Send):
                link = node.links.get(instruction.neighbour)
                if link is None:
                    link = self._link(node, instruction.neighbour)
                self._send(node, link, reach, instruction.message, now)
            elif isinstance(instruction, Deliver):
                if self._delivered is not None:
                    self._delivered(instruction.subscriptions, instruction.notification, now)
            elif isinstance(instruction, Settled):
                self.settled += 1
            elif isinstance(instruction, Undeliverable):
                self.undeliverable[instruction.reason] += 1

    def _link(self, node: _Node, neighbour: BrokerId) -> _Link:
        """The link, created on first use. KeyError if the overlay has none."""
        kind = self._scot.link_kind(node.at, neighbour)
        if kind is None:
            raise KeyError(neighbour)
        bandwidth = self._costs.a_link_bandwidth if kind == "aLink" else 1.0
        leave_s: deque[float] = _UNMEASURED if node.monitor is None else deque()
        link = node.links[neighbour] = _Link(self._nodes[neighbour], kind, bandwidth, leave_s)
        return link

    def _send(
        self, node: _Node, link: _Link, reach: Reach | None, message: Any, now: float
    ) -> None:
        kind = type(message).__name__
        costs = self._costs
        self.messages[kind] += 1
        if reach is not None:
            reach.messages[kind] += 1
        takes_s = costs.transmission(message) / link.bandwidth
        begins_s = node.sender_s if costs.one_sender else link.free_s
        if begins_s < now:
            begins_s = now
        leaves_s = node.sender_s = link.free_s = begins_s + takes_s
        if kind in self._measured:
            link.copies += 1
            link.waited_s += begins_s - now
            if node.monitor is not None:
                node.monitor.entered(link.neighbour, 1, now)
                link.leave_s.append(leaves_s)
                self._schedule_sample(node)
        self._push(leaves_s + costs.delay_s, link.target, reach, Received(node.at, message))


def _compares(instruction: Instruction) -> TypeGuard[Send]:
    return isinstance(instruction, Send) and isinstance(instruction.message, SubscriptionVersions)
