"""The pace of the starts, under random answers, durations and lateness; and the lines."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sensors.dht.models import TRIES
from sensors.dht.pace import FRESH, USUAL_S, Pace
from sensors.dht.protocol import (
    MAX_LINE,
    Failed,
    Job,
    Line,
    Measured,
    Ready,
    Unusable,
    decode,
    encode,
)

FIRST = 1000.0


class Step(NamedTuple):
    """One start: how late, how long, and what came."""

    late_s: float
    took_s: float
    answered: bool
    valid: bool


STEPS = st.lists(
    st.builds(
        lambda late, took, outcome: Step(late, took, outcome != "silent", outcome == "valid"),
        st.one_of(st.just(0.0), st.floats(0, 0.1), st.floats(0, 30)),
        st.one_of(st.just(0.35), st.floats(0, 5)),
        st.sampled_from(["valid", "valid", "damaged", "silent"]),
    ),
    max_size=60,
)


def play(pace: Pace, steps: list[Step]) -> list[tuple[float, float, bool, float | None]]:
    """Start, end, answered, and when the value was measured, for each step."""
    played = []
    for step in steps:
        started = pace.next_at + step.late_s
        pace.start(started)
        ended = started + step.took_s
        at = pace.end(ended, answered=step.answered, valid=step.valid)
        played.append((started, ended, step.answered, at))
    return played


@given(
    rule_s=st.sampled_from([1.0, 2.0]),
    intervals=st.floats(1.0, 40.0),
    steps=STEPS,
)
def test_two_starts_are_never_within_the_rule(
    rule_s: float, intervals: float, steps: list[Step]
) -> None:
    played = play(Pace(rule_s, FIRST, rule_s * intervals), steps)
    for (before, ended, *_), (after, *_) in pairwise(played):
        assert after >= before + rule_s
        assert after >= ended - USUAL_S + rule_s


@given(rule_s=st.sampled_from([1.0, 2.0]), intervals=st.floats(1.0, 40.0), steps=STEPS)
def test_a_value_is_dated_by_the_answered_start_before_it_and_given_once(
    rule_s: float, intervals: float, steps: list[Step]
) -> None:
    played = play(Pace(rule_s, FIRST, rule_s * intervals), steps)
    given_at = [at for *_, at in played if at is not None]
    assert given_at == sorted(set(given_at))
    answered: list[float] = []
    for step, (started, _, _, at) in zip(steps, played, strict=True):
        fresh = bool(answered) and started - answered[-1] <= FRESH * rule_s
        assert at == (answered[-1] if step.valid and fresh else None)
        if step.answered:
            answered.append(started)


@given(intervals=st.floats(1.0, 40.0), steps=STEPS)
def test_an_interval_has_a_few_starts_and_none_after_its_value(
    intervals: float, steps: list[Step]
) -> None:
    """Of a sensor that is started when it is due, and answers as usual."""
    rule_s, interval_s = 2.0, 2.0 * intervals
    steps = [step._replace(late_s=0.0, took_s=0.35) for step in steps]
    played = play(Pace(rule_s, FIRST, interval_s), steps)
    tries: dict[int, list[float | None]] = {}
    for started, *_, at in played:
        tries.setdefault(math.floor((started - FIRST) / interval_s + 1e-6), []).append(at)
    for values in tries.values():
        assert len(values) <= max(1, min(TRIES, int(intervals)))
        assert not any(at is not None for at in values[:-1])
    assert list(tries) == list(range(len(tries)))  # and no interval without one


def test_a_long_interval_takes_a_start_to_wake_the_sensor() -> None:
    steps = [Step(0.0, 0.35, True, True)] * 4
    assert [(start - FIRST, at) for start, *_, at in play(Pace(2.0, FIRST, 60.0), steps)] == [
        (0.0, None),
        (2.0, FIRST),
        (60.0, None),
        (62.0, FIRST + 60.0),
    ]


TEXTS = st.text(max_size=500)


@given(
    st.one_of(
        st.just(Ready()),
        st.builds(Unusable, TEXTS),
        st.builds(Failed, st.booleans(), TEXTS),
        st.builds(
            Measured,
            st.integers(0, 2**53),
            st.tuples(st.floats(allow_nan=False), st.floats(allow_nan=False)),
        ),
    )
)
def test_a_line_comes_back_as_it_was_but_for_long_or_foreign_texts(line: Line) -> None:
    data = encode(line)
    assert data.endswith(b"\n")
    assert data.count(b"\n") == 1
    assert len(data) <= MAX_LINE
    again = decode(data[:-1])
    assert type(again) is type(line)
    if isinstance(line, Failed):
        assert isinstance(again, Failed)
        assert again.damaged == line.damaged
    if isinstance(line, Ready | Measured):
        assert again == line
    assert encode(again) == data


@given(st.binary(max_size=400))
def test_anything_else_is_a_value_error(data: bytes) -> None:
    try:
        line = decode(data)
    except ValueError:
        return
    assert isinstance(line, Line)


@pytest.mark.parametrize("data", [b"ready 1", b"measured", b"measured 1 2", b"measured x 1 2"])
def test_near_misses_are_value_errors(data: bytes) -> None:
    with pytest.raises(ValueError):
        decode(data)


def test_a_job_comes_back_from_its_arguments() -> None:
    job = Job("module:name", "dht22", "D4", "", "D17", 5.0, 2.0, 2.5)
    assert Job.parse(job.arguments()) == job
