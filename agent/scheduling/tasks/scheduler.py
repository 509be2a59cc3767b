"""Task scheduler: one deadline per task, one queue per edge node, the most urgent subtask first."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from agent.scheduling.admission import ClientRates, Refused, cost_of, refusal_counters
from agent.scheduling.events import (
    HomeChanged,
    Instruction,
    NodeAlive,
    NodeHeard,
    NodeJoined,
    NodeLeft,
    NodePods,
    NodeRefused,
    Peer,
    PodsWanted,
    PolicyChanged,
    SendTaskResult,
    SendToNode,
    ServiceChanged,
    ServiceRemoved,
    SubtaskReturned,
    TaskArrived,
    TaskCancelled,
    TaskEvent,
    Tick,
)
from agent.scheduling.plausible import implausible
from agent.scheduling.shared_budget import (
    FULL,
    MAX_OPEN_AREAS,
    SIZED,
    TOO_MANY_AREAS,
    Holding,
    SharedBudget,
    areas_counted,
    payer_of,
)
from agent.scheduling.stale import LastKnown, nothing_known
from agent.scheduling.tasks.catalog import Catalog, as_result
from agent.scheduling.tasks.collecting import collect
from agent.scheduling.tasks.contracts import Contracts
from agent.scheduling.tasks.deadlines import DeadlineEstimator
from agent.scheduling.tasks.dispatch import Dispatcher
from agent.scheduling.tasks.ends import TaskEnds
from agent.scheduling.tasks.entry import SubtaskEntry, TaskEntry
from agent.scheduling.tasks.joining import Joining, KnownNodes, Lacking
from agent.scheduling.tasks.node_membership import NodeMembership
from agent.scheduling.tasks.nodes import NodeResource
from agent.scheduling.tasks.planner import TaskPlanner, expected_bytes
from agent.scheduling.tasks.records import subtask_heading
from agent.wire.areas import AreaSet
from agent.wire.base import Policy
from agent.wire.market import Member
from agent.wire.node_messages import Hello, HelloWanted
from agent.wire.operator import NodeStatus
from agent.wire.principals import Sender

NO_NAMES: Final[Mapping[str, str]] = {}


class TaskScheduler:
    """Serves the tasks of one IAD.

    A subtask is dispatched when a pod of its node is idle and no subtask in the node's queue is
    more urgent by the policy. The queueing deadline only orders the queue; the answer timeout gives
    up. A subtask whose node is lost stays queued for the time of its task, because the node may
    return, and is given up once that is over.

    `pool` are the IADs that may send tasks of the service `default`; other services come with
    events. `stopwatch` reads the clock that `now` comes from: it times evaluation and aggregation
    for results and records, and decides nothing; without one they take no time. `first_subtask_id`
    differs from start to start, so that a node's result for a previous master is not mistaken for
    one for this master. `takes_events` is for the welcome. For a while after
    `started_s` tasks wait for nodes that are still joining (`Joining`), also for those `known` from
    before, by name; None: the shell does not execute `KeepNode` and `ForgetNode`. `budget` is
    shared by all answers of the process. `rates` are those of other IADs for services that have no
    agreed one. `last_known` is what clones keep of areas (`stale.fill`). `names` are those of
    rooms, by area.
    """

    def __init__(
        self,
        iad: str,
        estimator: DeadlineEstimator,
        *,
        pool: Sequence[Member] = (),
        policy: Policy = "edfq",
        heartbeat_s: float = 1.0,
        lost_after: int = 3,
        wall_offset: Callable[[], float] = lambda: 0.0,
        stopwatch: Callable[[], float] | None = None,
        first_subtask_id: int = 1,
        takes_events: bool = False,
        started_s: float | None = None,
        known: Mapping[str, tuple[str, ...]] | None = None,
        budget: SharedBudget | None = None,
        rates: ClientRates | None = None,
        last_known: LastKnown = nothing_known,
        names: Mapping[str, str] = NO_NAMES,
    ) -> None:
        self._rates = ClientRates() if rates is None else rates
        self._areas = SharedBudget(MAX_OPEN_AREAS)
        self._budget = budget or SharedBudget()
        self._iad = iad
        self._known = KnownNodes(known)
        self._estimator = estimator
        self._stopwatch = stopwatch
        self._wall_offset = wall_offset
        self._counters = {
            "tasks": 0,
            "cancelled": 0,
            "subtasks": 0,
            "deadlines_missed": 0,
            "duplicate_or_unknown_results": 0,
            "late_results": 0,
            "implausible_results": 0,
            **refusal_counters("tasks"),
        }
        self._ends = TaskEnds(iad, self._counters, self._read, wall_offset, last_known, names)
        self._open, self._timeouts = self._ends.open, self._ends.timeouts
        self._dispatcher = Dispatcher(policy, estimator.expected_s, first_subtask_id)
        self._membership = NodeMembership(
            estimator,
            self._dispatcher,
            self._ends.give_up,
            self._known,
            heartbeat_s=heartbeat_s,
            lost_after=lost_after,
            takes_events=takes_events,
        )
        self._nodes = self._membership.nodes
        self._contracts = Contracts(iad, pool)
        self._planner = TaskPlanner(
            self._contracts, self._nodes, self._known, estimator, self._read
        )
        self._joining = Joining(started_s, self._known)
        self.catalog = Catalog(self._contracts, self._nodes, self._known, self._rates, names)
        self._handlers: dict[type, Callable[[Any, float], list[Instruction]]] = {
            TaskArrived: self._task_arrived,
            TaskCancelled: self._task_cancelled,
            SubtaskReturned: self._subtask_returned,
            NodeJoined: self._node_joined,
            NodeAlive: self._membership.alive,
            NodeLeft: self._node_left,
            NodeRefused: self._membership.refused,
            NodePods: self._membership.pods,
            NodeHeard: self._membership.spoke,
            PodsWanted: self._membership.pods_wanted,
            HomeChanged: self._membership.home_changed,
            PolicyChanged: self._policy_changed,
            ServiceChanged: self._service_changed,
            ServiceRemoved: self._service_removed,
            Tick: self._tick,
        }

    # --- queries of the shell ----------------------------------------------------------------

    @property
    def policy(self) -> Policy:
        """The policy that orders the queues now."""
        return self._dispatcher.policy

    @property
    def open_tasks(self) -> int:
        """Tasks that wait for subtasks."""
        return len(self._open)

    @property
    def counters(self) -> dict[str, int]:
        """Counts since the start."""
        return self._counters | {
            "redispatched": self._membership.redispatched,
            "subtasks_demoted": self._dispatcher.demoted,
        }

    @property
    def next_tick(self) -> float | None:
        """When `Tick` is due next."""
        due_s = min(self._timeouts.first_s, self._membership.next_s, self._joining.next_s)
        return None if due_s == math.inf else due_s

    def node_statuses(self) -> tuple[NodeStatus, ...]:
        """Every node that ever said hello, for the operator."""
        return tuple(n.status(self._estimator.samples(n.column)) for n in self._nodes)

    def ask_events(self, known: Callable[[str, str], tuple[int, int]]) -> None:
        """`known(node, history)` says what the master has of a node's events, for its welcome."""
        self._membership.events_known = known

    def node_on(self, peer: Peer, incarnation: str) -> str | None:
        """The name of the node whose process of this incarnation speaks on the link; None: there is
        none."""
        node = self._membership.speaker(peer, incarnation)
        return None if node is None else node.name

    def node_at(self, name: str) -> Hello | None:
        """The last hello of the node of that name; None if it is not joined."""
        node = self._nodes.named(name)
        return node.hello if node is not None and node.state == "live" else None

    def link_to(self, name: str) -> tuple[Peer, Hello] | None:
        """The link of the node of that name, and its hello; None if it is not joined."""
        node = self._nodes.named(name)
        return (node.peer, node.hello) if node is not None and node.state == "live" else None

    def is_home_of(self, name: str, now: float) -> bool:
        """Whether the node of that name may be away for a while only: it said last that its home is
        here, and if it said goodbye that was lately; or it was here before this start, and is
        waited for."""
        node = self._nodes.named(name)
        if node is None:
            return self._known.expects(name)
        return not node.hello.followed and not node.is_gone(now)

    def joined_s(self, name: str) -> float:
        """When the node of that name said hello last."""
        node = self._nodes.named(name)
        return -math.inf if node is None else node.joined_s

    def channels(self, areas: tuple[str, ...]) -> frozenset[str]:
        """The channels of the nodes that cover these areas, whatever their state. O(nodes)."""
        covering = self._nodes.covering(areas).nodes
        return frozenset(name for node, _ in covering for name in node.hello.channels)

    @property
    def known_nodes(self) -> frozenset[str]:
        """The names of all nodes, whatever their state. O(nodes)."""
        return frozenset(node.name for node in self._nodes)

    @property
    def known_channels(self) -> frozenset[str]:
        """The channels of all nodes, whatever their state. O(nodes)."""
        return frozenset(name for node in self._nodes for name in node.hello.channels)

    def resources(self, areas: Iterable[str]) -> list[NodeResource]:
        """The nodes that cover these areas and have not left. O(nodes)."""
        return [
            NodeResource(
                node=node.name,
                areas=tuple(own),
                pods=node.pods,
                mean_s=self._estimator.mean_s(node.column),
                samples=self._estimator.samples(node.column),
                live=node.state == "live",
            )
            for node, own in self._nodes.covering(tuple(areas)).nodes
            if node.state != "left"
        ]

    @property
    def known_areas(self) -> list[AreaSet]:
        """The areas of its nodes, and of those from before the start that may come back."""
        return [self._nodes.areas, self._known.areas]

    def joining(self, areas: Iterable[str], now: float) -> bool:
        """Whether nodes may still join for areas of these that no node covers. O(nodes · areas)."""
        still = now < self._joining.until(now, len(self._nodes))
        return still and bool(self._nodes.covering(tuple(areas)).unmatched)

    def handle(self, event: TaskEvent, now: float) -> list[Instruction]:
        """Handle one event at monotonic time `now` (seconds); returns the instructions, in
        order."""
        return self._handlers[type(event)](event, now)

    # --- from task to subtasks ---------------------------------------------------------------

    def _task_arrived(self, event: TaskArrived, now: float) -> list[Instruction]:
        self._counters["tasks"] += 1
        task, sender = event.task, event.sender
        if task.form == "about":
            return self._about(event, now)
        iad = sender.name if sender.role in ("iad", "csp") else task.origin
        payer = payer_of(event.client or sender)
        held, held_areas = Holding(self._budget, payer), Holding(self._areas, payer)
        entry = TaskEntry(task, event.origin, iad, self._dispatcher.policy, now, held, held_areas)
        refused = self._over_rate(event, now) or self._no_room(entry)
        if refused is not None:
            return self._ends.refuse(entry, refused, now)
        return self._serve(entry, sender, now)

    def _about(self, event: TaskArrived, now: float) -> list[Instruction]:
        """Answered from what is known, at once; it is no sensing task and leaves no record."""
        may_join = now < self._joining.until(now, len(self._nodes))
        found = self.catalog.answer(event, now, may_join=may_join)
        if isinstance(found, Refused):
            self._counters[f"tasks_refused_{found.reason}"] += 1
        total_ms = (self._read(now) - now) * 1e3
        return [SendTaskResult(event.origin, as_result(event.task, found, total_ms))]

    def _may_join(self, entry: TaskEntry, now: float) -> bool:
        return now < self._joining.until(entry.received_s, len(self._nodes))

    def _serve(
        self, entry: TaskEntry, sender: Sender, now: float, *, waited: bool = False
    ) -> list[Instruction]:
        task, may_join = entry.task, self._may_join(entry, now)
        asked = self._planner.evaluate(entry, sender, now, may_join=may_join, waited=waited)
        if isinstance(asked, Lacking):
            entry.become("waiting")
            self._open[entry.origin, task.id] = entry
            self._joining.wait(entry, sender, asked, len(self._nodes))
            return []
        if isinstance(asked, Refused):
            return self._ends.refuse(entry, asked, now)
        if not asked:
            return self._ends.finish(entry, now)
        if task.form in SIZED and not entry.held.expect(expected_bytes(entry, asked)):
            return self._ends.refuse(entry, Refused("overloaded", FULL), now)
        entry.become("open")
        entry.heading = subtask_heading(self._iad, entry, self._wall_offset())
        self._open[entry.origin, task.id] = entry
        self._ends.wait(entry, entry.received_s + entry.budget_s)
        key = self._dispatcher.key(entry)
        serve = self._dispatcher.serve
        instructions: list[Instruction] = []
        for node, areas in asked:
            subtask = SubtaskEntry(entry, node, areas)
            entry.pending.add(subtask)
            subtask.handle = node.queue.push(key, subtask)
            serve(node, now, instructions)
        return instructions

    def _over_rate(self, event: TaskArrived, now: float) -> Refused | None:
        """A client's request to this master itself was counted as its query."""
        contract = self._contracts.of(event.task.service, now)
        if event.client is not None or (contract is not None and contract.rate is not None):
            return None
        return self._rates.refused(event.sender, now, cost_of(len(event.task.areas)))

    def _no_room(self, entry: TaskEntry) -> Refused | None:
        if (entry.origin, entry.task.id) in self._open:
            return Refused("malformed", f"task {entry.task.id} is open already; ids are used once")
        if not entry.held_areas.grow(areas_counted(entry.task.areas)):
            return Refused("overloaded", TOO_MANY_AREAS)
        return None

    def _node_joined(self, event: NodeJoined, now: float) -> list[Instruction]:
        instructions = self._membership.joined(event, now)
        return instructions + self._look_again(self._nodes.areas, now)

    def _node_left(self, event: NodeLeft, now: float) -> list[Instruction]:
        before = len(self._known.gone)
        instructions = self._membership.left(event, now)
        gone = [self._known.gone[place] for place in range(before, len(self._known.gone))]
        return instructions + (self._look_again(AreaSet(gone), now) if gone else [])

    def _look_again(self, news: AreaSet, now: float) -> list[Instruction]:
        """Serve the waiting tasks that need not wait any longer, since something is known of the
        nodes in these areas."""
        instructions: list[Instruction] = []
        for entry in self._joining.waiting():
            if self._may_join(entry, now) and self._joining.lacks(entry, news):
                continue
            sender = self._joining.remove(entry)
            instructions += self._serve(entry, sender, now)
        return instructions

    # --- from subtasks to a result -----------------------------------------------------------

    def _subtask_returned(self, event: SubtaskReturned, now: float) -> list[Instruction]:
        node = self._nodes.on(event.peer)
        if node is None:
            return [SendToNode(event.peer, HelloWanted())]
        result = event.result
        instructions: list[Instruction] = []
        self._membership.heard(node, now, instructions)
        subtask = node.busy.pop(result.id, None)
        if subtask is None:
            node.strangers.discard(result.id)
            self._counters["duplicate_or_unknown_results"] += 1
            self._dispatcher.serve(node, now, instructions)
            return instructions
        late = subtask.state == "abandoned"
        subtask.become("returned")
        assert subtask.dispatched_s is not None
        if subtask.unbroken and result.outcome != "error":
            unloaded_s = _response_s(subtask, event, now)
            self._estimator.observe(node.column, unloaded_s, now)
            self._estimator.observe_size(node.column, subtask.parent.size, unloaded_s)
        if node.queue:
            self._dispatcher.serve(node, now, instructions)
        if late:
            self._counters["late_results"] += 1
            return instructions
        if result.outcome == "ok" and (problem := implausible(result)):
            self._counters["implausible_results"] += 1
            subtask.lose("node_error", message=f"a result that cannot be true: {problem}")
            self._ends.settle(subtask, "node_error", now, result, instructions)
            return instructions
        outcome = collect(subtask, result)
        if outcome == "cancelled":
            refused = Refused("overloaded", FULL)
            self._ends.refuse_open(subtask.parent, refused, now, instructions)
            return instructions
        if outcome == "too_large" and subtask.parent.room.refused:
            self._ends.ask_no_more(subtask, now, instructions)
        self._ends.settle(subtask, outcome, now, result, instructions)
        return instructions

    def _task_cancelled(self, event: TaskCancelled, now: float) -> list[Instruction]:
        """Stop serving a task of that origin; running subtasks finish and their results are
        discarded."""
        entry = self._open.get((event.origin, event.task_id))
        if entry is None:
            return []
        if entry in self._joining:
            self._joining.remove(entry)
        return self._ends.cancel(entry, now)

    # --- other events ------------------------------------------------------------------------

    def _policy_changed(self, event: PolicyChanged, _now: float) -> list[Instruction]:
        self._dispatcher.reorder(event.policy, self._open.values())
        return []

    def _service_changed(self, event: ServiceChanged, now: float) -> list[Instruction]:
        self._contracts.changed(event.service, now)
        return []

    def _service_removed(self, event: ServiceRemoved, now: float) -> list[Instruction]:
        if not self._contracts.removed(event.service_id, now):
            return []
        line = f"this IAD does not serve {event.service_id} any more"
        refused = Refused("unknown_service", line)
        instructions: list[Instruction] = []
        for entry in self._joining.waiting():
            if entry.task.service == event.service_id:
                self._joining.remove(entry)
                instructions += self._ends.refuse(entry, refused, now)
        return instructions

    def _tick(self, _event: Tick, now: float) -> list[Instruction]:
        self._membership.tick(now)
        instructions = self._joining.give_up(now)
        for entry, sender in self._joining.due(now):
            instructions += self._serve(entry, sender, now, waited=True)
        return instructions + [
            i for entry in self._timeouts.due(now) for i in self._ends.overdue(entry, now)
        ]

    def _read(self, now: float) -> float:
        return now if self._stopwatch is None else self._stopwatch()

    def check_invariants(self) -> None:
        """For tests: what must hold between any two events."""
        queued = dispatched = 0
        for (origin, task_id), entry in self._open.items():
            assert (origin, task_id) == (entry.origin, entry.task.id)
            assert (entry.state == "waiting") == (entry in self._joining)
            if entry.state == "waiting":
                assert not entry.pending
                continue
            assert entry.state == "open"
            assert entry.pending
            for subtask in entry.pending:
                assert subtask.parent is entry
                assert subtask.state in ("queued", "dispatched")
                queued += subtask.state == "queued"
                dispatched += subtask.state == "dispatched"
                assert (subtask.node.busy.get(subtask.id) is subtask) == (
                    subtask.state == "dispatched"
                )
        nodes = self._nodes
        assert len(self._open) == len(self._timeouts) + len(self._joining)
        assert self._areas.total == sum(
            areas_counted(entry.task.areas) for entry in self._open.values()
        )
        assert queued == sum(len(node.queue) for node in nodes)
        for node in nodes:
            assert node.idle_pods <= 0 or not node.queue, "an idle pod while work waits"
            assert (nodes.on(node.peer) is node) == (node.peer is not None)
            dispatched -= sum(s.state == "dispatched" for s in node.busy.values())
            assert all(s.state in ("dispatched", "abandoned") for s in node.busy.values())
        assert dispatched == 0
        self._membership.check_invariants()


def _response_s(subtask: SubtaskEntry, event: SubtaskReturned, now: float) -> float:
    """The unloaded response time of a subtask: from when it was sent to when its result arrived,
    without the delays of this master before and after."""
    result, sent_s = event.result, subtask.dispatched_s
    assert sent_s is not None
    if event.sent_s is not None and event.sent_s > sent_s:
        sent_s = event.sent_s
    longest_s = now - sent_s if now > sent_s else 0.0
    at_node_s = (result.wait_ms + result.execution_ms) / 1e3
    return subtask.node.response_times.of(longest_s, event.late_s, at_node_s)
