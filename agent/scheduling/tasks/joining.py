"""Waiting for joining nodes: tasks that arrive before the nodes that will answer them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from operator import attrgetter
from typing import Final, NamedTuple

from agent.scheduling.events import ForgetNode, Instruction, KeepNode
from agent.scheduling.tasks.entry import TaskEntry
from agent.scheduling.timers import Timers
from agent.wire.areas import AreaSet
from agent.wire.principals import Sender

# Running nodes say hello within a second or two of their master's start; nodes that start with it,
# once they have opened their history.
JOINING_S: Final = 10.0
# While a new IAD is set up its first node may come that long after its master's start. Later a
# master without nodes has none: they live elsewhere now.
FIRST_NODE_S: Final = 60.0
# Share of a task's time that it may wait for more nodes if some could serve it at once.
SHARE: Final = 0.5


class Lacking(NamedTuple):
    """No nodes cover all areas of a task yet, for example this `area`; `some`: other nodes could be
    asked all the same."""

    some: bool
    area: str


class KnownNodes:
    """The nodes to remember for a master's next start, by name, each with its areas.

    A node is remembered from its hello until its goodbye, or until it has not come back for
    `JOINING_S` after a start: one that never does is waited for once. `before` are those of the
    last run; None: nodes are not remembered.
    """

    def __init__(self, before: Mapping[str, tuple[str, ...]] | None) -> None:
        self._keeps = before is not None
        self._known = dict(before or {})
        self._absent = dict(self._known)
        self.areas = self._areas_of_absent()
        # Of those that said goodbye before they said hello.
        self.gone = AreaSet()

    def __bool__(self) -> bool:
        """Whether some nodes known at the start may still come back."""
        return bool(self._absent)

    def expects(self, node: str) -> bool:
        """Whether the node was known at the start, and may still come back. O(1)."""
        return node in self._absent

    def joined(self, node: str, areas: tuple[str, ...]) -> list[Instruction]:
        """The node has joined. O(1), or O(nodes) if it came back with other areas."""
        before = self._absent.pop(node, None)
        if before is not None and before != areas:
            self.areas = self._areas_of_absent()
        if not self._keeps or self._known.get(node) == areas:
            return []
        self._known[node] = areas
        return [KeepNode(node, areas)]

    def left(self, node: str) -> list[Instruction]:
        """The node said goodbye."""
        return [] if self._known.pop(node, None) is None else [ForgetNode(node)]

    def stopped(self, node: str) -> list[Instruction]:
        """A node that has not joined said goodbye: it is not waited for, if it was. O(nodes)."""
        areas = self._absent.pop(node, ())
        for area in areas:
            self.gone.add(area)
        if not areas:
            return []
        self.areas = self._areas_of_absent()
        return self.left(node)

    def give_up(self) -> list[Instruction]:
        """Nodes that have not come back are no longer waited for, at this or any later start."""
        absent, self._absent = self._absent, {}
        self.areas, self.gone = AreaSet(), AreaSet()
        return [i for node in absent for i in self.left(node)]

    def _areas_of_absent(self) -> AreaSet:
        return AreaSet(area for areas in self._absent.values() for area in areas)


class Joining:
    """Tasks that wait for nodes, and until when.

    Nodes may join for `JOINING_S` after the master's start at `started_s`; None: all are there from
    the beginning. If no node has ever joined, each task that arrives within `FIRST_NODE_S` waits
    that long. `known`: the nodes, some of which are expected.
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
    def next_s(self) -> float:
        """When the first waiting time ends, or that of the nodes from before the start; infinity:
        never."""
        due_s = self._timers.first_s
        if not self._known or self._started_s is None:
            return due_s
        return min(due_s, self._started_s + JOINING_S)

    def until(self, since_s: float, nodes: int) -> float:
        """Until when a task that arrived at `since_s` may wait, with this many nodes known."""
        if self._started_s is None:
            return since_s
        first = not nodes and since_s < self._started_s + FIRST_NODE_S
        return (since_s if first else self._started_s) + JOINING_S

    def wait(self, entry: TaskEntry, sender: Sender, lacking: Lacking, nodes: int) -> None:
        """Hold a task until `remove`, or until it is due."""
        timeout_s = entry.task.timeout_ms / 1e3
        patience_s = timeout_s * SHARE if lacking.some else timeout_s
        due_s = min(self.until(entry.received_s, nodes), entry.received_s + patience_s)
        self._waiting[entry] = (sender, self._timers.set(due_s, entry), lacking)

    def remove(self, entry: TaskEntry) -> Sender:
        """End a task's wait; returns its sender."""
        sender, timer, _ = self._waiting.pop(entry)
        self._timers.cancel(timer)
        return sender

    def lacks(self, entry: TaskEntry, known: AreaSet) -> bool:
        """Whether a task that has nodes to ask certainly still lacks one, with nodes in these
        areas. O(1)."""
        _, _, lacking = self._waiting[entry]
        return lacking.some and not known.has_within(lacking.area)

    def waiting(self) -> list[TaskEntry]:
        """The waiting tasks, in order of arrival."""
        return sorted(self._waiting, key=attrgetter("received_s"))

    def give_up(self, now: float) -> list[Instruction]:
        """The instructions once the time of the nodes from before the start is over."""
        if not self._known or self._started_s is None or now < self._started_s + JOINING_S:
            return []
        return self._known.give_up()

    def due(self, now: float) -> Iterator[tuple[TaskEntry, Sender]]:
        """The tasks that have waited long enough; they wait no more."""
        for entry in self._timers.due(now):
            sender, _, _ = self._waiting.pop(entry)
            yield entry, sender
