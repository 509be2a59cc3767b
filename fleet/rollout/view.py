"""Progress of a deployment on stderr: one live line on a terminal, otherwise plain lines."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from rich.console import Console
from rich.progress import Progress

from fleet.rollout.events import (
    AnyEvent,
    Confirmed,
    Do,
    Dropped,
    Failed,
    Healthy,
    Interrupted,
    Planned,
    RolledBack,
    Staged,
    Switched,
)
from fleet.ssh.fanout import WAITING
from fleet.terminal import output, screen

DOING: Final[dict[Do, str]] = {
    "gather": "looking",
    "stage": "uploading",
    "switch": "switching",
    "check": "checking",
    "confirm": "confirming",
    "roll_back": "rolling back",
}
# Interval of upload reports if lines cannot be redrawn.
TELL_S: Final = 10.0
# Maximum number of hosts named in a line about what is waited for.
NAMED: Final = 5


class UnderWay:
    """The step in progress on each host."""

    def __init__(self) -> None:
        self._doing: dict[str, Do] = {}

    def begun(self, host: str, do: Do) -> None:
        """Work on a host begins."""
        self._doing[host] = do

    def line_of(self, event: AnyEvent) -> str:
        """The line for an event; the line for Ctrl-C names the steps that are waited for."""
        if not isinstance(event, Interrupted):
            self._doing.pop(event.host, None)
            return told(event)
        doing = sorted(self._doing.items())
        names = ", ".join(f"{host} ({DOING[do]})" for host, do in doing[:NAMED])
        more = f" and {len(doing) - NAMED} more" if len(doing) > NAMED else ""
        return f"{told(event)}; waiting for {names}{more}" if doing else told(event)


class Lines(UnderWay):
    """Plain lines, one per event."""

    def __init__(self, say: Callable[[str], None]) -> None:
        super().__init__()
        self._say = say
        self._told_s: dict[str, float] = {}
        self._lock = threading.Lock()

    def begun(self, host: str, do: Do) -> None:
        """Work on a host begins."""
        super().begun(host, do)
        if do == "roll_back":
            self._say(f"{host}: rolling back")

    def uploaded(self, host: str, part: float) -> None:
        """This part of the release has been uploaded."""
        now = time.monotonic()
        with self._lock:
            if now - self._told_s.setdefault(host, now) < TELL_S:
                return
            self._told_s[host] = now
        self._say(f"{host}: {part:.0%} uploaded")

    def happened(self, event: AnyEvent, ended: int, total: int) -> None:
        """Something came of it."""
        if text := self.line_of(event):
            self._say(f"{text} ({ended}/{total})" if isinstance(event, Confirmed) else text)


class Moving(UnderWay):
    """One line that is redrawn, with failures above it."""

    def __init__(self, progress: Progress, total: int) -> None:
        super().__init__()
        self._progress = progress
        self._task = progress.add_task("", total=total)

    def begun(self, host: str, do: Do) -> None:
        """Work on a host begins."""
        super().begun(host, do)
        counts: dict[Do, int] = {}
        for each in list(self._doing.values()):
            counts[each] = counts.get(each, 0) + 1
        text = ", ".join(f"{counts[each]} {DOING[each]}" for each in DOING if each in counts)
        self._progress.update(self._task, description=text)

    def uploaded(self, host: str, part: float) -> None:
        """This part of the release has been uploaded; the bar counts hosts."""

    def happened(self, event: AnyEvent, ended: int, total: int) -> None:
        """Something came of it."""
        self._progress.update(self._task, completed=ended, total=total)
        text = self.line_of(event)
        if text and isinstance(event, Failed | RolledBack | Interrupted):
            self._progress.console.print(output.printable(text), soft_wrap=True, markup=False)


@contextmanager
def shown(total: int) -> Iterator[Lines | Moving]:
    """Context manager: the progress display of a deployment."""
    console: Console = screen.progress()
    if not console.is_terminal:
        yield Lines(output.say)
        return
    with output.hosts_bar(console) as progress:
        yield Moving(progress, total)


def told(event: AnyEvent) -> str:
    """The line for an event; empty for events that are not shown."""
    match event:
        case Staged():
            return f"{event.host}: uploaded"
        case Switched():
            return f"{event.host}: switched"
        case Confirmed():
            return f"{event.host}: done"
        case Failed():  # the report has the reason, with the remedy
            return f"{event.host}: failed{', and went back by itself' if event.undone else ''}"
        case RolledBack():
            return f"{event.host}: {'not quite ' if event.problem else ''}rolled back"
        case Interrupted():
            return WAITING
        case Planned() | Healthy() | Dropped():
            return ""
