"""The simulator as events served one by one in the order of time, with queues that are searched.

Same meaning as `_core.simulation` for service times that are given; every sum and every maximum is
taken as its definition says. Rules for one instant: results come before new subtasks, and subtasks
are enqueued one after the other, in the order of their tasks.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

KEYS = {
    "fifo": lambda enqueued_s, _budget_s, _deadline_s: enqueued_s,
    "spr": lambda _enqueued_s, budget_s, _deadline_s: budget_s,
    "tedfq": lambda enqueued_s, budget_s, _deadline_s: enqueued_s + budget_s,
    "edfq": lambda _enqueued_s, _budget_s, deadline_s: deadline_s,
}


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
    """How long each subtask holds its pod, in s, task after task."""

    def __init__(self, values: Sequence[float]) -> None:
        self.values = list(values)

    @staticmethod
    def given(values: Sequence[float]) -> ServiceTimes:
        return ServiceTimes(values)


class Subtask:
    """One subtask, and what became of it."""

    def __init__(self, task: int, node: int, service_s: float) -> None:
        self.task = task
        self.node = node
        self.service_s = service_s
        self.key = math.nan
        self.dispatched_s = math.nan
        self.finished_s = math.nan


class Node:
    """A node: its idle pods, the subtasks that wait, and those that are served."""

    def __init__(self, pods: int) -> None:
        self.idle = pods
        self.waiting: list[Subtask] = []
        self.busy_s = 0.0

    def next_dispatch(self) -> Subtask | None:
        """The waiting subtask of the least key, the first enqueued of them; None unless a pod is
        idle."""
        if not self.waiting or not self.idle:
            return None
        first = min(self.waiting, key=lambda subtask: subtask.key)
        self.waiting.remove(first)
        return first


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
        models: Sequence[Any] | None,
    ) -> None:
        self.trace = trace
        self.policy = policy
        self.models = models
        self.deadline_s = [math.nan] * trace.tasks if deadline_s is None else list(deadline_s)
        self.nodes = [Node(pods) for pods in trace.node_pods]
        self.all: list[Subtask] = []
        self.of_task: list[list[Subtask]] = []
        for task, nodes in enumerate(trace.task_nodes):
            self.of_task.append([])
            for node in nodes:
                service_s = services[node_service[node]].values[len(self.all)]
                self.all.append(Subtask(task, node, service_s))
                self.of_task[-1].append(self.all[-1])

    def run(self) -> Run:
        """Let everything happen in the order of time."""
        to_enqueue = sorted(range(self.trace.tasks), key=lambda t: self.trace.task_enqueued_s[t])
        served: list[Subtask] = []
        while to_enqueue or served:
            ended = min(served, key=lambda s: s.finished_s, default=None)
            now_s = self.trace.task_enqueued_s[to_enqueue[0]] if to_enqueue else math.inf
            if ended is not None and ended.finished_s <= now_s:
                served.remove(ended)
                self.nodes[ended.node].idle += 1
                self.observe(ended)
                served += self.dispatch(ended.node, ended.finished_s)
                continue
            task = to_enqueue.pop(0)
            self.decide_deadline(task)
            for subtask in self.of_task[task]:
                subtask.key = KEYS[self.policy](
                    now_s, self.trace.task_budget_s[task], self.deadline_s[task]
                )
                self.nodes[subtask.node].waiting.append(subtask)
                served += self.dispatch(subtask.node, now_s)
        return Run(self)

    def dispatch(self, number: int, now_s: float) -> list[Subtask]:
        """What a node's idle pods take now."""
        node = self.nodes[number]
        taken = []
        while (subtask := node.next_dispatch()) is not None:
            node.idle -= 1
            node.busy_s += subtask.service_s
            subtask.dispatched_s = now_s
            subtask.finished_s = now_s + subtask.service_s
            taken.append(subtask)
        return taken

    # --- online histograms: a model per IAD, a column per node of it ------------------------------

    def column(self, node: int) -> int:
        """A node's place among those of its IAD."""
        return node - self.trace.node_iad.index(self.trace.node_iad[node])

    def observe(self, subtask: Subtask) -> None:
        """Every result is a sample of its node's unloaded response time."""
        if self.models is not None:
            model = self.models[self.trace.node_iad[subtask.node]]
            response_s = subtask.finished_s - subtask.dispatched_s
            model.observe(self.column(subtask.node), response_s, subtask.finished_s)

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
    deadline_s: Sequence[float],
) -> Run:
    """Deadlines are given: the nodes have nothing to do with each other, but one clock does no
    harm."""
    return Fleet(trace, services, node_service, policy, deadline_s, None).run()


def simulate_events(
    trace: Trace,
    services: Sequence[ServiceTimes],
    node_service: Sequence[int],
    *,
    policy: str,
    models: Sequence[Any] | None = None,
    deadline_s: Sequence[float] | None = None,
) -> Run:
    """Deadlines are given, or come from `models`, one for each IAD."""
    return Fleet(trace, services, node_service, policy, deadline_s, models).run()
