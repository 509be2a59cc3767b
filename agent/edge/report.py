"""What the operator reads: one line on standard error for each thing worth telling."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

QUIET_S: Final = 60.0


class Reporter:
    """Writes lines; complaints of one kind at most once in `QUIET_S` seconds, so that a sensor
    that fails for a month fills no disk. Lines may come from any thread."""

    def __init__(
        self, write: Callable[[str], object], node: str, clock: Callable[[], float]
    ) -> None:
        self._write = write
        self._prefix = f"sanderling-edge {node}: "
        self._clock = clock
        self._quiet_until: dict[str, float] = {}
        self._withheld: dict[str, int] = {}

    def tell(self, line: str) -> None:
        """Write a line."""
        self._write(f"{self._prefix}{' '.join(line.split())}\n")

    def complain(self, kind: str, line: str) -> None:
        """Write a line, unless one of this kind was written shortly before; those are counted."""
        now = self._clock()
        if now < self._quiet_until.get(kind, now):
            self._withheld[kind] = self._withheld.get(kind, 0) + 1
            return
        withheld = self._withheld.pop(kind, 0)
        self._quiet_until[kind] = now + QUIET_S
        self.tell(line + (f" (and {withheld} more such lines)" if withheld else ""))
