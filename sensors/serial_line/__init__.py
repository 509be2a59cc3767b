"""Serial driver: sensors that send lines of text over a serial port, as CSV, JSON or key=value.

A thread waits for bytes, so that a line's arrival time is known when it is read later: the kernel's
buffer keeps no times, and a line found at a read could be as old as the interval. The thread takes
0.05 MiB. It also reopens the port after the device was unplugged.
"""

from __future__ import annotations

import errno
import threading
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

from sensors.base import Channel, Described, Options, Reading
from sensors.serial_line.inbox import Inbox
from sensors.serial_line.mapping import Layout, layout

if TYPE_CHECKING:
    from serial import Serial

# Readable reasons why a port does not open.
REASONS: Final = {
    errno.ENOENT: "is not there",
    errno.ENODEV: "is not there",
    errno.ENXIO: "is not there",
    errno.EACCES: "may not be opened by this user; is it in the group dialout?",
    errno.EAGAIN: "is in use by another program",
    errno.EBUSY: "is in use by another program",
}
MAX_WAIT_S: Final = 0.5
# A device that sends without end takes a quarter of a processor: after each piece the thread pauses
# for so many times what that took. What comes meanwhile waits in the kernel, which stops a USB
# device when it has 64 KiB.
PAUSES: Final = 3.0


class Pauses:
    """Back-off between attempts to open the port, in seconds: doubling up to a maximum."""

    def __init__(self, first_s: float = 0.5, longest_s: float = 30.0) -> None:
        self._first_s = first_s
        self._longest_s = longest_s
        self._next_s = first_s

    def next(self) -> float:
        """The pause after one more failure."""
        pause_s = self._next_s
        self._next_s = min(2 * pause_s, self._longest_s)
        return pause_s

    def reset(self) -> None:
        """The port works: start again from the shortest pause."""
        self._next_s = self._first_s


class SerialLine:
    """Reads lines from `port` while it is present, from the first read on. It may be absent at the
    start.

    A read returns the newest complete, valid line, once. If there is none, it waits for a quarter
    of the interval, at most 0.5 s: if lines arrive at the same interval, close to the reads, their
    jitter would otherwise make every second read empty and every other one drop a line, until both
    clocks have drifted apart.
    """

    def __init__(
        self,
        port: str,
        baud: int,
        layout: Layout,
        interval_s: float,
        pauses: Pauses | None = None,
        clock: Callable[[], float] = time.monotonic,
        cpu_clock: Callable[[], float] = time.thread_time,
    ) -> None:
        self._port = port
        self._baud = baud
        self._layout = layout
        self._wait_s = min(interval_s / 4, MAX_WAIT_S)
        self._pauses = pauses or Pauses()
        self._clock = clock
        self._cpu_clock = cpu_clock
        self._inbox = Inbox(layout, port)
        self._news = threading.Condition()  # guards everything that both threads use
        self._serial: Serial | None = None
        self._closing = False
        self._thread: threading.Thread | None = None

    @property
    def channels(self) -> tuple[Channel, ...]:
        return self._layout.channels

    def read(self) -> Reading:
        if self._thread is None:
            # Not earlier, as opening the port resets most microcontrollers.
            self._thread = threading.Thread(target=self._run, name="serial_line", daemon=True)
            self._thread.start()
        with self._news:
            now = self._clock()
            self._news.wait_for(lambda: self._inbox.has_news, self._wait_s)
            return self._inbox.take(now)

    def preload(self) -> Iterable[tuple[int, Reading]]:
        return ()

    def close(self) -> None:
        with self._news:
            self._closing = True
            self._news.notify_all()
            if self._serial is not None:
                self._serial.cancel_read()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while not self._closing:
            try:
                trouble = self._listen()
            except Exception as error:  # noqa: BLE001 - this thread must live as long as the agent
                trouble = f"{self._port}: {type(error).__name__}: {error}"
            with self._news:
                self._inbox.lost(trouble)
                pause_s = self._pauses.next()
                self._news.wait_for(lambda: self._closing, pause_s)

    def _listen(self) -> str:
        """Receive until the port fails or the driver is closed; returns the reason."""
        from termios import error as TerminalError  # noqa: N812 - it is an exception

        from serial import Serial

        try:
            # pyserial's exclusive is an advisory lock, which the kernel frees with the process:
            # TIOCEXCL would outlive a killed agent on ports that stay open at their other end.
            serial = Serial(self._port, self._baud, exclusive=True)
        except (OSError, ValueError, TerminalError) as error:
            code = error.errno if isinstance(error, OSError) else None
            return f"{self._port} {REASONS.get(code or 0, f'cannot be opened: {error}')}"
        try:
            self._receive(serial)
        except (OSError, TerminalError) as error:
            return f"{self._port} was unplugged, or failed: {error}"
        finally:
            with self._news:
                self._serial = None
            serial.close()
        return f"{self._port} is closed"

    def _receive(self, serial: Serial) -> None:
        with self._news:
            self._serial = serial
            self._inbox.opened()
        used_s = self._cpu_clock()
        while not self._closing:
            data = serial.read(1)
            data += serial.read(serial.in_waiting)
            with self._news:
                self._inbox.arrived(data, self._clock())
                self._pauses.reset()
                self._news.notify_all()
                before_s, used_s = used_s, self._cpu_clock()
                self._news.wait_for(lambda: self._closing, PAUSES * (used_s - before_s))


def open_driver(options: Options) -> SerialLine | Described:
    if options.leave != "machine":
        try:
            import serial  # noqa: F401 - whether it is there is asked before the thread starts
        except ImportError:
            raise options.error("pyserial is missing: pip install '.[drivers]'") from None
    port = options.path("port")
    baud = options.count("baud", 9600)
    lines = layout(options)
    options.finish()
    if port is None:
        raise options.error("port is missing, such as /dev/ttyUSB0")
    if baud == 0:
        raise options.error("baud must be 1 or more")
    if options.leave:
        return Described(lines.channels)
    return SerialLine(port, baud, lines, options.interval_s)
