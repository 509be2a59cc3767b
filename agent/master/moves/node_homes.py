"""Homes of edge nodes that move between masters: what a master keeps of a node goes along."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec
from msgspec import Struct

from agent.alerts.event_state import NodeHome
from agent.master.moves.home_plane import NODE, HomeChoice, unit_of
from agent.master.push.event_plane import EventPlane
from agent.placement.home_traffic import HomeTraffic
from agent.runtime.reactor import Reactor
from agent.scheduling.events import HomeChanged
from agent.scheduling.tasks.scheduler import TaskScheduler
from agent.wire.handover import read_body

if TYPE_CHECKING:
    from agent.placement.handover.events import Standing

# How often it is looked whether a node's alerts have left.
LOOK_S: Final = 0.05
# For so long; the handover waits no longer.
LOOKS_S: Final = 5.0
# Within this time after its hello a node has sent again what was not acknowledged.
QUIET_S: Final = 5.0
_encode: Final = msgspec.msgpack.encode


class Spooled(Protocol):
    """The spool."""

    def has_alerts_of(self, node: str, histories: Iterable[str]) -> bool:
        """Whether some subscriber may lack an alert of these histories of a node."""


class NodeCopy(Struct, frozen=True, array_like=True):
    """What the target of a move is told first: whose node it is, where it may go, and why it must
    not go yet, if it must not."""

    iad: str
    masters: tuple[str, ...]
    not_yet: str = ""


class NodeHomes:
    """The homes of nodes, by the nodes' names; see `Movable`.

    While a node is paused or on its way here, its events wait. A node that lives elsewhere is told
    so whenever it is here; until it goes it is queried, and keeps its events.
    """

    def __init__(
        self,
        reactor: Reactor,
        iad: str,
        scheduler: TaskScheduler,
        events: EventPlane,
        push: Spooled,
    ) -> None:
        self._reactor = reactor
        self._iad = iad
        self._scheduler = scheduler
        self._events = events
        self._push = push
        # Whether a node of that name may connect here.
        self.may_join: Callable[[str], bool] = lambda _: True
        # Takes the records of this master.
        self.traffic = HomeTraffic(iad)
        # By node: where those live that lived here, and whence those come that are on their way.
        self._away: dict[str, str] = {}
        self._coming: dict[str, str] = {}
        self._loaded: dict[str, str] = {}
        self._accepted: dict[str, NodeHome] = {}
        # Who waits for a node's alerts to leave, and until when.
        self._settling: dict[str, tuple[float, Callable[[], object]]] = {}
        self._look_s: float | None = None
        events.lives_here = self._lives_here
        reactor.add_timer(self)

    def names(self) -> Iterable[str]:
        """The nodes that live here."""
        joined = [each.node for each in self._scheduler.node_statuses() if each.state != "left"]
        return [node for node in joined if self.lives(node)]

    def lives(self, node: str) -> bool:
        """Whether it is one of these. A node that came on its own lives elsewhere."""
        hello = self._scheduler.node_at(node)
        if hello is None or hello.followed:
            return False
        return node not in self._away and node not in self._coming

    def choices(self) -> Iterable[HomeChoice]:
        """Of the nodes that live here. To its home a node's delay is measured, if it was ever
        asked."""
        for node in self.names():
            ways_ms: dict[str, float | None] = dict.fromkeys(self._masters(node))
            ways_ms[self._iad] = self.traffic.delay_ms(node)
            counts = self.traffic.counts.get(node)
            yield HomeChoice(unit_of(NODE, node).name, ways_ms, counts or {})

    def _masters(self, node: str) -> tuple[str, ...]:
        """Those to which it may move."""
        hello = self._scheduler.node_at(node)
        return () if hello is None else hello.masters

    def restore(self, node: str, standing: Standing, other: str) -> bool:
        """After a restart."""
        if standing == "offered":
            self._events.hold(node)
        elif standing == "taken":
            self._comes(node, other)
        elif standing == "released":
            self._goes(node, other)
        return True

    # --- at the source -------------------------------------------------------------------------

    def copy(self, node: str) -> bytes:
        """The masters to which the node may move."""
        return _encode(NodeCopy(self._iad, self._masters(node), self._not_yet(node)))

    def forget_copy(self, _node: str) -> None:
        """Nothing was noted."""

    def _not_yet(self, node: str) -> str:
        """A master that was killed may have published events that it does not know of. Their node
        sends them again, and they must come here."""
        if self._now < self._scheduler.joined_s(node) + QUIET_S or self._events.waiting_at(node):
            return f"node {node} has just joined {self._iad}, or has old events to send; try later"
        return ""

    def hold(self, node: str, then: Callable[[], object]) -> None:
        """Take no further events of it; `then` is called when those before are on disk."""
        self._events.hold(node)
        self._events.drained(node, then)

    def pause(self, node: str, then: Callable[[bytes], object]) -> None:
        """`then` gets what is kept of it."""
        self.hold(node, lambda: then(self._events.home(node)))

    def resume(self, node: str) -> None:
        """Take its events again."""
        self._events.let_go(node, take=True)

    def release(self, node: str, to: str) -> list[Any]:
        """It lives there."""
        changes = self._events.leave(node)
        self._goes(node, to)
        return changes

    def settles(self, node: str, then: Callable[[], object]) -> None:
        """Call `then` when all subscribers have the node's alerts from here."""
        self._settling[node] = self._now + LOOKS_S, then
        self._look_s = self._now

    @property
    def next_due(self) -> float | None:
        """When to look again whether alerts have left."""
        return self._look_s

    def tick(self, now: float) -> None:
        """Look whether alerts have left."""
        if self._look_s is None or now < self._look_s:
            return
        for node, (until_s, then) in list(self._settling.items()):
            if not self._push.has_alerts_of(node, self._events.histories(node)):
                del self._settling[node]
                then()
            elif until_s <= now:
                del self._settling[node]
        self._look_s = now + LOOK_S if self._settling else None

    def late(self, _node: str) -> tuple[int, bytes] | None:
        """Nothing: what a node sent to its former home it sends again to the new one."""
        return None

    def kept(self, _node: str, _number: int) -> None:
        """Nothing was sent."""

    def end(self, _node: str) -> None:
        """Nothing to do: its new master stays known."""

    def forwarded(self, _node: str, _items: bytes, then: Callable[[int], object]) -> None:
        """Nothing to take."""
        then(0)

    # --- at the target -------------------------------------------------------------------------

    def load(self, node: str, copy: bytes, then: Callable[[str], object]) -> None:
        """`then` gets why it cannot live here; "" if it can."""
        then(self._load(node, copy))

    def _load(self, node: str, copy: bytes) -> str:
        try:
            told = read_body(copy, NodeCopy)
        except ValueError as error:
            return f"what is told of node {node} cannot be read: {error}"
        if self._iad not in told.masters:
            return (
                f"node {node} cannot go to {self._iad}: it is not joined, or its configuration "
                f"does not name {self._iad} among its masters"
            )
        if told.not_yet:
            return told.not_yet
        # A node that is away for a while lives here all the same: who takes it from nowhere could
        # say which of its events were recorded, or never settle the move.
        known_elsewhere = node in self._away or node in self._coming
        if not known_elsewhere and self._scheduler.is_home_of(node, self._now):
            return f"another node named {node} lives at {self._iad}"
        if not self.may_join(node):
            return f"the allow-list of {self._iad} has no node named {node}"
        if not self._events.takes:
            return f"{self._iad} keeps no records, so it cannot take a node's events"
        self._loaded[node] = told.iad
        return ""

    def accept(self, node: str, final: bytes) -> str:
        """Why the state cannot be taken; "" if it can."""
        try:
            self._accepted[node] = read_body(final, NodeHome)
        except ValueError as error:
            return f"what is kept of node {node} cannot be read: {error}"
        return ""

    def adopt(self, node: str) -> list[Any]:
        """The state to write before it lives here."""
        return self._events.adopt(node, self._accepted.pop(node))

    def work(self, node: str) -> None:
        """It may come; its events wait until `own`."""
        self._comes(node, self._loaded.get(node) or self._coming.get(node, ""))

    def own(self, node: str) -> None:
        """It lives here."""
        self._loaded.pop(node, None)
        self._coming.pop(node, None)
        self._away.pop(node, None)
        self._reactor.perform(self._scheduler.handle(HomeChanged(node, None), self._now))
        self._events.let_go(node, take=True)

    def stop(self, node: str) -> None:
        """It does not live here after all, or not yet."""
        self._accepted.pop(node, None)
        if node not in self._coming:
            self._loaded.pop(node, None)

    def discard(self, node: str) -> list[Any]:
        """It lives where it came from."""
        changes = self._events.leave(node)
        self._goes(node, self._coming.pop(node, "") or self._loaded.pop(node, ""))
        return changes

    # --- where it lives ------------------------------------------------------------------------

    def _comes(self, node: str, source: str) -> None:
        self._coming[node] = source
        self._events.hold(node)
        self._away.pop(node, None)
        self._reactor.perform(self._scheduler.handle(HomeChanged(node, None), self._now))

    def _goes(self, node: str, to: str) -> None:
        self._coming.pop(node, None)
        self._away[node] = to
        self._events.let_go(node, take=False)
        self._reactor.perform(self._scheduler.handle(HomeChanged(node, to), self._now))

    def _lives_here(self, node: str) -> bool:
        if node not in self._away:
            return True
        hello = self._scheduler.node_at(node)
        return hello is not None and hello.followed

    @property
    def _now(self) -> float:
        return self._reactor.clock()
