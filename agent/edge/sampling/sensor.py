"""Configured sensors: open drivers with their channel names, calibration and limits."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from os import PathLike

from msgspec import Struct, ValidationError, convert

from agent.wire.base import NAME_WORDS, RAW
from agent.wire.base import Channel as ChannelName
from agent.wire.config import ConfigError
from agent.wire.edge_config import EdgeChannel, EdgeSensor
from sensors.base import Channel, Driver, Leave, SensorError, nearest
from sensors.quality.limits import Limits, limits_for
from sensors.registry import open_driver

PLAIN = EdgeChannel()
LIMITS = Limits._fields


class StoredChannel(Struct, frozen=True):
    """A channel as stored: the driver's value r becomes gain · r + offset. `quantity` is the
    driver's name for it."""

    name: str
    quantity: str
    unit: str
    gain: float
    offset: float
    limits: Limits


class Sensor(Struct, frozen=True):
    """An open sensor; `channels` are in the order of the driver's."""

    name: str
    place: str
    driver: Driver
    interval_s: float
    channels: tuple[StoredChannel, ...]

    @property
    def calibrated(self) -> bool:
        """Whether calibration changes any value."""
        return any((channel.gain, channel.offset) != (1.0, 0.0) for channel in self.channels)

    def calibrate(self, raw: tuple[float, ...]) -> tuple[float, ...]:
        """The calibrated values; NaN stays NaN."""
        pairs = zip(self.channels, raw, strict=True)
        return tuple([channel.gain * r + channel.offset for channel, r in pairs])


def open_sensors(
    settings: Sequence[EdgeSensor],
    folder: str | PathLike[str],
    *,
    checking: bool = False,
    leave: Leave = "",
) -> tuple[Sensor, ...]:
    """Open all sensors, or check that they could be opened. ConfigError or SensorError in one line,
    with none left open."""
    found: list[Sensor] = []
    try:
        for index, sensor in enumerate(settings):
            try:
                found.append(_open(sensor, folder, checking=checking, leave=leave))
            except (ConfigError, SensorError) as error:
                if len(settings) == 1:
                    raise
                raise type(error)(f"{_place(sensor, index)}: {error}") from None
            _refuse_twins(found)
    except BaseException:
        close_sensors(found)
        raise
    return tuple(found)


def _place(sensor: EdgeSensor, index: int) -> str:
    from agent.wire.config_words import row_place  # only an error needs it

    return row_place("sensor", {"name": sensor.called}, index)


def close_sensors(sensors: Sequence[Sensor]) -> None:
    """Close their drivers."""
    for sensor in sensors:
        _close(sensor.driver)


def _close(driver: Driver) -> None:
    # The sensor is not read any more: a driver's mistake must not keep others open.
    with suppress(Exception, SystemExit):
        driver.close()


def _open(
    settings: EdgeSensor, folder: str | PathLike[str], *, checking: bool, leave: Leave
) -> Sensor:
    driver = open_driver(
        settings.driver,
        settings.options,
        folder,
        settings.interval_s,
        checking=checking,
        leave=leave,
    )
    try:
        known = [channel.name for channel in driver.channels]
        for name in settings.channels:
            if name not in known:
                raise ConfigError(
                    f"sensor.channels.{name}: {settings.called} has no such channel; "
                    f"{nearest(name, known)}"
                )
        channels = [
            _stored(settings.called, c, settings.channels.get(c.name, PLAIN))
            for c in driver.channels
        ]
    except BaseException:
        _close(driver)
        raise
    return Sensor(settings.called, settings.place, driver, settings.interval_s, tuple(channels))


def _stored(sensor: str, channel: Channel, settings: EdgeChannel) -> StoredChannel:
    unit = settings.unit or channel.unit
    overrides = {name: getattr(settings, name) for name in LIMITS}
    try:
        limits = limits_for(channel.name, unit, overrides)
    except ValueError as error:
        raise ConfigError(f"sensor.channels.{error}") from None
    name = settings.name or channel.name
    try:
        convert(name, ChannelName)
    except ValidationError:
        raise ConfigError(
            f"{sensor} gives a channel {name!r}; the name of a channel has {NAME_WORDS}"
        ) from None
    if name.endswith(RAW):
        raise ConfigError(f"channel {name}: names ending in {RAW} are those of uncalibrated values")
    return StoredChannel(name, channel.name, unit, settings.gain, settings.offset, limits)


def _refuse_twins(sensors: Sequence[Sensor]) -> None:
    owners: dict[str, str] = {}
    for sensor in sensors:
        names = [channel.name for channel in sensor.channels]
        for channel in sensor.channels:
            if names.count(channel.name) > 1:
                raise ConfigError(
                    f"sensor {sensor.name} has two channels called {channel.name}: give one "
                    "another name"
                )
            other = owners.setdefault(channel.name, sensor.name)
            if other != sensor.name:
                raise ConfigError(
                    f"channel {channel.name} is one of sensor {other} and of sensor "
                    f"{sensor.name}; give one another name: below [[sensor]], "
                    f"[sensor.channels.{channel.name}] name = …"
                )
