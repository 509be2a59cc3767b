"""Tasks, case by case: what is asked of nodes, answered, refused, measured."""

import random

import pytest

from agent.runtime.state_machine import InvalidTransition
from agent.scheduling.events import NodeLeft, PolicyChanged, SubtaskReturned, Tick
from agent.scheduling.shared_budget import LEAST_AREAS, Holding, SharedBudget
from agent.scheduling.tasks.entry import TaskEntry
from agent.wire import messages as m
from agent.wire import node_messages as nm
from agent.wire.records import SubtaskRecord, TaskRecord
from tests.scheduling import rigs
from tests.scheduling.oracle import aggregate, found, task
from tests.scheduling.rigs import TaskRig
from tests.wire.samples import SAMPLES

rig = rigs.rig


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
    rig = TaskRig(wall_offset=lambda: 1_000.0)
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


def test_an_arrow_that_the_table_lacks_raises_with_the_item():
    entry = TaskEntry(
        task(1), "client", "iad2", "edfq", 0.0, *(2 * [Holding(SharedBudget(), "client")])
    )
    entry.become("open")
    with pytest.raises(InvalidTransition, match="open → open is not allowed for <task t1 open"):
        entry.become("open")
