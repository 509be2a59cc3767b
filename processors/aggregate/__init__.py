"""Aggregate: one message for a group of areas and a window of time, with what its readings had."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from msgspec import Meta

from agent.wire.base import Channel
from agent.wire.config import Section
from agent.wire.processor_limits import MAX_AREAS
from processors.base import (
    MAX_NAME,
    MAX_NAMES,
    Message,
    Output,
    Process,
    ProcessorError,
    State,
    area_of,
    latest_ms,
    number,
    reached_ms,
    time_ms_of,
)

Function = Literal["mean", "min", "max", "sum", "count"]
# [count, sum, least, greatest] of a channel.
COUNT: Final = 0
SUM: Final = 1
LEAST: Final = 2
GREATEST: Final = 3
# Outputs of one message; what is left comes with the next ones.
MAX_AT_ONCE: Final = 64


class Parameters(Section, frozen=True):
    """Groups are areas cut to `depth` segments. Windows of `window_s` lie end to end from 1970 UTC;
    one is given out at the first message that is `grace_s` past its end, by the message's time or
    by the master's clock when it was received, whichever is earlier. What comes later is counted,
    and left out."""

    channels: Annotated[tuple[Channel, ...], Meta(min_length=1, max_length=16)]
    depth: Annotated[int, Meta(ge=1, le=16)] = 1
    window_s: Annotated[float, Meta(ge=0.1, le=86_400.0)] = 60.0
    grace_s: Annotated[float, Meta(ge=0.0, le=3_600.0)] = 5.0
    functions: Annotated[tuple[Function, ...], Meta(min_length=1)] = ("mean",)


def channels_of(parameters: Parameters) -> tuple[str, ...]:
    """The channels that it uses."""
    return parameters.channels


def open_processor(parameters: Parameters) -> Process:
    """Build the processor; ProcessorError if its outputs would have too many or too long names."""
    channels, functions = dict.fromkeys(parameters.channels), dict.fromkeys(parameters.functions)
    names = [_name(channel, function) for channel in channels for function in functions]
    most = MAX_NAMES - len(("area", "time_ms", "late"))
    if len(names) > most:
        raise ProcessorError(
            f"aggregate: {len(channels)} channels with {len(functions)} functions each are "
            f"{len(names)} names; at most {most} are put out"
        )
    longest = max(names, key=len)
    if len(longest) > MAX_NAME:
        raise ProcessorError(
            f"aggregate: {longest} has {len(longest)} characters; a name has at most {MAX_NAME}"
        )
    return Aggregate(parameters).process


class Aggregate:
    """State: ``windows`` by start and group, ``closed_ms`` up to where they were given out,
    ``late`` messages since then, and whether closed windows are ``waiting`` to be given out."""

    def __init__(self, parameters: Parameters) -> None:
        self._given = parameters
        self._window_ms = round(parameters.window_s * 1e3)
        self._grace_ms = round(parameters.grace_s * 1e3)

    def process(self, message: Message, state: State) -> list[Output]:
        """Take a reading; the windows that it ends come out, oldest first. O(1) amortised."""
        time_ms = time_ms_of(message)
        if not (area := area_of(message)):
            return []
        group = "/".join(area.split("/")[: self._given.depth])
        start_ms = time_ms - time_ms % self._window_ms
        windows = state.setdefault("windows", {})
        closed_ms = state.get("closed_ms", start_ms)
        if closed_ms > latest_ms(message):
            state["closed_ms"] = start_ms
            for start in [each for each in windows if int(each) > start_ms]:
                del windows[start]
        elif start_ms + self._window_ms <= closed_ms:
            state["late"] = state.get("late", 0) + 1
            return []
        reached = reached_ms(message)
        groups = windows.get(str(start_ms), {})
        if group in groups or self._has_room(windows, groups, start_ms, reached):
            self._add(windows.setdefault(str(start_ms), groups), group, message)
        return self._close(windows, reached - self._grace_ms, state)

    def _has_room(
        self, windows: dict[str, Any], groups: dict[str, Any], start_ms: int, reached: int
    ) -> bool:
        """Whether one more group may begin. Windows that are yet to come, by a sender whose clock
        is ahead, have together as many as one that has begun."""
        if start_ms <= reached:
            return len(groups) < MAX_AREAS
        return sum(len(each) for start, each in windows.items() if int(start) > reached) < MAX_AREAS

    def _add(self, groups: dict[str, Any], group: str, message: Message) -> None:
        sums = groups.setdefault(group, {})
        for channel in self._given.channels:
            if (value := number(message, channel)) is None:
                continue
            held = sums.setdefault(channel, [0, 0.0, value, value])
            held[COUNT] += 1
            held[SUM] += value
            held[LEAST] = min(held[LEAST], value)
            held[GREATEST] = max(held[GREATEST], value)

    def _close(self, windows: dict[str, Any], until_ms: int, state: State) -> list[Output]:
        closed_ms = until_ms - until_ms % self._window_ms
        waiting = state.pop("waiting", False)
        if closed_ms > state.get("closed_ms", closed_ms - 1):
            state["closed_ms"] = closed_ms
        elif not waiting:
            return []
        outputs: list[Output] = []
        for start in sorted(map(int, windows)):
            if start >= state["closed_ms"]:
                break
            groups = windows[str(start)]
            given = sorted(groups)[: MAX_AT_ONCE - len(outputs)]
            outputs += [self._output(group, start, groups.pop(group)) for group in given]
            if groups:
                state["waiting"] = True
                break
            del windows[str(start)]
        if outputs and (late := state.pop("late", 0)):
            outputs[0]["late"] = late
        return outputs

    def _output(self, group: str, start_ms: int, sums: dict[str, list[Any]]) -> Output:
        output: Output = {"area": group, "time_ms": start_ms + self._window_ms}
        for channel in self._given.channels:
            held = sums.get(channel)
            for function in self._given.functions:
                name = _name(channel, function)
                if held is not None:
                    output[name] = _value(function, held)
                elif function == "count":
                    output[name] = 0
        return output


def _name(channel: str, function: Function) -> str:
    return channel if function == "mean" else f"{channel}_{function}"


def _value(function: Function, held: list[Any]) -> float:
    match function:
        case "mean":
            return float(held[SUM] / held[COUNT])
        case "sum":
            return float(held[SUM])
        case "min":
            return float(held[LEAST])
        case "max":
            return float(held[GREATEST])
        case "count":
            return int(held[COUNT])
