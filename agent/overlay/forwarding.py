"""Forwarding of notifications through one broker: where the copies go, and which brokers are
notified.

A notification is matched once at each broker. A copy goes to the next broker on the path to each
home that wants it, never back to where it came from, and into other clusters as
`agent.overlay.routing` decides. If a neighbour cannot be reached, not even by a detour, the brokers
behind it are served directly, and its own part waits in custody.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Literal

from _core.matching.civ import Civ
from agent.overlay.custody import PLACE_BYTES, Custody, Held, places_of
from agent.overlay.events import (
    Deliver,
    Instruction,
    LinkMeasured,
    Reopen,
    Settled,
    Undeliverable,
)
from agent.overlay.limits import Limits
from agent.overlay.link_congestion import LinkStatus
from agent.overlay.routing import Copy, dynamic_copies, static_copies
from agent.overlay.scot import BrokerId, Scot
from agent.overlay.source_routing import SourceRouter
from agent.overlay.stall_detector import StallDetector
from agent.overlay.subscriptions import Subscriptions
from agent.wire.overlay import MAX_PARTS, Have, Kept, Notification, Notify, Origin
from agent.wire.predicates import Attributes

Routing = Literal["snr", "idr"]

# Longer than any queue.
_ENDLESS = 2**31
# A neighbour that settles other notifications is working through its queue. But it may have given
# up this one, so it is asked again after ten times the wait.
_MAX_SPARED = 9
# A neighbour counts as stalled if its queue does not move this many notifications in that time.
_SOON_SENT = 64


class Forwarding:
    """The forwarding of one broker. Instructions go to `out`."""

    def __init__(
        self,
        own: BrokerId,
        scot: Scot,
        routing: Routing,
        limits: Limits,
        subscriptions: Subscriptions,
        source_router: SourceRouter,
        out: list[Instruction],
    ) -> None:
        self._own = own
        self._scot = scot
        self._dynamic = routing == "idr"
        self._limits = limits
        self._subscriptions = subscriptions
        self._source_router = source_router
        self._out = out
        self._status = LinkStatus()
        self._stall_detector = StallDetector(limits.stuck_s)
        self.custody = Custody(own, scot, limits.most_held, limits.most_remembered)
        # Reports to be sent at the end: by asker and origin, the clusters that are done.
        self._kept: dict[BrokerId, dict[Origin, set[int]]] = {}
        self._kept_due: float | None = None
        # Notifications in custody with a part whose neighbour has no link.
        self._restless: dict[Origin, None] = {}
        self._restless_due: float | None = None
        # Neighbours with a new link, until they have heard of the subscriptions known here.
        self._comparing: set[BrokerId] = set()
        # When a neighbour last settled something.
        self._settled_s: dict[BrokerId, float] = {}
        for neighbour in (*scot.cluster_neighbours(own), *scot.region_neighbours(own)):
            self.link_down(neighbour, 0.0)
        self.delivered = 0
        self.repeated = 0
        self.resent = 0
        self.given_up = 0
        self.without_way = 0
        self.stuck = 0

    # --- links -----------------------------------------------------------------------------------

    def hold(self, neighbour: BrokerId) -> None:
        """The link to a neighbour of this cluster is up. Its notifications wait in custody until
        `compared`: whoever subscribes here and then publishes here gets what others make of it,
        also if the link was down when it subscribed. O(1)."""
        self._comparing.add(neighbour)

    def compared(self, neighbour: BrokerId, now: float) -> None:
        """The neighbour said which subscriptions it knows, and was told the others."""
        if neighbour in self._comparing:
            self._comparing.discard(neighbour)
            self.link_up(neighbour, now)

    def link_up(self, neighbour: BrokerId, now: float) -> None:
        """Resend what the neighbour has not settled; notifications without a path may have one now.
        O(held)."""
        self._status.forget(neighbour)
        self._stall_detector.forget(neighbour)
        self._send_again(neighbour, now)
        if self._restless:
            self._restless_due = now

    def link_down(self, neighbour: BrokerId, now: float) -> None:
        """Notifications take another path; a missing link counts as the most congested one.
        O(held)."""
        self._comparing.discard(neighbour)
        self._status.measured(LinkMeasured(neighbour, _ENDLESS, 0, _ENDLESS))
        self._stall_detector.forget(neighbour)
        self._send_again(neighbour, now)

    def measured(self, window: LinkMeasured, now: float) -> None:
        """The length of the queue to a neighbour. O(1)."""
        if self._source_router.is_up(window.neighbour):
            self._status.measured(window)
            if window.length > _SOON_SENT:
                self._stall_detector.waits(window.neighbour, now)

    def passed_over(self, to: BrokerId, origin: Origin) -> None:
        """A copy was not sent. It is retried after the usual wait, not after the longer one for a
        neighbour that makes progress. O(waiting)."""
        self._stall_detector.forget(to)
        held = self.custody.get(origin)
        if held is not None and any(each == to for each, _ in held.waiting):
            held.spared = _MAX_SPARED

    # --- in --------------------------------------------------------------------------------------

    def take(
        self,
        asker: BrokerId | None,
        notification: Notification,
        clusters: Iterable[int],
        now: float,
        doubtful: Iterable[int] = (),
        *,
        brought_by: BrokerId | None = None,
        stays: bool = False,
    ) -> None:
        """Serve the brokers behind this one, seen from the asker (None: a publisher here), and
        these other clusters. Of the doubtful clusters, serve all brokers but the neighbour here,
        which has no link and is known to want nothing. `brought_by` is the neighbour that delivered
        the message; it is not the asker if the message took a detour. What `stays` is for no
        broker but this one. As `Matcher.match`, and O(targets · log degree)."""
        custody = self.custody
        origin = notification.origin
        others = [each for each in clusters if each != self._own.cluster]
        first = custody.is_new(origin)
        held = custody.get(origin)
        if held is None:
            places = places_of(notification)
            while not custody.has_room(places):
                if not self._make_room(brought_by):
                    self._refuse(origin)
                    return
            held = custody.take(notification, places, brought_by, now)
        self.repeated += not first
        homes, names = self._subscriptions.interested(notification.attributes)
        if asker is not None and not first:
            # The asker may repeat a request for what was given up here meanwhile: if there is
            # nothing else to report, report at least that it is kept.
            self._kept.setdefault(asker, {}).setdefault(origin, set())
        custody.ask(held, asker, (self._own.cluster, *others))
        came_from = None if asker is None else custody.direction(asker)
        a_targets = [
            each
            for each in self._next_brokers(() if stays else homes)
            if each.vertex != came_from and not custody.covers(held, each, each.cluster)
        ]
        wanted = [each for each in others if not custody.serves(held, each, asker)]
        copies = self._copies(a_targets, wanted, dynamic=self._dynamic and first)
        copies += self._round_about(held, doubtful)
        for copy in copies:
            custody.add(held, copy.neighbour, (copy.neighbour.cluster, *copy.clusters))
        for copy in copies:
            self._send(held, copy.neighbour, now)
        # After the copies: neighbours deliver meanwhile. Before it is told that this is done.
        if first and names:
            self.delivered += 1
            self._out.append(Deliver(tuple(names), notification))
        self._tell(held)

    def _next_brokers(self, homes: Iterable[str]) -> list[BrokerId]:
        at = self._own.vertex
        vertices = dict.fromkeys(self._scot.next_vertex(at, home) for home in homes)
        return [BrokerId(vertex, self._own.cluster) for vertex in vertices]

    def _copies(
        self, a_targets: Sequence[BrokerId], clusters: Sequence[int], *, dynamic: bool
    ) -> list[Copy]:
        # A repeat is routed statically: the earlier decisions of other brokers are not known here.
        targets = Civ(self._scot.clusters, clusters)
        if dynamic:
            return dynamic_copies(self._own, a_targets, targets, self._status)
        return static_copies(self._own, a_targets, targets)

    def _round_about(self, held: Held, doubtful: Iterable[int]) -> list[Copy]:
        """To the brokers of these clusters that are next to the lost neighbour, which alone cannot
        be asked whether it wants the notification."""
        if self._source_router.alone:
            return []
        nothing = Civ(self._scot.clusters)
        vertices = self._scot.tree.neighbours(self._own.vertex)
        beside = (BrokerId(vertex, cluster) for cluster in doubtful for vertex in vertices)
        return [
            Copy(each, nothing)
            for each in beside
            if not self.custody.covers(held, each, each.cluster)
        ]

    def _make_room(self, brought_by: BrokerId | None) -> bool:
        """Make some room: the neighbour that brought the most loses one, preferably one
        that waits for a broker without a link, which may take long. A notification that the spool
        here can keep does not displace an earlier one from here."""
        custody = self.custody
        loser = custody.loser(brought_by)
        some = (custody.get(each) for each in islice(self._restless, self._limits.most_retried))
        held = next((each for each in some if each and each.brought_by == loser), None)
        if held is None and (loser is not None or brought_by is not None):
            held = custody.first_of(loser)
        if held is None:
            return False
        custody.give_up(held)
        origin = held.notification.origin
        self._restless.pop(origin, None)
        if None in held.asked:
            self._refuse(origin)
        else:
            self.given_up += 1
        return True

    def _refuse(self, origin: Origin) -> None:
        self.given_up += 1
        most = f"{self._limits.most_held:,}"
        size = f"{PLACE_BYTES >> 10} KiB"
        reason = f"more than {most} notifications, of {size} each, wait at {_name(self._own)}"
        self._out.append(Undeliverable(origin, reason))

    # --- out -------------------------------------------------------------------------------------

    def _send(self, held: Held, to: BrokerId, now: float) -> None:
        """Send all that the neighbour has not settled yet, in one copy; without a path to it, to
        the brokers that can stand in for it."""
        waiting = [to]
        while waiting:
            each = waiting.pop()
            bits = [bit for owner, bit in held.waiting if owner == each and bit != each.cluster]
            if each in self._comparing:
                sent = self._source_router.expects(each)
            else:
                clusters = Civ(self._scot.clusters, bits).to_bytes() if bits else b""
                copy = Notify(held.notification, clusters)
                sent = self._source_router.send(each, copy, now, held.brought_by)
            if not self._source_router.is_up(each):
                self._restless[held.notification.origin] = None
                if self._restless_due is None:
                    self._restless_due = now + self._limits.detour_s
            if not sent:
                waiting += self._stand_ins(held, each, bits)

    def _stand_ins(self, held: Held, lost: BrokerId, bits: Iterable[int]) -> list[BrokerId]:
        """There is no path to that broker: the brokers behind it, and others for its bits, get
        parts of their own now. None if no alternative exists."""
        custody = self.custody
        self.without_way += 1
        if None in held.asked and not held.told_stuck:
            held.told_stuck = True
            reason = f"no way from {_name(self._own)} to {_name(lost)} at the moment"
            self._out.append(Undeliverable(held.notification.origin, reason))
        if self._scot.clusters == 1 or self._source_router.alone:
            return []
        others = self._behind(lost, held.notification.attributes)
        others += [BrokerId(self._own.vertex, bit) for bit in bits]
        new = [each for each in others if not custody.covers(held, each, each.cluster)]
        for each in new:
            custody.add(held, each, (each.cluster,))
        return new

    def _behind(self, lost: BrokerId, attributes: Attributes) -> list[BrokerId]:
        """Its neighbours in its cluster, away from this broker; in the own cluster, those on the
        path to a home that wants it."""
        if lost.cluster != self._own.cluster:
            vertices = self._scot.tree.neighbours(lost.vertex)
        else:
            homes, _ = self._subscriptions.interested(attributes)
            toward = self.custody.direction(lost)
            there = [
                home
                for home in homes
                if home != lost.vertex and self._scot.next_vertex(self._own.vertex, home) == toward
            ]
            nexts = (self._scot.next_vertex(lost.vertex, home) for home in there)
            vertices = tuple(dict.fromkeys(nexts))
        if lost.vertex != self._own.vertex:
            back = self._scot.next_vertex(lost.vertex, self._own.vertex)
            vertices = tuple(each for each in vertices if each != back)
        return [BrokerId(vertex, lost.cluster) for vertex in vertices]

    # --- custody ---------------------------------------------------------------------------------

    def kept(self, by: BrokerId, parts: Iterable[tuple[Origin, Iterable[int]]], now: float) -> None:
        """The neighbour has these, or, without clusters, keeps them. O(parts · waiting)."""
        self._stall_detector.heard(by)
        self._source_router.trust(by)
        for origin, clusters in parts:
            held, settled = self.custody.get(origin), tuple(clusters)
            if held is not None and settled:
                self._settled_s[by] = now
                self.custody.settle(held, by, settled)
                self._tell(held)

    def _tell(self, held: Held) -> None:
        origin = held.notification.origin
        for asker, clusters in self.custody.done(held):
            if asker is None:
                self._out.append(Settled(origin))
            else:
                self._kept.setdefault(asker, {}).setdefault(origin, set()).update(clusters)
        if not held.waiting:
            self._restless.pop(origin, None)

    def flush(self, now: float) -> None:
        """When it is time, report to each asker, in as few messages as possible."""
        if not self._kept:
            return
        if self._kept_due is None:
            self._kept_due = now + self._limits.batch_s
        if now < self._kept_due:
            return
        self._kept_due = None
        for asker, by_origin in self._kept.items():
            parts = [
                Kept(origin, Civ(self._scot.clusters, clusters).to_bytes())
                for origin, clusters in by_origin.items()
            ]
            for start in range(0, len(parts), MAX_PARTS):
                # An asker without a path is told when it asks again.
                self._source_router.send(asker, Have(tuple(parts[start : start + MAX_PARTS])), now)
        self._kept.clear()

    def _send_again(self, to: BrokerId, now: float) -> None:
        """The link to the neighbour is new, or down: resend whatever it has not settled.
        O(held)."""
        for held in self.custody:
            if any(each == to for each, _ in held.waiting):
                self.resent += 1
                self._send(held, to, now)

    def returned(self, origin: Origin, to: BrokerId, now: float) -> None:
        """A copy found no path and came back; another path is tried."""
        held = self.custody.get(origin)
        if held is not None and any(each == to for each, _ in held.waiting):
            self._send(held, to, now)

    # --- time ------------------------------------------------------------------------------------

    @property
    def next_tick(self) -> float | None:
        """When a report or a resend is due; None if nothing is."""
        oldest = self.custody.oldest
        again = None if oldest is None else oldest + self._limits.resend_s
        due = (again, self._restless_due, self._kept_due, self._stall_detector.next_tick)
        return min((each for each in due if each is not None), default=None)

    def tick(self, now: float) -> None:
        """Resend what is due, a batch at a time, and take down the links to stalled neighbours."""
        most = self._limits.most_retried
        for held in self.custody.sent_before(now - self._limits.resend_s)[:most]:
            self._retry(held, now)
        if self._restless_due is not None and now >= self._restless_due:
            self._restless_due = now + self._limits.detour_s
            for origin in list(self._restless)[:most]:
                del self._restless[origin]
                held_again = self.custody.get(origin)
                if held_again is not None:
                    self._retry_round(held_again, now)
            if not self._restless:
                self._restless_due = None
        for neighbour, pause_s in self._stall_detector.stuck(now):
            self.stuck += 1
            self._source_router.suspect(neighbour)
            self._out.append(Reopen(neighbour, pause_s))

    def _retry(self, held: Held, now: float) -> None:
        self.custody.again(held, now)
        waited_for = due = list(dict.fromkeys(each for each, _ in held.waiting))
        if held.spared < _MAX_SPARED:
            due = [each for each in due if not self._at_work(each, now)]
        # If there are several, those that make progress are skipped, however the others fare.
        held.spared = 0 if len(due) == len(waited_for) else held.spared + 1
        self.resent += bool(due)
        for to in due:
            self._send(held, to, now)
            if self._source_router.is_up(to):
                self._stall_detector.asked(to, now)

    def _at_work(self, neighbour: BrokerId, now: float) -> bool:
        last = self._settled_s.get(neighbour)
        recently = last is not None and now - last < self._limits.resend_s
        return recently and self._source_router.is_up(neighbour)

    def _retry_round(self, held: Held, now: float) -> None:
        """Resend to neighbours without a link."""
        self.resent += 1
        for to in dict.fromkeys(each for each, _ in held.waiting):
            if not self._source_router.is_up(to):
                self._send(held, to, now)


def _name(broker: BrokerId) -> str:
    return f"{broker.vertex}/{broker.cluster}"
