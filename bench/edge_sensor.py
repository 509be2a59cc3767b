"""A simulated DHT for the reader of `sensors.dht`, with everything that the real library loads."""

from __future__ import annotations

import warnings

from sensors.dht.protocol import Job

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # it cannot detect this machine's platform
    import adafruit_dht  # noqa: F401 - for its memory


class FakeDht:
    """A slowly rising sensor."""

    def __init__(self) -> None:
        self._starts = 0

    def measure(self) -> tuple[float, float]:
        """The simulated measurement."""
        self._starts += 1
        return 20.0 + self._starts % 50 / 10, 40.0

    def power(self, *, on: bool) -> None:
        """There is no pin."""

    def close(self) -> None:
        """There is nothing to release."""


def open_sensor(_job: Job) -> FakeDht:
    """The simulated sensor, whatever the job."""
    return FakeDht()
