"""A DHT without a Pi, for the reader of `sensors.dht`, with all that the library loads."""

from __future__ import annotations

import warnings

from sensors.dht.protocol import Job

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # it has no platform detection for this machine
    import adafruit_dht  # noqa: F401 - for its memory


class FakeDht:
    """Gives a slow rise."""

    def __init__(self) -> None:
        self._starts = 0

    def measure(self) -> tuple[float, float]:
        """What it sent."""
        self._starts += 1
        return 20.0 + self._starts % 50 / 10, 40.0

    def power(self, *, on: bool) -> None:
        """There is no pin."""

    def close(self) -> None:
        """Nothing is held."""


def open_sensor(_job: Job) -> FakeDht:
    """The sensor of any job."""
    return FakeDht()
