"""Tasks and nodes that join in any order: each task is answered once, as if it had waited."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from agent.scheduling.events import (
    NodeJoined,
    SendTaskResult,
    SubtaskReturned,
    TaskArrived,
    TaskCancelled,
    Tick,
)
from agent.scheduling.tasks.deadlines import DeadlineEstimator
from agent.scheduling.tasks.joining import FIRST_NODE_S, JOINING_S
from agent.scheduling.tasks.scheduler import TaskScheduler
from agent.wire import messages as m
from agent.wire import node_messages as nm
from agent.wire.areas import covers
from agent.wire.market import Member
from tests.examples import examples
from tests.scheduling.oracle import found, hello, sent_to, task

AREAS = [f"b1/f{floor}/r{room}" for floor in (1, 2) for room in (1, 2)]


class JoiningMachine(RuleBasedStateMachine):
    """Tasks, nodes, cancellations and time in any order; a pod answers when it is told to."""

    @initialize(announced=st.sets(st.sampled_from(AREAS)))
    def start(self, announced):
        self.now, self.started = 100.0, 100.0
        self.announced = announced
        pool = (Member("iad1", "tcp://127.0.0.1:5700", tuple(sorted(announced))),)
        self.scheduler = TaskScheduler(
            "iad1", DeadlineEstimator(), pool=pool, started_s=100.0, heartbeat_s=3_600.0
        )
        self.areas: dict[str, str] = {}
        self.tasks: dict[str, m.Task] = {}
        self.came: dict[str, float] = {}
        self.results: dict[str, m.TaskResult] = {}
        self.ended: dict[str, float] = {}
        self.subtasks: list[tuple[str, nm.Subtask]] = []

    def do(self, event):
        instructions = self.scheduler.handle(event, self.now)
        self.scheduler.check_invariants()
        self.subtasks += sent_to(instructions, nm.Subtask)
        for instruction in instructions:
            if isinstance(instruction, SendTaskResult):
                assert instruction.result.id not in self.ended, "answered twice, or cancelled"
                self.results[instruction.result.id] = instruction.result
                self.ended[instruction.result.id] = self.now

    @rule(
        asked=st.sets(st.sampled_from([*AREAS, "b1", "b1/f1", "b2"]), min_size=1),
        timeout_ms=st.sampled_from([100.0, 2_000.0, 60_000.0]),
    )
    def a_task_comes(self, asked, timeout_ms):
        new = task(len(self.tasks) + 1, tuple(sorted(asked)), timeout_ms=timeout_ms)
        self.tasks[new.id], self.came[new.id] = new, self.now
        self.do(TaskArrived("client", new))

    @rule(area=st.sampled_from(AREAS))
    def a_node_joins(self, area):
        name = f"n{AREAS.index(area)}"
        if name not in self.areas:
            self.areas[name] = area
            self.do(NodeJoined(f"link-{name}", hello(name, f"boot-{name}", areas=(area,))))

    @rule(data=st.data())
    def a_pod_answers(self, data):
        if self.subtasks:
            at = data.draw(st.integers(0, len(self.subtasks) - 1))
            peer, subtask = self.subtasks.pop(at)
            self.do(SubtaskReturned(peer, found(subtask.id)))

    @rule(data=st.data())
    def a_task_is_cancelled(self, data):
        waiting = sorted(self.tasks.keys() - self.ended.keys())
        if waiting:
            name = data.draw(st.sampled_from(waiting))
            self.ended[name] = self.now
            self.do(TaskCancelled("client", name))

    @rule(seconds=st.sampled_from([0.01, 0.5, 3.0, 20.0]))
    def time_passes(self, seconds):
        target = self.now + seconds
        while (due := self.scheduler.next_tick) is not None and due <= target:
            self.now = max(self.now, due)
            self.do(Tick())
        self.now = target

    @invariant()
    def nobody_waits_without_reason(self):
        if not hasattr(self, "scheduler"):
            return
        there = set(self.areas.values())
        for name in self.tasks.keys() - self.ended.keys():
            asked = self.tasks[name]
            assert self.now <= self.came[name] + asked.timeout_ms / 1e3
            dispatched = any(s.window.last_s == int(name[1:]) for _, s in self.subtasks)
            wanted = {*asked.areas} | {
                a for a in self.announced if any(covers(w, a) for w in asked.areas)
            }
            lacking = [w for w in wanted if not any(covers(w, a) for a in there)]
            # What is not with the nodes, running or queued, waits for some that may come.
            if not dispatched and not any(s.queued for s in self.scheduler.node_statuses()):
                first = not there and self.came[name] < self.started + FIRST_NODE_S
                since = self.came[name] if first else self.started
                assert lacking
                assert self.now < since + JOINING_S

    def teardown(self):
        if not hasattr(self, "scheduler"):
            return
        self.time_passes(20.0)
        self.time_passes(20.0)
        self.time_passes(20.0)
        assert self.tasks.keys() == self.ended.keys()
        for name, result in self.results.items():
            told = {r.area for r in result.results} | {g.area for g in result.missing}
            assert all(any(covers(w, a) for w in self.tasks[name].areas) for a in told)
            assert told


TestJoining = JoiningMachine.TestCase
TestJoining.settings = settings(max_examples=examples(150), stateful_step_count=40, deadline=None)
