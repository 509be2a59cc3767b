"""Agent's side of a DHT: collects the reader's measurements and keeps a reader running."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable
from typing import Final

from sensors.base import ChecksumError, Described, Options, Reading, SensorError
from sensors.dht.models import MODELS, TRIES
from sensors.dht.process import Process
from sensors.dht.protocol import Failed, Job, Measured, Unusable, decode
from sensors.dht.supervisor import (
    Begin,
    End,
    Event,
    Exited,
    Heard,
    Report,
    Spawn,
    Start,
    State,
    Stop,
    Supervisor,
    Tick,
    Used,
)

ADAFRUIT: Final = "sensors.dht.adafruit:open_sensor"
OPEN_S: Final = 20.0  # for the first line of the first reader
CLOSE_S: Final = 1.0  # for a clean end of the last reader
END_S: Final = 2.0  # for the system to kill the process group
LEAD: Final = 0.7  # of an interval: how long before a read the measurement is started


class DhtDriver:
    """A DHT at its pin. A read returns the newest value since the previous read, with its age, and
    each value only once. `job` is the readers' job; `clock` is the supervisor's.
    """

    def __init__(
        self,
        job: Job,
        *,
        cpu_share: float,
        power_after: int,
        power_off_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.channels = MODELS[job.model].channels
        self._job = job
        self._clock = clock
        self._supervisor = Supervisor(
            interval_s=job.interval_s,
            cpu_share=cpu_share,
            power_after=power_after if job.power_pin else 0,
            power_off_s=power_off_s,
        )
        self._process: Process | None = None
        self._trouble = "the reader is starting"
        self._lines: list[Measured | Failed] = []  # since the previous read
        self._handle(Start())

    @property
    def restarts(self) -> int:
        """How often a reader was restarted."""
        return self._supervisor.restarts

    @property
    def reader(self) -> int | None:
        """The reader's process id; None while there is none."""
        return self._process.pid if self._process is not None else None

    def read(self) -> Reading:
        self._look()
        self._handle(Tick())
        lines, self._lines = self._lines, []
        measured = [line for line in lines if isinstance(line, Measured)]
        if measured:
            if self._supervisor.state is State.RUNNING:
                self._trouble = "nothing new since the value before"
            at_ms, values = measured[-1]
            return Reading(values, age_ms=max(0, round(time.monotonic() * 1000) - at_ms))
        damaged = any(isinstance(line, Failed) and line.damaged for line in lines)
        kind = ChecksumError if damaged else SensorError
        raise kind(f"{self._job.pin}: {self._trouble}")

    def preload(self) -> Iterable[tuple[int, Reading]]:
        return ()

    def close(self) -> None:
        self._handle(Stop())
        if self._process is None:
            return
        if self._process.reap(CLOSE_S) is None:
            self._process.end(hard=True)
            self._process.reap(END_S)
        self._process.close()
        self._process = None

    def check(self) -> None:
        """Wait for the first reader's first line; SensorError if the sensor is unusable here."""
        if self._process is None:
            raise self._unusable(self._trouble)
        self._process.wait_for_line(OPEN_S)
        unusable = self._take_lines()
        if unusable is not None:
            raise self._unusable(unusable)
        # An end without a line is not the sensor's fault: the reads will restart the reader.

    def _look(self) -> None:
        """Process what the reader did since the last call."""
        if self._process is None:
            return
        how = (
            self._process.reap()
        )  # first, as everything it wrote before its end is then in the pipe
        self._take_lines()
        if how is not None:
            self._process.close()
            self._process = None
            self._handle(Exited(how))
        else:
            self._handle(Used(self._process.cpu_s()))

    def _take_lines(self) -> str | None:
        """Process the reader's lines; returns why the sensor is unusable, if a line says so."""
        assert self._process is not None
        unusable = None
        for each in self._process.lines():
            try:
                line = decode(each)
            except ValueError:
                self._handle(Heard(None))
                continue
            self._handle(Heard(line))
            match line:
                case Measured():
                    self._lines.append(line)
                case Failed(text=text):
                    self._lines.append(line)
                    if (
                        self._supervisor.state is State.RUNNING
                    ):  # otherwise there is a worse problem
                        self._trouble = text
                case Unusable(text):
                    unusable = text
        return unusable

    def _handle(self, event: Event) -> None:
        """Pass `event` to the supervisor and execute its instructions."""
        for instruction in self._supervisor.handle(event, self._clock()):
            match instruction:
                case Spawn(power_off_s):
                    self._spawn(power_off_s)
                case Begin():
                    self._begin()
                case End(hard):
                    if self._process is not None:
                        self._process.end(hard=hard)
                case Report(text):
                    self._trouble = text

    def _spawn(self, power_off_s: float) -> None:
        try:
            self._process = Process(self._job._replace(power_off_s=power_off_s))
        except OSError as error:
            self._handle(Exited(f"cannot be started: {error.strerror}"))

    def _begin(self) -> None:
        """Schedule the measurements so that values are ready, and fresh, at each read."""
        assert self._process is not None
        self._trouble = "the sensor was started, and its first value is not there yet"
        interval_s = self._job.interval_s
        first = time.monotonic() + interval_s - min(LEAD * interval_s, TRIES * self._job.rule_s)
        self._process.start(round(first * 1000))

    def _unusable(self, why: str) -> SensorError:
        return SensorError(f"dht {self._job.pin}: {why}")


def open_driver(options: Options) -> DhtDriver | Described:
    """Open the sensor that `options` describe."""
    name = options.choice("model", MODELS) or "dht22"
    pin = options.text("pin")
    use_pulseio = options.flag("use_pulseio")
    power_pin = options.text("power_pin")
    power_off_s = options.number("power_off_s", 5.0)
    power_after = options.count("power_after", 10)
    cpu_share = options.number("cpu_share", 0.5)
    options.finish()
    if not sys.executable:
        raise options.error("this Python does not know its own program, which reads the sensor")
    if pin is None:
        raise options.error("give the pin of the sensor's data line, such as pin = 'D4'")
    if power_pin == pin:
        raise options.error(f"power_pin and pin are both {pin}")
    if power_pin is not None and not (power_off_s and power_after):
        raise options.error("power_off_s and power_after must be over 0 where there is a power_pin")
    if not cpu_share:
        raise options.error("cpu_share must be over 0")
    rule_s = MODELS[name].rule_s
    if options.interval_s < rule_s:
        raise options.error(
            f"a {name} gives a value every {rule_s:g} s at most: interval_s must be {rule_s:g} or "
            f"more, and is {options.interval_s:g}"
        )
    if options.leave:
        return Described(MODELS[name].channels)
    driver = DhtDriver(
        Job(
            factory=ADAFRUIT,
            model=name,
            pin=pin,
            use_pulseio={None: "", True: "yes", False: "no"}[use_pulseio],
            power_pin=power_pin or "",
            power_off_s=0.0,
            rule_s=rule_s,
            interval_s=options.interval_s,
        ),
        cpu_share=cpu_share,
        power_after=power_after,
        power_off_s=power_off_s,
    )
    if options.checking:
        try:
            driver.check()
        except BaseException:
            driver.close()
            raise
    return driver
