"""What would be kept instead of an infeasible SLO, from the response times that were measured."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET
from msgspec.structs import replace

from agent.scheduling.events import TaskReturned
from agent.scheduling.queries.infeasible import PERCENTILES, in_words, instead
from agent.scheduling.tasks.deadlines import DeadlineEstimator
from agent.scheduling.tasks.planner import INFEASIBLE
from agent.wire.market import Member
from agent.wire.messages import Budget, Slo, TaskResult
from fleet.terminal.units import parse_slo
from tests.scheduling.rigs import QueryRig, TaskRig

NOW = 1.0
ROOM = "b1/f4/r1"


def measured(rig, column=0, slow=5):
    """A node that answers in 100 ms, and of a hundred requests some in 700 ms."""
    for number in range(400):
        rig.estimator.observe(column, 0.7 if number % 100 < slow else 0.1, NOW)


def refusal(*budgets):
    would_keep = tuple(Budget(*each) for each in budgets) or UNSET
    return TaskResult("t", "refused", 1.0, reason="infeasible", would_keep=would_keep)


def test_a_task_says_what_idle_nodes_would_keep():
    rig = TaskRig()
    rig.join("n1", areas=(ROOM,))
    measured(rig)
    rig.ask(1, (ROOM,), now=NOW, percentile=99.0, budget_ms=500.0)
    [result] = rig.results
    assert (result.reason, result.message) == ("infeasible", INFEASIBLE)
    longer, milder = result.would_keep
    assert longer.percentile == 99.0
    assert longer.budget_ms == pytest.approx(700.0, rel=0.05)
    assert milder.budget_ms == 500.0
    assert 90.0 < milder.percentile <= 95.5


def test_each_of_them_is_served():
    rig = TaskRig()
    rig.join("n1", areas=(ROOM,))
    measured(rig)
    rig.ask(1, (ROOM,), now=NOW, percentile=99.0, budget_ms=500.0)
    for number, each in enumerate(rig.results[0].would_keep, 2):
        budget = {"percentile": each.percentile, "budget_ms": each.budget_ms * 1.001}
        rig.ask(number, (ROOM,), now=NOW, **budget)
    assert [result.status for result in rig.results] == ["refused"]


def test_where_no_percentile_is_within_the_time_only_more_time_helps():
    estimator = DeadlineEstimator()
    column = estimator.add_node()
    for _ in range(400):
        estimator.observe(column, 0.1, NOW)
    [longer] = estimator.would_keep([column], 99.0, 0.001, NOW)
    assert longer.budget_ms == pytest.approx(100.0, rel=0.05)


def two_iads():
    return QueryRig(
        (
            Member("iad1", "tcp://127.0.0.1:1", ("b1/f1",)),
            Member("iad2", "tcp://127.0.0.1:2", ("b1/f2",)),
        )
    )


def test_a_query_is_told_in_its_own_percentiles():
    """Of two IADs each keeps the root of the query's: 0.975 of a task are 0.95 of a query."""
    rig = two_iads()
    rig.ask("b1")
    (iad, task), _ = rig.tasks
    assert task.percentile == pytest.approx(99.499, abs=0.001)
    told = refusal((task.percentile, 745.0), (97.5, 500.0))
    rig.do(TaskReturned(iad, replace(told, id=task.id)), NOW)
    [answer] = rig.answers
    assert (answer.status, answer.reason) == ("refused", "infeasible")
    assert answer.message == (
        "p99=500ms cannot be kept: lately even idle nodes took longer; p99=820ms can, p95=500ms can"
    )


def test_the_slowest_of_those_that_refused_counts():
    slo = Slo(99.0, 500.0)
    told = [refusal((99.0, 600.0), (96.0, 500.0)), refusal((99.0, 900.0), (92.0, 500.0))]
    assert instead(slo, 99.0, told).endswith("; p99=990ms can, p90=500ms can")
    told.append(refusal((99.0, 600.0)))
    assert instead(slo, 99.0, told).endswith("took longer; p99=990ms can")


def test_an_iad_of_an_earlier_version_leaves_its_own_words():
    assert instead(Slo(99.0, 500.0), 99.0, [refusal()]) == ""
    rig = two_iads()
    rig.ask("b1")
    rig.give(*rig.tasks[0], now=NOW, status="refused", areas=())
    assert rig.answers[0].message == "iad1 refuses"


@pytest.mark.parametrize(
    ("number", "message"), [(0, "iad1 refuses: no more today"), (1, "no more today")]
)
def test_a_refusal_of_another_iad_names_it(number, message):
    """One of a pool that refuses all refuses each query for its areas: who, is to be seen."""
    rig = two_iads()
    rig.ask("b1")
    iad, task = rig.tasks[number]
    said = TaskResult(task.id, "refused", 1.0, reason="over_rate", message="no more today")
    rig.do(TaskReturned(iad, said), NOW)
    [answer] = rig.answers
    assert (answer.reason, answer.message) == ("over_rate", message)


@given(
    st.floats(0.01, 99.9999),
    st.floats(0.05, 3_600_000.0),
    st.floats(0.05, 3_600_000.0),
    st.floats(0.001, 99.9999),
    st.integers(1, 64),
)
def test_whatever_is_measured_the_words_can_be_typed(percentile, latency_ms, needed, reached, k):
    slo = Slo(percentile, latency_ms)
    root = 100.0 * (percentile / 100.0) ** (1 / k)
    text = instead(slo, root, [refusal((root, needed), (min(reached, root), latency_ms))])
    _, *others = text.partition("; ")[2].replace(",", "").replace(" can", "").split() or [""]
    for each in others:
        found = parse_slo(each)
        assert found.percentile in (*PERCENTILES, pytest.approx(percentile, abs=0.01))
        assert found.latency_ms >= min(latency_ms, needed) * 0.99


@pytest.mark.parametrize(
    ("percentile", "latency_ms", "text"),
    [(99.0, 820.0, "p99=820ms"), (99.9, 12_000.0, "p99.9=12s"), (50.0, 0.25, "p50=0.25ms")],
)
def test_an_objective_is_written_as_it_is_typed(percentile, latency_ms, text):
    assert in_words(percentile, latency_ms) == text
    found = parse_slo(text)
    assert (found.percentile, found.latency_ms) == (percentile, pytest.approx(latency_ms))
