"""Start-time fair queueing: shares a server among senders by cost, not by number of messages.

Goyal, Vin and Cheng, "Start-time fair queueing" (SIGCOMM 1996). A sender's next request starts
where its last one ended in virtual time, or now if it was idle. The one that would end first, if
its cost were proportional to its size, is served first: of two that start at the same time, a small
request does not wait for a large one. The cost is known only afterwards and is charged then.
Pure: no socket, no clock.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Hashable
from typing import Final, Generic, TypeVar

# A lower cost, in seconds, counts as this much.
LEAST_COST_S: Final = 1e-6
# Memory per request in addition to its bytes.
OVERHEAD_BYTES: Final = 256
LEAST_REMEMBERED: Final = 64
# Expected cost per byte: of a query for 1,024 areas, which has 7 kB. It only orders requests.
BYTE_S: Final = 1e-7

T = TypeVar("T")


class _Flow(Generic[T]):
    """One sender's waiting requests, and the virtual start time of its next one."""

    __slots__ = ("bytes", "requests", "start_s")

    def __init__(self, start_s: float) -> None:
        self.start_s = start_s
        self.bytes = 0
        self.requests: deque[tuple[T, int]] = deque()


class StartTimeFairQueue(Generic[T]):
    """Waiting requests, bounded in bytes per sender and in total. O(log senders) per operation."""

    def __init__(self, most_bytes_of_one: int, most_bytes: int) -> None:
        self._most_of_one = most_bytes_of_one
        self._most = most_bytes
        self._flows: dict[Hashable, _Flow[T]] = {}
        # (expected end, number, sender): ties are served in the order in which they came.
        self._heap: list[tuple[float, int, Hashable]] = []
        self._number = 0
        self._virtual_s = 0.0
        # The latest virtual end time of all served requests.
        self._latest_s = 0.0
        self._forget_at = LEAST_REMEMBERED
        self._bytes = 0

    def __bool__(self) -> bool:
        return bool(self._heap)

    @property
    def full(self) -> bool:
        """Whether the queue should accept no more."""
        return self._bytes >= self._most

    @property
    def waiting_bytes(self) -> int:
        """Total bytes waiting."""
        return self._bytes

    def put(self, sender: Hashable, request: T, size: int) -> bool:
        """Queue a request of `size` bytes; False: too many bytes of this sender wait already. A
        sender with nothing waiting may always queue one."""
        size += OVERHEAD_BYTES
        flow = self._flows.get(sender)
        if flow is None:
            self._forget_idle()
            flow = self._flows[sender] = _Flow(self._virtual_s)
        if flow.requests and flow.bytes + size > self._most_of_one:
            return False
        flow.requests.append((request, size))
        if len(flow.requests) == 1:
            flow.start_s = max(flow.start_s, self._virtual_s)
            self._push(sender, flow)
        flow.bytes += size
        self._bytes += size
        return True

    def pop(self) -> tuple[Hashable, T]:
        """The next request and its sender; charge the sender before the next `pop`. IndexError if
        the queue is empty."""
        _, _, sender = heapq.heappop(self._heap)
        flow = self._flows[sender]
        self._virtual_s = max(self._virtual_s, flow.start_s)
        request, size = flow.requests.popleft()
        flow.bytes -= size
        self._bytes -= size
        return sender, request

    def charge(self, sender: Hashable, cost_s: float) -> None:
        """Charge `sender` with the cost of serving the request that `pop` returned."""
        flow = self._flows.get(sender)
        if flow is None:
            return
        flow.start_s += max(cost_s, LEAST_COST_S)
        self._latest_s = max(self._latest_s, flow.start_s)
        if flow.requests:
            self._push(sender, flow)
        elif not self._heap:
            self._virtual_s = self._latest_s  # the queue is idle: all debts are cleared

    def drop(self, sender: Hashable, gone: Callable[[T], bool]) -> int:
        """Remove the waiting requests of `sender` that are `gone`, and return how many there were;
        the sender keeps its debt. O(its requests), and O(senders) if it has none left."""
        flow = self._flows.get(sender)
        if flow is None or not flow.requests:
            return 0
        before, size = len(flow.requests), flow.bytes
        flow.requests = deque(each for each in flow.requests if not gone(each[0]))
        flow.bytes = sum(size for _, size in flow.requests)
        self._bytes -= size - flow.bytes
        if not flow.requests:
            self._heap = [each for each in self._heap if each[2] != sender]
            heapq.heapify(self._heap)
        return before - len(flow.requests)

    def _push(self, sender: Hashable, flow: _Flow[T]) -> None:
        self._number += 1
        end_s = flow.start_s + flow.requests[0][1] * BYTE_S
        heapq.heappush(self._heap, (end_s, self._number, sender))

    def _forget_idle(self) -> None:
        """Remove idle senders without debt, once the senders have doubled since the last time."""
        if len(self._flows) >= self._forget_at:
            self._flows = {
                sender: flow
                for sender, flow in self._flows.items()
                if flow.requests or flow.start_s > self._virtual_s
            }
            self._forget_at = max(LEAST_REMEMBERED, 2 * len(self._flows))
