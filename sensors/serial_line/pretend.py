"""Simulated serial sensor on a pseudo-terminal, for trying serial_line without hardware.

    python3 sensors/serial_line/pretend.py PORT

creates the port PORT and sends temperature and humidity to it as CSV, one line per second. Ctrl-C
unplugs it; starting it again plugs it in. `--lines FILE` sends the lines of FILE in a loop,
`--every S` one line every S seconds; `--garbage N` damages every Nth line, `--silent N` omits it.
Uses only the standard library.
"""

from __future__ import annotations

import argparse
import itertools
import math
import os
import signal
import sys
import time
import tty
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path


def climate() -> Iterable[bytes]:
    """Temperature and humidity in a wave of ten minutes."""
    for second in itertools.count():
        phase = math.sin(2 * math.pi * second / 600)
        yield b"%.2f,%.2f\r\n" % (21 + 3 * phase, 50 - 8 * phase)


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description="A serial sensor on a pseudo-terminal.")
    parser.add_argument("port", type=Path, help="path at which the port appears")
    parser.add_argument("--lines", type=Path, metavar="FILE", help="what it sends (climate)")
    parser.add_argument("--every", type=float, default=1.0, metavar="S", help="seconds (1)")
    parser.add_argument("--garbage", type=int, metavar="N", help="damage every Nth line")
    parser.add_argument("--silent", type=int, metavar="N", help="leave every Nth line out")
    given = parser.parse_args()
    if given.port.exists() and not given.port.is_symlink():
        parser.error(f"{given.port} exists; give a path that is free")
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with suppress(KeyboardInterrupt):
        serve(given)


def serve(given: argparse.Namespace) -> None:
    """Send lines until interrupted."""
    lines = climate()
    if given.lines is not None:
        lines = itertools.cycle(given.lines.read_bytes().splitlines(keepends=True))
    sensor, terminal = os.openpty()
    tty.setraw(terminal)
    os.set_blocking(sensor, False)
    given.port.parent.mkdir(parents=True, exist_ok=True)
    given.port.unlink(missing_ok=True)  # left by a killed process
    given.port.symlink_to(os.ttyname(terminal))
    try:
        sys.stderr.write(f"plugged in: {given.port}; Ctrl-C unplugs it\n")
        for n, line in enumerate(lines, 1):
            sent = line
            if given.garbage and n % given.garbage == 0:
                sent = line[:3] + b"\xff\x00?\r\n"
            if not given.silent or n % given.silent:
                with suppress(BlockingIOError):  # without a reader the line is lost, as on a wire
                    os.write(sensor, sent)
            time.sleep(given.every)
    finally:
        given.port.unlink(missing_ok=True)


if __name__ == "__main__":
    main()
