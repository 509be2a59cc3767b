"""`fleet logs tail`: follows the journals of many hosts, merged by time."""

from __future__ import annotations

import queue
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Final, NamedTuple

from rich.console import Console
from rich.text import Text

from fleet.common import exits
from fleet.inspect.journal import Asked, Entry, Merge, command, entry, logged
from fleet.inspect.lines import Lines
from fleet.inspect.remote import Stream, stream
from fleet.inventory.folder import Folder
from fleet.inventory.model import Inventory
from fleet.inventory.parties import HostOf
from fleet.inventory.targets import logged_in_to, until_interrupted
from fleet.ssh.connect import open_host
from fleet.ssh.errors import HostError
from fleet.ssh.fanout import Outcome, for_each
from fleet.terminal import screen
from fleet.terminal.output import printable, say, write_json_line

# By syslog priority: 0 to 2, 3, 4, 5, 6, 7.
STYLES: Final = ("bold red", "bold red", "bold red", "red", "yellow", "green", "", "dim")
NO_SUDO: Final = "sudo: "
LOOK_S: Final = 0.5
# Of what a host says on stderr the last line is shown.
MAX_SAID: Final = 16
# Of one host's lines that wait to be shown: a host that writes faster than a terminal shows is held
# up. Lines are held back for a moment, so this is also the most within it.
MAX_WAITING: Final = 4 << 20
# Of a line beside its texts.
LINE_BYTES: Final = 256


class Options(NamedTuple):
    """Selection of lines, and their form."""

    follow: bool
    lines: int
    since: str
    priority: str
    units: Sequence[str]  # none: the agents'
    parallel: int
    as_json: bool


class Room:
    """What waits of one host's lines. Used by its thread and the one that shows them."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._waiting = 0

    def take(self, line: Entry, stop: threading.Event) -> None:
        """Wait until there is room for a line, or `stop` is set."""
        with self._changed:
            while self._waiting >= MAX_WAITING and not stop.is_set():
                self._changed.wait(LOOK_S)
            self._waiting += _size(line)

    def give_back(self, line: Entry) -> None:
        """It was shown."""
        with self._changed:
            self._waiting -= _size(line)
            self._changed.notify()


def _size(line: Entry) -> int:
    return LINE_BYTES + sum(len(text) for text in line if isinstance(text, str))


def run(folder: Folder, fleet: Inventory, hosts: Sequence[HostOf], options: Options) -> int:
    """Show the lines, until all have arrived or Ctrl-C; returns the exit status."""
    hosts = logged_in_to(hosts)
    if not hosts:
        return exits.fail("no host is left to log in to", exits.NOTHING)
    show = _shower(max(len(host.name) for host in hosts), as_json=options.as_json)
    came: queue.SimpleQueue[Entry | Outcome[None] | None] = queue.SimpleQueue()
    failures: list[HostError] = []
    # Without `follow` each host sends so many lines at most, and all are kept until the end.
    rooms = {host.name: Room() for host in hosts if options.follow}
    with until_interrupted() as stop:
        work = _reader(folder, fleet, options, came, stop, rooms)
        parallel = len(hosts) if options.follow else options.parallel

        def read() -> None:
            for outcome in for_each(hosts, work, parallel=parallel):
                came.put(outcome)
            came.put(None)

        thread = threading.Thread(target=read, name="hosts", daemon=True)
        thread.start()
        try:
            _show_all(came, failures, show, rooms, follow=options.follow)
        finally:
            stop.set()
            thread.join(2 * LOOK_S)  # do not wait for connections in progress
    if not failures:
        return exits.DONE
    return exits.NOTHING if len(failures) == len(hosts) else exits.FAILED


def _show_all(
    came: queue.SimpleQueue[Entry | Outcome[None] | None],
    failures: list[HostError],
    show: Callable[[Entry], None],
    rooms: Mapping[str, Room],
    *,
    follow: bool,
) -> None:
    """Without `follow` nothing is shown until all lines have arrived: only then is their order
    known."""
    merge = Merge()
    while True:
        wake_s = merge.wake_s if follow else None
        pause_s = LOOK_S if wake_s is None else max(0.0, wake_s - time.monotonic())
        try:
            item = came.get(timeout=pause_s)
        except queue.Empty:
            pass
        else:
            if item is None:
                break
            if isinstance(item, Entry):
                merge.add(item, time.monotonic())
            elif item.error is not None:
                failures.append(item.error)
                say(f"{item.host.name}: {item.error}")
        if follow:
            for line in merge.take(time.monotonic()):
                show(line)
                rooms[line.host].give_back(line)
    for line in merge.rest():
        show(line)


def _reader(
    folder: Folder,
    fleet: Inventory,
    options: Options,
    came: queue.SimpleQueue[Entry | Outcome[None] | None],
    stop: threading.Event,
    rooms: Mapping[str, Room],
) -> Callable[[HostOf], None]:
    def work(host: HostOf) -> None:
        units = options.units or [host.unit]
        asked = Asked(units, options.follow, options.lines, options.since, options.priority)
        cut: dict[Stream, Lines] = {"stdout": Lines(), "stderr": Lines()}
        said: deque[str] = deque(maxlen=MAX_SAID)
        number = 0

        def take(which: Stream, data: bytes) -> None:
            nonlocal number
            for text in cut[which].feed(data):
                if which == "stderr":
                    said.append(text)
                    continue
                number += 1
                if number > options.lines and not options.follow:
                    raise HostError("failed", f"it sends more than {options.lines} lines")
                if (found := entry(host.name, text)) is not None:
                    if (room := rooms.get(host.name)) is not None:
                        room.take(found, stop)
                    came.put(found)

        with open_host(folder, fleet, host) as connection:
            status = stream(connection, command(asked), take, stop=stop)
        said += cut["stderr"].end()
        if status:
            line = said[-1] if said else f"journalctl ended with exit status {status}"
            raise HostError("sudo" if line.startswith(NO_SUDO) else "failed", printable(line))

    return work


def _shower(width: int, *, as_json: bool) -> Callable[[Entry], None]:
    if as_json:
        return lambda line: write_json_line(logged(line))
    to = screen.console()

    def show(line: Entry) -> None:
        show_entry(to, line, width)

    return show


def show_entry(to: Console, line: Entry, width: int) -> None:
    """Print one line: the time by the host's clock, the host, and the text in the colour of its
    priority."""
    when = datetime.fromtimestamp(line.time_us / 1e6).astimezone()
    head = f"{when:%d %b %H:%M:%S}.{when.microsecond // 1000:03} {line.host:<{width}} "
    about = f"{line.sensor or line.kind}: " if line.sensor or line.kind else ""
    if line.sensor and line.text.startswith(f"{line.sensor}:"):
        about = ""  # the agent names it itself
    text = line.text.replace("\n", "\n    ")
    if not to.is_terminal:
        sys.stdout.write(f"{head}{about}{text}\n")
        sys.stdout.flush()
        return
    shown = "\n".join(printable(each) for each in text.split("\n"))
    screen.line(to, Text(head, "cyan").append(printable(about) + shown, STYLES[line.priority]))
