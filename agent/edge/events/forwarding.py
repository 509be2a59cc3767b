"""Event forwarding: executes the outbox's instructions on the event store and the link.

The store is a file, and a worn card may take half a minute for a sync. The disk writer therefore
makes all accesses, and never blocks the event loop.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeVar

from agent.edge.events import outbox as o
from agent.edge.history.file import HistoryError
from agent.runtime.disk_writer import DiskWriter
from agent.wire.node_messages import NodeEvent, NodeEvents

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Protocol

    class Store(Protocol):
        """The part of `EventStore` that forwarding uses."""

        @property
        def count(self) -> int: ...
        @property
        def dropped(self) -> int: ...
        @property
        def oldest(self) -> int | None: ...
        def is_older_copy(self, settled: int, to: int) -> bool: ...
        def number_anew(self, settled: int, to: int) -> None: ...
        def waiting(self, after: int, most: int) -> list[NodeEvent]: ...
        def remove(self, sequences: Iterable[int]) -> None: ...


T = TypeVar("T")
AGAIN_S: Final = 10.0  # after the store refused


class Forwarding:
    """Carries out what an outbox decides about the events of one history.

    Used by one thread, besides that of `disk`. If the store fails, one line goes to `complain` and
    the read or removal is retried later. At most one read and one removal are in progress; further
    removals are collected meanwhile, at most as many as the store holds.
    """

    def __init__(
        self,
        store: Store,
        history: Callable[[], str],
        incarnation: str,
        *,
        backlog_per_s: float,
        send: Callable[[NodeEvents], object],
        complain: Callable[[str], object],
        disk: DiskWriter,
        clock: Callable[[], float],
    ) -> None:
        """`clock` is the clock that `handle`'s `now` is read from."""
        self._outbox = o.Outbox(backlog_per_s)
        self._store = store
        self._history = history
        self._incarnation = incarnation
        self._send = send
        self._complain = complain
        self._disk = disk
        self._clock = clock
        self._reading: o.Read | None = None
        self._links = 0  # times joined or cut so far: a page read for an earlier link is discarded
        self._taken: set[int] = set()
        self._removing = False
        self._remove_again_at = float("inf")
        self._number_again_at = float("inf")
        self._joined = o.Joined(takes_events=False)  # while that waits

    @property
    def wake_at(self) -> float:
        """When the next `Tick` is due, in seconds on the monotonic clock."""
        return min(self._outbox.wake_at, self._remove_again_at, self._number_again_at)

    def handle(self, event: o.Event, now: float) -> None:
        """Execute what the outbox decides about `event` at monotonic time `now`."""
        if isinstance(event, o.Joined | o.Cut):
            self._links += 1
            self._number_again_at = float("inf")
        if isinstance(event, o.Joined) and self._store.is_older_copy(event.settled, event.to):
            self.handle(o.Cut(), now)
            self._joined = event
            self._number_anew()
            return
        if now >= self._number_again_at:
            self._number_anew()
        if now >= self._remove_again_at:
            self._remove()
        for instruction in self._outbox.handle(event, now):
            match instruction:
                case o.SendEvents(events):
                    self._send(self._message(events))
                case o.Read():
                    self._read(instruction)
                case o.Remove(sequences):
                    self._taken.update(sequences)
                    self._remove()

    def _number_anew(self) -> None:
        """The outbox joins once that is done: the master would acknowledge the former numbers."""
        joined, link = self._joined, self._links
        self._number_again_at = float("inf")

        def then(failed: HistoryError | None) -> None:
            if failed is not None:
                self._complain(str(failed))
            if link != self._links:
                return
            if failed is not None:
                self._number_again_at = self._clock() + AGAIN_S
            else:
                self.handle(joined, self._clock())

        job = _tried(lambda: self._store.number_anew(joined.settled, joined.to))
        self._disk.submit(job, then)

    def _read(self, read: o.Read) -> None:
        if self._reading is not None:
            return  # the outbox repeats the read with the next batch
        self._reading, link = read, self._links

        def then(found: list[NodeEvent] | HistoryError) -> None:
            self._reading = None
            if isinstance(found, HistoryError):
                self._complain(str(found))
            elif link == self._links:
                self.handle(o.Page(tuple(found), read), self._clock())

        self._disk.submit(_tried(lambda: self._store.waiting(read.after, read.most)), then)

    def _remove(self) -> None:
        if self._removing or not self._taken:
            return
        self._removing, self._remove_again_at = True, float("inf")
        taken, self._taken = self._taken, set()

        def then(failed: HistoryError | None) -> None:
            self._removing = False
            if failed is not None:
                self._complain(str(failed))
                self._taken |= taken
                self._remove_again_at = self._clock() + AGAIN_S
            else:
                self._remove()

        self._disk.submit(_tried(lambda: self._store.remove(taken)), then)

    def _message(self, events: tuple[NodeEvent, ...]) -> NodeEvents:
        # Events raised later have higher sequences than any that waits.
        oldest = [event.sequence for event in events]
        if (first := self._store.oldest) is not None:
            oldest.append(first)
        return NodeEvents(
            self._incarnation,
            self._history(),
            events,
            backlog=max(0, self._store.count - len(events)),
            dropped=self._store.dropped,
            oldest=min(oldest),
        )


def _tried(job: Callable[[], T]) -> Callable[[], T | HistoryError]:
    """Wrap a job so that it returns its HistoryError instead of raising it."""

    def run() -> T | HistoryError:
        try:
            return job()
        except HistoryError as error:
            return error

    return run
