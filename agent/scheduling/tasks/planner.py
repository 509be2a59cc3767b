"""Task planner: whether a task is admitted, which nodes it goes to, and its deadline (DSSP Eqs.
3–6)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from msgspec.structs import replace

from agent.scheduling.admission import Refused
from agent.scheduling.nearest import without_node
from agent.scheduling.shared_budget import payer_of
from agent.scheduling.tasks.contracts import Contract, Contracts
from agent.scheduling.tasks.deadlines import Deadline, DeadlineEstimator
from agent.scheduling.tasks.entry import Node, TaskEntry
from agent.scheduling.tasks.joining import KnownNodes, Lacking
from agent.scheduling.tasks.nodes import NodeTable
from agent.wire.areas import AreaSet, above
from agent.wire.buckets import BUCKET_BYTES
from agent.wire.codec import MAX_SERIES_BYTES
from agent.wire.messages import Missing
from agent.wire.principals import Sender

# One in this many infeasible tasks is served as a probe.
PROBE_EVERY: Final = 10
INFEASIBLE: Final = "the SLO cannot be met even by idle nodes; allow more time or ask fewer areas"
JOINING: Final = "nodes are still joining, since this master has just started"

# The nodes that a task goes to, each with its areas among those asked.
Asked = list[tuple[Node, list[str]]]


class TaskPlanner:
    """Decides on a task on arrival, before anything is queued."""

    def __init__(
        self,
        contracts: Contracts,
        nodes: NodeTable,
        known: KnownNodes,
        estimator: DeadlineEstimator,
        read: Callable[[float], float],
    ) -> None:
        self._contracts = contracts
        self._nodes = nodes
        self._known_before = known
        self._estimator = estimator
        self._read = read
        self._infeasible_count = 0

    def evaluate(
        self,
        entry: TaskEntry,
        sender: Sender,
        now: float,
        *,
        may_join: bool = False,
        waited: bool = False,
    ) -> Asked | Lacking | Refused:
        """The nodes to ask, with the deadline in `entry` (none: the missing areas are there), or
        why the task is refused. t_0 is `now`, so that the evaluation counts as waiting. The
        cheapest checks come first; only an accepted task takes from its service's rate. If nodes
        `may_join`, the result may be that it must wait for them, unless it has `waited`."""
        task = entry.task
        contract = self._contracts.of(task.service, now)
        if contract is None:
            return Refused("unknown_service", f"this IAD does not serve {task.service}")
        refused = contract.refused(sender, task, now)
        if refused is not None:
            return refused
        absent = self._absent(task.areas, contract) if may_join else []
        if absent and not waited:
            there = self._nodes.covering(contract.within(task.areas).areas).nodes
            # The median: a task that waits for it waits for about half of them.
            return Lacking(bool(there), absent[len(absent) // 2])
        entry.channels, entry.limited = contract.channels(task), bool(contract.capability)
        asked = self._asked(entry, contract, absent)
        share = self._share(len(asked), contract)
        if contract.rate is not None:
            refused = contract.rate.refused(task.service, payer_of(sender), share, now)
            if refused is not None:
                return refused
        if asked:
            columns = [node.column for node, _ in asked]
            budget = (task.percentile, task.budget_ms / 1e3, now)
            deadline = self._estimator.deadline(columns, *budget)
            entry.deadline = self._as_agreed(entry, contract, columns, deadline, now)
            entry.enqueued_s = now
            entry.deadline_s = entry.enqueued_s + entry.deadline.queueing_budget_s
            entry.evaluated_s = self._read(now)
            entry.fanout = len(asked)
            if deadline.infeasible and not self._is_probe():
                entry.would_keep = self._estimator.would_keep(columns, *budget)
                return Refused("infeasible", INFEASIBLE)
        if contract.rate is not None:
            contract.rate.take(payer_of(sender), share)
        return asked

    def _as_agreed(
        self,
        entry: TaskEntry,
        contract: Contract,
        columns: Sequence[int],
        deadline: Deadline,
        now: float,
    ) -> Deadline:
        """The deadline that a task gets: not before the one that its service's terms give. Who
        bought two seconds and asks for a tenth would be served before all others here."""
        terms = contract.harder(entry.task)
        if terms is None:
            return deadline
        budget_s = terms.budget_ms / 1e3
        entry.budget_s = max(entry.budget_s, budget_s)
        agreed = self._estimator.deadline(columns, terms.percentile, budget_s, now)
        later = agreed.queueing_budget_s > deadline.queueing_budget_s
        return agreed if later else deadline

    def _share(self, fanout: int, contract: Contract) -> float:
        """The fraction of the service's nodes here that a task of this fanout reaches; 0 is no
        work."""
        if contract.rate is None or not fanout:
            return 0.0
        return min(1.0, fanout / max(1, self._nodes.count_within(contract.offered)))

    def _absent(self, areas: tuple[str, ...], contract: Contract) -> list[str]:
        """Those of these areas, and of those below them that were announced or had a node before
        the start, that have no node, nor one that said goodbye instead of hello."""
        within = contract.within(areas).areas
        expected = [*contract.announced.within(within), *self._known_before.areas.within(within)]
        there = self._nodes.areas
        unmatched = [
            *self._nodes.covering(within).unmatched,
            *(a for a in self._nodes.covering(tuple(expected)).unmatched if not there.covers(a)),
        ]
        return list(dict.fromkeys(self._known_before.gone.without(unmatched)))

    def _asked(self, entry: TaskEntry, contract: Contract, absent: Sequence[str]) -> Asked:
        """The live nodes that cover the task's areas; areas without one are missing. Nodes of the
        `absent` areas may still join."""
        asked: Asked = []
        within = contract.within(entry.task.areas)
        known = self._known(entry, contract)
        expected = [contract.announced]
        if known is self._nodes.areas:
            expected.append(self._known_before.areas)
        entry.within = within.areas
        covering = self._nodes.covering(within.areas)
        for node, areas in covering.nodes:
            if node.state == "live":
                asked.append((node, areas))
            else:
                entry.missing.extend(Missing(area, "node_down") for area in areas)
        uncovered = dict.fromkeys([*covering.unmatched, *within.outside, *absent])
        gaps = without_node(uncovered, known, expected)
        entry.missing.extend(_still_joining(gaps, absent) if absent else gaps)
        return asked

    def _known(self, entry: TaskEntry, contract: Contract) -> AreaSet:
        """The areas that the sender of the task may know: another IAD only those announced."""
        if contract.offered is not None or entry.iad != self._contracts.iad:
            return contract.told
        return self._nodes.areas

    def _is_probe(self) -> bool:
        """Whether an infeasible task is served all the same: occasionally, since a window without
        new samples would never show that its nodes have recovered."""
        self._infeasible_count += 1
        return self._infeasible_count % PROBE_EVERY == 0


def expected_bytes(entry: TaskEntry, asked: Asked) -> int:
    """Estimated size of a task's result; a node's series counts for each of its areas."""
    task, window_s = entry.task, entry.task.window.length_s
    if task.form == "buckets":
        cells = math.ceil(window_s * 1e3 / task.bucket_ms) + 1
        channels = [
            len(entry.channels or node.hello.channels) * len(areas) for node, areas in asked
        ]
        return min(sum(channels) * cells * BUCKET_BYTES, MAX_SERIES_BYTES)
    expected = sum(
        [node.expected_bytes(entry.channels, window_s) * len(areas) for node, areas in asked]
    )
    return round(min(expected, MAX_SERIES_BYTES))


def _still_joining(gaps: Iterable[Missing], absent: Sequence[str]) -> Iterator[Missing]:
    """The gaps, with more time for the absent areas; one with absent areas below is left to
    these."""
    nodes, higher = frozenset(absent), {parent for area in absent for parent in above(area)}
    for gap in gaps:
        if gap.area in nodes and gap.area not in higher:
            yield replace(gap, reason="timeout", message=JOINING)
        else:
            yield gap
