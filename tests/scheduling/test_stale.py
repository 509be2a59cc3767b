"""Last known values in place of areas that gave no live answer: shown, and never counted."""

from __future__ import annotations

from agent.derived.last_values import LastValues
from agent.scheduling.events import ANYONE, NodeLeft, ServiceChanged, TaskReturned, Tick
from agent.scheduling.stale import NO_CLONE, NOTHING_YET
from agent.wire import messages as m
from agent.wire.codec import MAX_SERIES_BYTES
from agent.wire.market import Member, Service
from agent.wire.packed import Float32Column, Int64Column
from agent.wire.principals import Sender
from agent.wire.records import QueryRecord, TaskRecord
from tests.scheduling.oracle import aggregate, found
from tests.scheduling.rigs import QueryRig, TaskRig

NOW_MS = 1_700_000_100_000
THEN_MS = NOW_MS - 95_000


def rig_with(*areas: str, **values: float) -> tuple[TaskRig, LastValues]:
    last = LastValues()
    if areas:
        last.keep("iad1/n2", areas)
    for area in areas:
        last.read("iad1/n2", area, THEN_MS, values)
    return TaskRig(
        last_known=lambda area, channels, form: last.within(area, channels, form, NOW_MS)
    ), last


def down(rig: TaskRig) -> None:
    """A node that answers, for room 1 and room 2, and one of room 2 and 3 that is down."""
    rig.join("n1", areas=("b1/f4/r1",))
    rig.join("n2", areas=("b1/f4/r3",))
    rig.do(NodeLeft("link-n2", "boot-n2"), 0.5)


def test_a_node_that_is_down_is_answered_for_with_the_age_and_counts_as_missing() -> None:
    rig, last = rig_with("b1/f4/r3", temperature=21.5)
    last.computed("iad1/n2", NOW_MS - 90_000, {"forecast": 23.0})
    down(rig)
    rig.ask(1, ("b1",), now=1.0, stale_ok=True)
    rig.answer(found(rig.dispatched[0][1].id), "n1", now=1.1)
    [result] = rig.results
    assert result.status == "partial"
    assert result.missing == (m.Missing("b1/f4/r3", "node_down"),)
    live, stale = result.results
    assert (live.area, live.stale_ms) == ("b1/f4/r1", None)
    assert (stale.area, stale.stale_ms) == ("b1/f4/r3", 90_000)
    assert stale.aggregate == m.Aggregate(
        THEN_MS,
        NOW_MS - 90_000,
        {
            "temperature": m.ChannelAggregate(1, 21.5, 21.5, 21.5, last=21.5, last_ms=THEN_MS),
            "forecast": m.ChannelAggregate(1, 23.0, 23.0, 23.0, last=23.0, last_ms=NOW_MS - 90_000),
        },
    )
    [record] = [each for each in rig.records if isinstance(each, TaskRecord)]
    assert (record.answered, record.asked) == (1, 2)


def test_without_stale_ok_nothing_changes() -> None:
    rig, _ = rig_with("b1/f4/r3", temperature=21.5)
    down(rig)
    rig.ask(1, ("b1/f4/r3",), now=1.0)
    [result] = rig.results
    assert result.results == ()
    assert result.missing == (m.Missing("b1/f4/r3", "node_down"),)


def test_without_a_clone_the_answer_says_so() -> None:
    rig, last = rig_with()
    down(rig)
    rig.ask(1, ("b1/f4/r3",), now=1.0, stale_ok=True)
    assert rig.results[0].missing == (m.Missing("b1/f4/r3", "node_down", message=NO_CLONE),)
    last.keep("iad1/n2", ("b1/f4/r3",))
    rig.ask(2, ("b1/f4/r3",), now=1.0, stale_ok=True)
    assert rig.results[1].missing == (m.Missing("b1/f4/r3", "node_down", message=NOTHING_YET),)
    assert not rig.results[0].results
    assert not rig.results[1].results


def test_after_a_restart_the_master_has_not_heard_of_the_node_yet() -> None:
    rig, _ = rig_with("b1/f4/r3", "b1/f4/r4", temperature=21.5)
    rig.ask(1, ("b1/f4",), now=1.0, stale_ok=True)
    [result] = rig.results
    assert result.missing == (m.Missing("b1/f4", "no_node"),)
    assert [(r.area, r.stale_ms) for r in result.results] == [
        ("b1/f4/r3", 95_000),
        ("b1/f4/r4", 95_000),
    ]


def test_a_late_node_is_answered_for_at_the_answer_timeout() -> None:
    rig, _ = rig_with("b1/f4/r3", temperature=21.5)
    rig.join("n2", areas=("b1/f4/r3",))
    rig.ask(1, ("b1/f4/r3",), now=1.0, stale_ok=True, timeout_ms=1_000.0)
    assert not rig.results
    rig.do(Tick(), 2.0)
    [result] = rig.results
    assert result.missing == (m.Missing("b1/f4/r3", "timeout"),)
    assert [r.stale_ms for r in result.results] == [95_000]


def test_only_the_channels_asked_for_and_in_the_form_asked_for() -> None:
    rig, last = rig_with("b1/f4/r3", temperature=21.5, humidity=40.0)
    last.read("iad1/n2", "b1/f4/r3", THEN_MS + 5_000, {"humidity": 41.0})
    down(rig)
    rig.ask(1, ("b1/f4/r3",), now=1.0, stale_ok=True, channels=("humidity",), form="series")
    rig.ask(2, ("b1/f4/r3",), now=1.0, stale_ok=True, form="series")
    rig.ask(3, ("b1/f4/r3",), now=1.0, stale_ok=True, channels=("co2",))
    one, both, none = rig.results
    series = one.results[0].series
    assert series is not None
    assert list(series.time_ms.numbers()) == [THEN_MS + 5_000]
    assert list(series.values["humidity"].numbers()) == [41.0]
    series = both.results[0].series
    assert series is not None
    assert list(series.time_ms.numbers()) == [THEN_MS, THEN_MS + 5_000]
    assert series.summary("temperature")[:3] == (1, 0, 0)
    assert series.summary("humidity")[:3] == (1, 1, 1)
    assert none.results == ()
    assert none.missing[0].message == NOTHING_YET


def test_an_area_that_another_node_answers_for_is_live() -> None:
    rig, _ = rig_with("b1/f4/r3", temperature=21.5)
    down(rig)
    rig.join("n3", areas=("b1/f4/r3",))
    rig.ask(1, ("b1/f4/r3",), now=1.0, stale_ok=True)
    rig.answer(found(rig.dispatched[0][1].id), "n3", now=1.1)
    [result] = rig.results
    assert (result.status, result.missing) == ("complete", ())
    assert [r.stale_ms for r in result.results] == [None]


def test_another_iad_gets_nothing_of_areas_that_its_service_does_not_have() -> None:
    rig, _ = rig_with("b1/f4/r3", temperature=21.5)
    members = (Member("iad1", "", ("b1/f5",)), Member("iad2", "", ()))
    rig.do(ServiceChanged(Service("climate", "iad2", 1, members)), 0.0)
    rig.ask(
        1,
        ("b1/f4", "b1/f5"),
        now=1.0,
        stale_ok=True,
        service="climate",
        sender=Sender("iad", "iad2"),
    )
    [result] = rig.results
    assert result.results == ()
    assert result.status == "partial"
    assert {gap.message for gap in result.missing} == {NO_CLONE}


# --- at the query scheduler ---------------------------------------------------------------------


def returned(rig: QueryRig, *results: m.AreaResult, missing: tuple[str, ...] = ()) -> m.Answer:
    iad, task = rig.tasks[-1]
    gaps = tuple(m.Missing(area, "node_down") for area in missing)
    status = "partial" if gaps else "complete"
    result = m.TaskResult(task.id, status, 1.0, results=results, missing=gaps)
    rig.do(TaskReturned(iad, result), 0.1)
    return rig.answers[-1]


LIVE = m.AreaResult("b1/f4/r1", aggregate=aggregate(20.0))
STALE = m.AreaResult("b1/f4/r3", aggregate=aggregate(21.5), stale_ms=95_000)
POOL = [Member("iad1", "", ("b1/f4/r1", "b1/f4/r3"))]


def test_an_answer_shows_them_and_counts_them_as_missing() -> None:
    rig = QueryRig(POOL)
    rig.ask("b1/f4", stale_ok=True)
    assert rig.tasks[0][1].stale_ok
    answer = returned(rig, LIVE, STALE, missing=("b1/f4/r3",))
    assert [(r.area, r.stale_ms) for r in answer.results] == [
        ("b1/f4/r1", None),
        ("b1/f4/r3", 95_000),
    ]
    assert answer.status == "partial"
    assert not answer.slo_met
    assert answer.coverage == m.Coverage(1, 2)
    assert answer.tasks[0].coverage == m.Coverage(1, 2)
    [record] = [each for each in rig.records if isinstance(each, QueryRecord)]
    assert (record.answered, record.asked, record.slo_met) == (1, 2, False)


def test_who_did_not_ask_for_them_gets_none() -> None:
    rig = QueryRig(POOL)
    rig.ask("b1/f4", sender=ANYONE)
    assert not rig.tasks[0][1].stale_ok
    answer = returned(rig, LIVE, STALE, missing=("b1/f4/r3",))
    assert [r.area for r in answer.results] == ["b1/f4/r1"]


def test_the_live_answer_of_another_iad_is_better_and_so_is_the_fresher_one() -> None:
    rig = QueryRig([*POOL, Member("iad3", "", ("b1/f4/r1", "b1/f4/r3"))])
    rig.ask("b1/f4", stale_ok=True)
    for (iad, task), own in zip(
        rig.tasks,
        (
            (STALE, m.AreaResult("b1/f4/r1", aggregate=aggregate(1.0), stale_ms=5)),
            (m.AreaResult("b1/f4/r3", aggregate=aggregate(22.0), stale_ms=10_000), LIVE),
        ),
        strict=True,
    ):
        gaps = (m.Missing("b1/f4/r3", "node_down"),)
        rig.do(TaskReturned(iad, m.TaskResult(task.id, "partial", 1.0, own, gaps)), 0.1)
    [answer] = rig.answers
    assert [(r.area, r.stale_ms) for r in answer.results] == [
        ("b1/f4/r1", None),
        ("b1/f4/r3", 10_000),
    ]


def test_what_does_not_fit_into_an_answer_is_left_out() -> None:
    rig = QueryRig([Member(iad, "", ("b1/f4",)) for iad in ("iad1", "iad3")])
    rig.ask("b1/f4", stale_ok=True, form="series")
    count = MAX_SERIES_BYTES * 2 // 3 // 12
    times, values = Int64Column(bytes(8 * count)), {"t": Float32Column(bytes(4 * count))}
    for n, (iad, task) in enumerate(rig.tasks):
        large = m.AreaResult(f"b1/f4/r{n}", m.Series(times, values), stale_ms=5)
        gaps = (m.Missing("b1/f4", "node_down"),)
        rig.do(TaskReturned(iad, m.TaskResult(task.id, "partial", 1.0, (large,), gaps)), 0.1)
    [answer] = rig.answers
    assert [r.area for r in answer.results] == ["b1/f4/r0"]


def test_of_redundant_answers_they_end_no_wait() -> None:
    rig = QueryRig(())
    members = tuple(Member(iad, "", ("b1/f4/r3",)) for iad in ("iad1", "iad3"))
    rig.do(ServiceChanged(Service("twice", "iad2", 1, members, redundant=True)), 0.0)
    rig.ask("b1/f4/r3", stale_ok=True, service="twice")
    returned_first = m.TaskResult(
        rig.tasks[0][1].id, "partial", 1.0, (STALE,), (m.Missing("b1/f4/r3", "node_down"),)
    )
    rig.do(TaskReturned(rig.tasks[0][0], returned_first), 0.1)
    assert not rig.answers
    live = m.AreaResult("b1/f4/r3", aggregate=aggregate(20.0))
    rig.do(
        TaskReturned(rig.tasks[1][0], m.TaskResult(rig.tasks[1][1].id, "complete", 1.0, (live,))),
        0.2,
    )
    [answer] = rig.answers
    assert (answer.status, [r.stale_ms for r in answer.results]) == ("complete", [None])
