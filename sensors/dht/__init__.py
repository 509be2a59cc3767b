"""Driver of DHT11 and DHT22 (AM2302) on a GPIO pin, read by a separate process.

| module | subject |
|---|---|
| `models` | what the two sensors measure, and how often a measurement may be started |
| `driver` | the agent's side: the reader's process and its two pipes |
| `supervisor` | when to start and end that process and cut its sensor's power: pure |
| `protocol` | the lines between the two processes |
| `reader` | the program in the process |
| `pace` | when to start a measurement, and the age of its result: pure |
| `adafruit` | the sensor through adafruit-circuitpython-dht; nothing else imports Blinka |
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sensors.base import Options

if TYPE_CHECKING:
    from sensors.base import Described
    from sensors.dht.driver import DhtDriver


def open_driver(options: Options) -> DhtDriver | Described:
    # Imported here because the reader imports this package without needing the agent's side.
    from sensors.dht.driver import open_driver

    return open_driver(options)
