"""Schedulers in a rig that keeps what comes out of them."""

import math

import pytest

from agent.scheduling.events import (
    ANYONE,
    ForgetNode,
    KeepNode,
    NodeJoined,
    QueryArrived,
    SendAnswer,
    SendCancel,
    SendTask,
    SendTaskResult,
    SubtaskReturned,
    TaskArrived,
    TaskReturned,
    TellOperator,
    WriteRecord,
)
from agent.scheduling.queries.scheduler import QueryScheduler
from agent.scheduling.tasks.deadlines import DeadlineEstimator
from agent.scheduling.tasks.scheduler import TaskScheduler
from agent.wire import messages as m
from agent.wire import node_messages as nm
from tests.scheduling.oracle import aggregate, hello, sent_to, task


class QueryRig:
    """A query scheduler and what came out of it."""

    def __init__(self, pool, iad="iad2", **options):
        self.scheduler = QueryScheduler(iad, pool, run="run", **options)
        self.answers: list[m.Answer] = []
        self.tasks: list[tuple[str, m.Task]] = []
        self.cancels: list[tuple[str, str]] = []
        self.records = []

    def do(self, event, now):
        instructions = self.scheduler.handle(event, now)
        for instruction in instructions:
            match instruction:
                case SendAnswer():
                    self.answers.append(instruction.answer)
                case SendTask():
                    self.tasks.append((instruction.iad, instruction.task))
                case SendCancel():
                    self.cancels.append((instruction.iad, instruction.task_id))
                case WriteRecord():
                    self.records.append(instruction.record)
        self.scheduler.check_invariants()
        return instructions

    def ask(self, *areas, now=0.0, sender=ANYONE, **fields):
        query = m.Query(
            id=f"q{len(self.records) + self.scheduler.open_queries}",
            areas=areas,
            window=m.Window(last_s=60),
            slo=m.Slo(99.0, 500.0),
            **{"form": "aggregate"} | fields,
        )
        return self.do(QueryArrived("client", query, sender), now)

    def give(
        self,
        iad,
        task,
        now,
        *,
        missing=(),
        areas=None,
        status=None,
        reason="infeasible",
        value=20.0,
    ):
        areas = areas if areas is not None else task.areas
        result = m.TaskResult(
            id=task.id,
            status=status or ("partial" if missing else "complete"),
            total_ms=1.0,
            results=tuple(m.AreaResult(a, aggregate=aggregate(value)) for a in areas),
            missing=missing,
            reason=reason if status == "refused" else None,
        )
        self.do(TaskReturned(iad, result), now)


class TaskRig:
    """A task scheduler and what came out of it."""

    def __init__(self, **options):
        self.estimator = DeadlineEstimator()
        self.scheduler = TaskScheduler("iad1", self.estimator, **options)
        self.results: list[m.TaskResult] = []
        self.dispatched: list[tuple[str, nm.Subtask]] = []
        self.records = []
        self.replies = []
        self.told = []
        # What is known after the next start.
        self.kept = dict(options.get("known") or {})

    def do(self, event, now):
        instructions = self.scheduler.handle(event, now)
        self.results += [i.result for i in instructions if isinstance(i, SendTaskResult)]
        self.records += [i.record for i in instructions if isinstance(i, WriteRecord)]
        self.dispatched += sent_to(instructions, nm.Subtask)
        self.replies += sent_to(instructions, object)
        self.told += [i.line for i in instructions if isinstance(i, TellOperator)]
        for i in instructions:
            if isinstance(i, KeepNode):
                self.kept[i.node] = i.areas
            elif isinstance(i, ForgetNode):
                del self.kept[i.node]
        self.scheduler.check_invariants()

    def join(self, node, now=0.0, sender=ANYONE, **options):
        incarnation = options.pop("incarnation", f"boot-{node}")
        self.do(NodeJoined(f"link-{node}", hello(node, incarnation, **options), sender), now)

    def ask(self, number, areas=("b1",), now=0.0, sender=ANYONE, client="client", **options):
        self.do(TaskArrived(client, task(number, areas, **options), sender), now)

    def answer(self, result, node, now):
        self.do(SubtaskReturned(f"link-{node}", result), now)


@pytest.fixture
def rig():
    rig = TaskRig()
    yield rig
    rig.scheduler.check_invariants()


class ModelNode:
    """A node as the outside world has it: a process, a link, and pods that run subtasks."""

    def __init__(self):
        self.incarnation = 0
        self.card = 0
        self.moved_s = -math.inf
        self.link = None
        self.pods = 1
        self.heard_s = 0.0
        self.running: dict[int, nm.Subtask] = {}
        self.strangers: set[int] = set()
        self.areas: tuple[str, ...] | None = None
        # What the master told it over this link.
        self.told: int | None = None
        # It said a number of its own: it is not asked again.
        self.stubborn = False
