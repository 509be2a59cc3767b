"""Per-watch ordering barriers: actions that follow the saving of a watch wait until it is on stable
storage."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial

from agent.master.storage.state import State
from agent.scheduling.watches.events import WatchKey


class _Barrier:
    """Documents on their way to the disk."""

    __slots__ = ("durable",)

    def __init__(self) -> None:
        self.durable = False


class SavingWatches:
    """For each watch a queue of barriers and of actions that wait for the barriers before them. A
    watch whose documents are all on stable storage has none. The queue is bounded by what a watch
    may have outstanding: unacknowledged evaluations, and a request to its inbox for each."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._queues: dict[WatchKey, deque[_Barrier | Callable[[], object]]] = {}

    def has(self, key: WatchKey) -> bool:
        """Whether any document of the watch is on its way to the disk."""
        return key in self._queues

    def begin(self, key: WatchKey) -> None:
        """Later actions wait for everything put into the state until now."""
        barrier = _Barrier()
        self._queues.setdefault(key, deque()).append(barrier)
        self._state.when_durable(partial(self._passed, key, barrier))

    def after(self, key: WatchKey, action: Callable[[], object]) -> None:
        """Run this as soon as everything before it is on stable storage: usually now."""
        if (queue := self._queues.get(key)) is not None:
            queue.append(action)
        else:
            action()

    def drop(self, key: WatchKey) -> None:
        """Forget the actions of a watch that has ended before it was on stable storage."""
        self._queues.pop(key, None)

    def _passed(self, key: WatchKey, barrier: _Barrier) -> None:
        barrier.durable = True
        if (queue := self._queues.get(key)) is None:
            return
        while queue:
            first = queue[0]
            if not isinstance(first, _Barrier):
                # It stays queued while it runs, so that actions it adds come after it.
                first()
            elif not first.durable:
                return
            queue.popleft()
        del self._queues[key]
