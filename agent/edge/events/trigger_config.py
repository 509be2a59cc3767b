"""Trigger configuration: parses a node's triggers and assigns each to its sensor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from agent.edge.sampling.sensor import Sensor
from agent.triggers.condition import has_rate, read_condition
from agent.triggers.expression import Expression
from agent.triggers.language import TriggerError
from agent.triggers.state import Trigger
from agent.wire.config import ConfigError
from agent.wire.edge_config import EdgeTrigger
from sensors.base import nearest

# Readings within the window of a rate: 16 bytes each.
LEAST_IN_WINDOW: Final = 2
MAX_IN_WINDOW: Final = 10_000


def read_triggers(
    settings: Sequence[EdgeTrigger], sensors: Sequence[Sensor]
) -> list[list[Trigger]]:
    """The triggers of each sensor; ConfigError in one line that names the trigger at fault."""
    found: list[list[Trigger]] = [[] for _ in sensors]
    for index, trigger in enumerate(settings):
        try:
            read = Trigger(
                trigger.name,
                _condition("condition", trigger.condition),
                _condition("clear", trigger.clear) if trigger.clear else None,
                trigger.for_s,
                trigger.clear_for_s,
                trigger.window_s,
                trigger.unknown_s,
            )
            found[_sensor_of(read, sensors)].append(read)
        except ConfigError as error:
            from agent.wire.config_words import row_place  # only an error needs it

            place = row_place("trigger", {"name": trigger.name}, index)
            raise ConfigError(f"{place}: {error}") from None
    return found


def _condition(key: str, text: str) -> Expression:
    try:
        return read_condition(text)
    except TriggerError as error:
        raise ConfigError(f"{key}: {error}") from None


def _sensor_of(trigger: Trigger, sensors: Sequence[Sensor]) -> int:
    """Index of the trigger's sensor; ConfigError unless it uses just one, read often enough."""
    owners = {channel.name: i for i, s in enumerate(sensors) for channel in s.channels}
    conditions = [each for each in (trigger.condition, trigger.clear) if each is not None]
    first, *others = asked = _channels(conditions)
    for name in asked:
        if name not in owners:
            raise ConfigError(f"no sensor here has a channel {name}; {nearest(name, list(owners))}")
    for name in others:
        if owners[name] != owners[first]:
            raise ConfigError(
                f"{first} is of sensor {sensors[owners[first]].name} and {name} of sensor "
                f"{sensors[owners[name]].name}; a trigger looks at one sensor: write two"
            )
    sensor = sensors[owners[first]]
    if any(map(has_rate, conditions)):
        least_s, most_s = (n * sensor.interval_s for n in (LEAST_IN_WINDOW, MAX_IN_WINDOW))
        if not least_s <= trigger.window_s <= most_s:
            raise ConfigError(
                f"window_s must be from {least_s:g} to {most_s:g}: {LEAST_IN_WINDOW} to "
                f"{MAX_IN_WINDOW} intervals of sensor {sensor.name}"
            )
    return owners[first]


def _channels(conditions: Sequence[Expression]) -> list[str]:
    """The channels that the conditions use, each once."""
    return list(dict.fromkeys([name for each in conditions for name in each.channels]))
