"""A simulated serial sensor: lines of temperature and humidity on a pseudo-terminal.

    .venv/bin/python -m tools.pty_sensor var/serial/tty

makes the device `var/serial/tty` and writes a line a second to it. Ctrl-C unplugs it; started
again, it is plugged in again. `--garbage N` damages every Nth line, `--silent N` leaves it out.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import time
import tty
from contextlib import suppress
from pathlib import Path

FORMATS = {
    "csv": "{temperature:.1f},{humidity:.1f}",
    "json": '{{"temperature": {temperature:.1f}, "humidity": {humidity:.1f}}}',
    "key=value": "temperature={temperature:.1f} humidity={humidity:.1f}",
}


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description="Simulate a serial sensor on a pseudo-terminal.")
    parser.add_argument("device", type=Path, help="path at which the device appears")
    parser.add_argument("--format", choices=FORMATS, default="csv")
    parser.add_argument("--interval", type=float, default=1.0, help="seconds between two lines")
    parser.add_argument("--garbage", type=int, default=0, metavar="N", help="damage every Nth line")
    parser.add_argument("--silent", type=int, default=0, metavar="N", help="leave every Nth out")
    given = parser.parse_args()
    if given.interval <= 0:
        parser.error("--interval must be above 0")
    if given.device.exists() and not given.device.is_symlink():
        parser.error(f"{given.device} exists; give a path that is free")
    serve(given)


def serve(given: argparse.Namespace) -> None:
    """Write lines until Ctrl-C."""
    ours, theirs = os.openpty()
    tty.setraw(theirs)
    os.set_blocking(ours, False)
    given.device.parent.mkdir(parents=True, exist_ok=True)
    given.device.unlink(missing_ok=True)
    given.device.symlink_to(os.ttyname(theirs))
    print(f"plugged in: {given.device}; Ctrl-C unplugs it", file=sys.stderr)
    temperature, humidity, n = 21.0, 45.0, 0
    try:
        while True:
            n += 1
            temperature += random.gauss(0.0, 0.05)
            humidity += random.gauss(0.0, 0.1)
            line = FORMATS[given.format].format(temperature=temperature, humidity=humidity)
            if given.garbage and n % given.garbage == 0:
                line = line[:3] + "\xff\x00?"
            if not given.silent or n % given.silent:
                with suppress(BlockingIOError):  # nobody reads: a wire does not wait either
                    os.write(ours, line.encode("latin-1") + b"\r\n")
            time.sleep(given.interval)
    except KeyboardInterrupt:
        print("unplugged", file=sys.stderr)
    finally:
        given.device.unlink(missing_ok=True)


if __name__ == "__main__":
    main()
