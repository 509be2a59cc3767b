"""DHT models: channels of DHT11 and DHT22, and how often a measurement may be started."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from sensors.base import Channel

TRIES: Final = 6  # maximum number of starts between two reads


class Model(Struct, frozen=True):
    """A sensor model: starts are at least `rule_s` apart, and the first is that long after
    power-on."""

    rule_s: float
    channels: tuple[Channel, ...]


DHT22: Final = Model(
    2.0,
    (Channel("temperature", "celsius", -40.0, 80.0), Channel("humidity", "percent", 0.0, 100.0)),
)
# From 0 °C up: adafruit_dht does not support the sign bit of newer DHT11.
DHT11: Final = Model(
    1.0, (Channel("temperature", "celsius", 0.0, 60.0), Channel("humidity", "percent", 5.0, 95.0))
)
MODELS: Final = {"dht11": DHT11, "dht22": DHT22, "am2302": DHT22}
