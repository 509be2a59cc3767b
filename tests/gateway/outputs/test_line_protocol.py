"""Line protocol: floats, nanoseconds, each reading once; batches that wait, and what is lost."""

import math

from hypothesis import given
from hypothesis import strategies as st

from agent.gateway.outputs.line_protocol import (
    AHEAD_MS,
    BATCH_LINES,
    BATCH_S,
    Batches,
    escaped,
    lines,
)
from agent.runtime.retrying import Answered
from tests.gateway.outputs.rig import room

OK, DOWN, BAD = Answered(204, ""), Answered(0, "down"), Answered(400, "400 Bad Request")
TAGS = {"gateway": "home"}


def made(*rooms, told=None, now_ms=10_000):
    return list(lines(rooms, TAGS, {} if told is None else told, now_ms))


def batches(**options):
    return Batches(jitter=lambda: 1.0, **options)


def test_a_line_an_area_with_floats_and_nanoseconds():
    assert made(room("b1/f4/r1", temperature=21, humidity=40.25)) == [
        "reading,area=b1/f4/r1,gateway=home humidity=40.25,temperature=21.0 1000000000\n"
    ]


def test_each_reading_once():
    told = {}
    assert len(made(room("b1", temperature=1.0), told=told)) == 1
    assert made(room("b1", temperature=1.0), told=told) == []
    assert len(made(room("b1", temperature=1.0, at_ms=2_000), told=told)) == 1


def test_a_clock_from_the_future_silences_nothing_and_writes_nothing_there():
    told, now_ms = {}, 1_795_352_644_870
    at_2090 = room("b1", temperature=1.0, at_ms=3_786_912_000_000)
    assert made(at_2090, told=told, now_ms=now_ms)[0].endswith(f" {now_ms}000000\n")
    assert made(at_2090, told=told, now_ms=now_ms + 5_000) == [], "each reading once"
    mended = room("b1", temperature=2.0, at_ms=now_ms + 3_000)
    assert len(made(mended, told=told, now_ms=now_ms + 5_000)) == 1
    assert made(mended, told=told, now_ms=now_ms + 5_000) == []
    ahead = room("b1", temperature=2.0, at_ms=now_ms + AHEAD_MS)
    assert made(ahead, told=told, now_ms=now_ms)[0].endswith(f" {now_ms + AHEAD_MS}000000\n")
    assert made(mended, told=told, now_ms=now_ms + 6_000) == [], "an older one is no news"


@given(st.lists(st.tuples(st.integers(0, 10**7), st.integers(-(10**6), 10**15)), max_size=30))
def test_whatever_clocks_do_each_new_reading_that_is_not_old_is_told(steps):
    told, now_ms = {}, 10**12
    for later_ms, off_ms in steps:
        now_ms += later_ms + 1
        before = told.get(("b1", "temperature"), -1)
        found = made(room("b1", temperature=1.0, at_ms=now_ms + off_ms), told=told, now_ms=now_ms)
        if found:
            [line] = found
            assert int(line.split()[-1]) <= (now_ms + AHEAD_MS) * 1_000_000
        else:
            assert now_ms + off_ms <= before
            assert before <= now_ms + AHEAD_MS or before == now_ms + off_ms


def test_what_is_bad_is_left_out_and_what_is_suspect_is_not():
    assert made(room("b1", temperature=None)) == []
    assert made(room("b1", temperature=math.nan)) == []
    assert made(room("b1", temperature=5.0, quality="bad")) == []
    assert len(made(room("b1", temperature=5.0, quality="suspect"))) == 1


@given(st.text(min_size=1, max_size=40))
def test_no_tag_ends_the_line_or_begins_another_part(text):
    found = escaped(text)
    assert "\n" not in found
    assert not found.endswith("\\")
    plain = found.replace("\\,", "").replace("\\=", "").replace("\\ ", "")
    assert not set(",= \\") & set(plain)


def test_a_batch_goes_when_it_is_full_or_old():
    waiting = batches()
    waiting.add(["a\n"], 0.0)
    assert waiting.next(1.0) == b""
    assert waiting.next(BATCH_S) == b"a\n"
    assert waiting.answered(OK, BATCH_S) == []
    waiting.add(["b\n"] * BATCH_LINES, 10.0)
    assert waiting.next(10.0) == b"b\n" * BATCH_LINES
    assert waiting.delivered == 1


def test_what_fails_waits_in_order_and_the_oldest_go_and_it_is_told():
    waiting = batches(most=5)
    waiting.add([f"{n}\n" for n in range(4)], 0.0)
    waiting.next(5.0)
    assert waiting.answered(DOWN, 5.0) == ["does not deliver, and will try again: down"]
    waiting.add([f"{n}\n" for n in range(4, 8)], 6.0)
    assert (waiting.waiting, waiting.lost) == (5, 3)
    assert waiting.next(waiting.due_s) == b"3\n4\n5\n6\n7\n"
    assert waiting.answered(OK, 20.0) == [
        "delivers again",
        "3 lines were lost meanwhile, the oldest first",
    ]


def test_a_batch_that_is_refused_blocks_nothing_and_its_loss_is_told():
    waiting = batches()
    waiting.add(["a\n"], 0.0)
    waiting.next(5.0)
    assert waiting.answered(BAD, 5.0) == [
        "1 lines are lost, since they were refused: 400 Bad Request"
    ]
    waiting.add(["b\n"], 6.0)
    assert waiting.next(11.0) == b"b\n"


def test_a_receiver_that_hangs_never_makes_more_wait_than_the_bound():
    waiting = batches(most=100)
    waiting.add(["x\n"] * 90, 0.0)
    waiting.next(5.0)
    for now in range(100):
        waiting.add(["y\n"] * 10, float(now))
        assert waiting.waiting <= 100
