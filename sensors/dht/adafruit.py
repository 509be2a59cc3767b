"""DHT access through adafruit-circuitpython-dht.

Only the reader's process imports this: Blinka takes 12 MiB, handles signals and leaves children
behind.
"""

# ruff: noqa: PTH208 - as everywhere in sensors/

from __future__ import annotations

import os
from typing import Any, Final

from sensors.base import ChecksumError, SensorError, nearest
from sensors.dht.protocol import Job

CLASSES: Final = {"dht11": "DHT11", "dht22": "DHT22", "am2302": "DHT22"}
DEVICES: Final = "/dev"
TWOS_COMPLEMENT: Final = -3000.0  # °C: a lower value is a small negative number in two's complement
# The library distinguishes these only by their text.
DAMAGED: Final = ("Checksum", "full buffer", "unplausible")


class Adafruit:
    """A sensor that uses a new device object for each measurement.

    An adafruit_dht object measures again only two seconds after its last attempt; until then its
    properties repeat the last values. A new object has none to repeat. Its helper process for
    pulses, if any, ends with it and cannot spin in between.
    """

    def __init__(
        self, device: type[Any], pin: Any, *, use_pulseio: bool | None, power: Any
    ) -> None:
        self._device = device
        self._pin = pin
        self._given = {} if use_pulseio is None else {"use_pulseio": use_pulseio}
        self._power = power

    def measure(self) -> tuple[float, float]:
        device = self._device(self._pin, **self._given)
        try:
            temperature, humidity = device.temperature, device.humidity
        except RuntimeError as error:
            damaged = any(sign in str(error) for sign in DAMAGED)
            raise (ChecksumError if damaged else SensorError)(str(error)) from error
        except OverflowError as error:  # a pulse longer than its 16 bits hold
            raise ChecksumError("a pulse was too long") from error
        finally:
            device.exit()
        if temperature == 0 == humidity:
            # Forty zeros pass the checksum; a pulse train without its first edge reads as zeros.
            raise ChecksumError("an empty frame, 0 °C and 0 %")
        if temperature < TWOS_COMPLEMENT:
            # A clone of the DHT22: the library interpreted the upper bit only as a sign.
            temperature = round(-temperature - 3276.8, 1)
        return float(temperature), float(humidity)

    def power(self, *, on: bool) -> None:
        self._power.value = on

    def close(self) -> None:
        if self._power is not None:
            self._power.deinit()


def open_sensor(job: Job) -> Adafruit:
    """The sensor on the header; SensorError in one line that names what is missing."""
    try:
        import adafruit_dht
        import board
        import digitalio
    except ModuleNotFoundError as error:
        if error.name in {"adafruit_dht", "board", "digitalio"}:
            raise SensorError(
                "adafruit-circuitpython-dht is missing: pip install '.[drivers]'"
            ) from error
        raise _missing(error) from error
    except Exception as error:
        # Blinka raises RuntimeError, NotImplementedError and others, by board and version.
        raise _missing(error) from error
    pin = _pin(board, job.pin)
    power_pin = _pin(board, job.power_pin) if job.power_pin else None
    device = getattr(adafruit_dht, CLASSES[job.model])
    try:
        digitalio.DigitalInOut(pin).deinit()
        power = None
        if power_pin is not None:
            power = digitalio.DigitalInOut(power_pin)
            power.switch_to_output(value=True)
    except Exception as error:
        raise _missing(error) from error
    use_pulseio = {"yes": True, "no": False}.get(job.use_pulseio)
    if use_pulseio is None and not _has_pulseio(device, pin):
        use_pulseio = False
    return Adafruit(device, pin, use_pulseio=use_pulseio, power=power)


def _has_pulseio(device: type[Any], pin: Any) -> bool:
    """Whether the library's default works: its helper for pulses needs libgpiod 1."""
    try:
        device(pin).exit()
    except Exception:  # noqa: BLE001 - many kinds, all of which say no
        return False
    return True


def _pin(board: Any, name: str) -> Any:
    """The pin called `name`."""
    pin = getattr(board, name, None)
    if pin is not None and not name.startswith("_") and _is_pin(pin):
        return pin
    names = [each for each in vars(board) if not each.startswith("_")]
    pins = [each for each in names if _is_pin(getattr(board, each))]
    if not pins:
        what = getattr(board, "board_id", None) or "this machine"
        raise SensorError(f"no pin {name}: Blinka knows no pin header on {what}")
    raise SensorError(f"no pin {name}; {nearest(name, pins)}")


def _is_pin(value: object) -> bool:
    return type(value).__name__ == "Pin"


def _missing(error: Exception) -> SensorError:
    """Why Blinka cannot access the pins. Its own errors on a machine without pins, such as
    TypeError: 'NoneType' object is not callable, do not name the cause."""
    if not any(name.startswith("gpiochip") for name in os.listdir(DEVICES)):
        return SensorError(
            f"no {DEVICES}/gpiochip*: this machine has no pin header, or hides it from this "
            f"process (Blinka: {type(error).__name__}: {error})"
        )
    return SensorError(f"Blinka: {type(error).__name__}: {error}")
