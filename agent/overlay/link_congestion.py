"""Link congestion of a broker: how congested each output queue was in the last window.

`LinkMonitor` counts queue traffic and forms the windows; `LinkStatus` keeps the measurements and
applies the congestion test (OctopiA section VII-B, Eq. 10). The body of Eq. 10 is missing from the
published text; it is implemented as ``(1 + Q_in) / (1 + Q_out) · Q_len > τ``: the window's
congestion element, which stays finite when nothing left the queue, times the queue length.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from agent.overlay.events import LinkMeasured
from agent.overlay.scot import BrokerId

# OctopiA section VIII: t_w = 50 ms, τ = 10.
WINDOW_S: Final = 0.05
THRESHOLD: Final = 10.0

Load = tuple[float, int]
"""The left side of Eq. 10, and what waits: lower is less loaded."""

# Congestion element, length of the queue.
_EMPTY: Final = (1.0, 0)


class LinkStatus:
    """The link status table of a broker: the last window of each link (the paper's LST).

    A link without a measurement is free. Within a window, a neighbour counts as more loaded by each
    share of work it was given, because otherwise all traffic of a window would take the same link.
    Memory: an entry for each neighbour whose queue was not empty at its last measurement, or that
    was given work since.
    """

    def __init__(self, threshold: float = THRESHOLD) -> None:
        """`threshold` is τ > 0: a queue above it is congested. ValueError."""
        if not threshold > 0.0:
            raise ValueError(f"the threshold of congestion is above 0, not {threshold!r}")
        self.threshold: Final = threshold
        self._windows: dict[BrokerId, tuple[float, int]] = {}
        self._congested: set[BrokerId] = set()
        self._given: dict[BrokerId, int] = {}

    def measured(self, window: LinkMeasured) -> None:
        """Replace the previous window by this measurement. O(1)."""
        self.forget(window.neighbour)
        if window.length > 0:
            element = (1 + window.entered) / (1 + window.left)
            self._windows[window.neighbour] = element, window.length
            if element * window.length > self.threshold:
                self._congested.add(window.neighbour)

    def forget(self, neighbour: BrokerId) -> None:
        """The link is new, or gone. O(1)."""
        self._windows.pop(neighbour, None)
        self._congested.discard(neighbour)
        self._given.pop(neighbour, None)

    def give(self, neighbour: BrokerId, count: int) -> None:
        """Record that this many clusters were assigned to that neighbour, until its link is
        measured again. O(1)."""
        self._given[neighbour] = self._given.get(neighbour, 0) + count

    def load(self, neighbour: BrokerId) -> Load:
        """A sort key: the smallest is the least loaded, or least congested, link. O(1)."""
        element, length = self._windows.get(neighbour, _EMPTY)
        length += self._given.get(neighbour, 0)
        return element * length, length

    def congested(self, neighbour: BrokerId) -> bool:
        """Whether Eq. 10 held in the last window. O(1)."""
        return neighbour in self._congested

    @property
    def any_congested(self) -> bool:
        """Whether any link is. O(1)."""
        return bool(self._congested)


class _Queue:
    __slots__ = ("entered", "left", "length", "told")

    def __init__(self) -> None:
        self.entered = 0
        self.left = 0
        self.length = 0
        # Whether the last reported window was not empty.
        self.told = False


class LinkMonitor:
    """Counts notifications into and out of the output queues, and reports the windows.

    A window begins when the first notification enters a queue of an idle broker, and the next one
    when it is sampled; while all queues are empty and reported as such, there is no window and no
    work.
    """

    def __init__(self, window_s: float = WINDOW_S) -> None:
        """`window_s` is t_w > 0, in seconds. ValueError."""
        if not window_s > 0.0:
            raise ValueError(f"a window is longer than 0 s, not {window_s!r}")
        self._window_s = window_s
        self._queues: dict[BrokerId, _Queue] = {}
        self.next_sample: float | None = None
        """When the window ends; None without one."""

    def entered(self, neighbour: BrokerId, count: int, now: float) -> None:
        """This many more notifications wait for the neighbour. O(1)."""
        queue = self._queues.get(neighbour)
        if queue is None:
            queue = self._queues[neighbour] = _Queue()
        queue.entered += count
        queue.length += count
        if self.next_sample is None:
            self.next_sample = now + self._window_s

    def left(self, neighbour: BrokerId, count: int, now: float) -> None:
        """This many waiting notifications were sent. ValueError if fewer were waiting. O(1)."""
        queue = self._queues.get(neighbour)
        waiting = queue.length if queue is not None else 0
        if queue is None or count > waiting:
            raise ValueError(f"{count} cannot leave the queue to {neighbour}: {waiting} wait there")
        queue.left += count
        queue.length -= count
        if self.next_sample is None:
            self.next_sample = now + self._window_s

    def took_back(self, neighbour: BrokerId, count: int) -> None:
        """This many of those that entered in this window were removed again. ValueError if fewer
        entered. O(1)."""
        queue = self._queues.get(neighbour)
        entered = min(queue.entered, queue.length) if queue is not None else 0
        if queue is None or count > entered:
            raise ValueError(f"{count} cannot be taken back from {neighbour}: {entered} entered")
        queue.entered -= count
        queue.length -= count

    def forget(self, neighbour: BrokerId) -> None:
        """The queue was dropped with its contents. O(1)."""
        self._queues.pop(neighbour, None)

    def length(self, neighbour: BrokerId) -> int:
        """Queue length to the neighbour. O(1)."""
        queue = self._queues.get(neighbour)
        return queue.length if queue is not None else 0

    def sample(self, now: float) -> list[LinkMeasured]:
        """The window that has ended, queue by queue in the order of their first use; empty before
        `next_sample`. A late call makes a longer window. An idle, empty queue is reported once.
        O(queues in use)."""
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
