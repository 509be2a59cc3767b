"""Answers of rounds: evaluation of the trigger, and conversion to the form that the client asked
for."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from typing import TypeVar

from msgspec.structs import replace

from agent.scheduling.aggregation import merge_missing
from agent.scheduling.watches.trigger import Trigger
from agent.wire.messages import (
    Aggregate,
    Answer,
    AreaResult,
    ChannelAggregate,
    Coverage,
    Missing,
    Series,
)
from agent.wire.quality import counts
from agent.wire.watches import Watch

C = TypeVar("C")


def fired_areas(answer: Answer, trigger: Trigger) -> tuple[str, ...]:
    """The areas in which the trigger holds. O(readings)."""
    return tuple(result.area for result in answer.results if trigger.holds(result))


def unknown_channels(answer: Answer, trigger: Trigger, known: Callable[[], Container[str]]) -> str:
    """Channels of the trigger that no area gives and that are not `known` either, in words; empty:
    there are none. A misspelt channel would otherwise never fire and never be noticed. O(areas).

    A channel is not given while a window has no reading of it: `known` are those that nodes have,
    with or without readings; it is evaluated only if a channel is not given.
    """
    given = {name for result in answer.results for name in _channels(result)}
    lacking = [name for name in trigger.channels if name not in given]
    if not lacking or not answer.results:
        return ""
    have = known()
    lacking = [name for name in lacking if name not in have]
    if not lacking:
        return ""
    there = f"; there is {', '.join(sorted(given))}" if given else ""
    return f"the trigger: no area that answered gives {' or '.join(lacking)}{there}"


def _channels(result: AreaResult) -> Iterable[str]:
    if result.series is not None:
        return result.series.values
    return result.aggregate.channels if result.aggregate is not None else ()


def as_asked(answer: Answer, watch: Watch) -> Answer:
    """The answer without what only the trigger needed: further channels, or whole series. An area
    that has nothing else is missing, as if nothing else had been asked."""
    results = [_as_asked(result, watch) for result in answer.results]
    there = tuple([result for result in results if any(_channels(result))])
    if len(there) == len(results):
        return replace(answer, results=there)
    without = [Missing(result.area, "no_data") for result in results if not any(_channels(result))]
    return replace(
        answer,
        status="partial",
        slo_met=False,
        coverage=Coverage(len(there), answer.coverage.asked),
        results=there,
        missing=merge_missing([*answer.missing, *without], there),
    )


def _as_asked(result: AreaResult, watch: Watch) -> AreaResult:
    series, aggregate = result.series, result.aggregate
    if watch.channels:
        if series is not None:
            series = replace(
                series,
                values=_only(watch.channels, series.values),
                quality=_only(watch.channels, series.quality),
            )
        if aggregate is not None:
            aggregate = replace(aggregate, channels=_only(watch.channels, aggregate.channels))
    if watch.form == "aggregate" and series is not None:
        return AreaResult(result.area, aggregate=aggregate_of(series))
    return AreaResult(result.area, series, aggregate)


def _only(names: tuple[str, ...], channels: Mapping[str, C]) -> dict[str, C]:
    return {name: channel for name, channel in channels.items() if name in names}


def aggregate_of(series: Series) -> Aggregate:
    """The aggregate that nodes would have made of the same readings, of which there is at least
    one. O(readings).

    A missing value without a flag was not asked for: its reading is another sensor's. Channels
    without any other values are left out.
    """
    times = series.time_ms.numbers()
    channels = {}
    for name in series.values:
        count, _, _, low, high, total, suspect = series.summary(name)
        bad = counts(series.quality[name].data)[0] if name in series.quality else 0
        if count:
            channels[name] = ChannelAggregate(count, low, total / count, high, bad, suspect)
        elif bad:
            channels[name] = ChannelAggregate(0, bad=bad)
    return Aggregate(times[0], times[-1], channels)
