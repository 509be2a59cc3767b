"""Results have a budget in bytes: what no message can hold is told, with what would fit."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from agent.scheduling import result_budget
from agent.scheduling.aggregation import merge_missing, merge_series
from agent.scheduling.events import NodeAlive, NodeJoined, QueryArrived, TaskArrived, TaskReturned
from agent.scheduling.result_budget import ResultBudget
from agent.scheduling.tasks.node_membership import LOST, MAX_DISPATCHES
from agent.wire import messages as m
from agent.wire import node_messages as nm
from agent.wire.codec import MAX_SUBTASK_SERIES_BYTES
from agent.wire.market import Member
from agent.wire.packed import Float32Column, Int64Column, UInt8Column, UInt32Column
from agent.wire.too_large import bytes_of, in_words
from tests.scheduling.oracle import hello, task
from tests.scheduling.rigs import QueryRig, TaskRig

DAY_S = 86_400.0


def series(readings, *channels, flagged=(), aged=False, replayed=False):
    return m.Series(
        Int64Column.of(range(readings)),
        {name: Float32Column.of([1.0] * readings) for name in channels},
        Int64Column.of(range(readings)) if replayed else None,
        {name: UInt8Column(bytes(readings)) for name in flagged},
        UInt32Column.of([0] * readings) if aged else None,
    )


def result_of(subtask, readings):
    return nm.SubtaskResult(subtask.id, "ok", 0.0, 1.0, series(readings, "temperature"))


def too_large_of(subtask, found):
    text = in_words(found, MAX_SUBTASK_SERIES_BYTES)
    return nm.SubtaskResult(subtask.id, "error", 0.0, 1.0, message=text, too_large=found)


def asked(areas=("b1",), *, last_s=DAY_S, knows=True, number=1):
    window = m.Window(last_s=last_s)
    return replace(task(number, areas), window=window, form="series", takes_too_large=knows)


def rig_of(*nodes):
    rig = TaskRig()
    for node in nodes:
        rig.join(node)
    return rig


# --- the count -----------------------------------------------------------------------------------

SERIES = st.builds(
    series,
    st.integers(1, 20),
    st.sampled_from("abc"),
    st.sampled_from("cd"),
    flagged=st.sampled_from([(), ("c",), ("d", "c")]),
    aged=st.booleans(),
    replayed=st.booleans(),
)


@given(st.lists(SERIES, min_size=1, max_size=4), SERIES)
def test_what_several_sources_have_counts_as_large_as_it_is_when_it_is_merged(parts, elsewhere):
    room = ResultBudget(1 << 20)
    merged = parts[0]
    assert room.takes("a", merged)
    for part in parts[1:]:
        assert room.takes("a", part)
        merged = merge_series(merged, part)
    assert room.takes("b", elsewhere)
    assert room.taken == bytes_of(merged) + bytes_of(elsewhere)


def test_what_does_not_fit_is_not_counted_as_taken():
    room = ResultBudget(1_200)
    assert room.takes("a", series(50, "x"))
    assert not room.takes("b", series(60, "x"))
    assert (room.taken, room.refused) == (600, 720)
    assert room.takes("c", series(50, "x"))
    assert room.told(100.0, 3, 3) == nm.TooLarge(1_920, 62.0)


# --- a node's result -----------------------------------------------------------------------------


@pytest.mark.parametrize("knows", [True, False])
def test_a_node_that_has_too_much_is_told_with_what_fits(knows):
    rig = rig_of("n1", "n2")
    rig.do(TaskArrived("client", asked(knows=knows)), 1.0)
    [(_, first), (_, second)] = rig.dispatched
    found = nm.TooLarge(24_883_200, 172_800.0)
    rig.answer(too_large_of(first, found), "n1", 1.1)
    rig.answer(result_of(second, 10), "n2", 1.2)
    [result] = rig.results
    assert result.status == "partial"
    [gap] = result.missing
    assert (gap.area, gap.longest_s) == ("b1/f4/r1", 172_800.0)
    assert gap.message == (
        "25 MB of readings, at most 17 MB fit: ask for at most 48 h of it, fewer channels or"
        " areas, or aggregates"
    )
    # A master or client of an earlier version could not read a reason that it does not know.
    assert gap.reason == ("too_large" if knows else "node_error")
    assert [r.area for r in result.results] == ["b1/f4/r2"]
    assert "too_large" in [getattr(record, "outcome", "") for record in rig.records]


def test_what_another_node_has_of_the_area_does_not_pass_for_all_of_it():
    rig = rig_of("n2", "n3")
    rig.do(TaskArrived("client", asked(("b1/f4/r2",))), 1.0)
    [(_, first), (_, second)] = rig.dispatched
    rig.answer(too_large_of(first, nm.TooLarge(24_883_200, 172_800.0)), "n2", 1.1)
    rig.answer(result_of(second, 10), "n3", 1.2)
    [result] = rig.results
    assert result.results == ()
    assert [(gap.area, gap.reason) for gap in result.missing] == [("b1/f4/r2", "too_large")]


def test_of_two_that_have_too_much_the_shorter_window_is_told():
    gaps = [m.Missing("a", "too_large", longest_s=each) for each in (7.0, 5.0, 6.0)]
    [gap] = merge_missing(gaps, [])
    assert gap.longest_s == 5.0


# --- a task's result -----------------------------------------------------------------------------


def test_a_task_stops_where_its_result_is_full(monkeypatch):
    """Three nodes of one pod each, and n1 is asked by three tasks: what waits in its queue for a
    task that is full is not read."""
    monkeypatch.setattr(result_budget.ResultBudget.__init__, "__defaults__", (1_500,))
    rig = rig_of("n1", "n2", "n3")
    rig.do(TaskArrived("other", asked(("b1/f4/r1",), number=8)), 0.5)
    [(_, busy)] = rig.dispatched
    rig.dispatched.clear()
    rig.do(TaskArrived("client", asked()), 1.0)
    [(_, second), (_, third)] = rig.dispatched
    rig.answer(result_of(second, 100), "n2", 1.1)
    assert rig.results == []
    rig.answer(result_of(third, 100), "n3", 1.2)
    [result] = rig.results
    assert result.status == "partial"
    assert {gap.reason for gap in result.missing} == {"too_large"}
    assert {gap.area for gap in result.missing} == {"b1/f4/r1", "b1/f4/r2", "b1/f5/r9"}
    assert result.missing[0].longest_s is not None
    rig.dispatched.clear()
    rig.answer(result_of(busy, 10), "n1", 1.3)
    assert rig.dispatched == []
    assert rig.results[-1].status == "complete"


# --- an answer -----------------------------------------------------------------------------------


@pytest.mark.parametrize("knows", [True, False])
def test_an_answer_holds_what_fits_and_tells_of_the_rest(monkeypatch, knows):
    monkeypatch.setattr(result_budget.ResultBudget.__init__, "__defaults__", (1_500,))
    rig = QueryRig([Member("iad1", "inproc://1", ("b1",)), Member("iad3", "inproc://3", ("b2",))])
    window, slo = m.Window(last_s=DAY_S), m.Slo(99.0, 500.0)
    query = m.Query("q", ("b1", "b2"), window, slo, takes_too_large=knows)
    rig.do(QueryArrived("client", query), 0.0)
    assert all(each.takes_too_large for _, each in rig.tasks)
    for iad, each in rig.tasks:
        area = m.AreaResult(each.areas[0], series(100, "temperature"))
        rig.do(TaskReturned(iad, m.TaskResult(each.id, "complete", 1.0, (area,))), 0.1)
    [answer] = rig.answers
    assert (answer.status, answer.slo_met) == ("partial", False)
    assert (answer.coverage.answered, answer.coverage.asked) == (1, 2)
    [gap] = answer.missing
    assert gap.reason == ("too_large" if knows else "node_error")
    # 2,400 bytes of a day, and 1,500 fit.
    assert gap.longest_s == 15 * 3_600
    assert "at most 15 h of it" in gap.message


def answer_of(members, arrivals):
    """The answer to a query of one area of each of these IADs, whose results come in that order:
    of each the readings of each of its areas."""
    areas = {iad: tuple(f"b{number}/r{k}" for k in range(8)) for number, iad in enumerate(members)}
    rig = QueryRig([Member(iad, f"inproc://{iad}", areas[iad]) for iad in members])
    asked = tuple(area for iad, count in arrivals for area in areas[iad][:1])
    query = m.Query("q", asked, m.Window(last_s=DAY_S), m.Slo(99.0, 500.0), takes_too_large=True)
    rig.do(QueryArrived("client", query), 0.0)
    tasks = dict(rig.tasks)
    for iad, readings in arrivals:
        (area,) = tasks[iad].areas
        result = m.AreaResult(area, series(readings, "temperature"))
        reply = m.TaskResult(tasks[iad].id, "complete", 1.0, (result,))
        rig.do(TaskReturned(iad, reply), 0.1)
        rig.scheduler.check_invariants()
    [answer] = rig.answers
    return answer


@pytest.mark.parametrize("first", ["iad2", "iad0"])
def test_an_iad_that_sends_much_takes_no_place_of_the_others(monkeypatch, first):
    """Readings have 12 bytes: iad0 alone would fill the answer."""
    monkeypatch.setattr(result_budget.ResultBudget.__init__, "__defaults__", (1_500,))
    sizes = {"iad0": 120, "iad1": 20, "iad2": 30}
    order = sorted(sizes, key=lambda iad: iad != first)
    answer = answer_of(list(sizes), [(iad, sizes[iad]) for iad in order])
    assert [each.area for each in answer.results] == ["b1/r0", "b2/r0"]
    [gap] = answer.missing
    assert (gap.area, gap.reason) == ("b0/r0", "too_large")
    assert "fit: ask for at most" in gap.message


@given(st.permutations([(f"iad{k}", 10 + k * 7) for k in range(8)]), st.integers(100, 5_000))
def test_nothing_is_left_out_that_would_fit(arrivals, most):
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(result_budget.ResultBudget.__init__, "__defaults__", (most,))
        answer = answer_of([iad for iad, _ in sorted(arrivals)], arrivals)
    kept = [len(each.series.time_ms) for each in answer.results]
    assert sum(kept) * 12 <= most
    left_out = [readings for _, readings in arrivals if readings not in kept]
    assert len(answer.missing) == len(left_out)
    assert not left_out or (sum(kept) + min(left_out)) * 12 > most


# --- connections that are lost -------------------------------------------------------------------


def test_a_subtask_whose_connection_is_cut_again_and_again_is_given_up():
    rig = rig_of("n1")
    rig.do(TaskArrived("client", asked()), 1.0)
    for cut in range(MAX_DISPATCHES):
        assert len(rig.dispatched) == cut + 1
        assert rig.results == []
        rig.do(NodeJoined(f"again-{cut}", hello("n1", "boot-n1")), 2.0 + cut)
    assert len(rig.dispatched) == MAX_DISPATCHES
    [result] = rig.results
    [gap] = result.missing
    assert (gap.reason, gap.message) == ("node_error", LOST)
    # The node is there for the next one.
    rig.do(TaskArrived("client", asked(number=2)), 9.0)
    assert len(rig.dispatched) == MAX_DISPATCHES + 1


def test_a_result_that_never_leaves_the_node_is_not_asked_for_ever_either():
    """The socket does not take it, and the heartbeats go on."""
    rig = rig_of("n1")
    rig.do(TaskArrived("client", asked()), 1.0)
    for beat in range(2 * MAX_DISPATCHES):
        rig.do(NodeAlive("link-n1", "boot-n1", ()), 2.0 + beat)
    assert len(rig.dispatched) == MAX_DISPATCHES
    assert rig.results[0].missing[0].message == LOST
