"""Tasks that come before the nodes that will answer them: a master starts without any node."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from operator import attrgetter
from typing import Final, NamedTuple

from agent.scheduling.events import ForgetNode, Instruction, KeepNode
from agent.scheduling.tasks.entry import TaskEntry
from agent.scheduling.timers import Timers
from agent.wire.areas import AreaSet
from agent.wire.principals import Sender

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


class KnownNodes:
    """The nodes that a master's next start shall know, by name, each with its areas.

    A node is known from its hello until its goodbye, or until it has not come back for `JOINING_S`
    after a start: one that never does is waited for once. `before` is what the last run left; None:
    nobody keeps it.
    """

    def __init__(self, before: Mapping[str, tuple[str, ...]] | None) -> None:
        self._keeps = before is not None
        self._known = dict(before or {})
        self._absent = dict(self._known)
        self.areas = self._areas_of_absent()

    def __bool__(self) -> bool:
        """Whether some that were known at the start may yet come back."""
        return bool(self._absent)

    def joined(self, node: str, areas: tuple[str, ...]) -> list[Instruction]:
        """It is here. O(1), or O(nodes) if it came back with other areas."""
        before = self._absent.pop(node, None)
        if before is not None and before != areas:
            self.areas = self._areas_of_absent()
        if not self._keeps or self._known.get(node) == areas:
            return []
        self._known[node] = areas
        return [KeepNode(node, areas)]

    def left(self, node: str) -> list[Instruction]:
        """It said goodbye."""
        return [] if self._known.pop(node, None) is None else [ForgetNode(node)]

    def give_up(self) -> list[Instruction]:
        """Those that did not come back are not waited for any more, after no start."""
        absent, self._absent = self._absent, {}
        self.areas = AreaSet()
        return [i for node in absent for i in self.left(node)]

    def _areas_of_absent(self) -> AreaSet:
        return AreaSet(area for areas in self._absent.values() for area in areas)


class Joining:
    """Who waits for nodes, and until when.

    Nodes are joining for `JOINING_S` after the master's start at `started_s`; None: all are there
    from the beginning. As long as none ever came, each task waits for as long. `known`: those of
    which some are expected.
    """

    def __init__(self, started_s: float | None, known: KnownNodes) -> None:
        self._started_s = started_s
        self._known = known
        self._timers: Timers[TaskEntry] = Timers()
        self._waiting: dict[TaskEntry, tuple[Sender, int, Lacking]] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def __contains__(self, entry: TaskEntry) -> bool:
        return entry in self._waiting

    @property
    def next_due(self) -> float | None:
        """When the first has waited long enough, or the nodes from before the start have."""
        due_s = self._timers.next_due()
        if not self._known or self._started_s is None:
            return due_s
        until_s = self._started_s + JOINING_S
        return until_s if due_s is None else min(due_s, until_s)

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

    def give_up(self, now: float) -> list[Instruction]:
        """What follows once the nodes from before the start had their time."""
        if not self._known or self._started_s is None or now < self._started_s + JOINING_S:
            return []
        return self._known.give_up()

    def due(self, now: float) -> Iterator[tuple[TaskEntry, Sender]]:
        """Those that have waited long enough; they wait no more."""
        for entry in self._timers.due(now):
            sender, _, _ = self._waiting.pop(entry)
            yield entry, sender
