"""Traffic between edge nodes and masters through the nodes' home, read from the home's records."""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from typing import Final

from agent.wire.records import AnyRecord, NodeEventRecord, SubtaskRecord, TaskRecord

# Tasks whose subtasks have returned and whose record has not come yet, or the other way round.
MAX_OPEN: Final = 1_024
SAMPLES: Final = 64
# Who asks waits for the question and for the answer.
WAYS: Final = 2


class HomeTraffic:
    """Counts messages of each node, by the IAD that they come from or go to. An event goes to the
    home's own. O(1) a record."""

    def __init__(self, iad: str) -> None:
        self._iad = iad
        self.counts: dict[str, Counter[str]] = {}
        self._answered: OrderedDict[str, list[str]] = OrderedDict()
        self._origins: OrderedDict[str, str] = OrderedDict()
        self._round_trips_ms: dict[str, deque[float]] = {}

    def take(self, record: AnyRecord) -> None:
        """A record of this master."""
        # No patterns of attributes: this is done for every subtask.
        if isinstance(record, SubtaskRecord):
            self._take_subtask(record)
        elif isinstance(record, TaskRecord):
            self._take_task(record)
        elif isinstance(record, NodeEventRecord):
            self._count(record.node, self._iad, 1)

    def _take_subtask(self, record: SubtaskRecord) -> None:
        if record.result_ms is None or record.dispatched_ms is None:
            return
        self._measure(record, record.result_ms - record.dispatched_ms)
        if (origin := self._origins.get(record.task)) is not None:
            self._count(record.node, origin, WAYS)
        elif (nodes := self._answered.get(record.task)) is not None:
            nodes.append(record.node)
        else:
            self._answered[record.task] = [record.node]
            if len(self._answered) > MAX_OPEN:
                self._answered.popitem(last=False)

    def _take_task(self, record: TaskRecord) -> None:
        origin = record.origin or self._iad
        for node in self._answered.pop(record.task, ()):
            self._count(node, origin, WAYS)
        self._origins[record.task] = origin
        if len(self._origins) > MAX_OPEN:
            self._origins.popitem(last=False)

    def delay_ms(self, node: str) -> float | None:
        """The delay to a node, one way; None if it was not measured. The least of the last round
        trips, without the node's own work: what is more has waited somewhere."""
        samples = self._round_trips_ms.get(node)
        return min(samples) / 2 if samples else None

    def _measure(self, record: SubtaskRecord, away_ms: float) -> None:
        if record.node_wait_ms is None or record.execution_ms is None:
            return
        samples = self._round_trips_ms.get(record.node)
        if samples is None:
            samples = self._round_trips_ms[record.node] = deque(maxlen=SAMPLES)
        samples.append(max(0.0, away_ms - record.node_wait_ms - record.execution_ms))

    def _count(self, node: str, iad: str, messages: int) -> None:
        counts = self.counts.get(node)
        if counts is None:
            counts = self.counts[node] = Counter()
        counts[iad] += messages
