"""Tasks that come before the nodes that will answer them: a master starts without any node."""

from __future__ import annotations

from collections.abc import Iterator
from operator import attrgetter
from typing import Final, NamedTuple

from agent.scheduling.task_entry import TaskEntry
from agent.scheduling.timers import Timers
from agent.wire.areas import AreaSet
from agent.wire.senders import Sender

# Nodes that run say hello within a second or two of their master's start, those that start with it
# once they have opened their history.
JOINING_S: Final = 10.0
# A task that some nodes could serve at once leaves them so much of its time.
SHARE: Final = 0.5


class Lacking(NamedTuple):
    """No nodes cover all areas of a task yet, such as this `area`; `some`: there are nodes to ask
    all the same."""

    some: bool
    area: str


class Joining:
    """Who waits for nodes, and until when.

    Nodes are joining for `JOINING_S` after the master's start at `started_s`; None: all are there
    from the beginning. As long as none ever came, each task waits for as long.
    """

    def __init__(self, started_s: float | None) -> None:
        self._started_s = started_s
        self._timers: Timers[TaskEntry] = Timers()
        self._waiting: dict[TaskEntry, tuple[Sender, int, Lacking]] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def __contains__(self, entry: TaskEntry) -> bool:
        return entry in self._waiting

    @property
    def next_due(self) -> float | None:
        """When the first has waited long enough."""
        return self._timers.next_due()

    def until(self, since_s: float, nodes: int) -> float:
        """Until when that which came at `since_s` may wait, with so many nodes known."""
        if self._started_s is None:
            return since_s
        return (self._started_s if nodes else since_s) + JOINING_S

    def wait(self, entry: TaskEntry, sender: Sender, lacking: Lacking, nodes: int) -> None:
        """Hold a task until `remove`, or until it is due."""
        timeout_s = entry.task.timeout_ms / 1e3
        patience_s = timeout_s * SHARE if lacking.some else timeout_s
        due_s = min(self.until(entry.received_s, nodes), entry.received_s + patience_s)
        self._waiting[entry] = (sender, self._timers.set(due_s, entry), lacking)

    def remove(self, entry: TaskEntry) -> Sender:
        """It waits no more; who sent it."""
        sender, timer, _ = self._waiting.pop(entry)
        self._timers.cancel(timer)
        return sender

    def lacks(self, entry: TaskEntry, known: AreaSet) -> bool:
        """Whether a task that has somebody to ask surely lacks a node still, with nodes in these
        areas. O(1)."""
        _, _, lacking = self._waiting[entry]
        return lacking.some and not known.has_within(lacking.area)

    def waiting(self) -> list[TaskEntry]:
        """All that wait, in the order in which they came."""
        return sorted(self._waiting, key=attrgetter("received_s"))

    def due(self, now: float) -> Iterator[tuple[TaskEntry, Sender]]:
        """Those that have waited long enough; they wait no more."""
        for entry in self._timers.due(now):
            sender, _, _ = self._waiting.pop(entry)
            yield entry, sender
