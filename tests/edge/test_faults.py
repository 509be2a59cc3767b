"""Events of a sensor's faults: begun, changed and over, each told once."""

from __future__ import annotations

import math
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from agent.edge.events.faults import Faults, Happening
from agent.edge.history.memtable import Sample
from agent.edge.node_time import Moment
from agent.edge.sampling.sensor import StoredChannel
from sensors.quality.flags import CHECKSUM, FLATLINE, GOOD, NO_RESPONSE, OUT_OF_RANGE, SPIKE
from sensors.quality.limits import Limits

WHY = "port /dev/ttyUSB0 is not there"
MISSING = NO_RESPONSE | CHECKSUM


def events(flags: list[int], interval_s: int = 1) -> list[Happening]:
    found: list[Happening] = []
    channel = StoredChannel("t", "temperature", "celsius", 1.0, 0.0, Limits())
    faults = Faults("desk", (channel,), found.append)
    for n, flag in enumerate(flags):
        value = math.nan if flag & MISSING else 21.5
        ms = n * interval_s * 1000
        moment = Moment(ms, ms, synchronised=True)
        sample = Sample(ms, ms, True, (value,), quality=(flag,) if flag else ())
        faults.follow(moment, sample, WHY if flag & MISSING else "")
    return found


def told(flags: list[int]) -> list[tuple[int, str, str]]:
    return [(event.time_ms // 1000, event.kind, event.text) for event in events(flags)]


def test_a_spike_that_turns_into_silence_is_told() -> None:
    flags = [NO_RESPONSE, NO_RESPONSE, SPIKE, *[GOOD] * 27, *[NO_RESPONSE] * 90, *[GOOD] * 400]
    assert told(flags) == [
        (0, "fault_began", "no_response, spike: 21.5 celsius"),
        (90, "fault_changed", f"no_response: {WHY}"),
        (120, "fault_ended", "no_response, spike: over after 120 s"),
    ]


def test_what_is_missing_says_why() -> None:
    assert told([GOOD] * 10 + [NO_RESPONSE] * 100) == [(10, "fault_began", f"no_response: {WHY}")]


def test_a_damaged_answer_that_stops_coming_is_told_and_a_spike_at_once() -> None:
    flags = [CHECKSUM] * 100 + [NO_RESPONSE] * 100 + [OUT_OF_RANGE] * 3 + [NO_RESPONSE] * 100
    assert told(flags) == [
        (0, "fault_began", f"checksum: {WHY}"),
        (160, "fault_changed", f"no_response: {WHY}"),
        (200, "fault_changed", "out_of_range: 21.5 celsius"),
    ]


def test_a_reading_that_is_missing_now_and_then_makes_no_fault_worse() -> None:
    assert [kind for _, kind, _ in told([FLATLINE, *[NO_RESPONSE] * 5] * 100)] == ["fault_began"]


@given(st.lists(st.tuples(st.sampled_from([0, 1, 2, 4, 8, 16, 24]), st.integers(1, 400))))
def test_each_kind_is_told_once_a_fault(runs: list[tuple[int, int]]) -> None:
    found = events([flag for flag, n in runs for _ in range(n)], 3)
    for before, event in pairwise(found):
        assert event.kind == "fault_began" or before.kind != "fault_ended"
    kinds: list[str] = []
    for event in found:
        here = event.text.partition(":")[0].split(", ")
        if event.kind == "fault_changed":
            assert not set(here) & set(kinds) - {"no_response", "checksum"}
            assert kinds
            kinds += here
            assert max(kinds.count(kind) for kind in here) <= 2
        else:
            kinds = here if event.kind == "fault_began" else []
