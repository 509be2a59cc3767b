"""Derived plane: what clones compute, to their devices' nodes; and the last values known of these.

Every value goes to disk before its clone's subscription is told that it was taken, and leaves it
when the node has it on stable storage.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from typing import Final, Protocol

import msgspec

from agent.derived.delivery import MAX_IN_ALL, Delivery, Waiting
from agent.derived.last_values import Device, LastValues
from agent.master.storage.state import State
from agent.runtime.console import Say
from agent.runtime.reactor import Reactor
from agent.scheduling.events import Peer, SendToNode
from agent.wire.base import MAX_COUNTED, MAX_DERIVED
from agent.wire.derived import Derived, DerivedTaken, DerivedValues
from agent.wire.node_messages import Hello

# Kinds of documents in the state: a set of values each, by device and position; and a device each.
WAITING: Final = "derived"
LAST: Final = "last_values"
LOOK_S: Final = 1.0  # between two looks at whether a device is there
# Between two writes of what is known of devices: a master that is killed knows a little less.
SAVE_S: Final = 10.0
CHANNEL: Final = re.compile(r"[a-z][a-z0-9_]{0,31}")
NOT_COMPUTED: Final = ("time_ms",)


class Nodes(Protocol):
    """The part of the task scheduler that the plane uses."""

    def link_to(self, name: str) -> tuple[Peer, Hello] | None: ...
    def node_on(self, peer: Peer, incarnation: str) -> str | None: ...


class _Kept(msgspec.Struct, array_like=True, frozen=True):
    """A set of values on disk."""

    time_ms: int
    values: dict[str, float]


class DerivedPlane:
    """Moves derived values from clones to nodes. A device is named as its clone's owner names it:
    IAD/NODE; the node is one of this master's. `wall` reads the wall clock in seconds since 1970
    UTC; its differences are the ages that nodes are told."""

    def __init__(
        self,
        reactor: Reactor,
        state: State,
        nodes: Nodes,
        last_values: LastValues,
        wall: Callable[[], float],
        say: Say,
        most: int = MAX_IN_ALL,
    ) -> None:
        self._reactor = reactor
        self._state = state
        self._nodes = nodes
        self._last = last_values
        self._wall = wall
        self._say = say
        # By source: of a clone whose subscription was lost, the values go on waiting.
        self._deliveries: dict[str, Delivery] = {}
        self._most = most
        self._waiting = 0  # in all of them
        self._news: set[str] = set()  # sources of which something may be sent at once
        self._look_s: float | None = None
        self._changed: set[str] = set()
        self._written: set[str] = set()  # devices of which this run wrote something
        self._save_s = math.inf
        # Of an earlier run, until their clones are known.
        self._before: dict[str, list[tuple[str, bytes]]] = {}
        for key, body in state.all(WAITING).items():
            self._before.setdefault(key.partition(" ")[0], []).append((key, body))
        self._known_before = state.all(LAST)
        reactor.add_timer(self)

    # --- clones --------------------------------------------------------------------------------

    def keep(self, device: str, areas: Iterable[str]) -> None:
        """The device has a clone, and these areas."""
        before = None
        # What a later version wrote is written anew.
        with suppress(msgspec.MsgspecError, ValueError):
            if body := self._known_before.pop(device, b""):
                before = msgspec.msgpack.decode(body, type=Device)
        self._last.keep(device, areas, before)
        for key, body in self._before.pop(device, ()):
            with suppress(msgspec.MsgspecError, ValueError):
                kept = msgspec.msgpack.decode(body, type=_Kept)
                _, source, position = key.split(" ")
                self._put(device, source, Waiting(int(position), kept.time_ms, kept.values))
                self._last.computed(device, kept.time_ms, kept.values)

    def begun(self, unreadable: Collection[str] = ()) -> None:
        """All clones of an earlier run are known, but for those of these devices: forget what was
        kept for others."""
        for device, waiting in self._before.items():
            for key, _ in waiting if device not in unreadable else ():
                self._state.remove(WAITING, key)
        for device in self._known_before.keys() - {*unreadable}:
            self._state.remove(LAST, device)
        self._before, self._known_before = {}, {}

    def forget(self, device: str) -> None:
        """The device has no clone any more."""
        for source in [s for s, each in self._deliveries.items() if each.device == device]:
            delivery = self._deliveries.pop(source)
            self._remove(delivery, delivery.clear())
        self._last.forget(device)
        self._changed.discard(device)
        self._written.discard(device)
        self._state.remove(LAST, device)

    def waiting(self) -> Counter[str]:
        """How many sets of values wait for each device."""
        counts: Counter[str] = Counter()
        for each in self._deliveries.values():
            counts[each.device] += len(each)
        return counts

    def read(self, device: str, area: str, time_ms: int, values: Mapping[str, float]) -> None:
        """A round of the clone read these values of the device."""
        self._last.read(device, area, time_ms, values)
        self._change(device)

    def on_output(
        self,
        device: str,
        source: str,
        position: int,
        time_ms: int,
        values: Mapping[str, object],
        then: Callable[[], object],
    ) -> None:
        """The clone put this out, at that position of its subscription `source`; numbers are for
        its device. `then` is called as soon as it need not be put out again."""
        numbers = _numbers(values)
        if device in self._last and numbers:
            self._last.computed(device, time_ms, numbers)
            self._change(device)
            new = Waiting(position, time_ms, numbers)
            if self._put(device, source, new):
                body = msgspec.msgpack.encode(_Kept(time_ms, numbers))
                self._state.put(WAITING, _key(device, source, position), body)
        self._state.when_durable(then)

    def _put(self, device: str, source: str, value: Waiting) -> bool:
        delivery = self._deliveries.get(source)
        if delivery is None:
            delivery = self._deliveries[source] = Delivery(device, source)
        dropped = delivery.put(value)
        if dropped is None:
            return False
        self._waiting += 1
        self._drop(delivery, dropped)
        if self._waiting > self._most:
            longest = max(self._deliveries.values(), key=len)
            self._drop(longest, longest.drop(1))
        self._news.add(source)
        return True

    def _drop(self, delivery: Delivery, dropped: tuple[Waiting, ...]) -> None:
        if dropped and delivery.dropped == len(dropped):
            self._say(
                f"device {delivery.device} has been away for long: the oldest of what its clone "
                f"computed is dropped, so that {len(delivery)} sets of values wait\n"
            )
        self._remove(delivery, dropped)

    def _remove(self, delivery: Delivery, gone: Iterable[Waiting]) -> None:
        for each in gone:
            self._waiting -= 1
            key = _key(delivery.device, delivery.source, each.position)
            self._state.remove(WAITING, key)

    def _change(self, device: str) -> None:
        if device in self._last:
            self._changed.add(device)
            pause_s = SAVE_S if device in self._written else 0.0
            self._save_s = min(self._save_s, self._reactor.clock() + pause_s)

    # --- nodes ---------------------------------------------------------------------------------

    def taken(self, peer: Peer, message: DerivedTaken) -> None:
        """A node has values on stable storage."""
        delivery = self._deliveries.get(message.source)
        node = self._nodes.node_on(peer, message.incarnation)
        if delivery is not None and node == _node_of(delivery.device):
            self._remove(delivery, delivery.taken(message.position))
            self._news.add(message.source)

    def _send(self, delivery: Delivery, now: float) -> None:
        link = self._nodes.link_to(_node_of(delivery.device))
        if link is not None and not link[1].takes_derived:
            link = None  # of an earlier release: they wait for its upgrade
        peer, incarnation = (link[0], link[1].incarnation) if link is not None else (None, "")
        batch = delivery.due((peer, incarnation) if link is not None else None, now)
        if not batch:
            return
        now_ms = round(self._wall() * 1e3)
        values = tuple(
            [
                # A processor may say any time.
                DerivedValues(v.position, min(max(0, now_ms - v.time_ms), MAX_COUNTED), v.values)
                for v in batch
            ]
        )
        message = Derived(incarnation, delivery.source, values)
        self._reactor.perform([SendToNode(peer, message)])

    # --- time ----------------------------------------------------------------------------------

    @property
    def next_due(self) -> float | None:
        """When values may be sent, or what is known is to be written."""
        if self._news:
            return 0.0
        dues = [self._save_s] if self._changed else []
        if self._look_s is not None:
            dues.append(self._look_s)
        return min(dues, default=None)

    def tick(self, now: float) -> None:
        """Send what is due; write what is known of devices now and then."""
        news, self._news = self._news, set()
        for source in news:
            if (delivery := self._deliveries.get(source)) is not None:
                self._send(delivery, now)
                self._look_s = self._look_s or now + LOOK_S
        if self._look_s is not None and self._look_s <= now:
            waiting = [each for each in self._deliveries.values() if len(each)]
            for delivery in waiting:
                self._send(delivery, now)
            self._look_s = now + LOOK_S if waiting else None
        if self._save_s <= now:
            self.save()

    def save(self) -> None:
        """Write what is known of devices."""
        self._save_s = math.inf
        for device in self._changed:
            if (known := self._last.known(device)) is not None:
                self._state.put(LAST, device, msgspec.msgpack.encode(known))
        self._written |= self._changed
        self._changed.clear()


def _node_of(device: str) -> str:
    return device.rpartition("/")[2]


def _key(device: str, source: str, position: int) -> str:
    return f"{device} {source} {position:016d}"


def _numbers(values: Mapping[str, object]) -> dict[str, float]:
    """The part of an output that can be kept as a reading is."""
    numbers = {
        name: float(value)
        for name, value in values.items()
        if isinstance(value, int | float)
        and not isinstance(value, bool)
        and math.isfinite(value)
        and abs(value) <= 1e300
        and name not in NOT_COMPUTED
        and CHANNEL.fullmatch(name)
    }
    return dict(list(numbers.items())[:MAX_DERIVED])
