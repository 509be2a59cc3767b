"""What came over a serial port since the last read, and the newest reading in it: pure."""

from __future__ import annotations

from sensors.base import Reading, SensorError
from sensors.serial_line.lines import MAX_LINE, Splitter
from sensors.serial_line.mapping import Layout


class Inbox:
    """Keeps one reading and one error at most, whatever arrives. Times are seconds on one clock."""

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
        """Whether `take` has something else to say than that there is nothing."""
        return self._values is not None or self._error is not None

    def opened(self) -> None:
        """The port is open; what came before on it has no part in the next line."""
        self._splitter = Splitter()
        self._trouble = None

    def lost(self, trouble: str) -> None:
        """The port is not open, or no more; `trouble` says why. A whole line before it counts."""
        self._trouble = trouble

    def arrived(self, data: bytes, now: float) -> None:
        """`data` has come, at `now`."""
        for line in self._splitter.feed(data):
            try:
                if line is None:
                    raise SensorError(f"no line end in {MAX_LINE} bytes; is baud right?")
                values = self._layout.values(line)
            except SensorError as error:
                self._error = error
            else:
                if values is not None:
                    self._values, self._arrived_at = values, now

    def take(self, now: float) -> Reading:
        """The newest reading since the last call, with its age at `now`. SensorError if none came:
        what is wrong with the newest line, or with the port."""
        values, error = self._values, self._error
        self._values = self._error = None
        if values is not None:
            return Reading(values, age_ms=max(0, round((now - self._arrived_at) * 1000)))
        if error is not None:
            raise type(error)(f"{self._port}: {error}")
        if self._trouble is not None:
            raise SensorError(self._trouble)
        raise SensorError(f"no line from {self._port} since the last read")
