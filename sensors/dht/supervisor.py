"""DHT supervisor: starts, ends and restarts the reader's process, as a pure state machine.

Events go in with the monotonic time in seconds, instructions come out; `sensors.dht.driver`
executes them. A reader that ends, falls silent, takes too much processor time or writes an invalid
line is restarted after a pause that doubles. The power of a sensor that keeps failing is cut, if a
pin controls it: the next reader does that first.

Events and instructions are msgspec structs, as each of ten named tuples would take 3 KiB more.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from enum import Enum
from typing import Any, ClassVar, Final

from msgspec import Struct

from sensors.dht.protocol import Failed, Line, Measured, Ready, Unusable

READY_S: Final = 60.0  # timeout of a reader that loads Blinka from a slow card
SILENCE_S: Final = 15.0  # timeout of a reader that should have written a line
END_S: Final = 2.0  # timeout of a reader that was asked to end
CPU_WINDOW_S: Final = 20.0  # over which processor time is judged
FIRST_PAUSE_S: Final = 1.0
MAX_PAUSE_S: Final = 300.0
PROVEN_S: Final = 600.0  # a reader that ran this long resets the pauses
HISTORY_KEPT: Final = 20  # transitions shown in the error for an impossible event


class State(Enum):
    """The reader's state."""

    NEW = "new"
    STARTING = "starting"  # the process runs, the sensor is not ready yet
    READY = "ready"  # it waits for the first read
    RUNNING = "running"
    ENDING = "ending"  # asked to end
    WAITING = "waiting"  # no process; the next one is started later
    STOPPED = "stopped"


# --- events -----------------------------------------------------------------------------------


class Start(Struct, frozen=True):
    """The driver is opened."""


class Heard(Struct, frozen=True):
    """The reader wrote a line; None if it is invalid."""

    line: Line | None


class Used(Struct, frozen=True):
    """The processor time of the reader and its children since its start."""

    cpu_s: float


class Exited(Struct, frozen=True):
    """The process ended; `how` gives the reason as far as its parent knows it."""

    how: str


class Tick(Struct, frozen=True):
    """A read is requested."""


class Stop(Struct, frozen=True):
    """The driver is closed."""


Event = Start | Heard | Used | Exited | Tick | Stop


# --- instructions -----------------------------------------------------------------------------


class Spawn(Struct, frozen=True):
    """Start a reader; the sensor's power is off for `power_off_s` first."""

    power_off_s: float


class Begin(Struct, frozen=True):
    """Tell the reader when to start the sensor."""


class End(Struct, frozen=True):
    """Ask the reader to end, or, if `hard`, kill it and all its children."""

    hard: bool


class Report(Struct, frozen=True):
    """Report in one line why there are no values for a while."""

    text: str


Instruction = Spawn | Begin | End | Report
Instructions = list[Instruction]


class InvalidTransition(Exception):
    """An event that is impossible in this state; the text includes the transitions before it."""


class Supervisor:
    """Supervises the readers of one sensor.

    `cpu_share` is the average share of a core that a reader may take, and `power_after` how many
    starts of the sensor in a row may fail before its power is cut for `power_off_s`; 0 for never.
    """

    def __init__(
        self, *, interval_s: float, cpu_share: float, power_after: int, power_off_s: float
    ) -> None:
        self.state = State.NEW
        self.restarts = 0
        self._silence_s = interval_s + power_off_s + SILENCE_S
        self._cpu_share = cpu_share
        self._power_after = power_after
        self._power_off_s = power_off_s
        self._cuts_power = False  # before the next reader uses the sensor
        self._failures = 0  # starts of the sensor, in a row
        self._pauses = 0  # in a row
        self._started_at = 0.0
        self._due_at = 0.0  # when the timeout or pause ends
        self._cpu: tuple[float, float] | None = None  # the window's begin: time, seconds used
        self._unusable = ""
        self._happened: deque[tuple[State, type, float]] = deque(maxlen=HISTORY_KEPT)

    def handle(self, event: Event, now: float) -> Instructions:
        """Handle `event` at monotonic time `now`; InvalidTransition if it is impossible now."""
        kind = type(event)
        self._happened.append((self.state, kind, now))
        action = self.TRANSITIONS.get((self.state, kind))
        if action is None:
            story = [
                f"{state.value} {what.__name__} at {at:.3f}" for state, what, at in self._happened
            ]
            raise InvalidTransition(f"dht reader: {'; '.join(story)}")
        return action(self, event, now)

    # --- actions ---

    def _spawn(self, _: Event, now: float) -> Instructions:
        self.state = State.STARTING
        self._started_at = now
        power_off_s = self._power_off_s if self._cuts_power else 0.0
        self._due_at = now + READY_S + power_off_s
        self._cuts_power = False
        self._failures = 0
        self._cpu = None
        self._unusable = ""
        return [Spawn(power_off_s)]

    def _spawn_when_due(self, event: Event, now: float) -> Instructions:
        if now < self._due_at:
            return []
        self.restarts += 1
        return self._spawn(event, now)

    def _greeted(self, event: Heard, now: float) -> Instructions:
        match event.line:
            case Ready():
                self.state = State.READY
                return []
            case Unusable(text):
                self._unusable = text  # its end follows
                return []
        return self._end("the reader wrote what is no greeting", now)

    def _begin(self, _: Event, now: float) -> Instructions:
        self.state = State.RUNNING
        self._due_at = now + self._silence_s
        return [Begin()]

    def _listen(self, event: Heard, now: float) -> Instructions:
        self._due_at = now + self._silence_s
        match event.line:
            case Measured():
                self._failures = 0
                return []
            case Failed(text=text):
                self._failures += 1
                if not self._power_after or self._failures < self._power_after:
                    return []
                self._cuts_power = True
                return self._end(
                    f"{text}, {self._failures} times in a row; its power is cut for "
                    f"{self._power_off_s:g} s",
                    now,
                )
        return self._end("the reader wrote what is no line", now)

    def _judge(self, event: Used, now: float) -> Instructions:
        if self._cpu is None:
            self._cpu = (now, event.cpu_s)
        begin, used_s = self._cpu
        if now - begin < CPU_WINDOW_S:
            return []
        share = (event.cpu_s - used_s) / (now - begin)
        self._cpu = (now, event.cpu_s)
        if share <= self._cpu_share:
            return []
        return self._end(
            f"the reader took {share:.0%} of a core for {now - begin:.0f} s, more than "
            f"{self._cpu_share:.0%}",
            now,
        )

    def _doubt(self, _: Event, now: float) -> Instructions:
        if now < self._due_at:
            return []
        return self._end("the reader has fallen silent", now)

    def _insist(self, _: Event, now: float) -> Instructions:
        if now < self._due_at:
            return []
        self._due_at = now + END_S
        return [End(hard=True)]

    def _end(self, why: str, now: float) -> Instructions:
        self.state = State.ENDING
        self._due_at = now + END_S
        return [End(hard=False), Report(f"{why}; it is started again")]

    def _ended(self, event: Exited, now: float) -> Instructions:
        why = self._unusable or f"the reader {event.how}"
        pause_s = self._wait(now)
        return [Report(f"{why}; it is started again in {pause_s:g} s")]

    def _rest(self, _: Event, now: float) -> Instructions:
        self._wait(now)
        return []

    def _wait(self, now: float) -> float:
        if now - self._started_at >= PROVEN_S:
            self._pauses = 0
        pause_s = min(MAX_PAUSE_S, FIRST_PAUSE_S * 2.0**self._pauses)
        self._pauses = min(self._pauses + 1, 16)  # far beyond the longest
        self.state = State.WAITING
        self._due_at = now + pause_s
        return pause_s

    def _stop(self, _: Event, __: float) -> Instructions:
        has_reader = self.state not in {State.NEW, State.WAITING}
        self.state = State.STOPPED
        return [End(hard=False)] if has_reader else []

    def _nothing(self, _: Event, __: float) -> Instructions:
        return []

    # Impossible pairs have no entry: without a process there are no lines, usage or exits.
    TRANSITIONS: ClassVar[
        dict[tuple[State, type], Callable[[Supervisor, Any, float], Instructions]]
    ] = {
        (State.NEW, Start): _spawn,
        (State.NEW, Stop): _stop,
        (State.STARTING, Heard): _greeted,
        (State.STARTING, Used): _nothing,  # loading its libraries is not limited
        (State.STARTING, Exited): _ended,
        (State.STARTING, Tick): _doubt,
        (State.STARTING, Stop): _stop,
        (State.READY, Heard): _listen,
        (State.READY, Used): _nothing,
        (State.READY, Exited): _ended,
        (State.READY, Tick): _begin,
        (State.READY, Stop): _stop,
        (State.RUNNING, Heard): _listen,
        (State.RUNNING, Used): _judge,
        (State.RUNNING, Exited): _ended,
        (State.RUNNING, Tick): _doubt,
        (State.RUNNING, Stop): _stop,
        (State.ENDING, Heard): _nothing,  # written before the reader was asked to end
        (State.ENDING, Used): _nothing,
        (State.ENDING, Exited): _rest,
        (State.ENDING, Tick): _insist,
        (State.ENDING, Stop): _stop,
        (State.WAITING, Tick): _spawn_when_due,
        (State.WAITING, Stop): _stop,
        (State.STOPPED, Heard): _nothing,
        (State.STOPPED, Used): _nothing,
        (State.STOPPED, Exited): _nothing,
        (State.STOPPED, Tick): _nothing,
    }
