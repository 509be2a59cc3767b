"""Progress of a pull on stderr: one live line on a terminal, otherwise one line per host."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.progress import Progress

from fleet.lake.pull.outcome import HostPulled
from fleet.terminal import output, screen
from fleet.terminal.units import counted, size


class View(Protocol):
    """Whoever shows it."""

    def landed(self, count: int) -> None:
        """This many more bytes have landed; called from several threads."""

    def ended(self, host: HostPulled) -> None:
        """A host has come to its end."""


class Lines:
    """One line for each host with something to report."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._ended = 0

    def landed(self, count: int) -> None:
        """Does nothing: lines cannot be redrawn here."""

    def ended(self, host: HostPulled) -> None:
        """As View has it."""
        self._ended += 1
        output.say(f"{host.host}: {told(host)} ({self._ended}/{self._total})")


def told(host: HostPulled) -> str:
    """Result of a host, in one line."""
    if host.error:
        return host.error
    what = [counted(host.records, "record")] * bool(host.records)
    what += [counted(host.readings, "reading")] * bool(host.readings)
    more = {"bounded": ", and there is more", "interrupted": ", interrupted"}
    return (" and ".join(what) or "nothing new") + more.get(host.outcome, "")


class Moving:
    """One line that is redrawn, with failures above it."""

    def __init__(self, progress: Progress, total: int) -> None:
        self._progress = progress
        self._task = progress.add_task("", total=total)
        self._bytes = 0
        self._lock = threading.Lock()

    def landed(self, count: int) -> None:
        """As View has it."""
        with self._lock:
            self._bytes += count
        self._progress.update(self._task, description=size(self._bytes))

    def ended(self, host: HostPulled) -> None:
        """As View has it."""
        self._progress.advance(self._task)
        if host.error:
            text = output.printable(f"{host.host}: {host.error}")
            self._progress.console.print(text, soft_wrap=True, markup=False)


@contextmanager
def shown(total: int) -> Iterator[View]:
    """Context manager: the progress display of a pull."""
    console = screen.progress()
    if not console.is_terminal:
        yield Lines(total)
        return
    with output.hosts_bar(console) as progress:
        yield Moving(progress, total)
