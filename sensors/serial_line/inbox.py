"""Serial inbox: keeps the newest reading received since the last read; pure."""

from __future__ import annotations

from sensors.base import Reading, SensorError
from sensors.serial_line.lines import MAX_LINE, Splitter
from sensors.serial_line.mapping import Layout


class Inbox:
    """Keeps at most one reading and one error. Times are seconds on one clock."""

    def __init__(self, layout: Layout, port: str) -> None:
        self._layout = layout
        self._port = port
        self._splitter = Splitter()
        self._values: tuple[float, ...] | None = None
        self._arrived_at = 0.0
        self._error: SensorError | None = None
        self._trouble: str | None = f"{port} is not open yet"

    @property
    def has_news(self) -> bool:
        """Whether `take` has a new reading or error."""
        return self._values is not None or self._error is not None

    def opened(self) -> None:
        """The port is open; earlier bytes do not belong to the next line."""
        self._splitter = Splitter()
        self._trouble = None

    def lost(self, trouble: str) -> None:
        """The port is closed; `trouble` gives the reason. A complete line before it counts."""
        self._trouble = trouble

    def arrived(self, data: bytes, now: float) -> None:
        """`data` arrived at `now`."""
        found = None
        # The newest first: of many lines that come at once one is to be read.
        for line in reversed(self._splitter.feed(data)):
            try:
                if line is None:
                    raise SensorError(f"no line end in {MAX_LINE} bytes; is baud right?")
                values = self._layout.values(line)
            except SensorError as error:
                found = found or error
            else:
                if values is not None:
                    self._values, self._arrived_at = values, now
                    break
        self._error = found or self._error

    def take(self, now: float) -> Reading:
        """The newest reading since the last call, with its age at `now`. SensorError if there is
        none, with the error of the newest line or of the port."""
        values, error = self._values, self._error
        self._values = self._error = None
        if values is not None:
            return Reading(values, age_ms=max(0, round((now - self._arrived_at) * 1000)))
        if error is not None:
            raise type(error)(f"{self._port}: {error}")
        if self._trouble is not None:
            raise SensorError(self._trouble)
        raise SensorError(f"no line from {self._port} since the last read")
