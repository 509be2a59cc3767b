"""Validation of sensors: every node has some, with known drivers and valid options."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from agent.wire.edge_config import EdgeSensor
from fleet.inventory.effective import sensors_of
from fleet.inventory.files import CONFIGURATION
from fleet.inventory.model import Inventory
from fleet.inventory.nearest import did_you_mean
from sensors.base import SensorError
from sensors.registry import DRIVERS, open_driver


def check(fleet: Inventory) -> Iterator[str]:
    """Nodes without a sensor, sensor names used twice, unknown drivers, options that a driver
    rejects."""
    for iad in fleet.iad:
        for node in iad.node:
            host = f"{iad.name}/{node.name}"
            if not (sensors := sensors_of(fleet, node)):
                yield (
                    f"{host} has no sensor: give it or one of its groups a [[sensor]] "
                    "(docs/use/sensors.md)"
                )
            names = [sensor.called for sensor in sensors]
            for name in dict.fromkeys(names):
                if names.count(name) > 1:
                    yield f"{host}: two sensors are called {name}; give one of them another name"
            if node.sensor:
                yield from _refused(host, node.sensor)
    for group in fleet.group:
        yield from _refused(f"group {group.name}", group.sensor)


def channels_of(sensor: EdgeSensor) -> tuple[str, ...]:
    """The channels that its driver would give, by their configured names; SensorError. Of a file
    that is on the host, all that it may have."""
    # This machine's own devices say nothing about the host's.
    driver = open_driver(
        sensor.driver,
        sensor.options,
        CONFIGURATION,
        sensor.interval_s,
        checking=True,
        leave="machine",
    )
    try:
        named = {name: channel.name for name, channel in sensor.channels.items()}
        return tuple([named.get(c.name, "") or c.name for c in driver.channels])
    finally:
        driver.close()


def _refused(where: str, sensors: Sequence[EdgeSensor]) -> Iterator[str]:
    yield from _unknown_drivers(where, sensors)
    for sensor in sensors:
        if sensor.driver in DRIVERS:
            try:
                channels_of(sensor)
            except SensorError as error:
                named = f"sensor {sensor.name}: " if sensor.name else ""
                yield f"{where}: {named}{error}"


def _unknown_drivers(where: str, sensors: Sequence[EdgeSensor]) -> Iterator[str]:
    for driver in dict.fromkeys(sensor.driver for sensor in sensors):
        if driver not in DRIVERS:
            said = driver if driver.isprintable() else repr(driver)
            known = did_you_mean(driver, tuple(DRIVERS))
            yield f"{where}: there is no sensor driver {said}; {known}"
