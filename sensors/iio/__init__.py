"""Driver of Linux IIO sensors, through sysfs: temperature, humidity, pressure; `dht11` overlay.

The kernel's dht11 driver (drivers/iio/humidity/dht11.c; for DHT11 and DHT22) repeats a measurement,
unmarked, for 2 s. Its interval is therefore at least `DHT11_INTERVAL_S` here, and a read that comes
early, because the previous tick was late, waits until that time is over.

Its errors: ETIMEDOUT means that the sensor sent nothing, or too little. EIO means that the answer
was complete but unusable: misaligned bits, a wrong checksum and impossible numbers are all EIO, so
they are all a ChecksumError here.
"""

from __future__ import annotations

import errno
import time
from collections.abc import Callable, Iterable
from typing import Final

from sensors.base import Channel, ChecksumError, Described, Options, Reading, SensorError
from sensors.iio.sysfs import FOLDER, KINDS, Device, Kind, find

# How long the dht11 driver repeats a measurement (DHT11_DATA_VALID_TIME), and the shortest interval
# that covers that time and a measurement (25 ms).
DHT11_REPEATS_S: Final = 2.0
DHT11_INTERVAL_S: Final = 2.1
GONE: Final = (errno.ENOENT, errno.ENODEV, errno.ENXIO)


class Iio:
    """The device `wanted`, or the only one present. After it disappears, the driver searches for it
    again; it may then have another number.

    With channel `names` it may be absent at the start; without, it must be present to provide them.
    """

    def __init__(
        self,
        folder: str,
        wanted: str | None,
        names: tuple[str, ...],
        interval_s: float,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._folder = folder
        self._wanted = wanted
        self._interval_s = interval_s
        self._clock = clock
        self._sleep = sleep
        self._device: Device | None = None
        self._measured_at = -DHT11_REPEATS_S
        self._kinds = tuple([kind for name in names for kind in KINDS if kind.channel.name == name])
        if not self._kinds:
            self._device = find(folder, wanted)
            self._kinds = self._device.kinds
        self._check_interval(self._device)

    @property
    def channels(self) -> tuple[Channel, ...]:
        return tuple([kind.channel for kind in self._kinds])

    def read(self) -> Reading:
        if self._device is None:
            device = find(self._folder, self._wanted)
            self._check_interval(device)
            self._device = device
        device = self._device
        if device.dht11:
            self._wait_until_new()
        values = tuple([self._value(device, kind) for kind in self._kinds])
        return Reading(values)

    def preload(self) -> Iterable[tuple[int, Reading]]:
        return ()

    def close(self) -> None:
        pass

    def _value(self, device: Device, kind: Kind) -> float:
        try:
            value = device.read(kind)
        except OSError as error:
            raise self._failure(device, kind, error) from None
        except ValueError:
            raise SensorError(f"{device.name} gives no number as {kind.files}") from None
        if kind is self._kinds[0]:
            # Reading the first file makes the dht11 driver measure; the second reuses the result.
            self._measured_at = self._clock()
        return value

    def _failure(self, device: Device, kind: Kind, error: OSError) -> SensorError:
        if error.errno in GONE:
            self._device = None
            return SensorError(f"{device.name} ({device.number}) has no {kind.files} any more")
        if device.dht11 and error.errno == errno.EIO:
            return ChecksumError(f"{device.name} answered, with bits missing or a wrong checksum")
        if device.dht11 and error.errno == errno.ETIMEDOUT:
            return SensorError(
                f"{device.name} does not answer; check its wiring, its pull-up and gpiopin"
            )
        return SensorError(f"{device.name}: {kind.files}: {error.strerror}")

    def _wait_until_new(self) -> None:
        repeats_for = self._measured_at + DHT11_REPEATS_S - self._clock()
        if repeats_for > 0:
            self._sleep(repeats_for)

    def _check_interval(self, device: Device | None) -> None:
        if device is not None and device.dht11 and self._interval_s < DHT11_INTERVAL_S:
            raise SensorError(
                f"interval_s must be {DHT11_INTERVAL_S} or more for {device.name}: its kernel "
                "driver gives one measurement again and again for 2 s"
            )


def open_driver(options: Options) -> Iio | Described:
    wanted = options.text("device")
    names = options.texts("channels")
    folder = options.path("sysfs") or FOLDER
    options.finish()
    known = [kind.channel.name for kind in KINDS]
    for name in names:
        if name not in known:
            raise options.error(f"no channel {name}; known: {', '.join(known)}")
    if options.leave == "machine":
        return Described(tuple([k.channel for k in KINDS if not names or k.channel.name in names]))
    try:
        return Iio(folder, wanted, names, options.interval_s)
    except SensorError as error:
        raise options.error(str(error)) from None
