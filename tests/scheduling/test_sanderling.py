"""The policy `sanderling`, case by case: what is hopeless waits; classes are balanced."""

import pytest
from msgspec.structs import replace

from agent.scheduling.events import ANYONE, PolicyChanged, QueryArrived, TaskArrived, Tick
from agent.scheduling.queries.classes import QueryClasses
from agent.wire import messages as m
from agent.wire.base import MAX_TIMEOUT_MS
from agent.wire.market import Member
from agent.wire.records import SubtaskRecord
from tests.scheduling.oracle import found, task
from tests.scheduling.rigs import QueryRig, TaskRig

ROOM = ("b1/f4/r1",)


@pytest.fixture
def rig():
    # Nothing was measured yet: a subtask is expected to take 100 ms.
    rig = TaskRig(policy="sanderling")
    yield rig
    rig.scheduler.check_invariants()


def served(rig, now, count):
    """Let the node answer until `count` tasks more have ended; their order."""
    before = len(rig.results)
    for _ in range(count):
        rig.answer(found(rig.dispatched[-1][1].id), "n1", now=now)
    return [result.id for result in rig.results[before:]]


def demoted(rig):
    return {r.task for r in rig.records if isinstance(r, SubtaskRecord) and r.demoted}


def test_what_can_hardly_end_in_time_waits_until_nothing_else_does(rig):
    rig.join("n1")
    rig.ask(1, ROOM, now=1.0, budget_ms=1_000)
    rig.ask(2, ROOM, now=1.0, budget_ms=500)
    rig.ask(3, ROOM, now=1.0, budget_ms=550)
    rig.ask(4, ROOM, now=1.0, budget_ms=1_000)
    # At 1.4 tasks 2 and 3 have 100 and 150 ms left: the one is at its limit, the other is not.
    assert served(rig, 1.401, 1) == ["t1"]
    assert served(rig, 1.41, 3) == ["t3", "t4", "t2"]
    assert demoted(rig) == {"t2"}
    assert rig.scheduler.counters["subtasks_demoted"] == 1


def test_under_other_policies_nothing_is_demoted():
    rig = TaskRig(policy="tedfq")
    rig.join("n1")
    rig.ask(1, ROOM, now=1.0, budget_ms=1_000)
    rig.ask(2, ROOM, now=1.0, budget_ms=500)
    rig.ask(3, ROOM, now=1.0, budget_ms=1_000)
    assert served(rig, 1.45, 3) == ["t1", "t2", "t3"]
    assert demoted(rig) == set()


def test_late_at_one_node_is_late_at_all(rig):
    rig.join("n1")
    rig.join("n2")
    rig.ask(1, ("b1/f4",), now=1.0, budget_ms=2_000)
    rig.ask(2, ("b1/f4",), now=1.0, budget_ms=1_000)
    rig.ask(3, ("b1/f4",), now=1.0, budget_ms=2_000)
    one, two = (subtask.id for _, subtask in rig.dispatched)
    rig.answer(found(one), "n1", now=1.95)
    assert rig.dispatched[-1][1].window.last_s == 3.0, "task 2 has 50 ms left, and waits"
    rig.answer(found(two), "n2", now=1.96)
    assert rig.dispatched[-1][1].window.last_s == 3.0
    assert rig.scheduler.counters["subtasks_demoted"] == 2


def test_a_hopeless_subtask_alone_is_served_at_once(rig):
    rig.join("n1")
    rig.ask(1, ROOM, now=1.0, budget_ms=50)
    assert len(rig.dispatched) == 1
    assert served(rig, 1.2, 1) == ["t1"]
    assert demoted(rig) == {"t1"}


def test_what_a_window_is_expected_to_take_is_learnt(rig):
    rig.join("n1")
    for number in range(1, 401):
        # The window of task n is n seconds long here, and takes n milliseconds.
        rig.ask(number, ROOM, now=float(number), budget_ms=900)
        rig.answer(found(rig.dispatched[-1][1].id), "n1", now=number + number / 1e3)
    rig.ask(500, ROOM, now=1_000.0, budget_ms=900)
    rig.ask(390, ROOM, now=1_000.0, budget_ms=700)
    rig.ask(20, ROOM, now=1_000.0, budget_ms=700)
    rig.answer(found(rig.dispatched[-1][1].id), "n1", now=1_000.4)
    assert rig.dispatched[-1][1].window.last_s == 20.0, "20 ms fit into 300, 390 do not"


def test_one_endless_window_does_not_hide_what_others_take(rig):
    rig.join("n1")
    for number in range(1, 3_001):
        took_s = 0.4 if number % 2 else 0.1
        if number == 300:
            window = m.Window(start_ms=0, end_ms=2**53 - 1)
        else:
            # An hour and a half takes 400 ms, half an hour 100.
            window = m.Window(last_s=5_400.0 if number % 2 else 1_800.0)
        rig.do(TaskArrived("client", replace(task(number, ROOM), window=window), ANYONE), number)
        rig.answer(found(rig.dispatched[-1][1].id), "n1", now=number + took_s)
    assert rig.estimator.expected_s(0, 5_400.0) - rig.estimator.expected_s(0, 1_800.0) > 0.2


def test_a_demoted_subtask_times_out_and_is_cancelled_like_any_other(rig):
    rig.join("n1")
    rig.ask(1, ROOM, now=1.0, budget_ms=1_000, timeout_ms=10_000)
    rig.ask(2, ROOM, now=1.0, budget_ms=200, timeout_ms=800)
    rig.ask(3, ROOM, now=1.0, budget_ms=1_000, timeout_ms=10_000)
    served(rig, 1.3, 1)
    assert rig.scheduler.counters["subtasks_demoted"] == 1
    rig.do(Tick(), 1.8)
    [late] = [result for result in rig.results if result.status == "partial"]
    assert late.id == "t2"
    assert demoted(rig) == {"t2"}


def test_another_policy_takes_what_was_demoted_back_into_its_order(rig):
    rig.join("n1")
    rig.ask(1, ROOM, now=1.0, budget_ms=1_000)
    rig.ask(2, ROOM, now=1.0, budget_ms=200)
    rig.ask(3, ROOM, now=1.0, budget_ms=1_000)
    rig.ask(4, ROOM, now=1.0, budget_ms=1_000)
    served(rig, 1.3, 1)
    rig.do(PolicyChanged("edfq"), 1.3)
    assert served(rig, 1.3, 3) == ["t3", "t2", "t4"]
    assert demoted(rig) == set()


def test_an_advance_is_taken_off_the_key_and_limited_to_half_the_budget(rig):
    rig.join("n1")
    rig.ask(1, ROOM, now=1.0, budget_ms=900)
    rig.ask(2, ROOM, now=1.0, budget_ms=1_000, advance_ms=300.0)
    rig.ask(3, ROOM, now=1.0, budget_ms=600)
    rig.ask(4, ROOM, now=1.0, budget_ms=1_400, advance_ms=1e9)
    rig.ask(5, ROOM, now=1.0, budget_ms=550, advance_ms=-1e9)
    # Keys after 1.0: 2 at 700, 3 at 600, 4 at 700 too and later, 5 at 825.
    assert served(rig, 1.05, 5) == ["t1", "t3", "t2", "t4", "t5"]


# --- at the query scheduler -----------------------------------------------------------------------


def query(slo_ms, service="default"):
    return m.Query("q", ("b1",), m.Window(last_s=1.0), m.Slo(99.0, slo_ms), service=service)


def test_a_class_that_misses_is_advanced_at_the_cost_of_the_others():
    classes = QueryClasses()
    tight, loose = query(500.0), query(2_000.0)
    for _ in range(10):
        assert classes.advance_ms(tight) == classes.advance_ms(loose) == 0.0
        classes.ended(tight, missed=False)
        classes.ended(loose, missed=False)
    classes.ended(tight, missed=True)
    assert classes.advance_ms(tight) > 0.0 > classes.advance_ms(loose)
    assert classes.advance_ms(query(500.0, "other")) == 0.0


@pytest.mark.parametrize("percentile", [0.001, 99.9999])
@pytest.mark.parametrize("slo_ms", [5e-324, MAX_TIMEOUT_MS])
def test_whatever_a_query_may_ask_for_is_a_class(percentile, slo_ms):
    classes = QueryClasses()
    asked = replace(query(500.0), slo=m.Slo(percentile, slo_ms))
    for kind in (asked, query(500.0)) * 3:
        assert abs(classes.advance_ms(kind)) <= max(kind.slo.latency_ms, 1e-6)
        classes.ended(kind, missed=True)


def test_the_class_that_was_silent_for_longest_makes_room():
    classes = QueryClasses()
    kinds = [query(100.0 + n) for n in range(65)]
    for kind in kinds[:64]:
        classes.advance_ms(kind)
    for kind in kinds[:64]:
        classes.ended(kind, missed=False)
    classes.ended(kinds[0], missed=True)
    learnt = classes.advance_ms(kinds[0])
    assert learnt > 0.0
    classes.advance_ms(kinds[64])
    classes.ended(kinds[1], missed=True)
    assert classes.advance_ms(kinds[0]) == learnt, "it was asked for after kinds[1]"
    assert classes.advance_ms(kinds[1]) == 0.0, "begun anew"


@pytest.mark.parametrize(
    ("reason", "took_s", "moves"),
    [
        ("timeout", 0.7, True),
        ("no_data", 0.7, True),
        ("no_node", 0.1, False),
        ("node_error", 0.1, False),
        ("node_down", 0.7, False),
    ],
)
def test_what_no_order_of_queues_could_have_kept_is_no_miss(reason, took_s, moves):
    rig = QueryRig((Member("iad1", "inproc://1", ("b1",)),), iad="iad9")
    for number, slo_ms in enumerate((500.0, 2_000.0, 500.0, 500.0)):
        asked = m.Query(f"q{number}", ("b1", "b2"), m.Window(last_s=1.0), m.Slo(99.0, slo_ms))
        rig.do(QueryArrived("client", asked, ANYONE), number)
        gaps = (m.Missing("b1/f4", reason),) if number == 2 else ()
        late_s = took_s if number == 2 else 0.1
        rig.give("iad1", rig.tasks[-1][1], number + late_s, missing=gaps, areas=("b1/f5",))
    assert {answer.status for answer in rig.answers} == {"partial"}, "nobody has b2"
    assert (rig.tasks[-1][1].advance_ms > 0.0) == moves


def test_tasks_carry_the_advance_of_their_class():
    rig = QueryRig((Member("iad1", "inproc://1", ("b1",)),), iad="iad9")

    def ask(number, slo_ms, now, took_s):
        asked = m.Query(f"q{number}", ("b1",), m.Window(last_s=1.0), m.Slo(99.0, slo_ms))
        rig.do(QueryArrived("client", asked, ANYONE), now)
        task = rig.tasks[-1][1]
        rig.give("iad1", task, now + took_s)
        return task.advance_ms

    assert ask(1, 500.0, 1.0, 0.1) == ask(2, 2_000.0, 2.0, 0.1) == 0.0
    assert ask(3, 500.0, 3.0, 0.7) == 0.0
    assert ask(4, 500.0, 4.0, 0.1) > 0.0 > ask(5, 2_000.0, 5.0, 0.1)
