"""A broker of the overlay: a state machine without sockets and clocks (OctopiA).

Routing tables are in `agent.overlay.tables`, notifications in `agent.overlay.forwarding`, custody
of undelivered ones in `agent.overlay.custody`, detours round failed links in
`agent.overlay.source_routing`.

Links preserve order and lose nothing while they are up. A broker that restarts has empty tables and
a higher epoch. Its shell restores the subscriptions and advertisements before the first `LinkUp`,
because otherwise other brokers would briefly see a home without subscriptions; then the
notifications that were published and not settled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from _core.matching.civ import Civ
from agent.overlay import scot as overlay
from agent.overlay.events import (
    Event,
    Instruction,
    LinkDown,
    LinkMeasured,
    LinkUp,
    PassedOver,
    Publish,
    Received,
    Tick,
    Undeliverable,
)
from agent.overlay.forwarding import Forwarding, Routing
from agent.overlay.limits import Limits
from agent.overlay.scot import Scot
from agent.overlay.source_routing import SourceRouter
from agent.overlay.tables import Tables
from agent.wire.overlay import Direct, Have, Notify, NoWay, Relay, SubscriptionVersions

NOT_ADVERTISED: Final = "no advertisement of this broker announces it: advertise it first"


class Broker:
    """One broker: `handle` events, carry out the instructions, `Tick` at `next_tick`.

    Deterministic: equal events in equal order give equal instructions. Memory: the subscriptions of
    its cluster, the advertisements of its region, and what `limits` allow.
    """

    def __init__(
        self,
        at: overlay.BrokerId,
        scot: Scot,
        *,
        epoch: int,
        routing: Routing = "idr",
        limits: Limits | None = None,
        wall: Callable[[], float] = lambda: 0.0,
    ) -> None:
        """`epoch` is at least 1, and higher than at any earlier start; `wall` reads the wall clock
        in seconds since 1970 UTC. ScotError if the overlay has no such broker."""
        scot.check(at)
        self.broker: Final = at
        self._scot = scot
        self._limits = limits or Limits()
        self._out: list[Instruction] = []
        self._source_router = SourceRouter(at, scot, self._out)
        unknown_s = self._limits.unknown_s
        self._tables = Tables(at, scot, epoch, unknown_s, self._source_router, wall)
        self._forwarding = Forwarding(
            at,
            scot,
            routing,
            self._limits,
            self._tables.subscriptions,
            self._source_router,
            self._out,
        )
        self._malformed = 0
        self._not_advertised = 0
        self._now = 0.0
        # State of the message that is being handled.
        self._sender: overlay.BrokerId | None = None
        self._events: dict[type, Callable[[Any], None]] = {
            Received: self._received,
            **self._tables.events,
            Publish: self._publish,
            LinkUp: self._link_up,
            LinkDown: self._link_down,
            PassedOver: self._passed_over,
            LinkMeasured: lambda event: self._forwarding.measured(event, self._now),
            Tick: lambda _: None,
        }
        self._messages: dict[type, Callable[[overlay.BrokerId, Any], None]] = {
            **self._tables.messages,
            Notify: self._notify,
            Have: self._have,
        }

    # --- state -----------------------------------------------------------------------------------

    @property
    def srt_entries(self) -> int:
        """Advertisements: its own, and those of its secondary neighbours."""
        return self._tables.srt_entries

    @property
    def prt_entries(self) -> int:
        """Subscriptions: those of its cluster."""
        return len(self._tables.subscriptions)

    def targets_of(self, advertisement: str) -> list[int]:
        """The clusters with a subscription that may match, without the own one. KeyError."""
        return self._tables.targets_of(advertisement)

    @property
    def held(self) -> int:
        """Notifications in custody."""
        return len(self._forwarding.custody)

    @property
    def counters(self) -> dict[str, int]:
        """Counters since the start, for metrics; `held` and `unknown` (homes and clusters not heard
        of yet) are current values."""
        source_router, forwarding = self._source_router, self._forwarding
        return {
            "delivered": forwarding.delivered,
            "given_up": forwarding.given_up,
            "held": self.held,
            "lost_relays": source_router.lost,
            "malformed": self._malformed,
            "not_advertised": self._not_advertised,
            "relayed": source_router.relayed,
            "repeated": forwarding.repeated,
            "resent": forwarding.resent,
            "returned": source_router.returned,
            "stuck": forwarding.stuck,
            "unknown": self._tables.unknown,
            "unusable": self._tables.unusable,
            "without_way": forwarding.without_way,
        }

    @property
    def next_tick(self) -> float | None:
        """When the broker needs a `Tick`, in seconds of the clock of `handle`."""
        due = (self._forwarding.next_tick, self._tables.next_tick)
        return min((each for each in due if each is not None), default=None)

    def handle(self, event: Event, now: float) -> list[Instruction]:
        """Handle one event; returns the instructions, in order. `now` is in seconds and never
        decreases. ValueError for an invalid filter, or for one too many, in an `Advertise` or
        `Subscribe`; then nothing has changed."""
        self._now = now
        self._tables.begin_turn(now)
        try:
            self._events[type(event)](event)
            self._tables.end_turn()
            # `PassedOver` arrives while messages are being sent: sending due messages from here
            # would recurse without end.
            if not isinstance(event, PassedOver):
                self._forwarding.tick(now)
                self._forwarding.flush(now)
            return list(self._out)
        finally:
            self._out.clear()

    # --- users of this broker --------------------------------------------------------------------

    def _publish(self, event: Publish) -> None:
        notification = event.notification
        if event.stays:
            self._forwarding.take(None, notification, (), self._now, stays=True)
            return
        targets = self._tables.targets(notification.attributes)
        if targets is None:
            self._not_advertised += 1
            self._out.append(Undeliverable(notification.origin, NOT_ADVERTISED))
        else:
            clusters, beside = targets
            self._forwarding.take(None, notification, clusters, self._now, beside)

    # --- links -----------------------------------------------------------------------------------

    def _link_up(self, event: LinkUp) -> None:
        neighbour = event.neighbour
        if self._scot.link_kind(self.broker, neighbour) is None:
            raise ValueError(f"{neighbour} is no neighbour of {self.broker}")
        self._source_router.link_up(neighbour)
        self._tables.link_up(neighbour)
        if neighbour.cluster == self.broker.cluster:
            self._forwarding.hold(neighbour)
        else:
            self._forwarding.link_up(neighbour, self._now)

    def _link_down(self, event: LinkDown) -> None:
        self._source_router.link_down(event.neighbour)
        self._tables.link_down(event.neighbour)
        self._forwarding.link_down(event.neighbour, self._now)

    def _passed_over(self, event: PassedOver) -> None:
        message = event.message
        if isinstance(message, Notify):
            self._forwarding.passed_over(event.neighbour, message.notification.origin)
        elif isinstance(message, Relay):
            self._source_router.passed_over(message)

    # --- messages --------------------------------------------------------------------------------

    def _received(self, event: Received) -> None:
        sender, message = event.sender, event.message
        self._sender = self._tables.sender = sender
        try:
            if isinstance(message, Relay):
                came = self._source_router.relay(sender, message)
                if came is not None:
                    self._direct(self._checked(message.source), came)
            elif isinstance(message, NoWay):
                end = self._checked(message.path[-1])
                back = self._source_router.no_way(sender, message, self._now)
                if back is not None:
                    self._returned(end, back)
            else:
                self._direct(self._checked(sender), message)
        except ValueError:
            # Perhaps of an overlay with other factors; its meaning must not be guessed.
            self._malformed += 1

    def _checked(self, other: tuple[str, int]) -> overlay.BrokerId:
        self._scot.check(other)
        if other == self.broker:
            raise ValueError("a message from here, or back to here")
        return overlay.BrokerId(*other)

    def _direct(self, source: overlay.BrokerId, message: Direct) -> None:
        self._messages[type(message)](source, message)
        if isinstance(message, SubscriptionVersions) and message.all_homes:
            self._forwarding.compared(source, self._now)

    def _returned(self, to: overlay.BrokerId, message: Direct) -> None:
        if isinstance(message, Notify):
            self._forwarding.returned(message.notification.origin, to, self._now)
        else:
            self._tables.returned(to, message)

    def _notify(self, source: overlay.BrokerId, message: Notify) -> None:
        clusters = self._clusters(message.clusters)
        self._forwarding.take(
            source, message.notification, clusters, self._now, brought_by=self._sender
        )

    def _have(self, source: overlay.BrokerId, message: Have) -> None:
        parts = [(each.origin, self._clusters(each.clusters)) for each in message.parts]
        self._forwarding.kept(source, parts, self._now)

    def _clusters(self, vector: bytes) -> Iterable[int]:
        return Civ.from_bytes(self._scot.clusters, vector) if vector else ()
