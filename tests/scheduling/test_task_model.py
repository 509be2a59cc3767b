"""The task scheduler under random interleavings, against a plain model of what must come out."""

import math

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

from _core.queue.policy import DEMOTED, DEMOTING, POLICIES, policy_key
from agent.scheduling.events import (
    NodeAlive,
    NodeJoined,
    NodeLeft,
    NodePods,
    NodeRefused,
    PodsWanted,
    PolicyChanged,
    SendTaskResult,
    SendToNode,
    ServiceChanged,
    ServiceRemoved,
    SubtaskReturned,
    TaskArrived,
    TaskCancelled,
    TellOperator,
    Tick,
    WriteRecord,
)
from agent.scheduling.tasks.contracts import GRACE_S
from agent.scheduling.tasks.deadlines import DeadlineEstimator
from agent.scheduling.tasks.node_claims import QUIET_S
from agent.scheduling.tasks.node_membership import MOVE_S, MOVED
from agent.scheduling.tasks.scheduler import TaskScheduler
from agent.wire import messages as m
from agent.wire import node_messages as nm
from agent.wire.areas import covers
from agent.wire.market import Member, Service
from agent.wire.records import SubtaskRecord, TaskRecord
from tests.examples import examples
from tests.scheduling.oracle import NODES, found, hello, task
from tests.scheduling.rigs import ModelNode

OUTCOMES = ("ok", "no_data", "error")


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
        self.greeted = None
        self.copies = 0
        self.quiet = dict.fromkeys(NODES, 0.0)
        self.asked: dict[str, tuple[m.Task, float]] = {}
        self.answered: dict[str, m.TaskResult] = {}
        self.records = []
        self.sent_ids: set[int] = set()
        # Task → node that was asked → what became of it; and the areas nobody covered.
        self.outcomes: dict[str, dict[str, str | None]] = {}
        self.covered: dict[str, dict[str, tuple[str, ...]]] = {}
        self.unmatched: dict[str, set[str]] = {}
        self.cancelled: set[str] = set()
        self.unknown: set[str] = set()
        self.wanted: dict[str, int] = {}
        # What this IAD offers to the service "climate", and when that ends.
        self.offered: tuple[str, ...] | None = None
        self.offered_until = math.inf

    # --- the world ---------------------------------------------------------------------------

    def do(self, event):
        for instruction in self.scheduler.handle(event, self.now):
            if isinstance(instruction, SendTaskResult):
                self.check_result(instruction.result)
            elif isinstance(instruction, WriteRecord):
                self.records.append(instruction.record)
            elif isinstance(instruction.message, nm.Subtask):
                self.deliver(instruction.peer, instruction.message)
            elif isinstance(instruction.message, nm.Welcome):
                self.greeted = instruction.peer
            elif isinstance(instruction.message, nm.SetPods):
                [name] = [k for k, n in self.nodes.items() if n.link == instruction.peer]
                assert instruction.message.count == self.wanted[name]
                self.nodes[name].told = instruction.message.count

    def deliver(self, peer, subtask):
        assert subtask.id not in self.sent_ids, "ids are never used twice"
        self.sent_ids.add(subtask.id)
        [node] = [n for n in self.nodes.values() if n.link == peer]
        busy = len(node.running) + len(node.strangers)
        assert busy < node.pods, "dispatched to a node without an idle pod"
        node.running[subtask.id] = subtask

    def check_result(self, result):
        assert result.id in self.asked
        assert result.id not in self.answered, "answered twice"
        assert result.id not in self.cancelled, "nobody wants it"
        assert (result.reason == "unknown_service") == (result.id in self.unknown)
        asked, arrived = self.asked[result.id]
        assert self.now <= arrived + asked.timeout_ms / 1e3 + 1e-9
        counts: dict[str, int] = dict.fromkeys(self.unmatched[result.id], 0)
        for name, areas in self.covered[result.id].items():
            for area in areas:
                ok = self.outcomes[result.id][name] == "ok"
                counts[area] = counts.get(area, 0) + ok
        got = {r.area: r.aggregate.channels["temperature"].count for r in result.results}
        if result.status != "refused":
            assert got == {area: n for area, n in counts.items() if n}
            assert {g.area for g in result.missing} == {a for a, n in counts.items() if not n}
            assert (result.status == "complete") == (not result.missing)
        self.answered[result.id] = result

    def settle(self, name, outcome, task_id=None):
        """A node's share of its open tasks (or one of them) has ended, unless it had before."""
        for number in [task_id] if task_id else list(self.outcomes):
            ended = number in self.answered or number in self.cancelled
            if not ended and self.outcomes[number].get(name, "") is None:
                self.outcomes[number][name] = outcome

    def hello(self, name, running=()):
        node = self.nodes[name]
        return hello(
            name, str(node.incarnation), node.pods, running, node.areas, history=f"card {node.card}"
        )

    def is_heard(self, name):
        node = self.nodes[name]
        return node.link is not None and self.now < node.heard_s + 3.0

    def relink(self, name):
        self.link_count += 1
        self.nodes[name].link = f"{name}-{self.link_count}"
        self.nodes[name].heard_s = self.now
        self.nodes[name].told = None
        self.nodes[name].stubborn = False
        return self.nodes[name].link

    # --- rules -------------------------------------------------------------------------------

    @rule(
        name=st.sampled_from(sorted(NODES)),
        pods=st.integers(1, 3),
        moved=st.sampled_from([None, None, None, ("b1/f5/r7",)]),
        new_card=st.booleans(),
    )
    def a_node_starts(self, name, pods, moved, new_card):
        node = self.nodes[name]
        moves = node.incarnation > 0 and moved != node.areas
        if moves and self.now < node.moved_s + MOVE_S:
            said = hello(
                name, str(node.incarnation + 1), pods, (), moved, history=f"card {node.card}"
            )
            replies = self.scheduler.handle(NodeJoined("too soon", said), self.now)
            assert replies == [SendToNode("too soon", nm.Rejected(MOVED))]
            return
        if new_card and not self.is_heard(name):
            node.card += 1
        node.incarnation += 1
        node.pods = pods
        node.running = {}
        node.strangers = set()
        if moves:
            node.moved_s = self.now
            self.settle(name, "node_down")
        node.areas = moved
        self.do(NodeJoined(self.relink(name), self.hello(name)))
        assert self.greeted == node.link

    @rule(name=st.sampled_from(sorted(NODES)), lost=st.booleans(), stranger=st.booleans())
    def a_link_is_cut(self, name, lost, stranger):
        """Messages in flight may be lost with the link; the node says what it still runs, which
        may be something that this master never sent."""
        node = self.nodes[name]
        if node.link is None:
            return
        if lost and node.running:
            node.running.popitem()
        if stranger and len(node.running) + len(node.strangers) < node.pods:
            node.strangers.add(10**9 + self.link_count)
        running = (*node.running, *node.strangers)
        self.do(NodeJoined(self.relink(name), self.hello(name, running)))
        assert self.greeted == node.link

    @rule(name=st.sampled_from(sorted(NODES)))
    def a_history_is_put_aside(self, name):
        """The same process says so on its link."""
        node = self.nodes[name]
        if node.link is not None:
            node.card += 1
            node.heard_s = self.now
            node.told, node.stubborn = None, False
            self.do(NodeJoined(node.link, self.hello(name, (*node.running, *node.strangers))))
            assert self.greeted == node.link

    @rule(name=st.sampled_from(sorted(NODES)), again=st.booleans())
    def a_copy_of_a_configuration_is_started(self, name, again):
        """A second machine: nothing changes while the first is heard."""
        if not self.is_heard(name):
            return
        self.copies += not again
        said = hello(name, f"copy {self.copies}", 3, (), ("b9",), history="copy")
        reply, *told = self.scheduler.handle(NodeJoined("copy", said), self.now)
        assert isinstance(reply.message, nm.Rejected)
        assert [type(each) for each in told] == [TellOperator] * (self.now >= self.quiet[name])
        if told:
            self.quiet[name] = self.now + QUIET_S

    @precondition(lambda self: any(n.running for n in self.nodes.values()))
    @rule(data=st.data())
    def a_message_is_lost_on_a_live_link(self, data):
        busy = sorted(name for name, node in self.nodes.items() if node.running)
        self.nodes[data.draw(st.sampled_from(busy))].running.popitem()

    @precondition(lambda self: any(n.strangers for n in self.nodes.values()))
    @rule()
    def a_stranger_finishes(self):
        for node in self.nodes.values():
            if node.strangers and node.link is not None:
                node.heard_s = self.now
                self.do(SubtaskReturned(node.link, found(node.strangers.pop())))

    @rule(data=st.data())
    def a_link_claims_a_second_name(self, data):
        linked = sorted(name for name, node in self.nodes.items() if node.link is not None)
        if not linked:
            return
        name = data.draw(st.sampled_from(linked))
        other = data.draw(st.sampled_from(sorted(set(NODES) - {name})))
        [reply] = self.scheduler.handle(
            NodeJoined(self.nodes[name].link, hello(other, "liar")), self.now
        )
        assert isinstance(reply.message, nm.Rejected)

    @rule(name=st.sampled_from(sorted(NODES)), revoked=st.booleans())
    def a_node_stops(self, name, revoked):
        node = self.nodes[name]
        if node.link is not None:
            self.settle(name, "node_down")
            incarnation = str(node.incarnation)
            self.do(NodeRefused(node.link) if revoked else NodeLeft(node.link, incarnation))
            node.link = None
            node.running = {}
            node.strangers = set()

    @rule()
    def all_nodes_send_heartbeats(self):
        for node in self.nodes.values():
            if node.link is not None:
                node.heard_s = self.now
                running = (*node.running, *node.strangers)
                self.do(NodeAlive(node.link, str(node.incarnation), running))

    @rule(
        areas=st.lists(
            st.sampled_from(["b1", "b1/f4", "b1/f4/r2", "b1/f5/r9", "b1/f6"]),
            min_size=1,
            max_size=3,
            unique=True,
        ),
        budget_ms=st.sampled_from([20.0, 300.0, 500.0, 800.0]),
        timeout_ms=st.sampled_from([100.0, 2_000.0, 30_000.0]),
        service=st.sampled_from(["default", "default", "climate"]),
        advance_ms=st.sampled_from([0.0, -90.0, 40.0, 1e9]),
    )
    def a_task_arrives(self, areas, budget_ms, timeout_ms, service, advance_ms):
        number = len(self.asked) + 1
        asked = task(
            number,
            tuple(areas),
            budget_ms=budget_ms,
            timeout_ms=timeout_ms,
            service=service,
            advance_ms=advance_ms,
        )
        self.asked[asked.id] = (asked, self.now)
        outside = set()
        if service == "climate":
            if self.offered is None or self.offered_until <= self.now:
                self.unknown.add(asked.id)
            offered = self.offered or ()
            outside = {w for w in areas if not any(covers(w, o) or covers(o, w) for o in offered)}
            within = [w for w in areas if any(covers(o, w) for o in offered)]
            areas = within + [
                o
                for o in offered
                for w in areas
                if covers(w, o) and w not in within and o not in within
            ]
        covered = {}
        for name, node in self.nodes.items():
            own = node.areas or NODES[name]
            within = tuple(a for a in own if any(covers(w, a) for w in areas))
            if node.incarnation and within:
                covered[name] = within
        states = {s.node: s.state for s in self.scheduler.node_statuses()}
        self.covered[asked.id] = covered
        self.outcomes[asked.id] = {
            name: None if states[name] == "live" else "node_down" for name in covered
        }
        self.unmatched[asked.id] = {
            w
            for w in areas
            if not any(
                covers(w, a)
                for name, node in self.nodes.items()
                if node.incarnation
                for a in node.areas or NODES[name]
            )
        } | outside
        self.do(TaskArrived(("client", number), asked))

    @precondition(lambda self: any(n.running for n in self.nodes.values()))
    @rule(data=st.data(), outcome=st.sampled_from(OUTCOMES), twice=st.booleans())
    def a_pod_finishes(self, data, outcome, twice):
        busy = sorted(name for name, node in self.nodes.items() if node.running)
        node = self.nodes[data.draw(st.sampled_from(busy))]
        subtask_id = data.draw(st.sampled_from(sorted(node.running)))
        task_id = f"t{node.running.pop(subtask_id).window.last_s:.0f}"
        name = next(name for name, other in self.nodes.items() if other is node)
        self.settle(name, outcome, task_id)
        result = (
            found(subtask_id)
            if outcome == "ok"
            else nm.SubtaskResult(id=subtask_id, outcome=outcome, wait_ms=0, execution_ms=0)
        )
        node.heard_s = self.now
        for _ in range(1 + twice):
            self.do(SubtaskReturned(node.link, result))

    @rule(data=st.data(), own=st.booleans())
    def a_task_is_cancelled(self, data, own):
        open_now = sorted(set(self.asked) - set(self.answered) - self.cancelled)
        if not open_now:
            return
        task_id = data.draw(st.sampled_from(open_now))
        if own:
            self.cancelled.add(task_id)
            self.do(TaskCancelled(("client", int(task_id[1:])), task_id))
        else:
            assert not self.scheduler.handle(TaskCancelled("stranger", task_id), self.now)

    @rule(offered=st.sampled_from([("b1/f4/r2",), ("b1/f4", "b1/f5/r9"), ("b1",), ()]))
    def the_service_changes(self, offered):
        self.offered, self.offered_until = offered, math.inf
        members = (Member("iad1", "inproc://1", offered), Member("iad2", "inproc://2"))
        self.do(ServiceChanged(Service("climate", "iad2", 1, members)))

    @rule()
    def the_service_is_removed(self):
        self.offered_until = min(self.offered_until, self.now + GRACE_S)
        self.do(ServiceRemoved("climate"))

    @rule(name=st.sampled_from(sorted(NODES)), count=st.integers(1, 3))
    def pods_are_wanted(self, name, count):
        self.wanted[name] = count
        self.nodes[name].stubborn = False
        self.do(PodsWanted(name, count))

    @rule(name=st.sampled_from(sorted(NODES)), told=st.booleans(), count=st.integers(1, 3))
    def a_node_changes_its_pods(self, name, told, count):
        node = self.nodes[name]
        if node.link is not None:
            node.pods = node.told if told and node.told else count
            node.told = None
            node.stubborn = True
            node.heard_s = self.now
            self.do(NodePods(node.link, str(node.incarnation), node.pods))

    @rule(policy=st.sampled_from(sorted(POLICIES)))
    def the_policy_changes(self, policy):
        self.policy = policy
        self.do(PolicyChanged(policy))

    @rule(seconds=st.sampled_from([0.001, 0.05, 0.5, 1.0, 4.0, 40.0, QUIET_S]))
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
        ended = len(self.answered) + len(self.cancelled)
        assert self.scheduler.open_tasks == len(self.asked) - ended

    @invariant()
    def a_live_node_has_been_told_how_many_pods_are_wanted(self):
        if not hasattr(self, "scheduler"):
            return
        for status in self.scheduler.node_statuses():
            node = self.nodes[status.node]
            assert status.pods == node.pods
            wanted = self.wanted.get(status.node)
            if status.state == "live" and wanted is not None and not node.stubborn:
                assert wanted in (node.told, node.pods)

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
        for node in self.scheduler._membership.nodes:
            waiting = []
            while node.queue:
                waiting.append((node.queue.peek_key(), node.queue.pop()))
            for key, subtask in waiting:
                parent = subtask.parent
                own = policy_key(
                    POLICIES[self.policy],
                    parent.enqueued_s,
                    parent.task.budget_ms / 1e3,
                    parent.deadline_s,
                    parent.advance_s,
                )
                assert key == own + DEMOTED * subtask.demoted
                assert not subtask.demoted or (self.policy in DEMOTING and parent.hopeless)
                subtask.handle = node.queue.push(key, subtask)
            assert [k for k, _ in waiting] == sorted(k for k, _ in waiting)

    def teardown(self):
        if not hasattr(self, "scheduler"):
            return
        self.time_passes(100.0)
        assert set(self.answered) == set(self.asked) - self.cancelled, "each is answered once"
        assert self.scheduler.open_tasks == 0
        tasks = [r for r in self.records if isinstance(r, TaskRecord)]
        subtasks = [r for r in self.records if isinstance(r, SubtaskRecord)]
        assert sorted(r.task for r in tasks) == sorted(self.asked)
        assert {r.task for r in tasks if r.status == "cancelled"} == self.cancelled
        assert self.scheduler.counters["cancelled"] == len(self.cancelled)
        fanout = {r.task: r.fanout for r in tasks if r.status != "refused"}
        for name, expected in fanout.items():
            assert sum(r.task == name for r in subtasks) == expected
        for record in subtasks:
            times = [record.enqueued_ms, record.dispatched_ms, record.result_ms]
            known = [t for t in times if t is not None]
            assert known == sorted(known)
            assert math.isfinite(record.deadline_ms)


TestTaskScheduler = TaskSchedulerMachine.TestCase
TestTaskScheduler.settings = settings(
    max_examples=examples(300), stateful_step_count=60, deadline=None
)
