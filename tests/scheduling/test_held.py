"""What an answer says of a window that is longer than what is held."""

import pytest

from agent.scheduling.events import ANYONE, QueryArrived
from agent.scheduling.held import with_held
from agent.wire.buckets import Buckets, ChannelBuckets
from agent.wire.codec import Decoder, encode
from agent.wire.messages import Aggregate, Answer, AreaResult, Coverage, Query, Series, Slo, Window
from agent.wire.packed import Float32Column, Int64Column, UInt32Column
from agent.wire.unions import PublicReply
from tests.scheduling.rigs import QueryRig
from tests.scheduling.test_query import POOL

NOW_MS = 1_377_298_800_000


def series(*seconds):
    return AreaResult(
        "b1/r1", Series(Int64Column.of([NOW_MS + round(1_000 * s) for s in seconds]), {})
    )


def aggregate(first_s, last_s):
    ends = NOW_MS + 1_000 * first_s, NOW_MS + 1_000 * last_s
    return AreaResult("b1/r1", aggregate=Aggregate(*ends, {}))


def buckets(*counts, bad=None):
    """Of an hour each, the last one up to `NOW_MS`."""
    values = Float32Column.of([1.0] * len(counts))
    channel = ChannelBuckets(
        UInt32Column.of(counts), values, values, values, bad and UInt32Column.of(bad)
    )
    start_ms = NOW_MS - 3_600_000 * len(counts)
    return AreaResult("b1/r1", buckets=Buckets(start_ms, 3_600_000, {"temperature": channel}))


def held(result, asked_s):
    [told] = with_held([result], asked_s)
    return told.held_from_ms


@pytest.mark.parametrize("result", [series(-10_800, -60, 0), aggregate(-10_800, 0)])
def test_three_hours_of_thirty_days_are_told(result):
    assert held(result, 30 * 86_400.0) == NOW_MS - 10_800_000
    assert held(result, 10_800.0) is None


@pytest.mark.parametrize("first", [1, 256, 1 << 24])
def test_buckets_are_held_from_the_first_that_has_readings(first):
    assert held(buckets(*[0] * 21, first, 0, 2), 86_400.0) == NOW_MS - 3 * 3_600_000
    assert held(buckets(*[0] * 21, 0, 0, 2, bad=[0] * 21 + [1, 0, 0]), 86_400.0) == (
        NOW_MS - 3 * 3_600_000
    )
    assert held(buckets(*[0] * 2, *[1] * 22), 86_400.0) is None
    assert held(buckets(*[0] * 24), 86_400.0) is None


@pytest.mark.parametrize(
    ("first_s", "asked_s", "told"),
    [
        *(
            (-539, 600.0, True),
            (-540, 600.0, False),
            (-5_399, 6_000.0, True),
            (-5_400, 6_000.0, False),
        ),
        *((-2, 60.0, True), (-14, 60.0, True), (-15, 60.0, False), (-1, 3.0, False)),
        *((-0.3, 2.0, False), (-0.3, 4.0, True)),
    ],
)
def test_a_minute_or_a_tenth_of_the_window_may_be_lacking_and_of_a_short_one_most(
    first_s, asked_s, told
):
    assert (held(series(first_s, 0), asked_s) is not None) == told


def test_a_short_window_may_have_a_single_reading():
    assert held(series(0), 60.0) is None


def test_a_result_without_readings_or_with_times_that_no_message_has_tells_nothing():
    assert held(AreaResult("b1/r1", Series(Int64Column.of([]), {})), 3_600.0) is None
    assert held(AreaResult("b1/r1", Series(Int64Column.of([-(2**53), 0]), {})), 3_600.0) is None


def test_the_answer_to_a_query_has_it():
    rig = QueryRig(POOL)
    asked = Query("q", ("b1/f4",), Window(last_s=3_600.0), Slo(99.0, 500.0), form="aggregate")
    rig.do(QueryArrived("client", asked, ANYONE), 0.0)
    [(iad, task)] = rig.tasks
    rig.give(iad, task, now=0.1)
    [result] = rig.answers[0].results
    assert result.aggregate is not None
    assert result.held_from_ms == result.aggregate.first_ms


@pytest.mark.parametrize("codec", [b"J", b"M"])
def test_it_is_on_the_wire_only_if_there_is_something_to_tell(codec):
    for asked_s in (60.0, 3_600.0):
        results = with_held([series(-60, 0)], asked_s)
        answer = Answer("q", "complete", 1.0, True, Coverage(1, 1), results)
        frame = encode(answer, codec)
        assert (b"held_from_ms" in frame) == (asked_s > 60.0)
        assert Decoder(PublicReply).decode(frame)[0] == answer
