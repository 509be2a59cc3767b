"""The simulator as events served one by one in the order of time, with queues that are searched.

Same meaning as `_core.simulator` for service times that are given; every sum and every maximum is
taken as its definition says. Rules for one instant: results come first, then queries that are done,
then queries that arrive, then new subtasks, one after the other in the order of their tasks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from _core.deadlines.class_advance import ClassBalance

KEYS = {
    "fifo": lambda enqueued_s, _budget_s, _deadline_s, _advance_s: enqueued_s,
    "spr": lambda _enqueued_s, budget_s, _deadline_s, _advance_s: budget_s,
    "tedfq": lambda enqueued_s, budget_s, _deadline_s, _advance_s: enqueued_s + budget_s,
    "edfq": lambda _enqueued_s, _budget_s, deadline_s, _advance_s: deadline_s,
    "sanderling": lambda enqueued_s, budget_s, _deadline_s, advance_s: (
        enqueued_s + budget_s - advance_s
    ),
}
DEMOTING = ("sanderling",)
DEMOTED_S = 2.0**31


class Trace:
    """What reaches the fleet: the arguments as lists, and the nodes of each task."""

    def __init__(
        self,
        *,
        node_iad: Sequence[int],
        node_pods: Sequence[int],
        set_first: Sequence[int],
        set_nodes: Sequence[int],
        task_set: Sequence[int],
        task_size: Sequence[int],
        query_arrived_s: Sequence[float],
        query_class: Sequence[int],
        task_query: Sequence[int],
        task_enqueued_s: Sequence[float],
        task_budget_s: Sequence[float],
        task_percentile: Sequence[float],
        task_after_s: Sequence[float],
        task_window_s: Sequence[float] | None = None,
        query_scheduler: Sequence[int] | None = None,
        query_percentile: Sequence[float] | None = None,
    ) -> None:
        self.node_iad = list(node_iad)
        self.node_pods = list(node_pods)
        self.query_arrived_s = list(query_arrived_s)
        self.query_class = list(query_class)
        self.task_query = list(task_query)
        self.task_enqueued_s = list(task_enqueued_s)
        self.task_budget_s = list(task_budget_s)
        self.task_percentile = list(task_percentile)
        self.task_after_s = list(task_after_s)
        self.task_window_s = task_window_s
        queries = len(self.query_arrived_s)
        self.query_scheduler = query_scheduler or [0] * queries
        self.query_percentile = query_percentile or [99.0] * queries
        self.task_nodes = [
            list(set_nodes[set_first[chosen] : set_first[chosen] + size])
            for chosen, size in zip(task_set, task_size, strict=True)
        ]
        self.nodes = len(self.node_iad)
        self.iads = len(set(self.node_iad))
        self.queries = len(self.query_arrived_s)
        self.tasks = len(self.task_query)
        self.subtasks = sum(len(nodes) for nodes in self.task_nodes)


class ServiceTimes:
    """How long each subtask holds its pod, in s, task after task, and what was expected."""

    def __init__(self, values: Sequence[float], expected: Sequence[float] | None) -> None:
        self.values = list(values)
        self.expected = [math.nan] * len(self.values) if expected is None else list(expected)

    @staticmethod
    def given(values: Sequence[float], expected: Sequence[float] | None = None) -> ServiceTimes:
        return ServiceTimes(values, expected)


class Subtask:
    """One subtask, and what became of it."""

    def __init__(self, task: int, node: int, service_s: float, expected_s: float) -> None:
        self.task = task
        self.node = node
        self.service_s = service_s
        self.expected_s = expected_s
        self.key = math.nan
        self.demoted = False
        self.dispatched_s = math.nan
        self.finished_s = math.nan


class Node:
    """A node: its idle pods, the subtasks that wait, and those that are served."""

    def __init__(self, pods: int) -> None:
        self.idle = pods
        self.waiting: list[Subtask] = []
        self.busy_s = 0.0

    def next_dispatch(self, hopeless: Callable[[Subtask], bool]) -> Subtask | None:
        """The waiting subtask of the least key, the first enqueued of them, behind which the
        hopeless are put as their turn comes; None unless a pod is idle."""
        if not self.waiting or not self.idle:
            return None
        while True:
            first = min(self.waiting, key=lambda subtask: subtask.key)
            if first.demoted or not hopeless(first):
                self.waiting.remove(first)
                return first
            first.demoted = True
            first.key += DEMOTED_S


class Run:
    """What the whole trace came to."""

    def __init__(self, fleet: Fleet) -> None:
        trace = fleet.trace
        self.subtasks = len(fleet.all)
        self.late_subtasks = sum(s.dispatched_s > fleet.deadline_s[s.task] for s in fleet.all)
        self.busy_s = [node.busy_s for node in fleet.nodes]
        self.subtask_dispatched_s = [s.dispatched_s for s in fleet.all]
        self.subtask_finished_s = [s.finished_s for s in fleet.all]
        self.task_deadline_s = fleet.deadline_s
        self.subtask_demoted = [s.demoted for s in fleet.all]
        self.demoted_subtasks = sum(self.subtask_demoted)
        self.query_advance_s = fleet.query_advance_s if fleet.balance else None
        self.class_advance_s = fleet.learnt_advances()
        task_end_s = [
            max(s.finished_s for s in fleet.all if s.task == task) + trace.task_after_s[task]
            for task in range(trace.tasks)
        ]
        self.query_latency_s = [
            max(end for end, of in zip(task_end_s, trace.task_query, strict=True) if of == query)
            - arrived_s
            for query, arrived_s in enumerate(trace.query_arrived_s)
        ]


class Fleet:
    """All nodes on one clock."""

    def __init__(
        self,
        trace: Trace,
        services: Sequence[ServiceTimes],
        node_service: Sequence[int],
        policy: str,
        deadline_s: Sequence[float] | None,
        models: Sequence[Any] | None = None,
        *,
        advance_s: Sequence[float] | None = None,
        sizes: Sequence[Any] | None = None,
        balance: bool = False,
        demotion: str = "node",
    ) -> None:
        self.trace = trace
        self.policy = policy
        self.models = models
        self.advance_s = [0.0] * trace.tasks if advance_s is None else list(advance_s)
        self.sizes = sizes
        self.balance = balance
        self.demotion = demotion
        self.hopeless_ones: set[int] = set()
        self.query_advance_s: list[float] = []
        # By scheduler: its balance, and its classes in the order of their numbers.
        self.balances = [ClassBalance() for _ in range(max(trace.query_scheduler) + 1)]
        self.classes: list[list[tuple[float, float]]] = [[] for _ in self.balances]
        self.ends: list[tuple[float, int]] = []
        self.deadline_s = [math.nan] * trace.tasks if deadline_s is None else list(deadline_s)
        self.nodes = [Node(pods) for pods in trace.node_pods]
        self.all: list[Subtask] = []
        self.of_task: list[list[Subtask]] = []
        for task, nodes in enumerate(trace.task_nodes):
            self.of_task.append([])
            for node in nodes:
                service = services[node_service[node]]
                number = len(self.all)
                self.all.append(
                    Subtask(task, node, service.values[number], service.expected[number])
                )
                self.of_task[-1].append(self.all[-1])

    def run(self) -> Run:
        """Let everything happen in the order of time."""
        to_enqueue = sorted(range(self.trace.tasks), key=lambda t: self.trace.task_enqueued_s[t])
        to_arrive = list(range(self.trace.queries))
        served: list[Subtask] = []
        while to_enqueue or served or self.ends:
            ended = min(served, key=lambda s: s.finished_s, default=None)
            end = min(self.ends, key=lambda of: of[0], default=None)
            now_s = self.trace.task_enqueued_s[to_enqueue[0]] if to_enqueue else math.inf
            arrival_s = self.trace.query_arrived_s[to_arrive[0]] if to_arrive else math.inf
            end_s = math.inf if end is None else end[0]
            if ended is not None and ended.finished_s <= min(now_s, arrival_s, end_s):
                served.remove(ended)
                self.nodes[ended.node].idle += 1
                self.observe(ended)
                served += self.dispatch(ended.node, ended.finished_s)
                self.end_query(self.trace.task_query[ended.task], served)
                continue
            if end is not None and end_s <= min(now_s, arrival_s):
                self.ends.remove(end)
                self.learn(end[1], end_s)
                continue
            if to_arrive and arrival_s <= now_s:
                self.advance_query(to_arrive.pop(0))
                continue
            task = to_enqueue.pop(0)
            self.decide_deadline(task)
            for subtask in self.of_task[task]:
                subtask.key = KEYS[self.policy](
                    now_s,
                    self.trace.task_budget_s[task],
                    self.deadline_s[task],
                    self.advance_s[task],
                )
                self.nodes[subtask.node].waiting.append(subtask)
                served += self.dispatch(subtask.node, now_s)
        return Run(self)

    def dispatch(self, number: int, now_s: float) -> list[Subtask]:
        """What a node's idle pods take now."""
        node = self.nodes[number]
        taken = []
        while (subtask := node.next_dispatch(lambda s: self.is_hopeless(s, now_s))) is not None:
            node.idle -= 1
            node.busy_s += subtask.service_s
            subtask.dispatched_s = now_s
            subtask.finished_s = now_s + subtask.service_s
            taken.append(subtask)
        return taken

    def is_hopeless(self, subtask: Subtask, now_s: float) -> bool:
        """Whether it is expected to end after its budget, or somebody found that of another
        subtask of its task or query."""
        if self.policy not in DEMOTING or self.demotion == "never":
            return False
        trace, task = self.trace, subtask.task
        concerned = {"node": None, "task": task, "query": trace.task_query[task]}[self.demotion]
        if concerned in self.hopeless_ones:
            return True
        expected_s = subtask.expected_s
        if self.sizes is not None:
            assert trace.task_window_s is not None
            expected_s = self.sizes[trace.node_iad[subtask.node]].expected(
                self.column(subtask.node), trace.task_window_s[task]
            )
        if now_s + expected_s > trace.task_enqueued_s[task] + trace.task_budget_s[task]:
            if concerned is not None:
                self.hopeless_ones.add(concerned)
            return True
        return False

    # --- balance of classes: each query scheduler learns from the queries that end ----------------

    def tasks_of(self, query: int) -> list[int]:
        return [task for task, of in enumerate(self.trace.task_query) if of == query]

    def class_of(self, query: int) -> tuple[float, float]:
        """SLO and percentile."""
        slo_s = self.trace.task_budget_s[self.tasks_of(query)[0]]
        return slo_s, self.trace.query_percentile[query]

    def advance_query(self, query: int) -> None:
        """Its tasks get the advance that its class has as it arrives."""
        if not self.balance:
            return
        scheduler = self.trace.query_scheduler[query]
        known = self.classes[scheduler]
        slo_s, percentile = self.class_of(query)
        if (slo_s, percentile) not in known:
            self.balances[scheduler].set_class(len(known), slo_s, 1.0 - percentile / 100.0)
            known.append((slo_s, percentile))
        advance_s = self.balances[scheduler].advance(known.index((slo_s, percentile)))
        self.query_advance_s.append(advance_s * 1e3 / 1e3)
        for task in self.tasks_of(query):
            furthest_s = self.trace.task_budget_s[task] / 2
            self.advance_s[task] = min(max(advance_s * 1e3 / 1e3, -furthest_s), furthest_s)

    def end_query(self, query: int, served: list[Subtask]) -> None:
        """Note when the query will be done if this was its last result."""
        if not self.balance or any(self.trace.task_query[s.task] == query for s in served):
            return
        subtasks = [s for task in self.tasks_of(query) for s in self.of_task[task]]
        if not any(math.isnan(s.finished_s) for s in subtasks):
            done_s = max(s.finished_s + self.trace.task_after_s[s.task] for s in subtasks)
            self.ends.append((done_s, query))

    def learn(self, query: int, done_s: float) -> None:
        """Its class hears whether it missed its SLO."""
        scheduler = self.trace.query_scheduler[query]
        slo_s, percentile = self.class_of(query)
        self.balances[scheduler].finished(
            self.classes[scheduler].index((slo_s, percentile)),
            done_s - self.trace.query_arrived_s[query] > slo_s,
        )

    def learnt_advances(self) -> list[list[float]] | None:
        """By scheduler and class."""
        if not self.balance:
            return None
        return [
            [balance.advance(number) for number in range(len(known))]
            for balance, known in zip(self.balances, self.classes, strict=True)
        ]

    # --- online histograms: a model per IAD, a column per node of it ------------------------------

    def column(self, node: int) -> int:
        """A node's place among those of its IAD."""
        return node - self.trace.node_iad.index(self.trace.node_iad[node])

    def observe(self, subtask: Subtask) -> None:
        """Every result is a sample of its node's unloaded response time."""
        column, iad = self.column(subtask.node), self.trace.node_iad[subtask.node]
        response_s = subtask.finished_s - subtask.dispatched_s
        if self.models is not None:
            self.models[iad].observe(column, response_s, subtask.finished_s)
        if self.sizes is not None:
            assert self.trace.task_window_s is not None
            self.sizes[iad].observe(column, self.trace.task_window_s[subtask.task], response_s)

    def decide_deadline(self, task: int) -> None:
        """t_D = t_0 + x_t - x_u (DSSP Eqs. 5-6), where a model tells x_u."""
        if self.models is None:
            return
        trace = self.trace
        now_s = trace.task_enqueued_s[task]
        nodes = trace.task_nodes[task]
        model = self.models[trace.node_iad[nodes[0]]]
        columns = model.node_set([self.column(node) for node in nodes])
        x_u_s = model.quantile(columns, trace.task_percentile[task], now_s)
        self.deadline_s[task] = now_s + (trace.task_budget_s[task] - x_u_s)


def simulate_nodes(
    trace: Trace,
    services: Sequence[ServiceTimes],
    node_service: Sequence[int],
    *,
    policy: str,
    deadline_s: Sequence[float] | None = None,
    advance_s: Sequence[float] | None = None,
    demotion: str = "node",
) -> Run:
    """Deadlines are given: the nodes have nothing to do with each other, but one clock does no
    harm."""
    fleet = Fleet(
        trace, services, node_service, policy, deadline_s, advance_s=advance_s, demotion=demotion
    )
    return fleet.run()


def simulate_events(
    trace: Trace,
    services: Sequence[ServiceTimes],
    node_service: Sequence[int],
    *,
    policy: str,
    models: Sequence[Any] | None = None,
    deadline_s: Sequence[float] | None = None,
    advance_s: Sequence[float] | None = None,
    sizes: Sequence[Any] | None = None,
    balance: bool = False,
    demotion: str = "task",
) -> Run:
    """Deadlines are given, or come from `models`, one for each IAD; what is expected is given, or
    comes from `sizes`; advances are given, or learnt with `balance`."""
    fleet = Fleet(
        trace,
        services,
        node_service,
        policy,
        deadline_s,
        models,
        advance_s=advance_s,
        sizes=sizes,
        balance=balance,
        demotion=demotion,
    )
    return fleet.run()
