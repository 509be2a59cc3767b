"""Buckets at a master: merged, made of series, limited, and asked of peers of earlier versions."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.scheduling.aggregation import merge_results, merge_series
from agent.scheduling.buckets import buckets_of, checked, merge_buckets
from agent.scheduling.events import ANYONE, TaskArrived, TaskReturned
from agent.scheduling.watches.rounds import aggregate_of
from agent.wire import messages as m
from agent.wire import node_messages as nm
from agent.wire.buckets import MAX_CELLS, Buckets, ChannelBuckets, grid_of
from agent.wire.codec import MAX_SERIES_BYTES
from agent.wire.market import Member
from agent.wire.packed import Float32Column, Int64Column, UInt8Column, UInt32Column
from agent.wire.quality import BAD
from tests.oracles import buckets as oracle
from tests.scheduling.rigs import QueryRig, TaskRig

NOW_MS = 1_700_000_100_000
VALUES = st.integers(-100, 100).map(float)
FLAGS = st.sampled_from([0, 0, 1, 8, 32])
READINGS = st.lists(
    st.tuples(st.integers(0, 60), VALUES, FLAGS), min_size=1, max_size=12, unique_by=lambda r: r[0]
).map(sorted)


def series(readings, name="x"):
    times, values, flags = zip(*readings, strict=True)
    return m.Series(
        Int64Column.of([NOW_MS + time for time in times]),
        {name: Float32Column.of(values)},
        quality={name: UInt8Column.of(flags)},
    )


def cells(buckets, name="x"):
    """By the time at which they begin: (count, min, mean, max, bad, suspect) of buckets that are
    not empty."""
    channel = buckets.channels[name]
    none = UInt32Column(bytes(4 * len(buckets)))
    columns = (channel.count, channel.min, channel.mean, channel.max)
    columns += (channel.bad or none, channel.suspect or none)
    rows = zip(*[column.numbers() for column in columns], strict=True)
    times = range(buckets.start_ms, buckets.start_ms + 2_010 * buckets.length_ms, buckets.length_ms)
    return {time: row for time, row in zip(times, rows, strict=False) if row[0] or row[4]}


def expected(parts, length_ms, origin_ms):
    naive = oracle.Sums(origin_ms, length_ms, 100)
    for part in parts:
        shifted = [(NOW_MS + time, value, flags) for time, value, flags in part]
        naive.add(shifted, BAD, gaps_are_bad=False)
    rows = zip(range(origin_ms, 2**60, length_ms), naive.columns(), strict=False)
    return {
        time: pytest.approx(row, rel=1e-6, abs=1e-6, nan_ok=True)
        for time, row in rows
        if row[0] or row[4]
    }


@given(st.lists(READINGS, min_size=1, max_size=4), st.integers(1, 30), st.booleans())
def test_merged_buckets_are_those_of_merged_readings(parts, length_ms, relative):
    """Nodes' windows may end at different times by their clocks."""
    window = m.Window(last_s=1.0)
    if not relative:
        window = m.Window(start_ms=NOW_MS, end_ms=NOW_MS + 61)
    made = [buckets_of(series(part), window, length_ms) for part in parts]
    origin_ms = NOW_MS // length_ms * length_ms if relative else NOW_MS
    want = expected(parts, length_ms, origin_ms)
    assert cells(merge_buckets(made)) == want
    assert cells(merge_buckets(made[::-1])) == want
    assert cells(buckets_of(merge_series(*map(series, parts)), window, length_ms)) == want


def test_channels_of_several_sensors_stand_side_by_side():
    window = m.Window(start_ms=NOW_MS, end_ms=NOW_MS + 61)
    parts = [buckets_of(series([(1, 2.0, 0)], name), window, 30) for name in "xy"]
    merged = merge_buckets(parts)
    assert merged.channels.keys() == {"x", "y"}
    assert len(merged) == 3
    assert math.isnan(merged.channels["y"].mean.numbers()[2])


def column_of(*counts):
    return UInt32Column.of(counts)


def buckets(start_ms, number, length_ms=10, value=1.0):
    some = Float32Column.of([value] * number)
    return Buckets(
        start_ms, length_ms, {"x": ChannelBuckets(column_of(*[1] * number), *[some] * 3)}
    )


def test_a_clock_that_is_years_behind_hides_no_newer_buckets():
    merged = merge_buckets([buckets(0, 5), buckets(10**12, 5), buckets(10**12 - 50, 5)])
    assert len(merged) == MAX_CELLS
    assert merged.start_ms == 10**12 + 50 - 10 * MAX_CELLS
    assert sum(merged.channels["x"].count.numbers()) == 10


def test_a_part_with_other_buckets_is_left_out():
    for other in (buckets(3, 5), buckets(0, 5, 20)):
        assert merge_buckets([buckets(0, 5), other]) == buckets(0, 5)


@pytest.mark.parametrize(
    ("found", "window"),
    [
        (buckets(0, 5, 20), m.Window(last_s=1)),
        (buckets(3, 5), m.Window(last_s=1)),
        (buckets(0, 5), m.Window(start_ms=3, end_ms=53)),
        (buckets(3, 6), m.Window(start_ms=3, end_ms=53)),
        (buckets(-7, 5), m.Window(start_ms=3, end_ms=53)),
    ],
)
def test_buckets_that_were_not_asked_for_are_none(found, window):
    with pytest.raises(ValueError, match="not those of the window"):
        checked(found, window, 10)
    assert checked(buckets(3, 5), m.Window(start_ms=3, end_ms=53), 10)


def ask(rig, **options):
    window = options.pop("window", m.Window(last_s=60.0))
    task = m.Task("t1", ("b1",), window, 99.0, 500.0, 2_000.0, form="buckets", bucket_ms=10_000)
    rig.do(TaskArrived("client", task, ANYONE), 0.0)


def joined(node="n1", *, makes_buckets=True):
    rig = TaskRig()
    rig.join(node, makes_buckets=makes_buckets)
    return rig


def test_a_node_is_asked_for_buckets():
    rig = joined()
    ask(rig)
    [(_, subtask)] = rig.dispatched
    assert (subtask.form, subtask.bucket_ms) == ("buckets", 10_000)
    made = buckets(0, 7, 10_000)
    rig.answer(nm.SubtaskResult(subtask.id, "ok", 0.0, 1.0, buckets=made), "n1", 0.1)
    [result] = rig.results
    assert (result.status, result.results) == (
        "complete",
        (m.AreaResult("b1/f4/r1", buckets=made),),
    )


def test_the_series_of_a_node_of_an_earlier_version_becomes_buckets_here():
    rig = joined(makes_buckets=False)
    ask(rig)
    [(_, subtask)] = rig.dispatched
    assert (subtask.form, subtask.bucket_ms) == ("series", 0)
    one = series([(0, 1.0, 0), (5, 3.0, 0), (60, 9.0, 8)])
    rig.answer(nm.SubtaskResult(subtask.id, "ok", 0.0, 1.0, series=one), "n1", 0.1)
    [found] = rig.results[0].results
    assert found.series is None
    assert cells(found.buckets) == {NOW_MS: (2, 1.0, 2.0, 3.0, 1, 0)}


def test_buckets_of_an_old_and_a_new_node_are_merged():
    rig = joined()
    rig.join("n2", makes_buckets=False, areas=("b1/f4/r1",))
    ask(rig)
    (_, first), (_, second) = rig.dispatched
    made = buckets_of(series([(0, 1.0, 0)]), m.Window(last_s=60), 10_000)
    rig.answer(nm.SubtaskResult(first.id, "ok", 0.0, 1.0, buckets=made), "n1", 0.1)
    one = series([(1, 3.0, 0)])
    rig.answer(nm.SubtaskResult(second.id, "ok", 0.0, 1.0, series=one), "n2", 0.1)
    [found] = rig.results[0].results
    assert cells(found.buckets) == {NOW_MS: (2, 1.0, 2.0, 3.0, 0, 0)}


@pytest.mark.parametrize(
    "odd",
    [
        {"buckets": buckets(0, 7, 10_001)},
        {"buckets": buckets(1, 7, 10_000)},
        {"buckets": buckets(-(2**52) // 10_000 * 10_000, 7, 10_000)},
        {"series": m.Series(Int64Column.of([1, NOW_MS]), {"x": Float32Column.of([1.0, 2.0])})},
    ],
)
def test_buckets_that_cannot_be_are_told(odd):
    rig = joined(makes_buckets="series" not in odd)
    ask(rig)
    rig.answer(nm.SubtaskResult(rig.dispatched[0][1].id, "ok", 0.0, 1.0, **odd), "n1", 0.1)
    [gap] = rig.results[0].missing
    assert gap.reason == "node_error"
    assert gap.message.startswith("a result that cannot be true")


def test_a_node_may_send_its_readings_in_any_order():
    rig = joined(makes_buckets=False)
    ask(rig)
    back = series([(0, 1.0, 0), (40_000, 3.0, 0)][::-1])
    rig.answer(nm.SubtaskResult(rig.dispatched[0][1].id, "ok", 0.0, 1.0, series=back), "n1", 0.1)
    [found] = rig.results[0].results
    assert [row[0] for row in cells(found.buckets).values()] == [1, 1]
    made = aggregate_of(back)
    assert (made.first_ms, made.last_ms) == (NOW_MS, NOW_MS + 40_000)


def test_buckets_beyond_the_widest_window_are_left_out():
    rig = TaskRig()
    for node in ("n1", "n2"):
        rig.join(node, makes_buckets=True, areas=("b1/f1",))
    length_ms = 2**53 - 1
    task = m.Task("t1", ("b1",), m.Window(start_ms=0, end_ms=length_ms), 99.0, 500.0, 2_000.0,
                  form="buckets", bucket_ms=length_ms)  # fmt: skip
    rig.do(TaskArrived("client", task, ANYONE), 0.0)
    (_, first), (_, second) = rig.dispatched
    for node, subtask, count in (("n1", first, 1), ("n2", second, MAX_CELLS)):
        made = buckets(0, count, length_ms)
        rig.answer(nm.SubtaskResult(subtask.id, "ok", 0.0, 1.0, buckets=made), node, 0.1)
    assert [each.status for each in rig.results] == ["complete"]


def test_nothing_in_the_window_is_no_data():
    rig = joined(makes_buckets=False)
    ask(rig)
    nothing = m.Series(Int64Column.of([]), {"x": Float32Column.of([])})
    rig.answer(nm.SubtaskResult(rig.dispatched[0][1].id, "ok", 0.0, 1.0, series=nothing), "n1", 0.1)
    assert rig.results[0].missing[0].reason == "node_error"


def test_buckets_count_in_what_an_answer_may_hold(monkeypatch):
    from agent.scheduling.result_budget import ResultBudget

    room = ResultBudget(2 * buckets(0, 7).bytes)
    results = [m.AreaResult(f"b1/{n}", buckets=buckets(0, 7)) for n in range(3)]
    assert [room.takes_result(each) for each in results] == [True, True, False]
    assert room.told(0.0, 3, 3).longest_s == 0.0
    assert buckets(0, 7).bytes == 7 * 16 < MAX_SERIES_BYTES
    assert merge_results(results[:1]) == tuple(results[:1])


def test_a_master_of_an_earlier_version_leaves_a_gap():
    """It refuses the form; the other IADs answer all the same."""
    rig = QueryRig((Member("iad1", "", ("b1/f1",)), Member("iad3", "", ("b1/f3",))))
    rig.ask("b1", form="buckets", buckets=6)
    assert [(iad, task.form, task.bucket_ms) for iad, task in rig.tasks] == [
        ("iad1", "buckets", 10_000),
        ("iad3", "buckets", 10_000),
    ]
    (_, one), (_, other) = rig.tasks
    made = m.AreaResult("b1/f1/r1", buckets=buckets(0, 7, 10_000))
    rig.do(TaskReturned("iad1", m.TaskResult(one.id, "complete", 1.0, (made,))), 0.1)
    refused = m.TaskResult(
        other.id,
        "refused",
        0.0,
        reason="malformed",
        message="Invalid enum value 'buckets' - at `$.form`",
    )
    rig.do(TaskReturned("iad3", refused), 0.1)
    [answer] = rig.answers
    assert answer.status == "partial"
    assert answer.results[0].buckets is not None
    [gap] = answer.missing
    assert (gap.area, gap.reason) == ("b1/f3", "iad_unreachable")
    assert gap.message == "its master is of an earlier version, which knows no form buckets"


def test_a_grid_of_a_window_with_no_time_is_none():
    assert grid_of(5, 5, 10, relative=False).number == 0


@pytest.mark.parametrize("length_ms", [31_622_400_002, 2**53 - 1])
def test_no_task_has_buckets_longer_than_any_that_may_be_asked(length_ms):
    with pytest.raises(ValueError, match="longer than any"):
        m.Task("t1", ("b1",), m.Window(last_s=60.0), 99.0, 500.0, 2_000.0, form="buckets",
               bucket_ms=length_ms)  # fmt: skip
