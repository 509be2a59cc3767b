"""Aggregates against a naive computation over all messages at once."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from processors.aggregate import Parameters, open_processor

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
