"""The task scheduler under random interleavings, against a plain model of what must come out."""

import math

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from _core.policy import POLICIES, policy_key
from agent.scheduling.deadlines import DeadlineEstimator
from agent.scheduling.events import (
    NodeAlive,
    NodeJoined,
    NodeLeft,
    PolicyChanged,
    SendTaskResult,
    SubtaskReturned,
    TaskArrived,
    Tick,
    WriteRecord,
)
from agent.scheduling.lifecycle import InvalidTransition
from agent.scheduling.task import TaskScheduler
from agent.scheduling.task_entry import TaskEntry
from agent.wire import messages as m
from agent.wire.areas import covers
from agent.wire.records import SubtaskRecord, TaskRecord
from tests.scheduling.oracle import NODES, found, hello, task

OUTCOMES = ("ok", "no_data", "error")


class ModelNode:
    """A node as the outside world has it: a process, a link, and pods that run subtasks."""

    def __init__(self):
        self.incarnation = 0
        self.link = None
        self.pods = 1
        self.heard_s = 0.0
        self.running: dict[int, m.Subtask] = {}


class TaskSchedulerMachine(RuleBasedStateMachine):
    """Nodes come, go, stay silent and lose links; results come late, twice or never."""

    tasks = Bundle("tasks")

    @initialize(policy=st.sampled_from(sorted(POLICIES)))
    def start(self, policy):
        self.now = 100.0
        self.policy = policy
        self.scheduler = TaskScheduler("iad1", DeadlineEstimator(), policy=policy)
        self.nodes = {name: ModelNode() for name in NODES}
        self.link_count = 0
        self.asked: dict[str, tuple[m.Task, float]] = {}
        self.answered: dict[str, m.TaskResult] = {}
        self.records = []
        self.sent_ids: set[int] = set()

    # --- the world ---------------------------------------------------------------------------

    def do(self, event):
        for instruction in self.scheduler.handle(event, self.now):
            if isinstance(instruction, SendTaskResult):
                self.check_result(instruction.result)
            elif isinstance(instruction, WriteRecord):
                self.records.append(instruction.record)
            elif isinstance(instruction.message, m.Subtask):
                self.deliver(instruction.peer, instruction.message)

    def deliver(self, peer, subtask):
        assert subtask.id not in self.sent_ids, "ids are never used twice"
        self.sent_ids.add(subtask.id)
        [node] = [n for n in self.nodes.values() if n.link == peer]
        assert len(node.running) < node.pods, "dispatched to a node without an idle pod"
        node.running[subtask.id] = subtask

    def check_result(self, result):
        assert result.id in self.asked
        assert result.id not in self.answered, "answered twice"
        asked, arrived = self.asked[result.id]
        assert self.now <= arrived + asked.timeout_ms / 1e3 + 1e-9
        wanted = {a for areas in NODES.values() for a in areas} & {
            a for areas in NODES.values() for a in areas if any(covers(w, a) for w in asked.areas)
        }
        seen = {r.area for r in result.results} | {g.area for g in result.missing}
        assert {r.area for r in result.results}.isdisjoint(g.area for g in result.missing)
        assert seen <= wanted | set(asked.areas)
        assert (result.status == "complete") == (not result.missing)
        assert seen
        self.answered[result.id] = result

    def relink(self, name):
        self.link_count += 1
        self.nodes[name].link = f"{name}-{self.link_count}"
        self.nodes[name].heard_s = self.now
        return self.nodes[name].link

    # --- rules -------------------------------------------------------------------------------

    @rule(name=st.sampled_from(sorted(NODES)), pods=st.integers(1, 3))
    def a_node_starts(self, name, pods):
        node = self.nodes[name]
        node.incarnation += 1
        node.pods = pods
        node.running = {}
        self.do(NodeJoined(self.relink(name), hello(name, str(node.incarnation), pods)))

    @rule(name=st.sampled_from(sorted(NODES)), lost=st.booleans())
    def a_link_is_cut(self, name, lost):
        """Messages in flight may be lost with the link; the node says what it still runs."""
        node = self.nodes[name]
        if node.link is None:
            return
        if lost and node.running:
            node.running.popitem()
        running = tuple(node.running)
        link = self.relink(name)
        self.do(NodeJoined(link, hello(name, str(node.incarnation), node.pods, running)))

    @rule(name=st.sampled_from(sorted(NODES)))
    def a_node_stops(self, name):
        node = self.nodes[name]
        if node.link is not None:
            self.do(NodeLeft(node.link, str(node.incarnation)))
            node.link = None
            node.running = {}

    @rule()
    def all_nodes_send_heartbeats(self):
        for node in self.nodes.values():
            if node.link is not None:
                node.heard_s = self.now
                self.do(NodeAlive(node.link, str(node.incarnation)))

    @rule(
        areas=st.lists(
            st.sampled_from(["b1", "b1/f4", "b1/f4/r2", "b1/f5/r9", "b1/f6"]),
            min_size=1,
            max_size=3,
            unique=True,
        ),
        budget_ms=st.sampled_from([20.0, 300.0, 500.0, 800.0]),
        timeout_ms=st.sampled_from([100.0, 2_000.0, 30_000.0]),
    )
    def a_task_arrives(self, areas, budget_ms, timeout_ms):
        number = len(self.asked) + 1
        asked = task(number, tuple(areas), budget_ms=budget_ms, timeout_ms=timeout_ms)
        self.asked[asked.id] = (asked, self.now)
        self.do(TaskArrived(("client", number), asked))

    @precondition(lambda self: any(n.running for n in self.nodes.values()))
    @rule(data=st.data(), outcome=st.sampled_from(OUTCOMES), twice=st.booleans())
    def a_pod_finishes(self, data, outcome, twice):
        busy = sorted(name for name, node in self.nodes.items() if node.running)
        node = self.nodes[data.draw(st.sampled_from(busy))]
        subtask_id = data.draw(st.sampled_from(sorted(node.running)))
        del node.running[subtask_id]
        result = (
            found(subtask_id)
            if outcome == "ok"
            else m.SubtaskResult(id=subtask_id, outcome=outcome, wait_ms=0, execution_ms=0)
        )
        node.heard_s = self.now
        for _ in range(1 + twice):
            self.do(SubtaskReturned(node.link, result))

    @rule(policy=st.sampled_from(sorted(POLICIES)))
    def the_policy_changes(self, policy):
        self.policy = policy
        self.do(PolicyChanged(policy))

    @rule(seconds=st.sampled_from([0.001, 0.05, 0.5, 1.0, 4.0, 40.0]))
    def time_passes(self, seconds):
        """Never past a due tick, as the shell's poll would not."""
        target = self.now + seconds
        while (due := self.scheduler.next_tick) is not None and due <= target:
            self.now = max(self.now, due)
            self.do(Tick())
            after = self.scheduler.next_tick
            assert after is None or after > self.now, "a tick that changes nothing"
        self.now = target

    # --- what always holds -------------------------------------------------------------------

    @invariant()
    def the_books_balance(self):
        if not hasattr(self, "scheduler"):
            return
        self.scheduler.check_invariants()
        assert self.scheduler.open_tasks == len(self.asked) - len(self.answered)

    @invariant()
    def a_node_is_lost_after_three_silent_heartbeats(self):
        if not hasattr(self, "scheduler"):
            return
        for status in self.scheduler.node_statuses():
            node = self.nodes[status.node]
            silent = self.now - node.heard_s >= 3.0
            assert status.state == ("left" if node.link is None else "lost" if silent else "live")

    @invariant()
    def every_queue_is_in_the_order_of_the_policy(self):
        if not hasattr(self, "scheduler"):
            return
        for node in self.scheduler._nodes:
            waiting = []
            while node.queue:
                waiting.append((node.queue.peek_key(), node.queue.pop()))
            for key, subtask in waiting:
                parent = subtask.parent
                assert key == policy_key(
                    POLICIES[self.policy],
                    parent.evaluated_s,
                    parent.task.budget_ms / 1e3,
                    parent.deadline.at_s,
                )
                subtask.handle = node.queue.push(key, subtask)
            assert [k for k, _ in waiting] == sorted(k for k, _ in waiting)

    def teardown(self):
        if not hasattr(self, "scheduler"):
            return
        self.time_passes(100.0)
        assert set(self.answered) == set(self.asked), "every task is answered exactly once"
        assert self.scheduler.open_tasks == 0
        tasks = [r for r in self.records if isinstance(r, TaskRecord)]
        subtasks = [r for r in self.records if isinstance(r, SubtaskRecord)]
        assert sorted(r.task for r in tasks) == sorted(self.asked)
        fanout = {r.task: r.fanout for r in tasks if r.status != "refused"}
        for name, expected in fanout.items():
            assert sum(r.task == name for r in subtasks) == expected
        for record in subtasks:
            times = [record.enqueued_ms, record.dispatched_ms, record.result_ms]
            known = [t for t in times if t is not None]
            assert known == sorted(known)
            assert math.isfinite(record.deadline_ms)


TestTaskScheduler = TaskSchedulerMachine.TestCase
TestTaskScheduler.settings = settings(max_examples=300, stateful_step_count=60, deadline=None)


def test_an_arrow_that_the_table_lacks_raises_with_the_item():
    entry = TaskEntry(task(1), "client", "edfq", 0.0)
    entry.become("open")
    with pytest.raises(InvalidTransition, match="open → open is not allowed for <task t1 open"):
        entry.become("open")
