"""What all answers of a master hold is bounded, with a share for each sender."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from agent.scheduling.events import QueryArrived, TaskArrived, TaskCancelled, TaskReturned, Tick
from agent.scheduling.shared_budget import FULL, LEAST_AREAS, Holding, SharedBudget
from agent.wire import messages as m
from agent.wire.about import About, ChannelInfo
from agent.wire.market import Member
from agent.wire.principals import Sender
from tests.scheduling.oracle import task
from tests.scheduling.rigs import QueryRig, TaskRig
from tests.scheduling.test_result_budget import result_of, series

SLOW, HONEST = Sender("client", "slow"), Sender("client", "honest")
# A reading of one channel, with its flag or without.
EXPECTED, TAKEN = 13, 12


def asked(number, last_s, areas=("b1",), form="series"):
    window = m.Window(last_s=last_s)
    return replace(task(number, areas), window=window, form=form, takes_too_large=True)


def rig_of(*nodes, most):
    budget = SharedBudget(most)
    rig = TaskRig(budget=budget)
    for node in nodes:
        rig.join(node)
    return rig, budget


def refusals(results):
    return [(each.id, each.reason, each.message) for each in results if each.status == "refused"]


# --- the shares ----------------------------------------------------------------------------------


def test_one_alone_has_half_and_each_greedy_one_leaves_as_much_to_the_next():
    budget = SharedBudget(1_000)
    for payer, share in (("a", 500), ("b", 250), ("c", 125)):
        assert not budget.has_room(payer, share + 1)
        assert budget.has_room(payer, share)
        budget.add(payer, share)
        assert not budget.has_room(payer, 1)
    budget.add("a", -500)
    assert budget.has_room("d", 312)


def test_what_was_let_go_of_is_looked_for_before_somebody_is_refused():
    budget = SharedBudget(100)
    budget.add("a", 100)
    assert not budget.has_room("b", 10)
    budget.collect = lambda: budget.add("a", -budget.held("a"))
    assert budget.has_room("b", 10)


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from("egr"), st.integers(0, 400))))
def test_what_comes_is_never_more_than_there_is_room_for(steps):
    budget = SharedBudget(1_000)
    holdings = {payer: Holding(budget, payer) for payer in "abcd"}
    for payer, step, size in steps:
        before = budget.total
        match step:
            case "e":
                holdings[payer].expect(size)
            case "g":
                if not holdings[payer].grow(size):
                    assert budget.total == before
            case "r":
                holdings[payer].release()
                assert budget.held(payer) == 0
        assert budget.total == sum(map(budget.held, holdings)) <= 1_000
    for holding in holdings.values():
        holding.release()
    assert budget.total == 0


# --- tasks ---------------------------------------------------------------------------------------


def test_beyond_its_share_a_sender_is_refused_at_once_and_another_is_served():
    rig, budget = rig_of("n1", most=400 * EXPECTED)
    for number in (1, 2, 3):
        rig.do(TaskArrived("c", asked(number, 100.0), client=SLOW), 1.0)
    assert refusals(rig.results) == [("t3", "overloaded", FULL)]
    rig.do(TaskArrived("c", asked(4, 50.0), client=HONEST), 1.0)
    assert len(rig.results) == 1
    rig.do(TaskArrived("c", asked(5, 1e6, form="aggregate"), client=SLOW), 1.0)
    assert len(rig.results) == 1
    [(_, first)] = rig.dispatched
    rig.answer(result_of(first, 100), "n1", 1.1)
    assert rig.results[-1].status == "complete"
    # Its result has left; and by now what a reading takes is known.
    assert budget.total == (100 + 50) * EXPECTED
    rig.do(TaskArrived("c", asked(6, 50.0), client=SLOW), 1.2)
    assert budget.total == (100 + 50) * EXPECTED + 50 * TAKEN


def test_what_is_gathered_counts_where_it_is_more_than_was_expected():
    """And the task that there is no room for goes from the queues."""
    rig, budget = rig_of("n1", "n2", "n3", most=400 * TAKEN)
    rig.do(TaskArrived("c", asked(1, 1.0), client=SLOW), 1.0)
    [first, second, third] = [subtask for _, subtask in rig.dispatched]
    rig.do(TaskArrived("c", asked(2, 1.0, ("b1/f4/r1",)), client=HONEST), 1.0)
    rig.answer(result_of(first, 150), "n1", 1.1)
    assert rig.results == []
    rig.answer(result_of(second, 100), "n2", 1.2)
    assert refusals(rig.results) == [("t1", "overloaded", FULL)]
    assert rig.scheduler.open_tasks == 1
    # What comes yet is nobody's.
    rig.answer(result_of(third, 100), "n3", 1.3)
    rig.answer(result_of(rig.dispatched[-1][1], 100), "n1", 1.4)
    assert [each.status for each in rig.results] == ["refused", "complete"]
    assert budget.total == 0


def test_whoever_holds_nothing_is_not_refused_for_what_is_only_expected():
    rig, _ = rig_of("n1", most=400 * TAKEN)
    rig.do(TaskArrived("c", asked(1, 1e6), client=HONEST), 1.0)
    rig.answer(result_of(rig.dispatched[-1][1], 200), "n1", 1.1)
    assert [each.status for each in rig.results] == ["complete"]


@pytest.mark.parametrize("end", ["cancelled", "timeout"])
def test_a_task_that_ends_otherwise_holds_nothing(end):
    rig, budget = rig_of("n1", "n2", most=1 << 20)
    rig.do(TaskArrived("c", asked(1, 100.0), client=SLOW), 1.0)
    rig.answer(result_of(rig.dispatched[0][1], 100), "n1", 1.1)
    assert budget.total > 0
    if end == "cancelled":
        rig.do(TaskCancelled("c", "t1"), 1.2)
    else:
        rig.do(Tick(), 9.0)
    assert budget.total == 0


# --- queries -------------------------------------------------------------------------------------


def queries_of(most):
    members = [Member("iad1", "inproc://1", ("b1",)), Member("iad3", "inproc://3", ("b2",))]
    budget = SharedBudget(most)
    return QueryRig(members, budget=budget), budget


def query(name, *areas, form="series"):
    return m.Query(name, areas, m.Window(last_s=60.0), m.Slo(99.0, 500.0), form=form)


def come(rig, iad, each, readings):
    area = m.AreaResult(each.areas[0], series(readings, "temperature"))
    rig.do(TaskReturned(iad, m.TaskResult(each.id, "complete", 1.0, (area,))), 0.1)


def test_what_queries_gather_from_other_masters_counts_for_who_asked():
    rig, budget = queries_of(400 * TAKEN)
    rig.do(QueryArrived("c", query("q1", "b1", "b2"), SLOW), 0.0)
    (iad, first), (other, second) = rig.tasks
    come(rig, iad, first, 200)
    assert budget.held(("client", "slow")) == 200 * TAKEN
    # More of it is refused before anybody is asked; aggregates are not.
    rig.do(QueryArrived("c", query("q2", "b1"), SLOW), 0.0)
    rig.do(QueryArrived("c", query("q3", "b1", form="aggregate"), SLOW), 0.0)
    [answer] = rig.answers
    assert (answer.id, answer.status, answer.reason) == ("q2", "refused", "overloaded")
    assert answer.message == FULL
    rig.do(QueryArrived("c", query("q4", "b2"), HONEST), 0.0)
    come(rig, *rig.tasks[-1], 100)
    assert rig.answers[-1].status == "complete"
    come(rig, other, second, 1)
    assert (rig.answers[-1].id, rig.answers[-1].reason) == ("q1", "overloaded")
    assert budget.total == 0


def test_what_waits_for_its_reader_counts_for_it():
    rig, budget = queries_of(400 * TAKEN)
    budget.add(("client", "slow"), 300 * TAKEN)
    rig.do(QueryArrived("c", query("q1", "b1"), SLOW), 0.0)
    assert rig.answers[-1].reason == "overloaded"
    rig.do(QueryArrived("c", query("q2", "b1"), HONEST), 0.0)
    come(rig, *rig.tasks[-1], 50)
    assert rig.answers[-1].status == "complete"


def test_tasks_say_who_asks():
    rig, _ = queries_of(1 << 20)
    instructions = rig.do(QueryArrived("c", query("q1", "b1"), SLOW), 0.0)
    assert [i.client for i in instructions] == [SLOW]


# --- areas of what is open -----------------------------------------------------------------------

MANY = tuple(f"b1/q{n}" for n in range(1_024))


def test_who_waits_for_joining_nodes_with_very_many_areas_is_refused_and_others_are_served():
    """A master has just started: what waits is bounded in areas, of one sender to half of them."""
    rig = TaskRig(started_s=0.0)
    most = 500_000 // 2 // len(MANY)
    for number in range(most):
        rig.scheduler.handle(TaskArrived("c", asked(number, 1.0, MANY), client=SLOW), 0.1)
    assert rig.scheduler.open_tasks == most
    for number in (most, most + 1):
        rig.do(TaskArrived("c", asked(number, 1.0, MANY), client=SLOW), 0.1)
    assert {reason for _, reason, _ in refusals(rig.results)} == {"overloaded"}
    assert "too many areas" in rig.results[-1].message
    rig.do(TaskArrived("c", asked(most + 2, 1.0, MANY), client=HONEST), 0.1)
    assert rig.scheduler.open_tasks == most + 1
    rig.do(Tick(), 20.0)
    assert rig.scheduler.open_tasks == 0
    assert {each.status for each in rig.results} == {"refused", "partial"}


def test_open_queries_are_bounded_in_areas_too():
    rig, _ = queries_of(1 << 20)
    most = 500_000 // 2 // len(MANY)
    for number in range(most + 1):
        rig.scheduler.handle(QueryArrived("c", query(f"q{number}", *MANY), SLOW), 0.0)
    assert rig.scheduler.open_queries == most
    rig.do(QueryArrived("c", query("beyond", *MANY), SLOW), 0.0)
    assert (rig.answers[-1].id, rig.answers[-1].reason) == ("beyond", "overloaded")
    rig.do(QueryArrived("c", query("few", "b1"), HONEST), 0.0)
    assert rig.scheduler.open_queries == most + 1
    rig.do(Tick(), 60.0)
    assert rig.scheduler.open_queries == 0


def test_who_opens_all_it_may_leaves_room_for_another(monkeypatch):
    """What is open may wait for an hour, if a node is silent."""
    for kind in ("queries", "tasks"):
        few = f"agent.scheduling.{kind}.scheduler.MAX_OPEN_AREAS"
        monkeypatch.setattr(few, 20 * LEAST_AREAS)
    queries, _ = queries_of(1 << 20)
    tasks = TaskRig()
    tasks.join("n1")
    for number, sender in enumerate([SLOW] * 15 + [HONEST] * 3):
        queries.do(QueryArrived("c", query(f"q{number}", "b1", form="aggregate"), sender), 0.0)
        tasks.do(TaskArrived("c", asked(number, 1.0), client=sender), 0.0)
    assert queries.scheduler.open_queries == tasks.scheduler.open_tasks == 10 + 3
    assert [a.reason for a in queries.answers] == ["overloaded"] * 5
    assert [r.reason for r in tasks.results] == ["overloaded"] * 5


@pytest.mark.parametrize(
    "result",
    [
        m.AreaResult("b1/r1", about=About((ChannelInfo("temperature", "celsius"),))),
        m.AreaResult("b1/r1", None, m.Aggregate(1, 2, {"temperature": m.ChannelAggregate(0)})),
    ],
)
def test_small_results_that_wait_for_a_silent_iad_count_too(result):
    pool = (Member("iad1", "", ("b1",)), Member("iad3", "", ("b3",)))
    budget = SharedBudget(100_000)
    rig = QueryRig(pool, budget=budget)
    form = "aggregate" if result.about is None else "about"
    rooms = tuple(replace(result, area=f"b1/r{n}") for n in range(20))

    def ask(sender):
        query = m.Query("q", ("b1", "b3"), m.Window(last_s=60), m.Slo(99.0, 500.0), form=form)
        rig.do(QueryArrived("c", query, sender), 1.0)
        mine = [task for iad, task in rig.tasks if iad == "iad1"][-1]
        rig.do(TaskReturned("iad1", m.TaskResult(mine.id, "complete", 1.0, rooms)), 1.0)

    for _ in range(100):
        ask(SLOW)
        assert budget.total <= 50_000
    refused = [(each.status, each.reason, each.message) for each in rig.answers]
    assert set(refused) == {("refused", "overloaded", FULL)}
    assert 85 < len(refused) < 99
    ask(HONEST)
    assert len(rig.answers) == len(refused)
    rig.do(Tick(), 100.0)
    assert budget.total == 0
    assert {each.status for each in rig.answers[len(refused) :]} == {"partial"}
