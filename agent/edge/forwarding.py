"""The shell around the outbox: its store, and the message that goes to the master."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from agent.edge import outbox as o
from agent.edge.history_file import HistoryError
from agent.wire.messages import NodeEvent, NodeEvents

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Protocol

    class Store(Protocol):
        """What is asked of the history's events."""

        @property
        def count(self) -> int: ...
        @property
        def dropped(self) -> int: ...
        def waiting(self, after: int, most: int) -> list[NodeEvent]: ...
        def remove(self, sequences: Iterable[int]) -> None: ...


class Forwarding:
    """Carries out what an outbox decides about the events of one history.

    One thread. A store that fails costs a line to `complain`: what could not be read is read later,
    what could not be removed is sent once more after the next welcome.
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
    ) -> None:
        self._outbox = o.Outbox(backlog_per_s)
        self._store = store
        self._history = history
        self._incarnation = incarnation
        self._send = send
        self._complain = complain

    @property
    def wake_at(self) -> float:
        """When to hand in a `Tick`, in seconds of the monotonic clock."""
        return self._outbox.wake_at

    def handle(self, event: o.Event, now: float) -> None:
        """Do what follows from `event` at monotonic time `now`."""
        for instruction in self._outbox.handle(event, now):
            try:
                match instruction:
                    case o.SendEvents(events):
                        self._send(self._message(events))
                    case o.Read(after, most):
                        self.handle(o.Page(tuple(self._store.waiting(after, most))), now)
                    case o.Remove(sequences):
                        self._store.remove(sequences)
            except HistoryError as error:
                self._complain(str(error))

    def _message(self, events: tuple[NodeEvent, ...]) -> NodeEvents:
        # What is raised from now on has a higher sequence than any that waits.
        first = self._store.waiting(o.BEFORE_ALL, 1) or events
        return NodeEvents(
            self._incarnation,
            self._history(),
            events,
            backlog=max(0, self._store.count - len(events)),
            dropped=self._store.dropped,
            oldest=min([event.sequence for event in (*first, *events)]),
        )
