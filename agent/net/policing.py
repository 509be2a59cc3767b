"""Traffic policing: a host that sends more bytes than its rate is held up at its TCP connections.

The packets of a connection that is held up are dropped by the kernel, before this process reads or
stores anything of them; TCP sends them again later. A connection is not closed: a client that sends
too much is slowed down and loses nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Final

from agent.net.socket_filters import Passing
from agent.runtime.token_bucket import TokenBucket

# What one host's connections may send. A Pi's network carries 12 MB/s, and the default rate of
# queries has at most 9 MB/s.
RATE_BYTES_PER_S: Final = 16 << 20
BURST_BYTES: Final = 32 << 20
# A host is held up for at most this long at a time: TCP's retransmission after three seconds then
# passes, before a peer's limit of six (DEAD_AFTER_MS in agent/net/router.py) is over.
MAX_HELD_UP_S: Final = 2.5
# A connection that sent less than this since the last step is never held up.
FEW_BYTES: Final = 4_096


class _Connection:
    """The host of a connection, the bytes counted of it, and those since the last step."""

    __slots__ = ("counted", "host", "recent")

    def __init__(self, host: str) -> None:
        self.host = host
        self.counted = 0
        self.recent = 0

    def arrived(self, total: int) -> None:
        """So many bytes arrived so far, or more."""
        if total > self.counted:
            self.recent += total - self.counted
            self.counted = total


class Policer:
    """Decides which connections are held up, by the bytes that their hosts sent. Pure: counts and
    times are arguments."""

    def __init__(self, now: float) -> None:
        self._connections: dict[int, _Connection] = {}
        self._buckets: dict[str, TokenBucket] = {}
        self._held_up: set[int] = set()
        # When all bytes were counted last, and all totals at the last step.
        self._counted_s = now
        self._stepped_s = now
        self._total = 0
        # Whether the next step counts all, whatever the totals say.
        self._counts = False

    def opened(self, fd: int, host: str, now: float) -> bool:
        """A connection was opened; whether its host is held up, so that only small packets may
        pass."""
        self._connections[fd] = _Connection(host)
        owes = self._wait_s(host, now) > 0.0
        if owes:
            self._held_up.add(fd)
        return owes

    def closed(self, fd: int, now: float) -> None:
        """A connection was closed; its host pays for what it sent."""
        self._held_up.discard(fd)
        self._counts = True
        found = self._connections.pop(fd, None)
        if found is not None and found.recent:
            self._charge(found.host, found.recent, self._counted_s, now)

    def count(self, fd: int, total: int) -> None:
        """So many bytes arrived on a connection so far, or more; O(1)."""
        found = self._connections.get(fd)
        if found is not None and total > found.counted + FEW_BYTES:
            found.arrived(total)
            self._counts = True

    def step(self, now: float, totals: Mapping[int, int]) -> dict[int, Passing]:
        """What shall pass from now on, of the connections for which that changes; `totals` are the
        bytes that arrived on each so far, or more. O(n), with a small factor while all together are
        within the rate of one host."""
        grown, since_s = sum(totals.values()) - self._total, now - self._stepped_s
        self._total, self._stepped_s = self._total + grown, now
        if not (self._counts or self._buckets) and 0 <= grown <= RATE_BYTES_PER_S * since_s:
            return {}
        counted_s, self._counted_s, self._counts = self._counted_s, now, False
        recent: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
        for fd, each in self._connections.items():
            each.arrived(totals.get(fd, 0))
            if each.recent:
                recent[each.host].append((each.recent, fd))
                each.recent = 0
        changed: dict[int, Passing] = {}
        for host, sent in recent.items():
            self._charge(host, sum(size for size, _ in sent), counted_s, now)
            if self._wait_s(host, now) > 0.0:
                fair = RATE_BYTES_PER_S * (now - counted_s) / self._count_of(host)
                fair = max(FEW_BYTES, fair)
                changed |= {fd: Passing.ACKNOWLEDGEMENTS for size, fd in sent if size > fair}
        self._held_up |= changed.keys()
        free = [fd for fd in self._held_up if not self._wait_s(self._connections[fd].host, now)]
        self._held_up.difference_update(free)
        changed |= dict.fromkeys(free, Passing.ALL)
        full = [host for host, each in self._buckets.items() if not each.wait_s(now, each.burst)]
        for host in full:
            del self._buckets[host]
        return changed

    def _count_of(self, host: str) -> int:
        return sum(each.host == host for each in self._connections.values())

    def _charge(self, host: str, size: int, since_s: float, now: float) -> None:
        """The host sent so much since then."""
        bucket = self._buckets.get(host)
        if bucket is None:
            bucket = self._buckets[host] = TokenBucket(RATE_BYTES_PER_S, BURST_BYTES, since_s)
        bucket.take(size)
        forgiven_s = bucket.wait_s(now, 0.0) - MAX_HELD_UP_S
        if forgiven_s > 0.0:
            bucket.take(-forgiven_s * RATE_BYTES_PER_S)

    def _wait_s(self, host: str, now: float) -> float:
        bucket = self._buckets.get(host)
        return 0.0 if bucket is None else bucket.wait_s(now, 0.0)
