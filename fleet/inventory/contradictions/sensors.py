"""Sensors: every node has some, and of drivers that a release has."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from agent.wire.edge_config import EdgeSensor
from fleet.inventory.effective import sensors_of
from fleet.inventory.model import Inventory
from fleet.inventory.nearest import did_you_mean

# Those of sensors.registry, which `fleet` may not import.
DRIVERS: Final = ("dht", "iio", "replay", "serial_line", "synthetic")


def check(fleet: Inventory) -> Iterator[str]:
    """Nodes without a sensor, sensors called alike, drivers that are in no release."""
    for iad in fleet.iad:
        for node in iad.node:
            host = f"{iad.name}/{node.name}"
            if not (sensors := sensors_of(fleet, node)):
                yield (
                    f"{host} has no sensor: give it or one of its groups a [[sensor]] "
                    "(docs/sensors.md)"
                )
            names = [sensor.called for sensor in sensors]
            for name in dict.fromkeys(names):
                if names.count(name) > 1:
                    yield f"{host}: two sensors are called {name}; give one of them another name"
            if node.sensor:
                yield from _unknown_drivers(host, node.sensor)
    for group in fleet.group:
        yield from _unknown_drivers(f"group {group.name}", group.sensor)


def _unknown_drivers(where: str, sensors: Sequence[EdgeSensor]) -> Iterator[str]:
    for driver in dict.fromkeys(sensor.driver for sensor in sensors):
        if driver not in DRIVERS:
            said = driver if driver.isprintable() else repr(driver)
            yield f"{where}: there is no sensor driver {said}; {did_you_mean(driver, DRIVERS)}"
