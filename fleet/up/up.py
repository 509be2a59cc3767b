"""`fleet up`: a master, a node and the live page that outlive the terminal; `fleet down`."""

from __future__ import annotations

import os
import select
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from types import FrameType
from typing import Final, NoReturn

from msgspec import Struct

from agent.client import Client, NoReplyError
from agent.wire.edge_config import EdgeSensor
from agent.wire.messages import Answer
from fleet.common import exits
from fleet.query import running
from fleet.query.running import Addresses, Running
from fleet.simulation.layout import FleetLayout, IadLayout, NodeLayout
from fleet.terminal import browser, output, screen
from fleet.terminal.summary import summarize
from fleet.terminal.typed import fleet_command, place
from fleet.terminal.units import format_duration
from fleet.testbed import page, processes
from fleet.testbed.run_folder import RunFolderError, explained, kept_folder
from fleet.testbed.testbed import Testbed, TestbedError, Triggers
from fleet.up import sensor as sensors
from sensors.base import SensorError
from sensors.registry import open_driver

IAD: Final = "home"
LOG: Final = "up.log"
LOOK_EVERY_S: Final = 0.2
# A sensor may need its time for the first reading.
FIRST_READING_S: Final = 30.0
WINDOW_S: Final = 600.0
READINGS_SHOWN: Final = 3
ANSWER_TIMEOUT_MS: Final = 2_000.0
# So that what ends at once is not started over and over.
RESTART_S: Final = 5.0
END_PATIENCE_S: Final = 30.0


class Options(Struct, frozen=True):
    """Options of the command line; `chosen` are the words that chose the sensor. Each sensor has a
    `node` of its own: what one measured is no history of another."""

    directory: Path
    sensor: EdgeSensor
    area: str
    node: str
    chosen: tuple[str, ...]

    @property
    def window_s(self) -> float:
        """Seconds of a query that has readings."""
        return max(WINDOW_S, READINGS_SHOWN * self.sensor.interval_s)

    @property
    def runs(self) -> str:
        """Key that tells one `fleet up` from another."""
        return shlex.join([*self.chosen, f"--area={self.area}"])


# --- start and end --------------------------------------------------------------------------------


def up(options: Options) -> int:
    """Start it in the background and wait until a query is answered; the exit status."""
    if found := _running():
        if found.directory != str(options.directory.resolve()):
            text = f"one runs already, of {found.directory}: `fleet down` in {found.folder} ends it"
            return exits.fail(text, exits.FAILED)
        if found.runs != options.runs:
            text = f"it runs already, with {found.runs}: `fleet down` ends it"
            return exits.fail(text, exits.FAILED)
        output.say("it runs already:")
        return _tell(found, options)
    try:
        _channels(options)
    except SensorError as error:
        return exits.fail(str(error), exits.USAGE)
    log = options.directory / LOG
    place = [f"--area={options.area}", f"--directory={options.directory}"]
    command = [*processes.agent_command("fleet"), "up", "--foreground", *options.chosen, *place]
    begun_s = time.monotonic()
    output.say(f"starting a master, and a node that reads {options.area} …")
    try:
        with kept_folder(options.directory):
            pass  # it is the child's to hold
        with log.open("ab") as said:
            before = said.tell()
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=said, stderr=said, start_new_session=True
            )
    except RunFolderError as error:
        return exits.fail(str(error), exits.FAILED)
    except OSError as error:
        return exits.fail(f"{log}: {error.strerror}", exits.FAILED)
    try:
        while (found := _running(process.pid)) is None and process.poll() is None:
            time.sleep(LOOK_EVERY_S)
    except KeyboardInterrupt:
        process.terminate()
        process.wait()
        return exits.fail("interrupted; nothing is left running", exits.INTERRUPTED)
    if found is None:
        with log.open("rb") as file:
            file.seek(before)
            reason = file.read().decode(errors="replace")
        if not reason:  # a full disk takes no log
            text = explained(f"it did not start, and {log} has no reason", options.directory)
            return exits.fail(text, exits.FAILED)
        sys.stderr.write(reason)
        return exits.FAILED
    output.say(f"up after {time.monotonic() - begun_s:.1f} s")
    try:
        return _tell(found, options, first=True)
    except KeyboardInterrupt:
        return exits.fail("interrupted; it runs: `fleet down` ends it", exits.INTERRUPTED)


def down() -> int:
    """End what `fleet up` started; the exit status."""
    found = _running()
    if found is None:
        return exits.fail("nothing to end: no `fleet up` runs here", exits.NOTHING)
    if not found.is_of_here:
        text = f"the `fleet up` that runs was started in {found.folder}: `fleet down` there ends it"
        return exits.fail(text, exits.FAILED)
    if not _end(found.pid):
        text = f"it has not ended in {END_PATIENCE_S:g} s; its process is {found.pid}"
        return exits.fail(text, exits.FAILED)
    output.say(f"ended; its readings and logs stay in {place(Path(found.directory))}/")
    return exits.DONE


def _end(pid: int) -> bool:
    """Whether the process ends within `END_PATIENCE_S` of SIGTERM, even if nobody reaps it, as in a
    container without an init."""
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(process, signal.SIGTERM)
        return bool(select.select([process], [], [], END_PATIENCE_S)[0])
    finally:
        os.close(process)


def _running(pid: int | None = None) -> Running | None:
    """The `fleet up` that runs here, or that of a process."""
    return next((f for f in running.found() if f.kind == "up" and pid in (None, f.pid)), None)


def _channels(options: Options) -> list[str]:
    """Names of the sensor's channels; SensorError if it cannot be read on this machine."""
    sensor, folder = options.sensor, options.directory / IAD / options.node
    driver = open_driver(sensor.driver, sensor.options, folder, sensor.interval_s, checking=True)
    driver.close()
    return [channel.name for channel in driver.channels]


def _tell(found: Running, options: Options, *, first: bool = False) -> int:
    """Say what it reads now, and what to type next."""
    console, fleet, area = screen.console(), fleet_command(), options.area
    kept = place(Path(found.directory))
    master = found.masters[0].master
    try:
        with Client(master) as client:
            answer = client.query([area], last_s=options.window_s, timeout_ms=ANSWER_TIMEOUT_MS)
    except NoReplyError:
        text = (
            f"its master does not answer now; {kept}/{LOG} says if it ended, and is started again"
        )
        return exits.fail(text, exits.FAILED)
    for line in _now(answer):
        screen.line(console, line)
    link = page.link(Path(found.directory))
    if link:
        screen.line(console, "Its page (one browser, within 10 minutes):")
        screen.as_it_is(console, f"  {link}")
        if first:
            browser.open_page(link)
    elif found.trouble:
        for line in found.trouble.splitlines():
            output.say_as_it_is(line)
        output.say(
            "the rest runs; with that mended, `fleet down` and `fleet up` bring the page, too"
        )
    else:
        output.say(f"no link to its page could be made; `{fleet} gateway link` says why")
    screen.line(console, "Try, in this folder:")
    for rest in _next(found, area, options.window_s):
        screen.as_it_is(console, f"  {fleet} {rest}")
    screen.as_it_is(console, f"  {fleet} down")
    screen.line(console, f"A program connects to {master} (docs/understand/wire.md).")
    screen.line(console, f"It keeps running when this terminal closes. Readings and logs: {kept}/")
    return exits.DONE


def _next(found: Running, area: str, window_s: float = WINDOW_S) -> list[str]:
    """Commands to type next. Where they would ask another fleet, such as a demo that runs here,
    they name the master."""
    address = found.masters[0].master
    master = "" if running.is_asked(address) else f" --master {address}"
    commands = (
        f"query --area {area} --last {format_duration(window_s)}",
        f"watch --area {area}",
        "subscribe '*'",
    )
    return [f"{each}{master}" for each in commands]


def _now(answer: Answer) -> list[str]:
    """The newest values of each area, a line each."""
    lines = []
    for area in summarize(answer):
        values = [
            f"{name} {screen.format_value(channel.last)} {screen.unit_of(name)}".rstrip()
            for name, channel in sorted(area.channels.items())
        ]
        lines.append(f"{area.area}: {', '.join(values)}")
    return lines


# --- the process that keeps it --------------------------------------------------------------------


def serve(options: Options) -> int:
    """Keep it up until a signal, and start again what ends; the exit status."""
    signal.signal(signal.SIGTERM, _leave)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with ExitStack() as held:
            held.enter_context(kept_folder(options.directory))
            bed = held.enter_context(_testbed(options))
            for _ in bed.start():
                pass
            if trouble := page.start(bed):
                output.say(trouble)
            _await_answer(bed, options)
            addresses = (Addresses(IAD, bed.public(IAD), bed.operator(IAD)),)
            of_this = running.announced(addresses, "up", options.directory, options.runs, trouble)
            held.enter_context(of_this)
            output.say(f"up: {bed.public(IAD)}")
            _keep(bed)
    except KeyboardInterrupt:
        return exits.fail("interrupted; nothing is left running", exits.INTERRUPTED)
    except SensorError as error:
        return exits.fail(str(error), exits.USAGE)
    except RunFolderError as error:
        return exits.fail(str(error), exits.FAILED)
    except (TestbedError, OSError) as error:
        sys.stderr.write(f"fleet: {explained(error, options.directory)}\n")
        return exits.FAILED


def _leave(_number: int, _frame: FrameType | None) -> NoReturn:
    raise SystemExit(exits.DONE)


def _testbed(options: Options) -> Testbed:
    sensor = options.sensor
    node = NodeLayout(options.node, options.area, str(sensor.options.get("room", "")))
    plan = FleetLayout((IadLayout(IAD, (node,)),))
    triggers: dict[str, Triggers] = {IAD: sensors.triggers(sensor, _channels(options))}
    return Testbed(
        plan,
        options.directory,
        triggers=triggers,
        sensors={options.node: sensor},
        usual_port=True,
    )


def _await_answer(bed: Testbed, options: Options) -> None:
    """Wait until a query is answered in full. TestbedError if no value comes."""
    give_up_s = time.monotonic() + FIRST_READING_S
    with Client(bed.public(IAD)) as client:
        while True:
            bed.check()
            try:
                answer = client.query(
                    [options.area], last_s=options.window_s, timeout_ms=ANSWER_TIMEOUT_MS
                )
            except NoReplyError as error:
                said = str(error)
            else:
                if _has_value(answer):
                    return
                gaps = "; ".join(screen.gap_lines(answer)) or answer.message
                said = gaps or f"readings without a value: {', '.join(_now(answer))}"
            if time.monotonic() > give_up_s:
                lines = [f"no value came in {FIRST_READING_S:g} s: {said}"]
                lines += [f"  {line}" for line in bed.child(options.node).last_lines()]
                raise TestbedError("\n".join(lines))
            time.sleep(LOOK_EVERY_S)


def _has_value(answer: Answer) -> bool:
    """Whether every area has a value that is not bad: a sensor that does not answer is read, too,
    and gives none."""
    return answer.status == "complete" and all(
        any(channel.n > channel.bad for channel in area.channels.values())
        for area in summarize(answer)
    )


def _keep(bed: Testbed) -> NoReturn:
    """Start again what ends, until a signal comes."""
    waiting: list[str] = []
    while True:
        time.sleep(RESTART_S)
        for name in waiting:
            bed.spawn(name)
        waiting = _ended(bed.let_go())


def _ended(children: Sequence[processes.Child]) -> list[str]:
    for child in children:
        output.say(f"{child.end}; it is started again in {RESTART_S:g} s")
    return [child.name for child in children]
