"""The query scheduler: matching, budgets, gathering, and what an answer says."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from agent.scheduling.events import (
    ANYONE,
    QueryArrived,
    ServiceChanged,
    ServiceRemoved,
    TaskReturned,
    TaskUndeliverable,
    Tick,
)
from agent.scheduling.queries.scheduler import QueryScheduler
from agent.scheduling.shared_budget import LEAST_AREAS
from agent.scheduling.tasks.joining import JOINING_S
from agent.wire import messages as m
from agent.wire.market import Member, Service
from tests.examples import examples
from tests.scheduling.oracle import aggregate
from tests.scheduling.rigs import QueryRig

POOL = (
    Member("iad1", "inproc://1", ("b1/f7/r717", "b1/f7/r719")),
    Member("iad3", "inproc://3", ("b1/f4",)),
    Member("iad4", "inproc://4", ("b1/f6/r621", "b1/f7/r752")),
)


DECLARED = {member.iad: member.areas for member in POOL}


@pytest.fixture
def rig():
    return QueryRig(POOL)


def test_each_matched_iad_gets_one_task_with_the_budget_of_equation_2(rig):
    rig.ask("b1/f7", "b1/f4/r413")
    assert [iad for iad, _ in rig.tasks] == ["iad1", "iad3", "iad4"]
    assert [task.areas for _, task in rig.tasks] == [("b1/f7",), ("b1/f4/r413",), ("b1/f7",)]
    for _, task in rig.tasks:
        assert task.percentile == pytest.approx(100 * 0.99 ** (1 / 3))
        assert task.budget_ms == 500.0
        assert task.timeout_ms == pytest.approx(1_900.0)
    assert len({task.id for _, task in rig.tasks}) == 3


def test_a_complete_answer_after_the_slo_is_complete_and_a_miss(rig):
    rig.ask("b1/f7/r717")
    [(iad, task)] = rig.tasks
    rig.give(iad, task, now=0.7)
    [answer] = rig.answers
    assert (answer.status, answer.slo_met) == ("complete", False)
    assert answer.elapsed_ms == pytest.approx(700.0)
    assert answer.tasks == (m.TaskReport("iad1", 99.0, 500.0, m.Coverage(1, 1), 1.0),)


def test_two_open_queries_with_one_id_are_answered_each(rig):
    slo, form = m.Slo(99.0, 500.0), "aggregate"
    query = m.Query("again", ("b1/f7/r717",), m.Window(last_s=60), slo, form=form)
    for _ in range(2):
        rig.do(QueryArrived("client", query, ANYONE), 0.0)
    for iad, task in reversed(rig.tasks):
        rig.give(iad, task, now=0.3)
    assert [(each.id, each.status) for each in rig.answers] == [("again", "complete")] * 2


def test_the_answer_waits_for_the_slowest_task(rig):
    rig.ask("b1")
    for iad, task in rig.tasks:
        assert not rig.answers
        rig.give(iad, task, now=0.3, areas=DECLARED[iad])
    [answer] = rig.answers
    assert (answer.status, answer.slo_met) == ("complete", True)
    assert answer.coverage == m.Coverage(5, 5)


def test_a_declared_area_for_which_no_node_ever_came_is_missing(rig):
    rig.ask("b1/f7")
    rig.give("iad1", rig.tasks[0][1], now=0.1, areas=("b1/f7/r717",))
    rig.give("iad4", rig.tasks[1][1], now=0.1, areas=("b1/f7/r752",))
    [answer] = rig.answers
    assert answer.missing == (m.Missing("b1/f7/r719", "no_node"),)
    assert [t.coverage for t in answer.tasks] == [m.Coverage(1, 2), m.Coverage(1, 1)]


def test_an_iad_without_a_node_leaves_its_own_areas_missing_and_not_the_floor(rig):
    rig.ask("b1/f7")
    gap = m.Missing("b1/f7", "no_node")
    rig.give("iad1", rig.tasks[0][1], now=0.1, areas=("b1/f7/r717", "b1/f7/r719"))
    rig.give("iad4", rig.tasks[1][1], now=0.1, areas=(), missing=(gap,))
    [answer] = rig.answers
    assert answer.coverage == m.Coverage(2, 2), "what is below b1/f7 was answered elsewhere"


def test_rooms_finer_than_declared_are_taken_as_they_come(rig):
    rig.ask("b1/f4")
    rig.give("iad3", rig.tasks[0][1], now=0.1, areas=("b1/f4/r413", "b1/f4/r415"))
    assert rig.answers[0].coverage == m.Coverage(2, 2)


def test_the_stopwatch_times_evaluation_and_aggregation():
    times = iter([0.25, 0.75])
    scheduler = QueryScheduler("iad1", POOL, run="run", stopwatch=lambda: next(times))
    query = m.Query("q", ("b1/f4",), m.Window(last_s=60), m.Slo(99.0, 700.0))
    [send] = scheduler.handle(QueryArrived("client", query), 0.0)
    result = m.TaskResult(
        send.task.id, "complete", 1.0, (m.AreaResult("b1/f4", aggregate=aggregate(1.0)),)
    )
    answer, write = scheduler.handle(TaskReturned("iad3", result), 0.5)
    assert (answer.answer.elapsed_ms, answer.answer.slo_met) == (750.0, False)
    assert (write.record.evaluated_ms, write.record.aggregated_ms) == (250.0, 750.0)


def test_the_stopwatch_makes_no_query_late():
    """A class is advanced by when results come, not by what their answers take to make."""
    advances = []
    for stopwatch in (None, lambda: 1e6):
        rig = QueryRig(POOL, stopwatch=stopwatch)
        for number in range(200):
            rig.ask("b1/f9/r901", "b1/f4", now=float(number))
            rig.give("iad3", rig.tasks[-1][1], now=number + 0.1)
        advances.append([task.advance_ms for _, task in rig.tasks])
    assert advances[0] == advances[1]


@pytest.mark.parametrize(("cut_s", "answered_s"), [(0.2, 0.5), (2.0, 2.5)])
def test_a_late_query_does_not_wait_for_a_master_that_is_away(rig, cut_s, answered_s):
    now = 0.0
    rig.scheduler.reaches = lambda iad: iad != "iad4" or now < cut_s
    rig.ask("b1/f7", timeout_ms=60_000)
    rig.give("iad1", rig.tasks[0][1], now=0.1, areas=("b1/f7/r717", "b1/f7/r719"))
    while not rig.answers:
        now = rig.scheduler.next_tick
        rig.do(Tick(), now)
    assert now == answered_s
    [gap] = rig.answers[0].missing
    assert (gap.area, gap.reason) == ("b1/f7/r752", "iad_unreachable")


def test_a_query_waits_for_masters_that_may_be_starting():
    rig = QueryRig(POOL, started_s=0.0)
    rig.scheduler.reaches = lambda _: False
    rig.ask("b1/f4", timeout_ms=JOINING_S * 2e3)
    now = 0.0
    while not rig.answers:
        now = rig.scheduler.next_tick
        rig.do(Tick(), now)
    assert JOINING_S <= now <= JOINING_S + 1.0


def test_an_iad_that_stays_silent_is_named_area_by_area_at_the_timeout(rig):
    rig.ask("b1/f7", "b1/f9")
    rig.give("iad1", rig.tasks[0][1], now=0.1, areas=("b1/f7/r717", "b1/f7/r719"))
    for now in (0.5, 1.5, 2.0):
        assert rig.scheduler.next_tick == now
        rig.do(Tick(), now)
    [answer] = rig.answers
    assert answer.status == "partial"
    assert answer.coverage == m.Coverage(2, 4)
    assert answer.missing == (
        m.Missing(
            "b1/f7/r752",
            "timeout",
            message="iad4's master gave no answer before the answer timeout",
        ),
        m.Missing("b1/f9", "no_node", unknown=True),
    )
    rig.give("iad4", rig.tasks[1][1], now=2.5)
    assert len(rig.answers) == 1
    assert rig.scheduler.counters["late_or_unknown_task_results"] == 1


def test_a_task_that_cannot_be_sent_does_not_wait_for_the_timeout(rig):
    rig.ask("b1/f4/r413/desk")
    rig.do(TaskUndeliverable("iad3", rig.tasks[0][1].id), 0.0)
    assert rig.answers[0].missing == (
        m.Missing("b1/f4/r413/desk", "iad_unreachable", message="iad3's master did not answer"),
    )


def test_one_refused_task_refuses_the_query(rig):
    rig.ask("b1")
    rig.give(*rig.tasks[1], now=0.1, status="refused", areas=())
    [answer] = rig.answers
    assert (answer.status, answer.reason) == ("refused", "infeasible")
    assert rig.scheduler.open_queries == 0
    rig.give(*rig.tasks[0], now=0.2)
    assert len(rig.answers) == 1


@pytest.mark.parametrize("reason", ["unknown_service", "not_authorised"])
def test_an_iad_that_does_not_know_the_service_or_this_master_leaves_a_gap(rig, reason):
    """It has lost its state, or has that of an earlier pool: the others answer all the same."""
    rig.ask("b1")
    (iad, task), *others = rig.tasks
    said = m.TaskResult(task.id, "refused", 0.0, reason=reason, message="it serves no default")
    rig.do(TaskReturned(iad, said), 0.1)
    for each in others:
        rig.give(*each, now=0.2)
    [answer] = rig.answers
    assert (answer.status, len(answer.results)) == ("partial", 1)
    told = {(gap.reason, gap.message) for gap in answer.missing}
    assert told == {("iad_unreachable", f"{iad} refuses: it serves no default")}


def test_unknown_services_and_areas_are_answered_at_once(rig):
    rig.ask("b1", service="water")
    rig.ask("b2")
    assert [a.status for a in rig.answers] == ["refused", "partial"]
    assert rig.answers[0].reason == "unknown_service"
    assert rig.answers[1].missing == (m.Missing("b2", "no_node", unknown=True),)
    assert not rig.tasks


def test_a_task_result_from_the_wrong_iad_is_ignored(rig):
    rig.ask("b1/f4")
    rig.give("iad1", rig.tasks[0][1], now=0.1)
    assert not rig.answers


def test_no_task_may_take_longer_than_a_message_may_say(rig):
    query = m.Query("q", ("b1/f4",), m.Window(last_s=60), m.Slo(99.0, 3_600_000.0))
    rig.do(QueryArrived("client", query), 0.0)
    [(_, task)] = rig.tasks
    assert 3_599_000 < task.timeout_ms < 3_600_000
    assert rig.scheduler.next_tick == 3_600.0


def test_an_iad_speaks_only_for_the_areas_it_was_asked(rig):
    rig.ask("b1/f7/r717", "b1/f4")
    rig.give("iad1", rig.tasks[0][1], now=0.1)
    lie = m.Missing("b1/f7/r719", "no_data")
    rig.give("iad3", rig.tasks[1][1], now=0.1, areas=("b1/f4/r1", "b1/f7/r717"), missing=(lie,))
    [answer] = rig.answers
    assert [r.area for r in answer.results] == ["b1/f4/r1", "b1/f7/r717"]
    assert answer.results[1].aggregate.channels["temperature"].count == 1
    assert answer.status == "complete"


def test_more_open_queries_than_memory_should_hold_are_refused(monkeypatch):
    monkeypatch.setattr("agent.scheduling.queries.scheduler.MAX_OPEN_AREAS", 2 * LEAST_AREAS)
    rig = QueryRig(POOL)
    rig.ask("b1")
    rig.ask("b1")
    assert [(a.status, a.reason) for a in rig.answers] == [("refused", "overloaded")]


class QuerySchedulerMachine(RuleBasedStateMachine):
    """Any interleaving of queries, results, duplicates and timeouts: one answer a query."""

    @initialize()
    def start(self):
        self.rig = QueryRig(POOL)
        self.now = 0.0
        self.asked = 0
        self.out: list[tuple[str, m.Task]] = []
        self.pool: tuple[Member, ...] = ()

    @rule(
        areas=st.lists(
            st.sampled_from(["b1", "b1/f7", "b1/f4/r1", "b1/f6", "b2"]), min_size=1, max_size=3
        ),
        timeout_ms=st.sampled_from([None, 50.0, 9_000.0]),
        service=st.sampled_from(["default", "climate"]),
    )
    def ask(self, areas, timeout_ms, service):
        before = len(self.rig.tasks)
        self.asked += 1
        self.rig.ask(*areas, now=self.now, timeout_ms=timeout_ms, service=service)
        sent = self.rig.tasks[before:]
        allowed = POOL if service == "default" else self.pool
        assert {iad for iad, _ in sent} <= {member.iad for member in allowed if member.areas}
        self.out += sent

    @rule(
        areas=st.lists(st.sampled_from([("b1/f4",), ("b1/f7", "b1/f6"), ("b1",), ()]), max_size=3),
        redundant=st.booleans(),
    )
    def the_service_changes(self, areas, redundant):
        """What is open goes on with the pool that it has: no query is lost."""
        self.pool = tuple(Member(f"iad{n}", "inproc://", a) for n, a in enumerate(areas, 1))
        changed = ServiceChanged(Service("climate", "iad1", 1, self.pool, redundant=redundant))
        self.rig.do(changed, self.now)

    @rule()
    def the_service_is_removed(self):
        self.pool = ()
        self.rig.do(ServiceRemoved("climate"), self.now)

    @rule(data=st.data(), twice=st.booleans(), kind=st.sampled_from(["ok", "gap", "no", "cut"]))
    def return_one(self, data, twice, kind):
        if not self.out:
            return
        iad, task = self.out.pop(data.draw(st.integers(0, len(self.out) - 1)))
        for _ in range(1 + twice):
            if kind == "ok":
                self.rig.give(iad, task, self.now)
            elif kind == "gap":
                gap = m.Missing(task.areas[0], "timeout")
                self.rig.give(iad, task, self.now, missing=(gap,), areas=task.areas[1:])
            elif kind == "no":
                self.rig.give(iad, task, self.now, status="refused", areas=())
            else:
                self.rig.do(TaskUndeliverable(iad, task.id), self.now)

    @rule(away=st.frozensets(st.sampled_from(["iad1", "iad3", "iad4"])))
    def masters_are_away(self, away):
        self.rig.scheduler.reaches = lambda iad: iad not in away

    @rule(seconds=st.sampled_from([0.01, 0.3, 2.0, 10.0]))
    def time_passes(self, seconds):
        target = self.now + seconds
        while (due := self.rig.scheduler.next_tick) is not None and due <= target:
            self.now = max(due, self.now)
            self.rig.do(Tick(), self.now)
        self.now = target

    @invariant()
    def one_answer_and_one_record_a_query(self):
        if hasattr(self, "rig"):
            assert len(self.rig.answers) + self.rig.scheduler.open_queries == self.asked
            assert len(self.rig.records) == len(self.rig.answers)
            ended = [task_id for _, task_id in self.rig.cancels]
            assert len(ended) == len(set(ended))

    def teardown(self):
        if not hasattr(self, "rig"):
            return
        self.time_passes(20.0)
        assert len(self.rig.answers) == self.asked
        for answer in self.rig.answers:
            gaps = {g.area for g in answer.missing}
            assert gaps.isdisjoint(r.area for r in answer.results)
            assert (answer.status == "partial") == bool(gaps)


TestQueryScheduler = QuerySchedulerMachine.TestCase
TestQueryScheduler.settings = settings(
    max_examples=examples(200), stateful_step_count=40, deadline=None
)
