"""Journals: what is asked for, what a line says, and lines of many hosts in the order of time."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.inspect.journal import Asked, Entry, Merge, command, entry, since


def test_what_is_asked_for_reaches_journalctl_as_it_is():
    asked = Asked(["a b", "x'y"], follow=True, lines=7, since="-600s", priority="err")
    assert command(asked) == (
        "sudo -n -- journalctl --output=json --no-pager --quiet --lines=7 '--unit=a b' "
        "'--unit=x'\"'\"'y' --since=-600s --priority=err --follow"
    )


def test_since_is_a_duration_or_a_time():
    assert since("10m") == "-600s"
    assert since("2026-11-21 13:00:00+00:00") == "@1795266000"
    with pytest.raises(ValueError, match="neither how long ago"):
        since("yesterday evening")


def line(**fields: object) -> str:
    return json.dumps({"__REALTIME_TIMESTAMP": "1795297613590199", **fields})


def test_a_line_has_our_fields():
    found = entry(
        "iad4/n3",
        line(
            MESSAGE="desk: no reading: checksum",
            PRIORITY="4",
            _SYSTEMD_UNIT="sanderling-edge.service",
            SANDERLING_KIND="sensor",
            SANDERLING_SENSOR="desk",
        ),
    )
    assert found == Entry(
        1795297613590199,
        "iad4/n3",
        "sanderling-edge.service",
        4,
        "desk: no reading: checksum",
        "sensor",
        "desk",
    )


@pytest.mark.parametrize("priority", ["234", "", "01234567", "-1", "\uff18"])
def test_a_priority_that_is_none_counts_as_information(priority):
    assert entry("n1", json.dumps({"PRIORITY": priority})).priority == 6


def test_half_of_a_surrogate_pair_is_shown_as_a_question_mark():
    assert entry("n1", '{"MESSAGE": "warm \\ud800"}').text == "warm ?"


def test_a_message_that_is_no_text_and_a_field_that_is_there_twice():
    found = entry("h", line(MESSAGE=[104, 105, 255], PRIORITY="x", _SYSTEMD_UNIT=["a", "b"]))
    assert found is not None
    assert (found.text, found.priority, found.unit) == ("hi\ufffd", 6, "b")


@pytest.mark.parametrize("text", ["", "{", "[1]", "null", '"x"'])
def test_what_is_no_line_is_left_out(text):
    assert entry("h", text) is None


@given(st.text(max_size=40))
def test_no_text_breaks_it(text):
    entry("h", text)
    assert entry("h", line(MESSAGE=text)) is not None


def made(time_us: int, host: str) -> Entry:
    return Entry(time_us, host, "u", 6, "")


ARRIVALS = st.lists(st.tuples(st.integers(0, 50), st.integers(0, 5), st.sampled_from("abc")))


@given(ARRIVALS)
def test_none_is_lost_and_those_in_time_come_in_order(arrivals):
    """Lines that come at most the hold time after their own time are shown in order."""
    hold_s = 6.0
    merge = Merge(hold_s)
    shown = []
    added = sorted((time + delay, time, host) for time, delay, host in arrivals)
    for now, time, host in added:
        shown += merge.take(now)
        merge.add(made(time, host), now)
    shown += merge.take(1_000.0)
    assert sorted((e.time_us, e.host) for e in shown) == sorted((t, h) for _, t, h in added)
    assert [e.time_us for e in shown] == sorted(e.time_us for e in shown)
    assert merge.wake_s is None
    assert merge.rest() == []


@given(ARRIVALS)
def test_none_waits_longer_than_the_hold_time(arrivals):
    merge = Merge(2.0)
    waiting: dict[int, float] = {}
    now = 0.0
    for number, (time, delay, host) in enumerate(arrivals):
        now += delay
        for taken in merge.take(now):
            del waiting[int(taken.text)]
        assert all(now - came < 2.0 for came in waiting.values())
        merge.add(Entry(time, host, "u", 6, str(number)), now)
        waiting[number] = now
    assert {int(each.text) for each in merge.rest()} == waiting.keys()
