"""The links of a broker: how congested each output queue was in the last window.

`LinkMonitor` counts what goes through the queues and makes the windows; `LinkStatus` keeps what was
measured and judges it (OctopiA section VII-B, Eq. 10). The body of Eq. 10 is lost in the published
text; what stands here is ``(1 + Q_in) / (1 + Q_out) · Q_len > τ``: the congestion element of the
window, which stays finite when nothing left, times what waits.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from agent.overlay.events import LinkMeasured
from agent.overlay.scot import Broker

# OctopiA section VIII: t_w = 50 ms, τ = 10.
WINDOW_S: Final = 0.05
THRESHOLD: Final = 10.0

Load = tuple[float, int]
"""The left side of Eq. 10, and what waits: lower is less loaded."""

# Congestion element, length of the queue.
_EMPTY: Final = (1.0, 0)


class LinkStatus:
    """The link status table of a broker: the last window of each link (the paper's LST).

    A link of which nothing is known is free. Within a window, whoever was given a share of the work
    counts as more loaded by that: else all of a window's would go the same way. Memory: an entry
    for each neighbour whose queue was not empty when it was measured last, or that was given some.
    """

    def __init__(self, threshold: float = THRESHOLD) -> None:
        """`threshold` is τ > 0: a queue above it is congested. ValueError."""
        if not threshold > 0.0:
            raise ValueError(f"the threshold of congestion is above 0, not {threshold!r}")
        self.threshold: Final = threshold
        self._windows: dict[Broker, tuple[float, int]] = {}
        self._congested: set[Broker] = set()
        self._given: dict[Broker, int] = {}

    def measured(self, window: LinkMeasured) -> None:
        """What was measured takes the place of the window before. O(1)."""
        self.forget(window.neighbour)
        if window.length > 0:
            element = (1 + window.entered) / (1 + window.left)
            self._windows[window.neighbour] = element, window.length
            if element * window.length > self.threshold:
                self._congested.add(window.neighbour)

    def forget(self, neighbour: Broker) -> None:
        """The link is new, or gone. O(1)."""
        self._windows.pop(neighbour, None)
        self._congested.discard(neighbour)
        self._given.pop(neighbour, None)

    def give(self, neighbour: Broker, count: int) -> None:
        """So many clusters are left to that neighbour, until its link is measured again. O(1)."""
        self._given[neighbour] = self._given.get(neighbour, 0) + count

    def load(self, neighbour: Broker) -> Load:
        """To be compared: the least is the least loaded, or least congested, link. O(1)."""
        element, length = self._windows.get(neighbour, _EMPTY)
        length += self._given.get(neighbour, 0)
        return element * length, length

    def congested(self, neighbour: Broker) -> bool:
        """Whether Eq. 10 held in the last window. O(1)."""
        return neighbour in self._congested

    @property
    def any_congested(self) -> bool:
        """Whether some link is. O(1)."""
        return bool(self._congested)


class _Queue:
    __slots__ = ("entered", "left", "length", "told")

    def __init__(self) -> None:
        self.entered = 0
        self.left = 0
        self.length = 0
        # Whether the last window that was told of had anything in it.
        self.told = False


class LinkMonitor:
    """Counts notifications into and out of the output queues, and tells the windows.

    A window begins when the first notification enters an idle broker's queue, and the next one when
    it is sampled; while all queues are empty and told so, there is no window and nothing to do.
    """

    def __init__(self, window_s: float = WINDOW_S) -> None:
        """`window_s` is t_w > 0, in seconds. ValueError."""
        if not window_s > 0.0:
            raise ValueError(f"a window is longer than 0 s, not {window_s!r}")
        self._window_s = window_s
        self._queues: dict[Broker, _Queue] = {}
        self.next_sample: float | None = None
        """When the window ends; None without one."""

    def entered(self, neighbour: Broker, count: int, now: float) -> None:
        """So many more wait for the neighbour. O(1)."""
        queue = self._queues.get(neighbour)
        if queue is None:
            queue = self._queues[neighbour] = _Queue()
        queue.entered += count
        queue.length += count
        if self.next_sample is None:
            self.next_sample = now + self._window_s

    def left(self, neighbour: Broker, count: int, now: float) -> None:
        """So many of those that waited were sent. ValueError if there are fewer. O(1)."""
        queue = self._queues.get(neighbour)
        waiting = queue.length if queue is not None else 0
        if queue is None or count > waiting:
            raise ValueError(f"{count} cannot leave the queue to {neighbour}: {waiting} wait there")
        queue.left += count
        queue.length -= count
        if self.next_sample is None:
            self.next_sample = now + self._window_s

    def took_back(self, neighbour: Broker, count: int) -> None:
        """So many that entered in this window did not after all. ValueError if there are fewer.
        O(1)."""
        queue = self._queues.get(neighbour)
        entered = min(queue.entered, queue.length) if queue is not None else 0
        if queue is None or count > entered:
            raise ValueError(f"{count} cannot be taken back from {neighbour}: {entered} entered")
        queue.entered -= count
        queue.length -= count

    def forget(self, neighbour: Broker) -> None:
        """The queue was thrown away, with what waited in it. O(1)."""
        self._queues.pop(neighbour, None)

    def length(self, neighbour: Broker) -> int:
        """How many wait for the neighbour now. O(1)."""
        queue = self._queues.get(neighbour)
        return queue.length if queue is not None else 0

    def sample(self, now: float) -> list[LinkMeasured]:
        """The window that has ended, queue by queue in the order of their first use; empty before
        `next_sample`. A late call makes a longer window. Of a queue in which nothing moves or waits
        this is told once. O(queues in use)."""
        if self.next_sample is None or now < self.next_sample:
            return []
        windows = list(self._windows())
        self._queues = {each: queue for each, queue in self._queues.items() if queue.told}
        self.next_sample = now + self._window_s if self._queues else None
        return windows

    def _windows(self) -> Iterator[LinkMeasured]:
        for neighbour, queue in self._queues.items():
            busy = bool(queue.entered or queue.left or queue.length)
            if busy or queue.told:
                yield LinkMeasured(neighbour, queue.entered, queue.left, queue.length)
            queue.entered = queue.left = 0
            queue.told = busy
