"""What a DHT11 and a DHT22 measure, and how often they may be started."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from sensors.base import Channel

TRIES: Final = 6  # starts in one interval between two reads, at most


class Model(Struct, frozen=True):
    """A kind of sensor: two starts of it are at least `rule_s` apart, and the first is as long
    after its power came."""

    rule_s: float
    channels: tuple[Channel, ...]


DHT22: Final = Model(
    2.0,
    (Channel("temperature", "celsius", -40.0, 80.0), Channel("humidity", "percent", 0.0, 100.0)),
)
# From 0 °C up: adafruit_dht does not know the sign bit of newer DHT11.
DHT11: Final = Model(
    1.0, (Channel("temperature", "celsius", 0.0, 60.0), Channel("humidity", "percent", 5.0, 95.0))
)
MODELS: Final = {"dht11": DHT11, "dht22": DHT22, "am2302": DHT22}
