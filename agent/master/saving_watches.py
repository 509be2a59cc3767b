"""What follows the saving of a watch: held until it is on stable storage, watch by watch."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial

from agent.master.state import State
from agent.scheduling.watches.events import WatchKey


class _Barrier:
    """Documents on their way to the disk."""

    __slots__ = ("durable",)

    def __init__(self) -> None:
        self.durable = False


class SavingWatches:
    """For each watch a queue of barriers and of actions that wait for those before them. A watch
    whose documents are all on stable storage has none. What is queued is bounded by what a watch
    may have under way: its rounds that were not acknowledged, and a request to its inbox for each.
    """

    def __init__(self, state: State) -> None:
        self._state = state
        self._queues: dict[WatchKey, deque[_Barrier | Callable[[], object]]] = {}

    def has(self, key: WatchKey) -> bool:
        """Whether anything of the watch is on its way to the disk."""
        return key in self._queues

    def begin(self, key: WatchKey) -> None:
        """What follows has to wait for all that was put into the state until now."""
        barrier = _Barrier()
        self._queues.setdefault(key, deque()).append(barrier)
        self._state.when_durable(partial(self._passed, key, barrier))

    def after(self, key: WatchKey, action: Callable[[], object]) -> None:
        """Do this as soon as everything before it is on stable storage: now, as a rule."""
        if (queue := self._queues.get(key)) is not None:
            queue.append(action)
        else:
            action()

    def _passed(self, key: WatchKey, barrier: _Barrier) -> None:
        barrier.durable = True
        queue = self._queues[key]
        while queue:
            first = queue[0]
            if not isinstance(first, _Barrier):
                # It stays while it acts: what that gives comes after it.
                first()
            elif not first.durable:
                return
            queue.popleft()
        del self._queues[key]
