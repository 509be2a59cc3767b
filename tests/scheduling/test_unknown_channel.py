"""A channel that no node of an area has is told as that, with those that there are."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from agent.scheduling.aggregation import merge_missing
from agent.scheduling.events import (
    ANYONE,
    NodeJoined,
    ServiceChanged,
    TaskArrived,
    TaskReturned,
)
from agent.wire import messages as m
from agent.wire import node_messages as nm
from agent.wire.base import MAX_CHANNELS
from agent.wire.buckets import Buckets, ChannelBuckets
from agent.wire.market import Member, Service
from agent.wire.packed import Float32Column, Int64Column, UInt8Column, UInt32Column
from tests.scheduling.oracle import aggregate, found, hello
from tests.scheduling.rigs import QueryRig, TaskRig

AREA = "b1/f4/r2"


def join(rig, node, *channels):
    greeting = replace(hello(node, f"boot-{node}", areas=(AREA,)), channels=channels)
    rig.do(NodeJoined(f"link-{node}", greeting), 0.0)


def missing_of(rig, *outcomes, now=1.1):
    """What the task is missing when its subtasks end like that."""
    for (peer, subtask), outcome in zip(rig.dispatched, outcomes, strict=True):
        node = peer.removeprefix("link-")
        rig.answer(nm.SubtaskResult(subtask.id, outcome, 0.0, 1.0), node, now=now)
    return rig.results[-1].missing


@pytest.mark.parametrize(
    ("asked", "gap"),
    [
        (("nope",), m.Missing(AREA, "no_channel", ("humidity", "temperature"))),
        (("nope_raw", "nope"), m.Missing(AREA, "no_channel", ("humidity", "temperature"))),
        (("temperature",), m.Missing(AREA, "no_data")),
        (("temperature_raw",), m.Missing(AREA, "no_data")),
        (("nope", "humidity"), m.Missing(AREA, "no_data")),
        ((), m.Missing(AREA, "no_data")),
    ],
)
def test_a_node_without_any_of_the_channels_asked_is_told_apart_from_an_empty_window(asked, gap):
    rig = TaskRig()
    join(rig, "n1", "humidity", "temperature")
    rig.ask(1, (AREA,), now=1.0, channels=asked)
    assert missing_of(rig, "no_data") == (gap,)
    assert rig.records[-1].outcome == gap.reason


def test_a_name_that_only_the_history_knows_is_served():
    rig = TaskRig()
    join(rig, "n1", "temperature_desk")
    rig.ask(1, (AREA,), now=1.0, channels=("temperature",))
    [(_, subtask)] = rig.dispatched
    rig.answer(found(subtask.id, 20.0), "n1", now=1.1)
    assert rig.results[0].status == "complete"


def test_an_area_has_the_channels_of_all_its_nodes_and_an_error_is_no_lack():
    rig = TaskRig()
    join(rig, "n1", "temperature")
    join(rig, "n2", "humidity", "co2")
    rig.ask(1, (AREA,), now=1.0, channels=("nope",))
    there = ("co2", "humidity", "temperature")
    assert missing_of(rig, "no_data", "no_data") == (m.Missing(AREA, "no_channel", there),)
    rig.dispatched.clear()
    rig.ask(2, (AREA,), now=2.0, channels=("co2",))
    assert missing_of(rig, "no_data", "no_data", now=2.1) == (m.Missing(AREA, "no_data"),)
    rig.dispatched.clear()
    rig.ask(3, (AREA,), now=3.0, channels=("nope",))
    assert missing_of(rig, "no_data", "error", now=3.1) == (m.Missing(AREA, "node_error"),)


def test_who_may_ask_for_one_channel_is_told_of_no_other():
    rig = TaskRig(pool=[Member("iad1", "inproc://1")])
    join(rig, "n1", "humidity")
    pool = (Member("iad1", "inproc://1", (AREA,)),)
    rig.do(ServiceChanged(Service("climate", "iad2", 1, pool, capability="temperature")), 0.0)
    rig.ask(1, (AREA,), now=1.0, service="climate")
    assert missing_of(rig, "no_data") == (m.Missing(AREA, "no_channel"),)


REASONS = st.sampled_from(["no_node", "node_down", "no_data", "no_channel"])


@given(st.lists(REASONS, min_size=1, max_size=5), st.booleans())
def test_that_a_node_lacks_a_channel_is_the_reason_where_nobody_knows_more(reasons, answered):
    gaps = [
        m.Missing("a", r, (f"c{n}",)) if r == "no_channel" else m.Missing("a", r)
        for n, r in enumerate(reasons)
    ]
    results = [m.AreaResult("a", aggregate=aggregate(1.0))] if answered else []
    told = merge_missing(gaps, results)
    if answered:
        assert told == ()
        return
    [gap] = told
    if gap.reason == "no_channel":
        assert reasons[0] == "no_channel"
        assert set(reasons) <= {"no_channel", "no_node"}
        assert gap.channels == tuple(f"c{n}" for n, r in enumerate(reasons) if r == "no_channel")
    elif reasons[0] != "no_channel":
        assert gap == gaps[0]
    else:
        assert gap.channels == ()
        assert gap.reason == next(r for r in reasons if r not in ("no_channel", "no_node"))


def test_the_channels_of_many_nodes_fit_a_message():
    gaps = [m.Missing("a", "no_channel", tuple(f"c{i}_{n}" for n in range(20))) for i in range(9)]
    [gap] = merge_missing(gaps, [])
    assert len(gap.channels) == MAX_CHANNELS


def content(form, *channels):
    one, drift = Float32Column.of([1.0]), UInt8Column.of([32])
    extent = m.ChannelAggregate(1, 1.0, 1.0, 1.0)
    cells = ChannelBuckets(UInt32Column.of([1]), one, one, one)
    values, flags = dict.fromkeys(channels, one), dict.fromkeys(channels, drift)
    return {
        "series": m.Series(Int64Column.of([0]), values, quality=flags),
        "aggregate": m.Aggregate(0, 0, dict.fromkeys(channels, extent)),
        "buckets": Buckets(0, 12_000, dict.fromkeys(channels, cells)),
    }[form]


FORMS = pytest.mark.parametrize("form", ["series", "aggregate", "buckets"])


@FORMS
@pytest.mark.parametrize(
    ("told", "reason"),
    [(("t", "co2"), None), (("co2",), "no_channel"), ((), "node_error")],
)
def test_of_another_iad_only_the_channels_asked_for_count(form, told, reason):
    rig = QueryRig([Member("iad1", "tcp://127.0.0.1:1", (AREA,))])
    rig.ask(AREA, form=form, channels=("t",), buckets=5 if form == "buckets" else None)
    [(_, task)] = rig.tasks
    result = m.AreaResult(AREA, **{form: content(form, *told)})
    rig.do(TaskReturned("iad1", m.TaskResult(task.id, "complete", 1.0, (result,))), 0.1)
    [answer] = rig.answers
    assert [gap.reason for gap in answer.missing] == ([reason] if reason else [])
    assert [getattr(each, form) for each in answer.results] == (
        [] if reason else [content(form, "t")]
    )
    assert answer.status == ("partial" if reason else "complete")
    assert answer.coverage == m.Coverage(0 if reason else 1, 1)


@FORMS
@pytest.mark.parametrize(
    ("there", "told", "reason"),
    [
        ("t", ("t", "co2"), None),
        ("t", ("co2",), "no_data"),
        ("co2", ("co2",), "no_channel"),
        ("t", (), "node_error"),
    ],
)
def test_of_a_node_only_the_channels_asked_for_count(form, there, told, reason):
    rig = TaskRig()
    join(rig, "n1", there)
    asked = m.Task("t1", (AREA,), m.Window(last_s=60.0), 99.0, 500.0, 2_000.0, ("t",), form=form,
                   bucket_ms=12_000 if form == "buckets" else 0)  # fmt: skip
    rig.do(TaskArrived("client", asked, ANYONE), 0.0)
    [(_, subtask)] = rig.dispatched
    result = nm.SubtaskResult(subtask.id, "ok", 0.0, 1.0, **{form: content(form, *told)})
    rig.answer(result, "n1", now=0.1)
    [found] = rig.results
    assert [gap.reason for gap in found.missing] == ([reason] if reason else [])
    assert [getattr(each, form) for each in found.results] == (
        [] if reason else [content(form, "t")]
    )
    if reason == "no_channel":
        assert found.missing == (m.Missing(AREA, "no_channel", ("co2",)),)
