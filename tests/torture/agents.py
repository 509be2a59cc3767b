"""The whole agent, killed at random moments and started on what a power cut left.

A chain is one node's life: start, run, kill -9, an image of its disk with unsynced changes lost,
start on that image, and so on. Each start must join the master and answer for everything that the
history acknowledged in all lives before; clocks jump, disks fail and boots change in between.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random
from typing import Any, Final, NamedTuple
from uuid import UUID

import zmq

from agent.edge.timebase import Correction
from agent.wire import codec
from agent.wire.messages import Series, Window
from agent.wire.node_messages import (
    EventsTaken,
    Goodbye,
    Heartbeat,
    Hello,
    MasterMessage,
    NodeEvents,
    NodeMessage,
    Subtask,
    SubtaskResult,
    Welcome,
)
from agent.wire.packed import Float32Column
from tests.torture import recording
from tests.torture.cuts import HISTORY, ROOT, RULES, laid_out, scratch
from tests.torture.disk import Disk, Survival, drawn
from tests.torture.recording import MARK, Control, Operation

LAUNCHER: Final = (sys.executable, "-m", "tests.torture.launcher")
FAULTS: Final = (recording.FULL, recording.READ_ONLY, recording.BROKEN, recording.NO_SYNC)
RECOVER_S: Final = 20.0  # after the disk works again
MISSING: Final = -1e9  # in place of a value that is NaN
JOIN_S: Final = 30.0
DAY_S: Final = 86_400.0
SENSORS: Final = {"s1": ("t1", "h1"), "s2": ("t2", "h2")}
ALL: Final = Survival("all", 1.0, 0.0, garbage=False)
CONFIG: Final = """
[node]
name = "n1"
areas = ["b1/f4/r413"]
[master]
address = "{address}"
[history]
commit_s = {commit_s}
group_readings = {group_readings}
retention_s = 31622400.0
[events]
backlog_per_s = 10000.0
[[sensor]]
name = "s1"
driver = "synthetic"
interval_s = 0.01
options = {{ seed = {seed}, noise = 2.0 }}
channels = {{ temperature = {{ name = "t1" }}, humidity = {{ name = "h1" }} }}
[[sensor]]
name = "s2"
driver = "synthetic"
interval_s = 0.03
options = {{ seed = {seed}, noise = 3.0 }}
channels = {{ temperature = {{ name = "t2" }}, humidity = {{ name = "h2", gain = 0.5 }} }}
"""


class StubMaster:
    """Plays the master of one node: a ROUTER that knows what it was told."""

    def __init__(self) -> None:
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.ROUTER)
        self._socket.setsockopt(zmq.LINGER, 0)
        self.address = f"tcp://127.0.0.1:{self._socket.bind_to_random_port('tcp://127.0.0.1')}"
        self._decoder: codec.Decoder[NodeMessage] = codec.Decoder(
            NodeMessage, codec.MAX_RESULT_BYTES
        )
        self._peer = b""
        self._asked = 0
        self.events: dict[int, int] = {}  # sequence: how often it came since the last hello
        self.taken: set[int] = set()
        self.takes = True

    def close(self) -> None:
        self._socket.close()
        self._context.term()

    def join(self, agent: subprocess.Popen[str]) -> Hello | None:
        """The hello of an agent, answered; None if the agent ends first."""
        hello = self._wait(Hello, lambda: agent.poll() is None)
        return hello if isinstance(hello, Hello) else None

    def ask(self, agent: subprocess.Popen[str], channels: tuple[str, ...]) -> SubtaskResult | None:
        """All readings of these channels."""
        while True:
            self._asked += 1
            self._send(Subtask(self._asked, Window(start_ms=0, end_ms=2**53 - 1), channels))
            result = self._wait(SubtaskResult | Hello, lambda: agent.poll() is None)
            if not isinstance(result, Hello):  # which may have crossed the subtask
                return result if isinstance(result, SubtaskResult) else None

    def hear(self, enough: Callable[[], bool], seconds: float = 10.0) -> None:
        """Take messages until it is enough, or for that long."""
        until = time.monotonic() + seconds
        while not enough() and time.monotonic() < until:
            if self._socket.poll(20):
                self._receive()

    def _wait(self, kind: Any, alive: Callable[[], bool]) -> NodeMessage | None:
        until = time.monotonic() + JOIN_S
        while time.monotonic() < until:
            if self._socket.poll(50):
                message = self._receive()
                if isinstance(message, kind):
                    return message
            elif not alive():
                return None
        return None

    def _receive(self) -> NodeMessage | None:
        peer, frame = self._socket.recv_multipart()
        message, _ = self._decoder.decode(frame)
        if isinstance(message, Hello):
            self._peer = peer
            self.events = {}
            self._send(Welcome(message.incarnation, 60.0, takes_events=True))
        elif peer != self._peer or isinstance(message, Goodbye):
            return None  # of an agent that was killed
        elif isinstance(message, Heartbeat):
            self._send(message)
        elif isinstance(message, NodeEvents):
            sequences = [event.sequence for event in message.events]
            self.events = dict(Counter(self.events) + Counter(sequences))
            if self.takes:
                self.taken.update(sequences)
                self._send(EventsTaken(message.incarnation, message.history, tuple(sequences)))
        return message

    def _send(self, message: MasterMessage) -> None:
        self._socket.send_multipart([self._peer, codec.encode(message)])


class Reading:
    """A reading that an agent appended."""

    __slots__ = ("acknowledged", "boot", "monotonic_ms", "synchronised", "times")

    def __init__(self, boot: str, monotonic_ms: int, time_ms: int, synchronised: bool) -> None:
        self.boot = boot
        self.monotonic_ms = monotonic_ms
        self.times = {time_ms}
        self.synchronised = synchronised
        self.acknowledged = False


class Life:
    """What the marks of a chain's agents tell, as far as the disk's images go."""

    def __init__(self) -> None:
        self.history = ""
        self.readings: dict[tuple[str, tuple[float, ...]], Reading] = {}
        self.events: set[int] = set()
        self.twice = 0  # sequences that were given to two events
        self.removals: set[int] = set()
        self._boot = ""
        self._appended: list[Reading] = []
        self._latest: tuple[Correction, bool] | None = None

    def learn(self, mark: str) -> None:
        """Take in one mark."""
        kind, *told = mark.split()
        match kind:
            case "h":
                (self._boot,) = told
                self._appended = []
                self._latest = None
            case "r":
                self._reading(told)
            case "a":
                acknowledged, given_up, history = int(told[0]), int(told[1]), told[2]
                if acknowledged:
                    self.history = history
                if acknowledged == len(self._appended) and not given_up:
                    for reading in self._appended:
                        reading.acknowledged = True
            case "c" | "C":
                self._correct(told, done=kind == "C")
            case "e":
                self.twice += int(told[0]) in self.events
                self.events.add(int(told[0]))
            case "t":
                self.removals.update(map(int, told))

    def _reading(self, told: list[str]) -> None:
        sensor, monotonic_ms, time_ms, synchronised, *values = told
        reading = Reading(self._boot, int(monotonic_ms), int(time_ms), synchronised == "1")
        if self._latest is not None:  # stamped before a correction, and appended after it
            self._move(reading, *self._latest)
        key = _key(Float32Column.of(map(float, values)).numbers())
        self.readings[sensor, key] = reading
        self._appended.append(reading)

    def _correct(self, told: list[str], *, done: bool) -> None:
        *times, every, synchronised = map(int, told)
        correction = Correction(*times, every=bool(every), synchronised=bool(synchronised))
        self._latest = correction, done
        for reading in self.readings.values():
            self._move(reading, correction, done)

    def _move(self, reading: Reading, correction: Correction, done: bool) -> None:
        if (
            reading.boot == self._boot
            and correction.since_monotonic_ms
            <= reading.monotonic_ms
            < correction.until_monotonic_ms
            and (correction.every or not reading.synchronised)
        ):
            moved = reading.monotonic_ms + correction.offset_ms(reading.monotonic_ms)
            reading.times = {moved} if done else reading.times | {moved}
            if done:
                reading.synchronised = correction.synchronised


class Verdict(NamedTuple):
    """What came of one start."""

    wrong: list[str]
    acknowledged: int  # readings that had to be there
    judged: bool = True  # it was not killed before it had joined


class Chain:
    """One node's life; `rounds` says how each start went."""

    def __init__(self, recorder: str, seed: int, folder: Path) -> None:
        self._recorder = recorder
        self._seed = seed
        self._draw = Random(f"chain {seed}")
        self._folder = folder
        self._disk_folder = folder / "disk"
        self._files: dict[str, bytes] = {}
        self._log = folder / "log"
        self._control = Control(f"{folder}/control")
        self._master = StubMaster()
        self._same_boot = False  # only the process died
        self._how = ""  # the image was made, for the report of a violation
        self._past: list[str] = []  # the marks of all lives before, up to their cuts

    def rounds(self, count: int) -> Iterator[Verdict]:
        """Start, judge, kill, cut, so many times; the first start is on an empty disk."""
        try:
            for number in range(count + 1):
                verdict = self._round()
                if number or verdict.wrong:
                    yield verdict
                if verdict.wrong:
                    return
        finally:
            self._master.close()

    def _round(self) -> Verdict:
        draw = self._draw
        if not self._same_boot:
            (self._folder / "boot").write_text(f"{UUID(int=draw.getrandbits(128))}\n")
            self._control.shift_clock(draw.choice((0.0, 0.0, -14 * DAY_S, 14 * DAY_S)))
            self._control.synchronised(draw.random() < 0.4)
        laid_out(self._files, self._disk_folder)
        self._write_config()
        self._log.unlink(missing_ok=True)
        failing = draw.random() < 0.15
        if failing:
            self._control.fail(draw.choice(FAULTS))
        with self._started() as agent:
            if draw.random() < 0.2:  # killed while it starts
                self._run_for(agent, draw.randrange(40))
                verdict = Verdict([], 0, judged=False)
            else:
                verdict = self._judge(agent, failing=failing)
                if not verdict.wrong:
                    verdict.wrong.extend(self._live(agent))
        self._control.mend()
        wrong = [f"{line} [{self._how}, disk failing: {failing}]" for line in verdict.wrong]
        self._cut()
        return verdict._replace(wrong=wrong)

    def _write_config(self) -> None:
        draw = Random(self._seed)
        (self._folder / "edge.toml").write_text(
            CONFIG.format(
                address=self._master.address,
                commit_s=draw.choice((0.02, 0.1, 0.3)),
                group_readings=draw.choice((7, 30)),
                seed=self._draw.randrange(1 << 30),
            ).replace("[history]\n", f'[history]\npath = "disk/{HISTORY}"\n')
        )

    @contextmanager
    def _started(self) -> Iterator[subprocess.Popen[str]]:
        with (self._folder / "stderr").open("w") as stderr:
            agent = subprocess.Popen(
                [*LAUNCHER, "--config", f"{self._folder}/edge.toml"],
                cwd=ROOT,
                env=recording.environment(
                    self._recorder,
                    str(self._disk_folder),
                    str(self._log),
                    control=f"{self._folder}/control",
                    boot=f"{self._folder}/boot",
                ),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=stderr,
                text=True,
            )
        try:
            yield agent
        finally:
            agent.kill()
            agent.wait()

    def _judge(self, agent: subprocess.Popen[str], *, failing: bool) -> Verdict:
        """Whether it joins and has everything, at the latest when the disk works again."""
        life = self._life(self._past)
        self._master.takes = True
        hello = self._master.join(agent)
        if hello is None:
            return Verdict([f"did not start: {self._state(agent)}"], 0)
        wrong = []
        if failing:
            self._control.mend()
        elif life.history and hello.history != life.history:
            wrong.append(f"another history: {self._stderr()}")
        if life.twice:
            wrong.append(f"{life.twice} sequences were given to two events")
        until = time.monotonic() + RECOVER_S
        while (found := self._answers(agent, life)) and failing and time.monotonic() < until:
            self._master.hear(lambda: agent.poll() is not None, 0.1)
        wrong += found
        waiting = life.events - life.removals - self._master.taken
        self._master.hear(lambda: waiting <= self._master.events.keys() | self._master.taken)
        if lost := waiting - self._master.events.keys():
            wrong.append(f"LOST acknowledged events {sorted(lost)[:5]}")
        acknowledged = sum(reading.acknowledged for reading in life.readings.values())
        return Verdict(wrong, acknowledged)

    def _answers(self, agent: subprocess.Popen[str], life: Life) -> list[str]:
        """What is wrong with its answers about all that ever was."""
        wrong: list[str] = []
        for sensor, channels in SENSORS.items():
            result = self._master.ask(agent, channels)
            if result is None or result.outcome == "error":
                wrong.append(f"no answer: {result} {self._state(agent)}")
                continue
            now = self._life(self._past + self._marks())
            for key, reading in life.readings.items():
                # It may have put times right since it started.
                reading.times |= now.readings[key].times
            wrong += _missing(life, sensor, channels, result.series)
            wrong += _unheard_of(now, sensor, result.series)
        return wrong

    def _live(self, agent: subprocess.Popen[str]) -> list[str]:
        """Let it work for a while, its clock jump, its disk fail, and the master take or refuse
        events; what is wrong then."""
        draw = self._draw
        self._master.takes = draw.random() < 0.5
        self._run_for(agent, draw.randrange(200))
        if draw.random() < 0.5:
            self._control.shift_clock(draw.choice((0.0, -14 * DAY_S, 14 * DAY_S)))
        self._control.synchronised(draw.random() < 0.6)
        if draw.random() < 0.3:
            self._control.fail(draw.choice(FAULTS), after=draw.randrange(5))
            self._run_for(agent, draw.randrange(200))
            self._control.mend()
        self._run_for(agent, draw.randrange(200))
        return [f"ended: {self._state(agent)}"] if agent.poll() is not None else []

    def _run_for(self, agent: subprocess.Popen[str], records: int) -> None:
        """Until it has recorded so much more."""
        size = self._log.stat().st_size if self._log.exists() else 0
        enough = size + records * 200
        self._master.hear(
            lambda: (
                agent.poll() is not None
                or (self._log.exists() and self._log.stat().st_size >= enough)
            ),
            5.0,
        )

    def _operations(self) -> list[Operation]:
        raw = self._log.read_bytes() if self._log.exists() else b""
        return list(recording.operations(raw, str(self._disk_folder)))

    def _marks(self) -> list[str]:
        return [done.data.decode() for done in self._operations() if done.kind == MARK]

    def _life(self, marks: list[str]) -> Life:
        life = Life()
        for mark in marks:
            life.learn(mark)
        return life

    def _cut(self) -> None:
        """The power fails at the kill, or at some moment before it."""
        draw = self._draw
        log = self._operations()
        self._same_boot = draw.random() < 0.2
        at = len(log) if self._same_boot or draw.random() < 0.3 else draw.randrange(len(log) + 1)
        disk = Disk(draw.choice(RULES), self._files)
        for done in log[:at]:
            disk.apply(done)
        self._past += disk.marks
        survival = ALL if self._same_boot else drawn(draw)
        self._files = disk.image(draw, survival)
        self._how = f"{disk.rules} {survival}, cut at {at} of {len(log)}"

    def _state(self, agent: subprocess.Popen[str]) -> str:
        """For the report of a violation."""
        if agent.poll() is not None:
            return f"it ended with {agent.returncode}: {self._stderr()}"
        agent.send_signal(signal.SIGUSR1)
        with suppress(subprocess.TimeoutExpired):
            agent.wait(0.5)
        return f"it hangs: {self._stderr()}"

    def _stderr(self) -> str:
        return (self._folder / "stderr").read_text()[-3000:]


def _rows(channels: tuple[str, ...], series: Series | None) -> list[tuple[int, tuple[float, ...]]]:
    if series is None:
        return []
    times = series.time_ms.numbers()
    missing = Float32Column.of([float("nan")] * len(times))  # a column that no reading has
    columns = [series.values.get(name, missing).numbers() for name in channels]
    return list(zip(times, map(_key, zip(*columns, strict=True)), strict=True))


def _key(values: Iterable[float]) -> tuple[float, ...]:
    """Values to be compared; what is missing equals itself."""
    return tuple(MISSING if value != value else value for value in values)


def _missing(
    life: Life, sensor: str, channels: tuple[str, ...], series: Series | None
) -> Iterator[str]:
    found: dict[tuple[float, ...], list[int]] = {}
    for time_ms, values in _rows(channels, series):
        found.setdefault(values, []).append(time_ms)
    lost = 0
    for (name, values), reading in life.readings.items():
        if name != sensor:
            continue
        times = found.get(values, [])
        lost += reading.acknowledged and not times
        if len(times) > 1:
            yield f"{sensor} {values} is there {len(times)} times"
        for time_ms in times:
            # A group along a ramp moves as one, and the clock may be slewed within a group.
            if not any(abs(time_ms - may) <= 500 for may in reading.times):
                yield f"{sensor} {values} has time {time_ms}, not {sorted(reading.times)}"
    if lost:
        yield f"LOST {lost} acknowledged readings of {sensor}"


def _unheard_of(life: Life, sensor: str, series: Series | None) -> Iterator[str]:
    for time_ms, values in _rows(SENSORS[sensor], series):
        if (sensor, values) not in life.readings:
            yield f"{sensor} {values} at {time_ms} was never appended"


def chain(recorder: str, seed: int, rounds: int) -> Iterator[Verdict]:
    """The verdicts of a chain, one a start on an image."""
    with scratch() as folder:
        yield from Chain(recorder, seed, Path(folder)).rounds(rounds)
