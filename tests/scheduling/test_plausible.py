"""What another IAD says of its areas, hostile or mistaken: it harms these only."""

import pytest
from msgspec.structs import replace

from agent.scheduling import result_budget
from agent.scheduling.events import TaskReturned
from agent.scheduling.queries import answers
from agent.scheduling.shared_budget import SharedBudget
from agent.scheduling.watches.rounds import aggregate_of
from agent.wire import messages as m
from agent.wire.about import About, ChannelInfo, Raised
from agent.wire.buckets import Buckets, ChannelBuckets
from agent.wire.codec import MESSAGEPACK, Decoder, encode
from agent.wire.market import Member
from agent.wire.packed import Float32Column, Int64Column, UInt32Column
from agent.wire.records import SubtaskRecord
from agent.wire.unions import ClientReply
from tests.scheduling.oracle import aggregate, found
from tests.scheduling.rigs import QueryRig, TaskRig

POOL = (
    Member("iad1", "tcp://127.0.0.1:1", ("b1/f1",)),
    Member("iad2", "tcp://127.0.0.1:2", ("b1/f1", "b1/f2")),
)


def series(*times_ms):
    return m.Series(Int64Column.of(times_ms), {"t": Float32Column.of([20.0] * len(times_ms))})


def about(raised, channels=1):
    return About(
        tuple([ChannelInfo(f"c{n}") for n in range(channels)]),
        tuple([Raised("hot", n, "x" * 512) for n in range(raised)]),
    )


IMPOSSIBLE = [
    {"series": series()},
    {"series": series(2**63 - 1)},
    {"series": series(0, -(2**63), 1)},
    {"series": replace(series(0, 1), source_time_ms=Int64Column.of([-(2**63), 1]))},
    {"aggregate": replace(aggregate(20.0), last_ms=2**53 - 1)},
    {"about": about(raised=65)},
    {"about": about(raised=0, channels=1_025)},
]


HONEST = {"series": series(0, 1), "aggregate": aggregate(21.0), "about": about(raised=64)}


@pytest.mark.parametrize("told", IMPOSSIBLE)
def test_a_result_of_another_iad_that_cannot_be_true_is_a_gap(told):
    rig = QueryRig(POOL)
    [form] = told
    rig.ask("b1", form=form)
    tasks = dict(rig.tasks)
    honest = {form: HONEST[form]}
    for iad, contents in (
        ("iad1", {"b1/f1/r1": told}),
        ("iad2", {"b1/f1/r1": honest, "b1/f2/r1": honest}),
    ):
        found = tuple([m.AreaResult(area, **content) for area, content in contents.items()])
        result = m.TaskResult(tasks[iad].id, "complete", 1.0, found)
        rig.do(TaskReturned(iad, result), 0.1)
    [answer] = rig.answers
    assert [each.area for each in answer.results] == ["b1/f1/r1", "b1/f2/r1"]
    for each in answer.results:
        assert {form: getattr(each, form)} == honest
    assert answer.status == "complete"
    assert Decoder(ClientReply).decode(encode(answer, MESSAGEPACK))[0] == answer


def test_an_area_that_only_such_an_iad_has_is_missing_with_the_reason():
    rig = QueryRig(POOL[:1])
    rig.ask("b1", form="series")
    [(_, task)] = rig.tasks
    found = (m.AreaResult("b1/f1/r1", series=series(0, 2**60, 1)),)
    rig.do(TaskReturned("iad1", m.TaskResult(task.id, "complete", 1.0, found)), 0.1)
    [answer] = rig.answers
    [gap] = answer.missing
    assert (gap.area, gap.reason, answer.status) == ("b1/f1/r1", "node_error", "partial")
    assert gap.message.startswith("a result of iad1 that cannot be true: 1152921504606846976 ms")


def buckets(start_ms=0, length_ms=12_000):
    ones = Float32Column.of([1.0])
    columns = ChannelBuckets(UInt32Column.of([1]), ones, ones, ones)
    return Buckets(start_ms, length_ms, {"t": columns})


FIT = {
    "series": series(0, 1),
    "aggregate": aggregate(20.0),
    "buckets": buckets(),
    "about": about(raised=0),
}


@pytest.mark.parametrize("form", FIT)
@pytest.mark.parametrize(
    "told",
    [
        {},
        *({form: fit} for form, fit in FIT.items()),
        {"buckets": buckets(length_ms=2**53 - 1)},
        {"buckets": buckets(start_ms=1)},
        {"series": series(0, 1), "about": about(raised=64)},
    ],
)
def test_an_area_of_another_iad_is_there_only_in_the_form_asked_for(form, told):
    rig = QueryRig(POOL[:1])
    rig.ask("b1/f1", form=form, buckets=5 if form == "buckets" else None)
    [(_, task)] = rig.tasks
    found = (m.AreaResult("b1/f1/r1", **told),)
    rig.do(TaskReturned("iad1", m.TaskResult(task.id, "complete", 1.0, found)), 0.1)
    [answer] = rig.answers
    if told == {form: FIT[form]}:
        assert answer.status == "complete"
        assert [(each.area, getattr(each, form)) for each in answer.results] == [
            ("b1/f1/r1", told[form])
        ]
        return
    assert (answer.status, answer.results) == ("partial", ())
    assert [(gap.area, gap.reason) for gap in answer.missing] == [("b1/f1/r1", "node_error")]


def test_an_area_that_an_iad_tells_twice_does_not_count_twice():
    rig = QueryRig(POOL[:1])
    rig.ask("b1", form="aggregate")
    [(_, task)] = rig.tasks
    found = tuple([m.AreaResult(f"b1/f1/r{n}", aggregate=aggregate(20.0)) for n in (1, 2, 1)])
    rig.do(TaskReturned("iad1", m.TaskResult(task.id, "complete", 1.0, found)), 0.1)
    [answer] = rig.answers
    assert [each.area for each in answer.results] == ["b1/f1/r2"]
    assert answer.coverage == answer.tasks[0].coverage == m.Coverage(1, 2)


@pytest.mark.parametrize(("told", "kept"), [(20.0, 20.0), (-1e300, 0.0), (1e300, 100.0)])
def test_a_task_took_no_longer_than_it_was_waited_for(told, kept):
    rig = QueryRig(POOL[:1])
    rig.ask("b1", form="aggregate")
    [(_, task)] = rig.tasks
    found = (m.AreaResult("b1/f1/r1", aggregate=aggregate(20.0)),)
    rig.do(TaskReturned("iad1", m.TaskResult(task.id, "complete", told, found)), 0.1)
    [answer] = rig.answers
    assert answer.tasks[0].total_ms == pytest.approx(kept)


def test_a_series_without_readings_is_no_result_of_a_node():
    rig = TaskRig()
    rig.join("n1")
    rig.ask(1, form="series", now=0.25)
    [(_, subtask)] = rig.dispatched
    result = replace(found(subtask.id), aggregate=None, series=series())
    rig.answer(result, "n1", now=0.5)
    [told] = rig.results
    assert (told.status, [gap.reason for gap in told.missing]) == ("partial", ["node_error"])


@pytest.mark.parametrize(
    ("told", "kept"),
    [
        ((1.0, 2.0), (1.0, 2.0)),
        ((1e300, 1e300), (500.0, 0.0)),
        ((-1e300, 1e300), (0.0, 500.0)),
        ((1.0, 2e3), (1.0, 499.0)),
    ],
)
def test_a_subtask_was_no_longer_at_its_node_than_it_was_away(told, kept):
    rig = TaskRig()
    rig.join("n1")
    rig.ask(1, now=0.25)
    [(_, subtask)] = rig.dispatched
    wait_ms, execution_ms = told
    result = replace(found(subtask.id), wait_ms=wait_ms, execution_ms=execution_ms)
    rig.answer(result, "n1", now=0.75)
    [record] = [each for each in rig.records if isinstance(each, SubtaskRecord)]
    assert (record.node_wait_ms, record.execution_ms) == kept


def test_whatever_passes_has_an_aggregate_that_a_message_may_say():
    made = aggregate_of(series(5, 3, 9))
    answer = m.Answer("q", "complete", 1.0, True, m.Coverage(1, 1),
                      (m.AreaResult("b1", aggregate=made),))  # fmt: skip
    assert Decoder(ClientReply).decode(encode(answer, MESSAGEPACK))[0] == answer


def test_what_an_iad_tells_about_its_areas_has_the_room_of_readings(monkeypatch):
    monkeypatch.setattr(result_budget.ResultBudget.__init__, "__defaults__", (100_000,))
    rig = QueryRig(POOL[:1])
    rig.ask("b1", form="about")
    [(_, task)] = rig.tasks
    found = tuple([m.AreaResult(f"b1/f1/r{n}", about=about(raised=64)) for n in range(4)])
    rig.do(TaskReturned("iad1", m.TaskResult(task.id, "complete", 1.0, found)), 0.1)
    [answer] = rig.answers
    assert [each.area for each in answer.results] == ["b1/f1/r0", "b1/f1/r1"]
    assert [gap.reason for gap in answer.missing] == ["node_error"] * 2


def test_the_areas_that_an_iad_tells_have_an_end(monkeypatch):
    monkeypatch.setattr(answers, "MAX_AREAS_TOLD", 3)
    rig = QueryRig(POOL[:1])
    rig.ask("b1", form="aggregate")
    [(_, task)] = rig.tasks
    found = tuple([m.AreaResult(f"b1/f1/r{n}", aggregate=aggregate(20.0)) for n in range(9)])
    gaps = tuple([m.Missing(f"b1/f1/s{n}", "timeout") for n in range(9)])
    rig.do(TaskReturned("iad1", m.TaskResult(task.id, "partial", 1.0, found, gaps)), 0.1)
    [answer] = rig.answers
    assert [each.area for each in answer.results] == [f"b1/f1/r{n}" for n in range(3)]
    assert [gap.area for gap in answer.missing] == [f"b1/f1/s{n}" for n in range(3)]


def test_the_words_of_gaps_count_as_held():
    rig = QueryRig(POOL[:1], budget=SharedBudget(10_000))
    rig.ask("b1", form="aggregate")
    [(_, task)] = rig.tasks
    gaps = tuple([m.Missing(f"b1/f1/s{n}", "timeout", message="x" * 512) for n in range(40)])
    rig.do(TaskReturned("iad1", m.TaskResult(task.id, "partial", 1.0, (), gaps)), 0.1)
    [answer] = rig.answers
    assert (answer.status, answer.reason) == ("refused", "overloaded")
