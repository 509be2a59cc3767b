"""Rules that messages carry themselves."""

import json
import re
from itertools import product

import pytest
import zmq
from msgspec.structs import replace

from agent.wire import messages as m
from agent.wire import node_messages as nm
from agent.wire.buckets import Buckets, ChannelBuckets, grid_of
from agent.wire.codec import JSON, MESSAGEPACK, Decoder, WireError, encode
from agent.wire.market import Join, Member, Service
from agent.wire.messages import Window
from agent.wire.packed import Float32Column, UInt32Column
from agent.wire.unions import PublicReply, PublicRequest


def test_a_relative_window_ends_with_the_reading_of_this_millisecond():
    assert Window(last_s=10).bounds_ms(1_000_000) == (990_001, 1_000_001)
    assert Window(last_s=10, ago_s=5).bounds_ms(1_000_000) == (985_001, 995_001)


def test_an_absolute_window_does_not_look_at_the_clock():
    window = Window(start_ms=5, end_ms=9)
    assert window.bounds_ms(123) == (5, 9)
    assert window.length_s == 0.004


@pytest.mark.parametrize("codec", [JSON, MESSAGEPACK])
def test_start_and_end_may_be_any_distance_apart_and_relative_windows_have_366_days(codec):
    """As docs/understand/wire.md says."""
    decoder = Decoder(PublicRequest)
    longest = Window(start_ms=0, end_ms=2**53 - 1)
    asked = replace(query(), window=longest)
    assert decoder.decode(encode(asked, codec))[0].window == longest
    year_s = 366 * 86_400.0
    for window in (Window(last_s=year_s), Window(last_s=1.0, ago_s=year_s)):
        assert decoder.decode(encode(replace(query(), window=window), codec))[0].window == window
    for window in (Window(last_s=year_s + 1.0), Window(last_s=1.0, ago_s=year_s + 1.0)):
        with pytest.raises(WireError, match="31622400"):
            decoder.decode(encode(replace(query(), window=window), codec))


def test_length_of_a_relative_window():
    assert Window(last_s=90, ago_s=3).length_s == 90


@pytest.mark.parametrize("codec", [JSON, MESSAGEPACK])
def test_a_key_is_one_that_libzmq_takes(codec):
    """Of a member's second key that was none, the master of who joined its pool ended, each time
    that it was started."""
    decoder = Decoder(PublicRequest)

    def joining(*keys):
        ghost = Member("ghost", "tcp://127.0.0.1:1", ("b9",), keys)
        return encode(Join("j", Service("s", "iad3", 1, (ghost,))), codec)

    groups = ["00000", "$0000", "#....", "%nSc0", "%nSc1", "%nSd0", "%nT00", "%o000", "@####"]
    for at, group in product(range(8), groups):
        key = "00000" * at + group + "a.-:+" * (7 - at)
        try:
            zmq.curve_public(key.encode())
        except zmq.ZMQError:
            with pytest.raises(WireError, match="keys"):
                decoder.decode(joining("k" * 40, key))
        else:
            decoder.decode(joining("k" * 40, key))


def query(**fields: object) -> m.Query:
    plain = {"id": "q", "areas": ("b1",), "window": Window(last_s=600), "slo": m.Slo(99.0, 500.0)}
    return m.Query(**plain | fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("fields", "line"),
    [
        ({"areas": ("*",)}, 'the area * stands alone, and only in form "about"'),
        ({"areas": ("*", "b1"), "form": "about"}, "stands alone"),
        ({"form": "buckets"}, 'form "buckets" needs buckets, their number, or bucket_s'),
        ({"form": "buckets", "buckets": 2, "bucket_s": 3.0}, "but not both"),
        ({"buckets": 2}, 'go with form "buckets" only'),
        ({"bucket_s": 2.0, "form": "about"}, 'go with form "buckets" only'),
        ({"form": "buckets", "bucket_s": 0.1}, "6,000 buckets are more than 2,000: take longer"),
        ({"form": "buckets", "buckets": 2, "stale_ok": True}, "leave stale_ok out"),
    ],
)
def test_what_does_not_go_together_is_refused_in_one_line(fields, line):
    with pytest.raises(ValueError, match=re.escape(line)):
        query(**fields)


@pytest.mark.parametrize(
    ("fields", "window", "bucket_ms"),
    [
        ({"buckets": 300}, Window(last_s=86_400), 288_000),
        ({"buckets": 7}, Window(start_ms=0, end_ms=100), 15),
        ({"buckets": 2_000}, Window(start_ms=0, end_ms=1), 1),
        ({"buckets": 1}, Window(last_s=1e-6), 1),
        ({"bucket_s": 60.0}, Window(last_s=86_400), 60_000),
        ({"bucket_s": 1e-6}, Window(last_s=0.5), 1),
    ],
)
def test_length_of_a_bucket(fields, window, bucket_ms):
    assert query(form="buckets", window=window, **fields).bucket_ms == bucket_ms
    assert query().bucket_ms == 0


@pytest.mark.parametrize("number", ["0", "2001", "1.5", '"7"'])
def test_numbers_of_buckets_that_are_none_are_refused(number):
    body = (
        '{"type":"query","id":"q","areas":["b1"],"window":{"last_s":60},"form":"buckets",'
        f'"slo":{{"percentile":99,"latency_ms":500}},"buckets":{number}}}'
    )
    with pytest.raises(WireError, match=r"buckets"):
        Decoder(PublicRequest).decode(b"10J" + body.encode())


@pytest.mark.parametrize("area", ["*/b1", "b1/*", "**", "*\n", ""])
def test_a_star_is_no_part_of_an_area(area):
    frame = encode(query(form="about"), JSON)
    named = json.dumps(area).encode()
    with pytest.raises(WireError, match=r"areas"):
        Decoder(PublicRequest).decode(frame.replace(b'"b1"', named))
    with pytest.raises(ValueError, match=r"areas"):
        query(areas=(area,), form="about")


def test_buckets_of_a_relative_window_begin_at_multiples_of_their_length():
    """So nodes whose clocks differ have the same ones."""
    assert grid_of(1_234, 11_234, 1_000, relative=True) == (1_000, 1_000, 11)
    assert grid_of(1_234, 11_234, 1_000, relative=False) == (1_234, 1_000, 10)
    assert grid_of(1_000, 11_000, 1_000, relative=True) == (1_000, 1_000, 10)
    assert grid_of(5, 6, 1_000, relative=False) == (5, 1_000, 1)
    assert grid_of(-5, 3, 4, relative=True) == (-8, 4, 3)
    with pytest.raises(ValueError, match="more than 2001"):
        grid_of(0, 2_002, 1, relative=False)


def test_tasks_and_subtasks_carry_the_length_of_a_bucket():
    window = Window(last_s=60)
    for fields in ({"form": "buckets"}, {"bucket_ms": 5}, {"form": "aggregate", "bucket_ms": 5}):
        with pytest.raises(ValueError, match="bucket_ms"):
            nm.Subtask(1, window, **fields)
        with pytest.raises(ValueError, match="bucket_ms"):
            m.Task("t", ("b1",), window, 99.0, 500.0, 2_000.0, **fields)
    with pytest.raises(ValueError, match="60,000 buckets"):
        nm.Subtask(1, window, form="buckets", bucket_ms=1)


def test_columns_of_buckets_have_one_length():
    one, two = (UInt32Column.of([1] * n) for n in (1, 2))
    low = Float32Column.of([1.0])
    with pytest.raises(ValueError, match="differ in length"):
        Buckets(0, 1, {"x": ChannelBuckets(two, low, low, low)})
    with pytest.raises(ValueError, match="differ in length"):
        Buckets(0, 1, {"x": ChannelBuckets(one, low, low, low, bad=two)})
    most = Float32Column.of([1.0] * 2_002)
    with pytest.raises(ValueError, match="2002 buckets"):
        Buckets(0, 1, {"x": ChannelBuckets(UInt32Column.of([1] * 2_002), most, most, most)})
    assert len(Buckets(0, 1, {"x": ChannelBuckets(one, low, low, low)})) == 1
    assert len(Buckets(0, 1, {})) == 0


def test_the_last_value_comes_with_its_time():
    for fields in ({"last": 1.0}, {"last_ms": 1}):
        with pytest.raises(ValueError, match="last and last_ms"):
            m.ChannelAggregate(1, 1.0, 1.0, 1.0, **fields)
    with pytest.raises(ValueError, match="last and last_ms"):
        m.ChannelAggregate(0, bad=1, last=1.0, last_ms=1)


@pytest.mark.parametrize("name", ["", "x" * 65, "a\nb", "a\n", "\x1b[31m", "a\x7f"])
def test_names_of_rooms_are_one_line(name):
    frame = encode(m.TaskResult("t", "complete", 1.0, (m.AreaResult("b1", name=name),)))
    with pytest.raises(WireError, match="name"):
        Decoder(PublicReply).decode(frame)


@pytest.mark.parametrize("origin", [" ", "a b", "a\n", "\x1b[31m"])
def test_a_task_says_by_name_which_iad_sent_it(origin):
    """It is counted, and told in reports: one of these made a report that nobody could read."""
    task = m.Task("t", ("b1",), m.Window(last_s=1.0), 99.0, 1.0, 1.0, origin=origin)
    with pytest.raises(WireError, match="origin"):
        Decoder(PublicRequest).decode(encode(task))
