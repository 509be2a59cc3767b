"""`fleet exec`: runs one command on many hosts in parallel."""

from __future__ import annotations

import shlex
import sys
import threading
import time
from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol

from msgspec import Struct
from rich.text import Text

from fleet.common import exits
from fleet.inspect.findings import named
from fleet.inspect.lines import Lines
from fleet.inspect.remote import Stream, stream
from fleet.inventory.folder import Folder
from fleet.inventory.model import Inventory
from fleet.inventory.parties import HostOf
from fleet.inventory.targets import logged_in_to, until_interrupted
from fleet.ssh.connect import open_host
from fleet.ssh.errors import HostError
from fleet.ssh.fanout import for_each
from fleet.terminal import screen
from fleet.terminal.output import printable, say, write_json_line

# timeout(1) says so.
TIMED_OUT: Final = 124
# Seconds until a command that ignores SIGTERM is killed.
KILLED_AFTER_S: Final = 5
# Time allowed for the connection in addition to the command's own.
GRACE_S: Final = 10.0
# Maximum output of a host, in bytes, when equal outputs are grouped.
MAX_KEPT: Final = 1 << 20


class Line(Struct, frozen=True, tag="line", tag_field="type"):
    """A line that the command wrote."""

    host: str
    stream: Stream
    text: str


class End(Struct, frozen=True, tag="end", tag_field="type"):
    """Result on one host: the command's exit status, or why there is none."""

    host: str
    seconds: float
    exit: int | None = None
    error: str = ""
    remedy: str = ""

    @property
    def ok(self) -> bool:
        """Whether the command ran and returned 0."""
        return self.exit == 0 and not self.error


class Options(NamedTuple):
    """How the command is run and shown."""

    sudo: bool
    timeout_s: float
    parallel: int
    grouped: bool
    as_json: bool


class View(Protocol):
    """Shows the output of hosts; called in their threads."""

    def line(self, line: Line) -> None:
        """A whole line has come."""

    def end(self, end: End) -> None:
        """A host's output is complete."""


def command_line(words: Sequence[str], *, sudo: bool, timeout_s: float) -> str:
    """The line for the host's shell. A single argument is passed unchanged; several are quoted, so
    that each stays one word. timeout(1) also ends the command on the host."""
    line = words[0] if len(words) == 1 else shlex.join(words)
    run = f'timeout -k {KILLED_AFTER_S} {timeout_s:g} "${{SHELL:-/bin/sh}}" -c {shlex.quote(line)}'
    return f"sudo -n -- {run}" if sudo else run


def run(
    folder: Folder,
    fleet: Inventory,
    hosts: Sequence[HostOf],
    words: Sequence[str],
    options: Options,
) -> int:
    """Run the command and show its output; returns the exit status."""
    hosts = logged_in_to(hosts)
    if not hosts:
        return exits.fail("no host is left to log in to", exits.NOTHING)
    command = command_line(words, sudo=options.sudo, timeout_s=options.timeout_s)
    view = _view(hosts, options)
    ends: list[End] = []
    try:
        with until_interrupted() as stop:

            def work(host: HostOf) -> End:
                return _on_host(folder, fleet, host, command, options.timeout_s, view, stop)

            started = time.monotonic()
            for outcome in for_each(hosts, work, parallel=options.parallel):
                end = outcome.value or _failed(outcome.host, outcome.error, started)
                ends.append(end)
                view.end(end)
    finally:
        if isinstance(view, _Gathered):
            view.show()
        _tell(ends, len(hosts))
    return status_of(ends)


def status_of(ends: Sequence[End]) -> int:
    """0 if the command succeeded everywhere, 5 if it ran nowhere, otherwise 1."""
    if all(end.ok for end in ends):
        return exits.DONE
    return exits.NOTHING if all(end.exit is None for end in ends) else exits.FAILED


def _on_host(
    folder: Folder,
    fleet: Inventory,
    host: HostOf,
    command: str,
    timeout_s: float,
    view: View,
    stop: threading.Event,
) -> End:
    started = time.monotonic()
    cut: dict[Stream, Lines] = {"stdout": Lines(), "stderr": Lines()}

    def take(which: Stream, data: bytes) -> None:
        for text in cut[which].feed(data):
            view.line(Line(host.name, which, text))

    with open_host(folder, fleet, host) as connection:
        try:
            status = stream(connection, command, take, stop=stop, timeout_s=timeout_s + GRACE_S)
        finally:
            for which, lines in cut.items():
                for text in lines.end():
                    view.line(Line(host.name, which, text))
    seconds = round(time.monotonic() - started, 3)
    late = status == TIMED_OUT and seconds >= timeout_s
    return End(host.name, seconds, status, f"ended after {timeout_s:g} s" if late else "")


def _failed(host: HostOf, error: HostError | None, started: float) -> End:
    seconds = round(time.monotonic() - started, 3)
    return End(host.name, seconds, None, str(error), error.remedy if error else "")


# --- what is shown ------------------------------------------------------------------------------


class _JsonView:
    def __init__(self) -> None:
        self._lock = threading.Lock()

    def line(self, line: Line) -> None:
        with self._lock:
            write_json_line(line)

    def end(self, end: End) -> None:
        with self._lock:
            write_json_line(end)


class _Interleaved:
    """Prints lines as they arrive, with the host in front; stderr goes to stderr."""

    def __init__(self, width: int) -> None:
        self._lock = threading.Lock()
        self._width = width
        self._consoles = {"stdout": screen.console(), "stderr": screen.console(stderr=True)}
        self._files = {"stdout": sys.stdout, "stderr": sys.stderr}

    def line(self, line: Line) -> None:
        prefix = f"{line.host:<{self._width}} | "
        to = self._consoles[line.stream]
        with self._lock:
            if to.is_terminal:
                style = "cyan" if line.stream == "stdout" else "yellow"
                screen.line(to, Text(prefix, style).append(printable(line.text), "not dim default"))
            else:
                self._files[line.stream].write(f"{prefix}{line.text}\n")

    def end(self, end: End) -> None:
        pass


class Grouped(NamedTuple):
    """Hosts on which the command had the same result and output."""

    hosts: tuple[str, ...]
    exit: int | None
    text: str


class _Gathered:
    """Prints nothing until all hosts are finished; then each output once, with its hosts."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: dict[str, list[str]] = {}
        self._bytes: dict[str, int] = {}
        self._ends: list[End] = []

    def line(self, line: Line) -> None:
        with self._lock:
            size = self._bytes[line.host] = self._bytes.get(line.host, 0) + len(line.text) + 1
            kept = self._kept.setdefault(line.host, [])
            if size <= MAX_KEPT:
                kept.append(line.text)
            elif kept[-1:] != ["…"]:
                kept.append("…")

    def end(self, end: End) -> None:
        self._ends.append(end)

    def show(self) -> None:
        to = screen.console()
        outputs = {end.host: "\n".join(self._kept.get(end.host, [])) for end in self._ends}
        for group in grouped(self._ends, outputs):
            status = "" if not group.exit else f", exit status {group.exit}"
            screen.line(to, f"{named(group.hosts)}{status}:", "bold")
            text = printable_lines(group.text) if to.is_terminal else group.text
            sys.stdout.write(f"{text or '(no output)'}\n")
        sys.stdout.flush()


def grouped(ends: Sequence[End], outputs: dict[str, str]) -> list[Grouped]:
    """Hosts grouped by exit status and output, the largest group first; without hosts on which the
    command did not run."""
    found: dict[tuple[int | None, str], list[str]] = {}
    for end in ends:
        if end.exit is not None:
            found.setdefault((end.exit, outputs.get(end.host, "")), []).append(end.host)
    groups = [Grouped(tuple(sorted(hosts)), *key) for key, hosts in found.items()]
    return sorted(groups, key=lambda group: (-len(group.hosts), group.hosts))


def printable_lines(text: str) -> str:
    """The text without control characters that would move a terminal's cursor, line by line."""
    return "\n".join(printable(line) for line in text.split("\n"))


def _view(hosts: Sequence[HostOf], options: Options) -> View:
    if options.as_json:
        return _JsonView()
    if options.grouped:
        return _Gathered()
    return _Interleaved(max(len(host.name) for host in hosts))


def _tell(ends: Sequence[End], asked: int) -> None:
    """Print the outcome on stderr: hosts that failed, grouped by reason."""
    reasons: dict[str, list[str]] = {}
    for end in ends:
        if not end.ok:
            reason = end.error or f"exit status {end.exit}"
            reasons.setdefault(reason, []).append(end.host)
    for reason, hosts in reasons.items():
        say(f"{named(hosts)}: {reason}")
    fine = sum(end.ok for end in ends)
    say(f"{fine} of {asked} hosts: exit status 0")
