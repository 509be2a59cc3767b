"""Source routing: messages reach another broker over the link, or by a detour while it is down.

A detour is a path of a few hops through another cluster or another region. The message carries the
whole path, so that it cannot loop. A broker knows only the state of its own links; where a path is
found broken the message comes back, and later paths avoid that spot for a while.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from hashlib import blake2b
from itertools import pairwise
from typing import Final

import msgspec

from agent.overlay.events import Instruction, Send
from agent.overlay.scot import BrokerId, Scot
from agent.wire.overlay import Direct, Hop, Notify, NoWay, Relay

# How long a broken spot elsewhere is avoided; then it is tried again.
AVOIDED_S: Final = 5.0
# Beyond it the spot found first is forgotten.
MAX_AVOIDED: Final = 1_024
# Relays sent from here that may come back, some 150 bytes each.
MAX_SENT: Final = 16_384

Spot = tuple[BrokerId, BrokerId]


def detours(scot: Scot, start: BrokerId, end: BrokerId) -> Iterator[tuple[BrokerId, ...]]:
    """Paths from one broker to another, each without its start, that avoid the link between them.

    Within a cluster: through each other cluster, along the tree. Into another cluster: along the
    tree before or after the step, in two steps through each third cluster, and if the tree path is
    empty, through a neighbouring region. At most two more paths than clusters or regions, each as
    long as the tree path and two steps.
    """
    walk = scot.path(start.vertex, end.vertex)[1:]
    others = ((start.cluster + i) % scot.clusters for i in range(1, scot.clusters))
    if start.cluster != end.cluster:
        if walk:
            yield _along(walk, start.cluster, end)
            yield (BrokerId(start.vertex, end.cluster), *_along(walk, end.cluster))
        for each in others:
            if each != end.cluster:
                yield (BrokerId(start.vertex, each), *_along(walk, each, end))
        if not walk:
            for near in scot.cluster_neighbours(start):
                yield near, BrokerId(near.vertex, end.cluster), end
    elif walk:
        for each in others:
            yield (BrokerId(start.vertex, each), *_along(walk, each, end))


def _along(walk: Iterable[str], cluster: int, *end: BrokerId) -> tuple[BrokerId, ...]:
    return (*(BrokerId(vertex, cluster) for vertex in walk), *end)


class SourceRouter:
    """The links of one broker that are up, and the detours round those that are down.

    Instructions go to `out`. Memory: the neighbours, at most 1,024 broken spots, and a digest of
    each of the last 16,384 relays from here: only those are accepted back, because otherwise a
    neighbour could make this broker send arbitrary messages.
    """

    def __init__(self, own: BrokerId, scot: Scot, out: list[Instruction]) -> None:
        self._own = own
        self._scot = scot
        self._out = out
        self._up: set[BrokerId] = set()
        self._suspects: set[BrokerId] = set()
        self._avoided: dict[Spot, float] = {}
        self._sent: dict[bytes, int] = {}
        # No detour is longer, without its start.
        self._longest = scot.diameter + 3
        self.relayed = 0
        self.returned = 0
        self.lost = 0

    def is_up(self, neighbour: BrokerId) -> bool:
        """O(1)."""
        return neighbour in self._up

    @property
    def alone(self) -> bool:
        """Whether no link is up. O(1)."""
        return not self._up

    def link_up(self, neighbour: BrokerId) -> None:
        """The link is up; broken spots beyond it may be repaired. O(spots avoided)."""
        self._up.add(neighbour)
        for spot in [spot for spot in self._avoided if neighbour in spot]:
            del self._avoided[spot]

    def link_down(self, neighbour: BrokerId) -> None:
        """O(1)."""
        self._up.discard(neighbour)

    def suspect(self, neighbour: BrokerId) -> None:
        """The neighbour is connected but unresponsive: it is still sent its own messages, but paths
        through it are avoided. O(1)."""
        self._suspects.add(neighbour)

    def trust(self, neighbour: BrokerId) -> None:
        """The neighbour responds again. O(1)."""
        self._suspects.discard(neighbour)

    def expects(self, neighbour: BrokerId) -> bool:
        """Whether that broker is expected to respond. O(1)."""
        return neighbour not in self._suspects

    def send(
        self, to: BrokerId, message: Direct, now: float, brought_by: BrokerId | None = None
    ) -> bool:
        """Send over the link, or by a detour. False if no path is known, and nothing is sent, or if
        that broker is not expected to respond. `brought_by` as in `Send`. O(1), or O(paths · their
        length) if there is no link."""
        expected = self.expects(to)
        if to in self._up:
            self._out.append(Send(to, message, brought_by))
            return expected
        path = next((path for path in self._detours(to) if self._open(path, now)), None)
        if path is None:
            return False
        self.relayed += 1
        self._remember(path, message)
        self._out.append(Send(path[0], Relay(self._own, path, 0, message), brought_by))
        return expected

    def _remember(self, path: tuple[Hop, ...], message: Direct) -> None:
        digest = _digest(path, message)
        self._sent[digest] = self._sent.pop(digest, 0) + 1
        if len(self._sent) > MAX_SENT:
            del self._sent[next(iter(self._sent))]

    def _was_sent(self, path: tuple[Hop, ...], message: Direct) -> bool:
        """A relay may come back as often as it was sent, and no more."""
        digest = _digest(path, message)
        times = self._sent.pop(digest, 0)
        if times > 1:
            self._sent[digest] = times - 1
        return times > 0

    def _detours(self, to: BrokerId) -> Iterator[tuple[BrokerId, ...]]:
        able = self._up - self._suspects
        return (path for path in detours(self._scot, self._own, to) if path[0] in able)

    def _open(self, path: tuple[BrokerId, ...], now: float) -> bool:
        avoided = self._avoided
        if not avoided:
            return True
        return all(avoided.get(spot, now) <= now for spot in pairwise(path))

    def relay(self, sender: BrokerId, relay: Relay) -> Direct | None:
        """Handle a relayed message: returned if this broker is its destination; None if it was
        handed on, or back. ValueError for a path that no broker sends, or that does not lead from
        the sender to here. O(path)."""
        path, step = self._path(relay), relay.step
        if step >= len(path) or path[step] != self._own:
            self.lost += 1
            return None
        self._came_from(sender, path[step - 1] if step else BrokerId(*relay.source))
        if step + 1 == len(path):
            return relay.message
        suspected = path[step + 1] in self._suspects and step + 2 < len(path)
        if path[step + 1] in self._up and not suspected:
            self.relayed += 1
            onward = Relay(relay.source, relay.path, step + 1, relay.message)
            self._out.append(Send(path[step + 1], onward, sender))
        else:
            self._back(NoWay(relay.source, relay.path, step, step, relay.message), sender)
        return None

    def passed_over(self, relay: Relay) -> None:
        """There was no room for the relay in the queue to its next hop: it goes back, so that its
        sender can try another path. What was sent from here is kept here. O(path)."""
        step = relay.step - 1
        if step >= 0:
            before = relay.path[step - 1] if step else relay.source
            back = NoWay(relay.source, relay.path, step, step, relay.message)
            self._back(back, BrokerId(*before))

    def no_way(self, sender: BrokerId, back: NoWay, now: float) -> Direct | None:
        """A message that this broker sent along a broken path, which is avoided from now on; None
        if it was handed on. ValueError as for `relay`, and for a message that this broker did not
        send. O(path)."""
        path, step, broken = self._path(back), back.step, back.broken
        at = path[step] if 0 <= step < len(path) else BrokerId(*back.source)
        if at != self._own or not -1 <= step < broken < len(path) - 1:
            self.lost += 1
            return None
        self._came_from(sender, path[step + 1])
        if step >= 0:
            self._back(back, sender)
            return None
        if not self._was_sent(back.path, back.message):
            raise ValueError("a message that was not sent from here")
        self.returned += 1
        spot = path[broken], path[broken + 1]
        self._avoided.pop(spot, None)
        self._avoided[spot] = now + AVOIDED_S
        if len(self._avoided) > MAX_AVOIDED:
            del self._avoided[next(iter(self._avoided))]
        return back.message

    def _path(self, relay: Relay | NoWay) -> list[BrokerId]:
        if len(relay.path) > self._longest:
            raise ValueError(f"a path of {len(relay.path)} hops")
        path = [BrokerId(*hop) for hop in relay.path]
        if len({relay.source, *path}) <= len(path):
            raise ValueError("a path with a broker twice")
        return path

    def _came_from(self, sender: BrokerId, hop: BrokerId) -> None:
        if sender != hop:
            raise ValueError(f"{sender} is not the hop before")

    def _back(self, back: NoWay, sender: BrokerId) -> None:
        """One hop back to the source, if that link is up: else the source retries after its
        time-out."""
        step = back.step - 1
        to = BrokerId(*(back.path[step] if step >= 0 else back.source))
        if to in self._up:
            farther = NoWay(back.source, back.path, back.broken, step, back.message)
            self._out.append(Send(to, farther, sender))
        else:
            self.lost += 1


def _digest(path: tuple[Hop, ...], message: Direct) -> bytes:
    # A notification that comes back is sent anew from custody: its identity is enough.
    what = message.notification.origin if isinstance(message, Notify) else message
    return blake2b(msgspec.msgpack.encode((path, what)), digest_size=16).digest()
