"""Validation of triggers: names, areas, conditions, and their channels where a shipped driver gives
them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from agent.triggers.condition import read_condition
from agent.triggers.language import TriggerError
from agent.wire.edge_config import EdgeSensor, EdgeTrigger, trigger_problems
from fleet.inventory.contradictions.sensors import channels_of
from fleet.inventory.effective import sensors_of, triggers_of
from fleet.inventory.model import Inventory
from fleet.inventory.nearest import did_you_mean
from sensors.base import SensorError
from sensors.registry import DRIVERS


def check(fleet: Inventory) -> Iterator[str]:
    """Trigger names used twice, areas that are not their node's, invalid conditions, and channels
    that no sensor of the node has."""
    known: dict[tuple[int, int], list[str]] = {}
    for iad in fleet.iad:
        for node in iad.node:
            host = f"{iad.name}/{node.name}"
            triggers, sensors = triggers_of(fleet, node), sensors_of(fleet, node)
            for problem in trigger_problems(triggers, node.areas):
                yield f"{host}: {problem}"
            yield from _unreadable(host, node.trigger)
            # The nodes of a group share these.
            key = id(triggers), id(sensors)
            if key not in known:
                known[key] = list(_without_channel(triggers, sensors))
            yield from (f"{host}: {problem}" for problem in known[key])
    for group in fleet.group:
        yield from _unreadable(f"group {group.name}", group.trigger)


def _without_channel(
    triggers: Sequence[EdgeTrigger], sensors: Sequence[EdgeSensor]
) -> Iterator[str]:
    """Nothing if a driver is another package's, or refuses its options."""
    if not triggers or any(each.driver not in DRIVERS for each in sensors):
        return
    try:
        channels = [name for each in sensors for name in channels_of(each)]
    except SensorError:
        return
    for trigger in triggers:
        try:
            conditions = [
                read_condition(text) for text in (trigger.condition, trigger.clear) if text
            ]
        except TriggerError:
            continue
        for name in dict.fromkeys(name for each in conditions for name in each.channels):
            if name not in channels:
                meant = did_you_mean(name, channels)
                yield f"trigger {trigger.name}: no sensor here has a channel {name}; {meant}"


def _unreadable(where: str, triggers: Sequence[EdgeTrigger]) -> Iterator[str]:
    for trigger in triggers:
        for key, text in (("condition", trigger.condition), ("clear", trigger.clear)):
            if text or key == "condition":
                try:
                    read_condition(text)
                except TriggerError as error:
                    yield f"{where}: trigger {trigger.name}: {key}: {error}"
