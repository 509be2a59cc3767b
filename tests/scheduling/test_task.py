"""The task scheduler, case by case."""

import random

import pytest

from agent.scheduling.events import (
    NodeAlive,
    NodeJoined,
    NodeLeft,
    NodeRefused,
    PolicyChanged,
    SubtaskReturned,
    Tick,
)
from agent.scheduling.shared_budget import LEAST_AREAS
from agent.scheduling.tasks.node_claims import QUIET_S
from agent.wire import messages as m
from agent.wire import node_messages as nm
from agent.wire.records import SubtaskRecord, TaskRecord
from tests.scheduling.oracle import aggregate, found, hello
from tests.scheduling.rigs import TaskRig
from tests.wire.samples import SAMPLES


@pytest.fixture
def rig():
    rig = TaskRig()
    yield rig
    rig.scheduler.check_invariants()


def test_every_node_that_covers_the_area_is_asked_and_one_result_goes_back(rig):
    for node in ("n1", "n2", "n3"):
        rig.join(node)
    rig.ask(1, ("b1/f4",), now=1.0)
    assert [peer for peer, _ in rig.dispatched] == ["link-n1", "link-n2", "link-n3"]
    for (peer, subtask), value in zip(rig.dispatched, (20.0, 21.0, 23.0), strict=True):
        assert not rig.results
        rig.answer(found(subtask.id, value), peer.removeprefix("link-"), now=1.1)
    [result] = rig.results
    assert result.status == "complete"
    assert result.total_ms == pytest.approx(100.0)
    # Room 2 has two nodes: their aggregates are one, and nobody sees that there were two.
    assert [(r.area, r.aggregate.channels["temperature"].mean) for r in result.results] == [
        ("b1/f4/r1", 20.0),
        ("b1/f4/r2", 22.0),
    ]
    assert result.missing == ()


def test_an_area_without_a_node_and_one_whose_node_is_down_are_missing(rig):
    rig.join("n1")
    rig.join("n2")
    rig.do(NodeLeft("link-n2", "boot-n2"), 0.5)
    rig.ask(1, ("b1/f4", "b1/f9"), now=1.0)
    [(_, subtask)] = rig.dispatched
    rig.answer(found(subtask.id), "n1", now=1.1)
    [result] = rig.results
    assert result.status == "partial"
    assert result.missing == (
        m.Missing("b1/f4/r2", "node_down"),
        m.Missing("b1/f9", "no_node"),
    )


def test_nobody_to_ask_is_answered_at_once(rig):
    rig.ask(1, ("b2",), now=1.0)
    [result] = rig.results
    assert result.status == "partial"
    assert result.missing == (m.Missing("b2", "no_node"),)


def test_the_most_urgent_is_served_first_and_only_one_per_idle_pod(rig):
    rig.join("n1")
    rig.ask(1, ("b1/f4/r1",), now=1.0, budget_ms=1_000)
    rig.ask(2, ("b1/f4/r1",), now=1.1, budget_ms=1_000)
    rig.ask(3, ("b1/f4/r1",), now=1.2, budget_ms=500)
    assert len(rig.dispatched) == 1
    rig.answer(found(rig.dispatched[0][1].id), "n1", now=1.3)
    rig.answer(found(rig.dispatched[1][1].id), "n1", now=1.4)
    rig.answer(found(rig.dispatched[2][1].id), "n1", now=1.5)
    assert [r.id for r in rig.results] == ["t1", "t3", "t2"]


def test_a_change_of_policy_rekeys_what_waits():
    rig = TaskRig(policy="edfq")
    rig.join("n1")
    rig.ask(1, ("b1/f4/r1",), now=1.0)
    rig.ask(2, ("b1/f4/r1",), now=1.1, budget_ms=2_000)
    rig.ask(3, ("b1/f4/r1",), now=1.2, budget_ms=500)
    rig.do(PolicyChanged("fifo"), 1.25)
    for n in range(3):
        rig.answer(found(rig.dispatched[n][1].id), "n1", now=1.3 + n)
    assert [r.id for r in rig.results] == ["t1", "t2", "t3"]


def test_the_answer_timeout_gives_up_and_frees_nothing_that_still_runs(rig):
    rig.join("n1")
    rig.ask(1, ("b1/f4/r1",), now=1.0, timeout_ms=500)
    rig.ask(2, ("b1/f4/r1",), now=1.0, timeout_ms=900)
    assert rig.scheduler.next_tick == pytest.approx(1.5)
    rig.do(Tick(), 1.5)
    [result] = rig.results
    assert (result.status, result.missing) == (
        "partial",
        (m.Missing("b1/f4/r1", "timeout"),),
    )
    assert len(rig.dispatched) == 1, "the pod is still busy with the abandoned subtask"
    rig.answer(found(rig.dispatched[0][1].id), "n1", now=1.6)
    assert rig.scheduler.counters["late_results"] == 1
    assert len(rig.dispatched) == 2
    rig.answer(found(rig.dispatched[1][1].id), "n1", now=1.7)
    assert [r.id for r in rig.results] == ["t1", "t2"]


def test_the_channels_of_areas_are_what_their_nodes_have_even_if_lost(rig):
    assert rig.scheduler.channels(("b1",)) == frozenset()
    rig.join("n1")
    rig.do(Tick(), 60.0)
    assert rig.scheduler.node_statuses()[0].state == "lost"
    assert rig.scheduler.channels(("b1/f4",)) == {"temperature"}
    assert rig.scheduler.channels(("b2",)) == frozenset()


def test_a_duplicate_result_changes_nothing(rig):
    rig.join("n1")
    rig.ask(1, ("b1/f4/r1",), now=1.0)
    reply = found(rig.dispatched[0][1].id)
    rig.answer(reply, "n1", now=1.1)
    rig.answer(reply, "n1", now=1.2)
    assert len(rig.results) == 1
    assert rig.scheduler.counters["duplicate_or_unknown_results"] == 1


def test_a_lost_node_keeps_its_queue_until_the_timeout_and_serves_it_when_it_returns(rig):
    rig.join("n1")
    rig.ask(1, ("b1/f4/r1",), now=0.5, timeout_ms=60_000)
    rig.do(Tick(), 3.0)
    assert rig.scheduler.node_statuses()[0].state == "lost"
    rig.ask(2, ("b1/f4/r1",), now=3.1)
    assert rig.results[0].missing == (m.Missing("b1/f4/r1", "node_down"),)
    # A new process at the same place: what the old one ran is dispatched again.
    rig.do(NodeJoined("link-2", hello("n1", "boot-2")), 4.0)
    assert len(rig.dispatched) == 2
    assert rig.dispatched[1][1].id != rig.dispatched[0][1].id
    rig.do(SubtaskReturned("link-2", found(rig.dispatched[1][1].id)), 4.1)
    assert rig.results[1].status == "complete"
    assert rig.scheduler.counters["redispatched"] == 1


def test_a_cut_link_does_not_repeat_what_the_pod_still_runs(rig):
    rig.join("n1")
    rig.ask(1, ("b1/f4/r1",), now=0.5)
    subtask = rig.dispatched[0][1]
    rig.do(NodeJoined("link-2", hello("n1", "boot-n1", running=(subtask.id,))), 1.0)
    assert len(rig.dispatched) == 1
    rig.do(SubtaskReturned("link-2", found(subtask.id)), 1.1)
    assert rig.results[0].status == "complete"
    # The cut is inside that response time, so it is no unloaded one.
    assert rig.scheduler.node_statuses()[0].unloaded_samples == 0


def test_a_second_machine_under_the_same_name_displaces_the_first_for_good(rig):
    rig.join("n1")
    rig.do(NodeJoined("link-b", hello("n1", "boot-b")), 0.1)
    rig.do(NodeAlive("link-n1", "boot-n1"), 0.2)
    assert rig.replies[-1] == ("link-n1", nm.HelloWanted())
    rig.do(NodeJoined("link-n1", hello("n1", "boot-n1")), 0.3)
    assert isinstance(rig.replies[-1][1], nm.Rejected)
    rig.ask(1, ("b1/f4/r1",), now=0.4)
    assert rig.dispatched[0][0] == "link-b"
    # Once the second is lost, the first may serve again.
    rig.do(Tick(), 9.0)
    rig.do(NodeJoined("link-n1", hello("n1", "boot-n1")), 9.1)
    assert isinstance(rig.replies[-1][1], nm.Subtask | nm.Welcome)


def test_a_copy_of_a_configuration_is_refused_while_the_node_is_heard(rig):
    rig.do(NodeJoined("link-n1", hello("n1", "boot-n1"), address="10.0.0.5"), 0.0)
    copy = NodeJoined("link-b", hello("n1", "boot-b", history="h\nb"), address="10.0.0.7")
    rig.do(copy, 0.1)
    assert rig.replies[-1] == (
        "link-b",
        nm.Rejected(
            "another node named n1 is at work here; is its configuration a copy? "
            "Give this one another name"
        ),
    )
    (line,) = rig.told
    assert line == (
        "two nodes are named n1: the one at 10.0.0.7 with history 'h\\nb' was refused while the "
        "one at 10.0.0.5 with history 'hn1' is at work; if one's configuration is a copy, give it "
        "another name"
    )
    # What the copy says besides is nobody's.
    rig.do(NodeAlive("link-b", "boot-b"), 0.2)
    assert rig.replies[-1] == ("link-b", nm.HelloWanted())
    rig.ask(1, ("b1/f4/r1",), now=0.3)
    assert rig.dispatched[0][0] == "link-n1"
    now = 0.5
    while now < QUIET_S:
        rig.do(NodeAlive("link-n1", "boot-n1"), now)
        rig.do(copy, now)
        assert isinstance(rig.replies[-1][1], nm.Rejected)
        now += 2.5
    assert len(rig.told) == 1
    rig.do(NodeAlive("link-n1", "boot-n1"), QUIET_S)
    rig.do(copy, QUIET_S + 1.0)
    assert len(rig.told) == 2


def test_a_node_whose_card_was_replaced_joins_when_the_old_one_has_been_silent(rig):
    rig.join("n1")
    rig.do(NodeAlive("link-n1", "boot-n1"), 1.0)
    replaced = NodeJoined("link-b", hello("n1", "boot-b", history="new card"))
    rig.do(replaced, 3.99)
    assert isinstance(rig.replies[-1][1], nm.Rejected)
    # Also before the tick that says so.
    rig.do(replaced, 4.0)
    assert isinstance(rig.replies[-1][1], nm.Welcome)
    # Whoever stood there before has to stay silent from now on.
    rig.do(NodeJoined("link-n1", hello("n1", "boot-n1")), 4.1)
    assert isinstance(rig.replies[-1][1], nm.Rejected)


def test_a_node_that_stopped_may_come_back_with_another_history_at_once(rig):
    rig.join("n1")
    rig.do(NodeLeft("link-n1", "boot-n1"), 0.1)
    rig.do(NodeJoined("link-b", hello("n1", "boot-b", history="new")), 0.2)
    assert isinstance(rig.replies[-1][1], nm.Welcome)


@pytest.mark.parametrize(
    ("link", "incarnation", "history"),
    [
        ("link-b", "boot-b", "hn1"),  # started again
        ("link-b", "boot-n1", "hn1"),  # on a new link
        ("link-n1", "boot-n1", "another"),  # its history was opened late, or put aside
        ("link-b", "boot-n1", "another"),
        ("link-n1", "boot-b", "another"),  # nobody else speaks on its link
    ],
)
def test_the_same_node_joins_again_at_once(rig, link, incarnation, history):
    rig.join("n1")
    rig.do(NodeJoined(link, hello("n1", incarnation, history=history)), 0.1)
    assert isinstance(rig.replies[-1][1], nm.Welcome)
    assert not rig.told


def test_a_copied_card_is_told_to_the_operator_when_the_first_machine_comes_back(rig):
    rig.join("n1")
    rig.do(NodeJoined("link-b", hello("n1", "boot-b")), 0.1)
    assert not rig.told
    rig.do(NodeJoined("link-c", hello("n1", "boot-n1")), 0.2)
    assert isinstance(rig.replies[-1][1], nm.Rejected)
    assert len(rig.told) == 1


@pytest.mark.parametrize("message", ["alive", "result"])
def test_a_link_that_never_said_hello_is_asked_to(rig, message):
    event = NodeAlive("?", "x") if message == "alive" else SubtaskReturned("?", found(1))
    rig.do(event, 0.0)
    assert rig.replies == [("?", nm.HelloWanted())]


def test_outcomes_of_a_subtask_are_reasons_of_its_areas(rig):
    rig.join("n1")
    rig.join("n2")
    rig.ask(1, ("b1/f4",), now=1.0)
    for (peer, subtask), outcome in zip(rig.dispatched, ("no_data", "error"), strict=True):
        reply = nm.SubtaskResult(id=subtask.id, outcome=outcome, wait_ms=0, execution_ms=0)
        rig.do(SubtaskReturned(peer, reply), 1.1)
    assert rig.results[0].missing == (
        m.Missing("b1/f4/r1", "no_data"),
        m.Missing("b1/f4/r2", "node_error"),
    )
    assert [s.unloaded_samples for s in rig.scheduler.node_statuses()] == [1, 0]


def test_an_slo_below_the_unloaded_response_is_refused_once_that_is_measured(rig):
    rig.join("n1")
    column = 0
    rig.ask(1, ("b1/f4/r1",), now=0.1, budget_ms=10)
    assert not rig.results, "cold: t_Q < 0 is a guess, so the task is served, most urgent"
    for _ in range(200):
        rig.estimator.observe(column, 0.1, 0.2)
    rig.ask(2, ("b1/f4/r1",), now=0.3, budget_ms=10)
    assert rig.results[0].status == "refused"
    assert rig.results[0].reason == "infeasible"
    rig.ask(3, ("b1/f4/r1",), now=0.3, budget_ms=500)
    assert len(rig.results) == 1


@pytest.mark.parametrize("percentile", [99.0, 99.5, 99.9, 99.99, 99.9999])
@pytest.mark.parametrize("nodes", [1, 4, 32])
def test_a_stricter_or_wider_slo_than_one_that_is_measured_to_be_impossible_is_refused(
    rig, percentile, nodes
):
    areas = tuple(f"b1/f4/r{number}" for number in range(nodes))
    for number, area in enumerate(areas):
        rig.join(f"n{number}", areas=(area,))
        for _ in range(100):
            rig.estimator.observe(number, 0.1, 0.2)
    rig.ask(1, areas, now=0.3, percentile=percentile, budget_ms=10)
    assert [result.reason for result in rig.results] == ["infeasible"]


def test_few_samples_are_no_measurement_of_what_is_rare(rig):
    """Fast nodes whose estimate is still the guess from before: p99 needs 100 samples."""
    rig.join("n1")
    for _ in range(99):
        rig.estimator.observe(0, 0.005, 0.2)
    rig.ask(1, ("b1/f4/r1",), now=0.3, budget_ms=20)
    assert len(rig.dispatched) == 1
    assert not rig.results


def test_a_tail_that_was_never_seen_refuses_nothing(rig):
    rig.join("n1")
    for _ in range(200):
        rig.estimator.observe(0, 0.005, 0.2)
    rig.ask(1, ("b1/f4/r1",), now=0.3, percentile=99.9999, budget_ms=20)
    assert not rig.results


def test_records_hold_the_times_of_the_papers_figure_7():
    rig = TaskRig(wall_offset_s=1_000.0)
    rig.join("n1", pods=1)
    rig.ask(1, ("b1/f4/r1",), now=1.0)
    rig.ask(2, ("b1/f4/r1",), now=1.0)
    rig.answer(found(rig.dispatched[0][1].id), "n1", now=1.25)
    rig.answer(found(rig.dispatched[1][1].id), "n1", now=1.5)
    subtasks = [r for r in rig.records if isinstance(r, SubtaskRecord)]
    tasks = [r for r in rig.records if isinstance(r, TaskRecord)]
    second = subtasks[1]
    assert (second.enqueued_ms, second.dispatched_ms, second.result_ms) == (0.0, 250.0, 500.0)
    assert (second.node_wait_ms, second.execution_ms) == (0.0, 1.0)
    assert second.wall_ms == 1_001_000
    assert tasks[1].aggregated_ms == 500.0
    assert tasks[1].queueing_budget_ms == pytest.approx(500.0 - tasks[1].unloaded_ms)
    assert second.deadline_ms == pytest.approx(tasks[1].queueing_budget_ms)
    assert second.missed_deadline == (second.dispatched_ms > second.deadline_ms)


def test_what_a_live_node_no_longer_runs_is_dispatched_again_but_not_what_is_on_its_way(rig):
    rig.join("n1", pods=2)
    rig.do(NodeAlive("link-n1", "boot-n1", ()), 1.0)
    rig.ask(1, ("b1/f4/r1",), now=1.5)
    # This heartbeat may have left before the subtask came.
    rig.do(NodeAlive("link-n1", "boot-n1", ()), 2.0)
    assert len(rig.dispatched) == 1
    rig.do(NodeAlive("link-n1", "boot-n1", ()), 3.0)
    assert len(rig.dispatched) == 2
    rig.answer(found(rig.dispatched[1][1].id), "n1", now=3.1)
    assert rig.results[0].status == "complete"


def test_a_heartbeat_of_a_node_that_does_not_say_what_it_runs_changes_nothing(rig):
    rig.join("n1")
    rig.ask(1, ("b1/f4/r1",), now=0.5)
    for now in (1.0, 2.0, 3.0):
        rig.do(NodeAlive("link-n1", "boot-n1"), now)
    assert len(rig.dispatched) == 1


def test_pods_that_run_something_for_a_master_that_is_gone_are_not_idle(rig):
    rig.join("n1", running=(77,))
    rig.ask(1, ("b1/f4/r1",), now=0.1)
    assert not rig.dispatched
    rig.answer(found(77), "n1", now=0.2)
    assert len(rig.dispatched) == 1


def test_a_result_in_the_form_that_nobody_asked_for_is_an_error(rig):
    rig.join("n1")
    rig.ask(1, ("b1/f4/r1",), now=1.0)
    empty = nm.SubtaskResult(rig.dispatched[0][1].id, "ok", 0.0, 0.0)
    rig.answer(empty, "n1", now=1.1)
    assert rig.results[0].missing == (m.Missing("b1/f4/r1", "node_error"),)


def test_one_infeasible_task_in_ten_is_served_so_that_the_window_learns(rig):
    rig.join("n1")
    for _ in range(200):
        rig.estimator.observe(0, 0.1, 0.2)
    for number in range(10):
        rig.ask(number, ("b1/f4/r1",), now=0.3, budget_ms=10)
    assert [r.status for r in rig.results] == ["refused"] * 9
    assert len(rig.dispatched) == 1


def test_a_node_that_says_goodbye_is_not_waited_for(rig):
    rig.join("n1")
    rig.ask(1, ("b1/f4/r1",), now=1.0)
    rig.ask(2, ("b1/f4/r1",), now=1.0)
    rig.do(NodeLeft("link-n1", "boot-n1"), 1.1)
    assert [r.missing for r in rig.results] == [(m.Missing("b1/f4/r1", "node_down"),)] * 2


def test_a_node_whose_key_was_revoked_is_not_waited_for(rig):
    rig.join("n1")
    rig.ask(1, ("b1/f4/r1",), now=1.0)
    rig.do(NodeRefused("link-n1"), 1.1)
    assert [r.missing for r in rig.results] == [(m.Missing("b1/f4/r1", "node_down"),)]
    rig.do(NodeRefused("link-n1"), 1.2)  # every further message of it
    assert len(rig.results) == 1


def test_a_node_that_moved_does_not_answer_for_where_it_was(rig):
    rig.join("n1")
    rig.ask(1, ("b1/f4/r1",), now=1.0)
    moved = hello("n1", "boot-2", areas=("b1/f4/r7",))
    rig.do(NodeJoined("link-2", moved), 1.1)
    assert rig.results[0].missing == (m.Missing("b1/f4/r1", "node_down"),)
    assert len(rig.dispatched) == 1


def test_the_stopwatch_times_evaluation_and_aggregation_but_t_0_is_when_the_task_came():
    times = iter([1.25, 1.75])
    rig = TaskRig(stopwatch=lambda: next(times))
    rig.join("n1")
    rig.ask(1, ("b1/f4/r1",), now=1.0)
    rig.answer(found(rig.dispatched[0][1].id), "n1", now=1.5)
    task_record, subtask = rig.records
    assert (subtask.enqueued_ms, subtask.dispatched_ms, subtask.result_ms) == (250, 250, 500)
    assert subtask.deadline_ms == pytest.approx(task_record.queueing_budget_ms)
    assert (task_record.evaluated_ms, task_record.aggregated_ms) == (250, 750)
    assert rig.results[0].total_ms == 750


def test_the_stopwatch_decides_nothing():
    """Whatever it says, the same subtasks leave in the same order, by the same deadlines."""
    told = []
    for stopwatch in (None, random.Random(1).random):
        rig = TaskRig(policy="sanderling", stopwatch=stopwatch)
        rig.join("n1")
        draw = random.Random(2)
        now = 1.0
        for number in range(200):
            now += draw.random() * 0.05
            rig.ask(number, ("b1/f4/r1",), now=now, budget_ms=draw.uniform(1, 900))
            if number % 3:
                [sent] = rig.dispatched[-1:]
                rig.answer(found(sent[1].id), "n1", now=now)
        deadlines = [
            (record.unloaded_ms, record.queueing_budget_ms)
            for record in rig.records
            if isinstance(record, TaskRecord)
        ]
        told.append((rig.dispatched, deadlines, rig.scheduler.counters))
    assert told[0] == told[1]


def test_an_area_named_twice_in_a_hello_counts_once(rig):
    rig.do(NodeJoined("link-n1", hello("n1", "boot-n1", areas=("b1/x", "b1/x"))), 0.0)
    rig.ask(1, ("b1",), now=1.0)
    rig.answer(found(rig.dispatched[0][1].id), "n1", now=1.1)
    [result] = rig.results[0].results
    assert result.aggregate.channels["temperature"].count == 1


def test_only_the_form_asked_for_goes_on(rig):
    rig.join("n1")
    rig.ask(1, ("b1/f4/r1",), now=1.0)
    both = nm.SubtaskResult(
        rig.dispatched[0][1].id, "ok", 0, 0, SAMPLES["subtask_result"].series, aggregate(1.0)
    )
    rig.answer(both, "n1", now=1.1)
    assert rig.results[0].results == (m.AreaResult("b1/f4/r1", aggregate=aggregate(1.0)),)


def test_more_open_tasks_than_memory_should_hold_are_refused(monkeypatch):
    monkeypatch.setattr("agent.scheduling.tasks.scheduler.MAX_OPEN_AREAS", 4 * LEAST_AREAS)
    rig = TaskRig()
    rig.join("n1")
    for number in range(3):
        rig.ask(number, ("b1/f4/r1",), now=1.0)
    assert [(r.id, r.reason) for r in rig.results] == [("t2", "overloaded")]


def test_a_node_that_changes_its_areas_all_the_time_is_held_back(rig):
    rig.join("n1")
    rig.join("n1", now=0.5, areas=("b2",), incarnation="again")  # started with another file
    assert isinstance(rig.replies[-1][1], nm.Welcome)
    for now in (0.5, 1.0, 1.49):
        rig.join("n1", now=now, areas=(f"b3/{now}",), incarnation="again")
        assert "changed less than 1 s ago" in rig.replies[-1][1].message
        rig.join("n1", now=now, areas=("b2",), incarnation=f"again-{now}")
        assert isinstance(rig.replies[-1][1], nm.Welcome)
        rig.join("n2", now=now, areas=(f"b4/{int(now)}",))  # others are not held back
    assert rig.scheduler.node_statuses()[0].areas == ("b2",)
    rig.join("n1", now=1.5, areas=("b3/r1",), incarnation="again")
    assert isinstance(rig.replies[-1][1], nm.Welcome)


def test_nodes_that_are_gone_make_room_for_others_the_first_of_them_first(rig, monkeypatch):
    membership = "agent.scheduling.tasks.node_membership"
    monkeypatch.setattr(f"{membership}.MAX_NODES", 3)
    monkeypatch.setattr(f"{membership}.FORGOTTEN", 1)
    areas = {"n1": "b1/f4/r1", "n2": "b1/f4/r2", "n3": "b1/f4/r3", "n4": "b1/f4/r4"}
    for node in ("n1", "n2", "n3"):
        rig.join(node, areas=(areas[node],))
    rig.estimator.observe(1, 0.7, 0.1)
    rig.estimator.observe_size(1, 1.0, 0.7)
    for node in ("n2", "n1"):
        rig.do(NodeLeft(f"link-{node}", f"boot-{node}"), 0.5)
    rig.join("n4", areas=(areas["n4"],), now=1.0)
    assert isinstance(rig.replies[-1][1], nm.Welcome)
    assert [each.node for each in rig.scheduler.node_statuses()] == ["n1", "n3", "n4"]
    assert rig.estimator.samples(1) == 0  # the column is the newcomer's
    assert rig.estimator.expected_s(1, 1.0) < 0.7
    rig.ask(1, ("b1",), now=1.1)
    assert {peer for peer, _ in rig.dispatched} == {"link-n3", "link-n4"}
    assert rig.scheduler.node_statuses()[0].state == "left"
    # One that comes back is the last to go.
    rig.join("n1", areas=(areas["n1"],), now=1.2, incarnation="again")
    rig.join("n2", areas=(areas["n2"],), now=1.3, incarnation="again")
    assert isinstance(rig.replies[-1][1], nm.Rejected)


def test_a_lost_node_is_forgotten_once_nobody_waits_for_its_answer(rig, monkeypatch):
    membership = "agent.scheduling.tasks.node_membership"
    monkeypatch.setattr(f"{membership}.MAX_NODES", 2)
    monkeypatch.setattr(f"{membership}.FORGOTTEN", 1)
    rig.join("n1", areas=("b1/f4/r1",))
    rig.ask(1, ("b1/f4/r1",), now=0.1, timeout_ms=100_000.0)
    rig.do(Tick(), 60.0)
    assert rig.scheduler.node_statuses()[0].state == "lost"
    rig.join("n2", areas=("b1/f4/r2",), now=60.0)
    rig.do(NodeLeft("link-n2", "boot-n2"), 61.0)
    # It is the first that is gone, and does not stand in the way of the second.
    rig.join("n3", areas=("b1/f4/r3",), now=62.0)
    assert [each.node for each in rig.scheduler.node_statuses()] == ["n1", "n3"]
    rig.do(Tick(), 200.0)
    assert len(rig.results) == 1
    rig.join("n4", areas=("b1/f4/r4",), now=200.0)
    assert [each.node for each in rig.scheduler.node_statuses()] == ["n3", "n4"]


def test_more_nodes_than_memory_should_hold_are_rejected(rig, monkeypatch):
    monkeypatch.setattr("agent.scheduling.tasks.node_membership.MAX_NODES", 1)
    rig.join("n1")
    rig.join("n2")
    assert isinstance(rig.replies[-1][1], nm.Rejected)
    rig.join("n1")
    assert isinstance(rig.replies[-1][1], nm.Welcome)
