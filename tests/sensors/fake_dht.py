"""A sensor that does what its pin says: words with a comma between them, one a start; the last one
again and again. Its power pin, where there is one, is a file that gets a line for every switch."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

from sensors.base import ChecksumError, SensorError
from sensors.dht.protocol import Job

# A child of a library's that does not listen, and holds whatever it inherited.
CHILD = """
import signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print(flush=True)
while True:
    signal.pause()
"""


class FakeSensor:
    def __init__(self, job: Job) -> None:
        self._words = job.pin.split(",")
        self._starts = 0
        self._stuck = Path(f"{job.use_pulseio}.stuck")
        self._power = Path(job.power_pin) if job.power_pin else None

    def measure(self) -> tuple[float, float]:
        word = self._words[min(self._starts, len(self._words) - 1)]
        self._starts += 1
        match word:
            case "damaged":
                raise ChecksumError("A full buffer was not returned. Try again.")
            case "silent":
                raise SensorError("DHT sensor not found, check wiring")
            case "broken":
                raise KeyError("what a library may raise\nin two lines")
            case "die":
                os._exit(7)
            case "spin":
                while True:
                    pass
            case "stubborn":
                signal.signal(signal.SIGTERM, signal.SIG_IGN)
                self._say_so()
                while True:
                    pass
            case "hang":
                self._say_so()
                threading.Event().wait()
            case "print":
                os.write(1, b"measured 1 2 3\n")
                sys.stdout.write("measured 1 2 3\n")
                sys.stdout.flush()
        return 20.0 + self._starts, 50.0

    def _say_so(self) -> None:
        """Whoever opened this fifo learns that the start does not return."""
        if self._stuck.is_fifo():
            self._stuck.write_bytes(b"")

    def power(self, *, on: bool) -> None:
        assert self._power is not None
        with self._power.open("a") as file:
            file.write("on\n" if on else "off\n")

    def close(self) -> None:
        pass


def open_sensor(job: Job) -> FakeSensor:
    return FakeSensor(job)


def open_with_child(job: Job) -> FakeSensor:
    """`job.use_pulseio` names the file for the number of the child's process."""
    child = subprocess.Popen([sys.executable, "-c", CHILD], stdout=subprocess.PIPE)
    assert child.stdout is not None
    child.stdout.readline()  # it is deaf by now
    Path(job.use_pulseio).write_text(str(child.pid))
    return FakeSensor(job)


def open_played(job: Job) -> FakeSensor:
    """The words are names of pulse trains."""
    from tests.sensors.dht_frames import BYTES, played, seen

    class Played(FakeSensor):
        def measure(self) -> tuple[float, float]:
            word = self._words[min(self._starts, len(self._words) - 1)]
            self._starts += 1
            return trains[word].measure()

    sensor = Played(job)
    # Here, not in the first start: importing the library takes its time.
    trains = {name: played(BYTES[name][0], seen(name, BYTES[name][1])) for name in sensor._words}
    return sensor


def refuse(job: Job) -> FakeSensor:
    raise SensorError("no pin D44; did you mean D4?")


def vanish(job: Job) -> FakeSensor:
    os._exit(9)
