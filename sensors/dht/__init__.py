"""DHT11 and DHT22 (AM2302) on a pin of the header, read by a process of its own.

| module | subject |
|---|---|
| `models` | what the two sensors measure, and how often they may be started |
| `driver` | the agent's side: the reader's process and its two pipes |
| `supervisor` | when that process is started, ended and its sensor's power cut: pure |
| `protocol` | the lines between the two processes |
| `reader` | the program in the process |
| `pace` | when the sensor is started, and how old what it answers is: pure |
| `adafruit` | the sensor through adafruit-circuitpython-dht; nothing else imports Blinka |
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sensors.base import Options

if TYPE_CHECKING:
    from sensors.base import Described
    from sensors.dht.driver import DhtDriver


def open_driver(options: Options) -> DhtDriver | Described:
    # The reader imports this package too, and has no use for the agent's side.
    from sensors.dht.driver import open_driver

    return open_driver(options)
