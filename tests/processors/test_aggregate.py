"""Aggregates against a naive computation over all messages at once."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.processing.definition import Limits
from agent.topics.contents import MAX_OWN
from processors.aggregate import MAX_AT_ONCE, Parameters, open_processor
from processors.base import MAX_NAMES, ProcessorError

READINGS = st.lists(
    st.tuples(
        st.sampled_from(["b1/f1/r1", "b1/f1/r2", "b1/f2/r1"]),
        st.integers(0, 60),
        st.floats(-40, 60) | st.none(),
    ),
    max_size=40,
)


@given(readings=READINGS, depth=st.integers(1, 3), grace_s=st.integers(0, 20))
def test_windows_are_those_of_a_naive_computation(readings, depth, grace_s):
    given = Parameters(
        channels=("t",),
        depth=depth,
        window_s=10.0,
        grace_s=float(grace_s),
        functions=("mean", "min", "max", "sum", "count"),
    )
    process, state = open_processor(given), {}
    windows: dict[tuple[int, str], list[float]] = {}
    latest, found = -1, []
    for area, second, value in [*readings, ("b1/end", 1_000, None)]:
        found += process({"area": area, "time_ms": second * 1_000, "t": value}, state)
        # Late is what comes after a message that ended its window.
        if (second // 10 + 1) * 10 > latest - grace_s:
            group = "/".join(area.split("/")[:depth])
            values = windows.setdefault((second // 10 * 10, group), [])
            if value is not None:
                values.append(value)
        latest = max(latest, second)
    expected = []
    for (start, group), values in sorted(windows.items()):
        if start == 1_000:
            continue
        output = {"area": group, "time_ms": (start + 10) * 1_000, "t_count": len(values)}
        if values:
            output |= {"t_min": min(values), "t_max": max(values)}
            output["t"] = pytest.approx(sum(values) / len(values), abs=1e-9)
            output["t_sum"] = pytest.approx(sum(values), abs=1e-9)
        expected.append(output)
    for output in found:
        output.pop("late", None)
    assert found == expected


def test_many_groups_come_out_in_parts_that_may_be_put_out():
    process, state = open_processor(Parameters(("t",), depth=2, window_s=10.0, grace_s=0.0)), {}
    areas = [f"b1/r{n:03}" for n in range(150)]
    found = []
    for window in range(3):
        for n, area in enumerate(areas):
            message = {"area": area, "time_ms": window * 10_000 + n, "t": float(n)}
            outputs = process(message, state)
            assert len(outputs) <= MAX_AT_ONCE <= Limits().outputs
            found += outputs
    expected = [
        {"area": area, "time_ms": window * 10_000, "t": float(n)}
        for window in (1, 2)
        for n, area in enumerate(areas)
    ]
    assert found == expected
    assert len(state["windows"]) == 1
    assert "waiting" not in state


@pytest.mark.parametrize(
    ("channels", "functions", "said"),
    [
        (
            "abcdef", ("mean", "min", "max", "sum", "count"),
            "aggregate: 6 channels with 5 functions each are 30 names; at most 26 are put out",
        ),
        (
            ["a" * 30], ("min",),
            f"aggregate: {'a' * 30}_min has 34 characters; a name has at most 32",
        ),
    ],
)  # fmt: skip
def test_what_could_not_be_put_out_is_refused_at_once(channels, functions, said):
    with pytest.raises(ProcessorError) as caught:
        open_processor(Parameters(tuple(channels), functions=functions))
    assert str(caught.value) == said


def test_as_many_names_as_an_output_may_have_are_taken():
    assert MAX_NAMES == MAX_OWN
    channels = tuple("abcdefghijklm")
    process = open_processor(Parameters(channels, grace_s=0.0, functions=("min", "max")))
    values = dict.fromkeys(channels, 1.0)
    state = {}
    process({"area": "b1", "time_ms": 100_000, **values}, state)
    process({"area": "b1", "time_ms": 0, **values}, state)  # late
    (output,) = process({"area": "b1", "time_ms": 200_000, **values}, state)
    assert len(output) == MAX_NAMES


def test_a_sender_whose_clock_is_ahead_closes_no_window_of_others():
    process, state = open_processor(Parameters(channels=("t",), window_s=10.0, grace_s=1.0)), {}

    def publish(area, time_ms, received_ms, value):
        message = {"area": area, "time_ms": time_ms, "received_ms": received_ms, "t": value}
        return process(message, state)

    found = publish("b1", 1_000, 1_100, 20.0)
    found += publish("b2", 60_500, 1_500, 30.0)
    found += publish("b1", 9_000, 9_100, 22.0)
    assert found == []
    found = publish("b1", 12_000, 12_100, 24.0)
    assert found == [{"area": "b1", "time_ms": 10_000, "t": 21.0}]
    found = publish("b1", 72_000, 72_100, 26.0)
    assert [(each["area"], each["time_ms"], each["t"]) for each in found] == [
        ("b1", 20_000, 24.0),
        ("b2", 70_000, 30.0),
    ]


def test_windows_that_are_yet_to_come_have_together_the_groups_of_one(monkeypatch):
    monkeypatch.setattr("processors.aggregate.MAX_AREAS", 5)
    given = Parameters(channels=("t",), window_s=1.0, grace_s=0.0)
    process, state = open_processor(given), {}
    for number in range(100):
        ahead_ms = 1_000 * (1 + number % 50)
        message = {"area": f"b{number}", "time_ms": ahead_ms, "received_ms": 0, "t": 1.0}
        assert process(message, state) == []
    assert process({"area": "b1", "time_ms": 0, "received_ms": 0, "t": 1.0}, state) == []
    assert sum(map(len, state["windows"].values())) == 6
    assert len(state["windows"]) <= 6
    assert list(state["windows"]["0"]) == ["b1"]
