"""DHT reader: the program that starts the sensor at its pace and reports the results.

It ends at end of file on standard input, which means that the agent is gone. As the program may
hang at that moment, a thread waits for end of file, and kills the whole process group if shutdown
takes too long. A clean exit kills the group, too.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from typing import Final, Protocol

from sensors.base import ChecksumError, SensorError
from sensors.dht.pace import Pace
from sensors.dht.protocol import Failed, Job, Line, Measured, Ready, Unusable, encode

GRACE_S: Final = 2.0  # for a clean shutdown once the agent is gone


class Sensor(Protocol):
    """The sensor that a factory opens."""

    def measure(self) -> tuple[float, float]:
        """Start the sensor once; returns °C and % as sent. ChecksumError if its answer is damaged,
        SensorError if there is none."""
        ...

    def power(self, *, on: bool) -> None:
        """Switch the power pin; called only if the job names one."""
        ...

    def close(self) -> None:
        """Release the pins."""
        ...


Factory = Callable[[Job], Sensor]


class Agent:
    """The agent at the other end of standard input and output.

    Both are hidden from the rest of the process: a library's child process writes to standard
    output, and would keep these pipes open after its parent's end.
    """

    def __init__(self) -> None:
        self._in, self._out = os.dup(0), os.dup(1)  # not inherited
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null, 0)
        os.dup2(null, 1)
        os.close(null)
        self.gone = threading.Event()
        self._first_ms: int | None = None
        self._asked = threading.Event()
        threading.Thread(target=self._watch, daemon=True).start()

    def tell(self, line: Line) -> None:
        """Write a line; if the pipe is closed, the agent is gone."""
        try:
            os.write(self._out, encode(line))
        except BrokenPipeError:
            self.gone.set()

    def first_start(self) -> float | None:
        """Wait for the time of the first start, in seconds; None if the agent is gone."""
        self._asked.wait()
        return None if self._first_ms is None else self._first_ms / 1000

    def _watch(self) -> None:
        with suppress(ValueError, OSError):
            word, _, first_ms = os.read(self._in, 100).partition(b" ")
            if word == b"start":
                self._first_ms = int(first_ms)
                self._asked.set()
                while os.read(self._in, 100):  # nothing follows but end of file
                    pass
        self.gone.set()
        self._asked.set()
        # The rest of the process may hang, and may have children.
        time.sleep(GRACE_S)
        os.killpg(0, signal.SIGKILL)


def start_once(sensor: Sensor, pace: Pace) -> Line:
    """Start the sensor; returns the line to report."""
    pace.start(time.monotonic())
    values, failed = None, None
    try:
        values = sensor.measure()
    except ChecksumError as error:
        failed = Failed(True, str(error))
    except SensorError as error:
        failed = Failed(False, str(error))
    except Exception as error:  # noqa: BLE001 - whatever a library raises, there is a next start
        failed = Failed(False, f"{type(error).__name__}: {error}")
    answered = failed is None or failed.damaged
    measured_at = pace.end(time.monotonic(), answered=answered, valid=failed is None)
    if failed is not None:
        return failed
    if measured_at is None or values is None:
        return Failed(False, "what it sent was measured too long ago; it is started again")
    return Measured(round(measured_at * 1000), values)


def switch_on(sensor: Sensor, job: Job, gone: threading.Event) -> None:
    """Power the sensor, after cutting its power if the job says so, and wait until it is up."""
    if job.power_off_s:
        sensor.power(on=False)
        gone.wait(job.power_off_s)
    sensor.power(on=True)
    gone.wait(job.rule_s)


def run(job: Job, agent: Agent) -> None:
    """Read the sensor until the agent is gone."""
    module, _, name = job.factory.partition(":")
    try:
        factory: Factory = getattr(import_module(module), name)
        sensor = factory(job)
    except SensorError as error:
        agent.tell(Unusable(str(error)))
        return
    except Exception as error:  # noqa: BLE001 - whatever a library raises, somebody has to read it
        agent.tell(Unusable(f"{type(error).__name__}: {error}"))
        return
    try:
        agent.tell(Ready())
        if job.power_pin:
            switch_on(sensor, job, agent.gone)
        first = agent.first_start()
        if first is not None:
            pace = Pace(job.rule_s, first, job.interval_s)
            while not agent.gone.wait(max(0.0, pace.next_at - time.monotonic())):
                agent.tell(start_once(sensor, pace))
    finally:
        sensor.close()


def main() -> None:
    """Run the program; the arguments are those of a `Job`."""
    # A library that has to clean up replaces this handler by its own.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    # Registered first, so it runs last: it kills what a library left in the group.
    atexit.register(os.killpg, 0, signal.SIGKILL)
    run(Job.parse(sys.argv[1:]), Agent())
