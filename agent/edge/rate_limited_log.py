"""Rate-limited log for the operator: lines to the systemd journal or standard error.

A lasting problem is logged at growing intervals, and an intermittent one counts as present: a
sensor that fails for a month writes kilobytes, and the last line about it never wrongly says that
it is well.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from agent.runtime.back_off import BackOff

if TYPE_CHECKING:
    from agent.edge.journal import Journal

# Syslog severities.
ERROR: Final = 3
WARNING: Final = 4
NOTICE: Final = 5
INFO: Final = 6

QUIET_S: Final = 60.0  # pause after the first complaint of a cause; doubles with each one written
MAX_QUIET_S: Final = 86_400.0
# After this long without a complaint, the next one and its recovery are logged at once.
SETTLED_S: Final = 4 * 3_600.0
MAX_LINE: Final = 500
# A driver's text may contain anything: causes beyond this number count as one.
MAX_CAUSES: Final = 8
MAX_CAUSE: Final = 120
_QUOTES: Final = "'\"`"
_NO_DIGITS: Final = dict.fromkeys(map(ord, "0123456789"))


def cause_of(text: str) -> str:
    """`text` without its variable parts: numbers and quoted text."""
    for quote in _QUOTES:
        if quote in text:
            parts = text.split(quote)
            alone = parts[-1] if len(parts) % 2 == 0 else ""  # after a lone apostrophe
            text = "".join(parts[::2]) + alone
    return text.translate(_NO_DIGITS)[:MAX_CAUSE]


class _Cause:
    """Complaints of one cause."""

    __slots__ = ("pauses", "quiet_until_s", "withheld")

    def __init__(self) -> None:
        self.pauses = BackOff(QUIET_S, MAX_QUIET_S)
        self.quiet_until_s = -float("inf")
        self.withheld = 0


class _Kind:
    """Complaints of one kind about one sensor. Times are the reporter's clock, in seconds.

    The last line may report a problem long after it is over, but not the other way round: an
    intermittent problem is over once it was absent for `settling_s`, which doubles each time.
    """

    __slots__ = ("causes", "complained_s", "settling_s", "told", "well_since_s", "withheld")

    def __init__(self) -> None:
        self.told = False  # whether the last line written was a complaint
        self.complained_s = -float("inf")
        self.well_since_s: float | None = None
        self.settling_s = 0.0
        self.causes: dict[str, _Cause] = {}
        self.withheld = 0  # complaints withheld, of forgotten causes

    def complain(self, now: float, cause: str) -> str | None:
        """The suffix of the complaint's line; None: do not write it."""
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
        """The suffix of the recovery's line; None: do not write one, or not yet."""
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
    """Writes lines, to `journal` if there is one. Any thread may call; never raises.

    Complaints are rate-limited by sensor, kind and cause: after one is written, those of the next
    minute are only counted, then of two, of four … up to a day. A recovery line resets the limit,
    and is delayed longer each time that the problem soon returns.
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
        self._lock = threading.Lock()  # protects the content of `_kinds`

    def tell(self, line: str, *, priority: int = INFO, kind: str = "", sensor: str = "") -> None:
        """Write a line."""
        line = " ".join(line.split())
        if len(line) > MAX_LINE:
            line = line[: MAX_LINE - 2] + " …"
        fields = {
            "PRIORITY": str(priority),
            "SANDERLING_NODE": self._node,
            "SANDERLING_KIND": kind,
            "SANDERLING_SENSOR": sensor,
        }
        if self._journal is not None and self._journal.send(line, fields):
            return
        # A closed standard error is no reason to stop sampling.
        with suppress(OSError, ValueError):
            self._write(f"{self._program} {self._node}: {line}\n")

    def complain(
        self, kind: str, line: str, *, priority: int = WARNING, sensor: str = "", cause: str = ""
    ) -> None:
        """Log a problem, unless it is rate-limited; `line` names the sensor. Complaints whose
        `cause` differs only in numbers and quoted text are limited together."""
        with self._lock:
            known = self._kinds.get((kind, sensor))
            if known is None:
                known = self._kinds[kind, sensor] = _Kind()
            unheard = known.complain(self._clock(), cause_of(cause))
            if unheard is None:
                return
        self.tell(line + unheard, priority=priority, kind=kind, sensor=sensor)

    def recovered(self, kind: str, line: str, *, sensor: str = "") -> None:
        """Log that a problem is over. Writes nothing if no complaint was written since the last
        such line, or while the problem may still return. Call it repeatedly while all is well: it
        is cheap enough to be called after every good reading."""
        known = self._kinds.get((kind, sensor))
        if known is None or not known.told:
            return
        with self._lock:
            unheard = known.recover(self._clock())
            if unheard is None:
                return
        self.tell(line + unheard, priority=NOTICE, kind=kind, sensor=sensor)
