"""How `sensors/dht/fixtures/pulses.csv` was made: from the data sheets, not from a sensor.

A frame is 40 bits: humidity, temperature, and the sum of their four bytes. Each bit is a low pulse
of about 50 µs and a high one, of about 27 µs for 0 and 70 µs for 1 (AM2302 manual, table 6). Before
the frame the sensor answers with 80 µs low and 80 µs high; after it, it lets go of the line with
one more low. adafruit_dht keeps the last 81 pulses that it saw.

    .venv/bin/python -m tests.sensors.dht_frames > sensors/dht/fixtures/pulses.csv
"""

from __future__ import annotations

import array
import sys
from random import Random
from typing import Any

from sensors.dht.adafruit import CLASSES, Adafruit

KEPT = 81
JITTER_US = 4
# By name: model, the five bytes, and how many pulses the reader saw of them.
BYTES = {
    "manual": ("dht22", "028C015FEE"),  # the example of the AM2302 manual
    "below_zero": ("dht22", "028C806573"),  # its example of a temperature under 0 °C
    "dry_and_hot": ("dht22", "000F031E30"),
    "twos_complement": ("dht22", "028CFF9B28"),  # some copies of the DHT22 below 0 °C
    "dht11_example": ("dht11", "3500180451"),  # the example of the DHT11 data sheet
    "flipped_bit": ("dht22", "028C015BEE"),
    "too_humid": ("dht22", "0FFF015F6E"),
    "half_a_frame": ("dht22", "028C015FEE"),
    "echo_of_the_start": ("dht22", "028C015FEE"),
    "lost_last_edge": ("dht22", "028C015FEE"),
}


def train(frame: str) -> list[int]:
    """All pulses after the sensor pulled the line low, low and high in turn, in µs."""
    random = Random(frame)

    def about(us: int) -> int:
        return us + random.randint(-JITTER_US, JITTER_US) if us > 30 else us + random.randint(-1, 1)

    pulses = [about(80), about(80)]
    for bit in f"{int(frame, 16):040b}":
        pulses += [about(46), about(70 if bit == "1" else 27)]
    return [*pulses, about(46)]


def seen(name: str, frame: str) -> list[int]:
    """The pulses of which the library would know."""
    pulses = train(frame)
    match name:
        case "half_a_frame":
            return pulses[-61:-20]
        case "echo_of_the_start":
            return pulses[:2]
        case "lost_last_edge":
            return pulses[:-1][-KEPT:]
    return pulses[-KEPT:]


def played(model: str, pulses: list[int]) -> Adafruit:
    """A sensor of the library's class whose line gave `pulses`."""
    import adafruit_dht  # takes a while, and says something about machines without a header

    library: Any = getattr(adafruit_dht, CLASSES[model])

    class Played(library):  # type: ignore[misc]
        def _get_pulses_bitbang(self) -> array.array[int]:
            return array.array("H", pulses)

    return Adafruit(Played, None, use_pulseio=False, power=None)


def lines() -> list[str]:
    """The file."""
    rows = [
        f"{name},{model},{' '.join(map(str, seen(name, frame)))}"
        for name, (model, frame) in BYTES.items()
    ]
    return ["name,model,pulses_us", *rows]


if __name__ == "__main__":
    sys.stdout.write("".join(f"{line}\n" for line in lines()))
