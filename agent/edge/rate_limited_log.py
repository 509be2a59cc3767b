"""What the operator reads: a line for each thing worth telling, to the journal or standard error.

A thing that goes on for long is told ever more rarely, and one that comes and goes counts as there:
a sensor that fails for a month writes kilobytes, and the last line about it is no false hope.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from agent.runtime.back_off import BackOff

if TYPE_CHECKING:
    from agent.edge.journal import Journal

# Severities of syslog.
ERROR: Final = 3
WARNING: Final = 4
NOTICE: Final = 5
INFO: Final = 6

QUIET_S: Final = 60.0  # after the first complaint of a cause; doubles with each that is written
LONGEST_QUIET_S: Final = 86_400.0
# Without a complaint for so long, the next one is news, and the next end is told at once.
SETTLED_S: Final = 4 * 3_600.0
LONGEST_LINE: Final = 500
# A driver may put anything into its text: what comes after these many causes counts as one.
MAX_CAUSES: Final = 8
LONGEST_CAUSE: Final = 120
_QUOTES: Final = "'\"`"
_NO_DIGITS: Final = dict.fromkeys(map(ord, "0123456789"))


def cause_of(text: str) -> str:
    """`text` without what changes from one time to the next: numbers, and what is quoted."""
    for quote in _QUOTES:
        if quote in text:
            parts = text.split(quote)
            alone = parts[-1] if len(parts) % 2 == 0 else ""  # behind an apostrophe
            text = "".join(parts[::2]) + alone
    return text.translate(_NO_DIGITS)[:LONGEST_CAUSE]


class _Cause:
    """Complaints of one cause."""

    __slots__ = ("pauses", "quiet_until_s", "withheld")

    def __init__(self) -> None:
        self.pauses = BackOff(QUIET_S, LONGEST_QUIET_S)
        self.quiet_until_s = -float("inf")
        self.withheld = 0


class _Kind:
    """Complaints of one kind about one sensor. Times are the reporter's clock, in seconds.

    The last line may say for long that it is wrong while it is well again, but never for long the
    other way round: what comes and goes is over when it has been well for `settling_s`, which
    doubles each time.
    """

    __slots__ = ("causes", "complained_s", "settling_s", "told", "well_since_s", "withheld")

    def __init__(self) -> None:
        self.told = False  # the last line about it was a complaint
        self.complained_s = -float("inf")
        self.well_since_s: float | None = None
        self.settling_s = 0.0
        self.causes: dict[str, _Cause] = {}
        self.withheld = 0  # of causes that are forgotten

    def complain(self, now: float, cause: str) -> str | None:
        """What goes behind the line; None: it is left out."""
        if now - self.complained_s >= SETTLED_S:
            self._forget()
            self.settling_s = 0.0
        self.complained_s = now
        self.well_since_s = None
        found = self._cause(cause)
        if now < found.quiet_until_s:
            found.withheld += 1
            return None
        found.quiet_until_s = now + found.pauses.next()
        self.told = True
        count, self.withheld, found.withheld = self.withheld + found.withheld, 0, 0
        return _unheard(count)

    def recover(self, now: float) -> str | None:
        """What goes behind the line that says that it is over; None: there is none, or not yet."""
        if not self.told:
            return None
        if self.well_since_s is None:
            self.well_since_s = now
        if now - self.well_since_s < self.settling_s:
            return None
        self.told = False
        self.settling_s = min(max(2 * self.settling_s, QUIET_S), SETTLED_S)
        self._forget()
        count, self.withheld = self.withheld, 0
        return _unheard(count)

    def _cause(self, cause: str) -> _Cause:
        if cause not in self.causes and len(self.causes) >= MAX_CAUSES:
            cause = ""
        return self.causes.setdefault(cause, _Cause())

    def _forget(self) -> None:
        self.withheld += sum(cause.withheld for cause in self.causes.values())
        self.causes.clear()


def _unheard(count: int) -> str:
    return f" (and {count} more such lines)" if count else ""


class Reporter:
    """Writes lines, to `journal` if there is one. Any thread may call; nothing is raised.

    Complaints are limited by sensor, kind and cause: after one was written, those of the next
    minute are counted instead, then of two, of four … of a day. A line that says that it is over
    makes all of them news again, and comes later each time if that is not true for long.
    """

    def __init__(
        self,
        write: Callable[[str], object],
        node: str,
        clock: Callable[[], float],
        journal: Journal | None = None,
        *,
        program: str = "sanderling-edge",
    ) -> None:
        self._write = write
        self._program = program
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
            self._write(f"{self._program} {self._node}: {line}\n")

    def complain(
        self, kind: str, line: str, *, priority: int = WARNING, sensor: str = "", cause: str = ""
    ) -> None:
        """Write what is wrong, unless that was done not long ago; `line` names the sensor. `cause`
        is what makes it another thing, but for its numbers and what it quotes."""
        with self._lock:
            known = self._kinds.get((kind, sensor))
            if known is None:
                known = self._kinds[kind, sensor] = _Kind()
            unheard = known.complain(self._clock(), cause_of(cause))
            if unheard is None:
                return
        self.tell(line + unheard, priority=priority, kind=kind, sensor=sensor)

    def recovered(self, kind: str, line: str, *, sensor: str = "") -> None:
        """Write that what was complained about is over; nothing if no complaint was written since
        the last such line, or if it came back soon so far. To be called again and again while all
        is well, and cheap enough to be called after every good reading."""
        known = self._kinds.get((kind, sensor))
        if known is None or not known.told:
            return
        with self._lock:
            unheard = known.recover(self._clock())
            if unheard is None:
                return
        self.tell(line + unheard, priority=NOTICE, kind=kind, sensor=sensor)
