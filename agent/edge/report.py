"""What the operator reads: a line for each thing worth telling, to the journal or standard error.

A thing that goes on for long is told ever more rarely, and one that comes and goes a few times a
day, so that a sensor that fails for a month writes kilobytes.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from agent.edge.journal import Journal

# Severities of syslog.
ERROR: Final = 3
WARNING: Final = 4
NOTICE: Final = 5
INFO: Final = 6

QUIET_S: Final = 60.0  # after the first complaint of a kind; doubles with each that is written
LONGEST_QUIET_S: Final = 86_400.0
# Without a complaint for so long, the next one is news; a log that says recovered is wrong for at
# most so long.
SETTLED_S: Final = 4 * 3_600.0
LONGEST_LINE: Final = 500


class _Kind:
    """Complaints of one kind about one sensor. Times are the reporter's clock, in seconds."""

    __slots__ = ("complained_s", "pause_s", "quiet_until_s", "told", "withheld")

    def __init__(self) -> None:
        self.withheld = 0
        self.told = False  # the last line about it was a complaint
        self.begin()

    def begin(self) -> None:
        """Forget earlier complaints but for those that nobody has heard of."""
        self.pause_s = QUIET_S
        self.quiet_until_s = self.complained_s = -float("inf")

    def complain(self, now: float) -> bool:
        """Whether to write this complaint."""
        if now - self.complained_s >= SETTLED_S:
            self.begin()
        self.complained_s = now
        if now < self.quiet_until_s:
            self.withheld += 1
            return False
        self.quiet_until_s = now + self.pause_s
        self.pause_s = min(2 * self.pause_s, LONGEST_QUIET_S)
        self.told = True
        return True

    def recover(self, now: float) -> bool:
        """Whether to write that it is over."""
        if not self.told:
            return False
        self.told = False
        self.quiet_until_s = min(self.quiet_until_s, now + SETTLED_S)
        return True

    def unheard(self) -> str:
        """How many complaints were left out since the last line about it, to go after the next."""
        count, self.withheld = self.withheld, 0
        return f" (and {count} more such lines)" if count else ""


class Reporter:
    """Writes lines, to `journal` if there is one. Any thread may call; nothing is raised.

    Complaints are limited by kind and sensor: after one was written, those of the next minute are
    counted instead, then of two, of four … of a day.
    """

    def __init__(
        self,
        write: Callable[[str], object],
        node: str,
        clock: Callable[[], float],
        journal: Journal | None = None,
    ) -> None:
        self._write = write
        self._node = node
        self._clock = clock
        self._journal = journal
        self._kinds: dict[tuple[str, str], _Kind] = {}
        self._lock = threading.Lock()  # of what is in `_kinds`

    def tell(self, line: str, *, priority: int = INFO, kind: str = "", sensor: str = "") -> None:
        """Write a line."""
        line = " ".join(line.split())
        if len(line) > LONGEST_LINE:
            line = line[: LONGEST_LINE - 2] + " …"
        fields = {
            "PRIORITY": str(priority),
            "SANDERLING_NODE": self._node,
            "SANDERLING_KIND": kind,
            "SANDERLING_SENSOR": sensor,
        }
        if self._journal is not None and self._journal.send(line, fields):
            return
        # That nobody reads standard error any more is no reason to stop sampling.
        with suppress(OSError, ValueError):
            self._write(f"sanderling-edge {self._node}: {line}\n")

    def complain(self, kind: str, line: str, *, priority: int = WARNING, sensor: str = "") -> None:
        """Write what is wrong, unless that was done not long ago; `line` names the sensor."""
        with self._lock:
            known = self._kinds.get((kind, sensor))
            if known is None:
                known = self._kinds[kind, sensor] = _Kind()
            if not known.complain(self._clock()):
                return
            unheard = known.unheard()
        self.tell(line + unheard, priority=priority, kind=kind, sensor=sensor)

    def recovered(self, kind: str, line: str, *, sensor: str = "") -> None:
        """Write that what was complained about is over; nothing if no complaint was written since
        the last such line. Cheap enough to be called after every good reading."""
        known = self._kinds.get((kind, sensor))
        if known is None or not known.told:
            return
        with self._lock:
            if not known.recover(self._clock()):
                return
            unheard = known.unheard()
        self.tell(line + unheard, priority=NOTICE, kind=kind, sensor=sensor)
