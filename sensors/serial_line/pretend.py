"""A sensor on a pseudo-terminal, for trying serial_line without hardware.

    python3 sensors/serial_line/pretend.py PORT [FILE [SECONDS]]

makes the port PORT, sends a line to it every SECONDS (1), and takes it away when it is interrupted:
temperature and humidity as CSV, or the lines of FILE over and over. Only the standard library.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import os
import signal
import sys
import time
import tty
from collections.abc import Iterable
from pathlib import Path


def climate() -> Iterable[bytes]:
    """A wave of ten minutes."""
    for second in itertools.count():
        phase = math.sin(2 * math.pi * second / 600)
        yield b"%.2f,%.2f\r\n" % (21 + 3 * phase, 50 - 8 * phase)


def main(port: str, file: str | None = None, pause_s: str = "1") -> None:
    lines = (
        itertools.cycle(Path(file).read_bytes().splitlines(keepends=True)) if file else climate()
    )
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sensor, terminal = os.openpty()
    tty.setraw(terminal)
    os.set_blocking(sensor, False)
    Path(port).symlink_to(os.ttyname(terminal))
    try:
        for line in lines:
            with contextlib.suppress(
                BlockingIOError
            ):  # nobody reads: the line is lost, as on a wire
                os.write(sensor, line)
            time.sleep(float(pause_s))
    except KeyboardInterrupt:
        pass
    finally:
        Path(port).unlink()


if __name__ == "__main__":
    main(*sys.argv[1:])
