"""Readings that are missing in the middle of what was asked."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from agent.wire.messages import Aggregate, Answer, AreaResult, ChannelAggregate, Coverage, Series
from agent.wire.packed import Float32Column, Int64Column
from fleet.terminal.summary import longest_pause


def read_at(seconds: Iterable[int], area: str = "b1/f4") -> AreaResult:
    times = [second * 1_000 for second in seconds]
    values = {"co2": Float32Column.of([400.0] * len(times))}
    return AreaResult(area, series=Series(Int64Column.of(times), values))


def answer(*results: AreaResult) -> Answer:
    return Answer("q", "complete", 1.0, True, Coverage(1, 1), results=results)


def test_a_pause_in_the_middle_is_found() -> None:
    stopped = read_at([*range(14), *range(47, 60)])
    assert longest_pause(answer(stopped), 60.0) == ("b1/f4", 34.0, 1)
    worse = read_at([*range(10), *range(50, 60)], "b1/f5")
    assert longest_pause(answer(stopped, read_at(range(60), "b1/f6"), worse), 60.0) == (
        "b1/f5",
        41.0,
        2,
    )


@pytest.mark.parametrize(
    "seconds",
    [
        range(60),
        range(0, 60, 20),
        [*range(30), *range(34, 60)],
        [0, 1, 2, 30, 31],
        [0, 50],
        [7],
        [],
        [0, 10, 20, 40, 50],
    ],
)
def test_what_is_rarely_read_or_read_almost_always_has_none(seconds: Iterable[int]) -> None:
    assert longest_pause(answer(read_at(seconds)), 60.0) is None


def test_an_aggregate_tells_of_none() -> None:
    aggregate = Aggregate(0, 60_000, {"co2": ChannelAggregate(27, 400.0, 400.0, 400.0)})
    assert longest_pause(answer(AreaResult("b1", aggregate=aggregate)), 60.0) is None
