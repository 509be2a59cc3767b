"""Output that processors print, for the operator's log: rate-limited, the rest counted."""

from __future__ import annotations

from typing import Final

WINDOW_S: Final = 10.0
MAX_LINES: Final = 20  # in a window
MAX_LINE: Final = 300


class PrintedLines:
    """The lines of one worker. Pure; times are in seconds on one clock."""

    def __init__(self) -> None:
        self._rest = b""
        self._window_ends_s = 0.0
        self._told = 0
        self._withheld = 0

    def take(self, data: bytes, now: float) -> list[str]:
        """The lines to be logged once `data` was printed. O(bytes)."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > MAX_LINE:
            lines.append(self._rest)
            self._rest = b""
        told = self._begin_window(now)
        for line in lines:
            if not line.strip():
                continue
            if self._told == MAX_LINES:
                self._withheld += 1
                continue
            self._told += 1
            told.append(_shown(line))
        return told

    def end(self, now: float) -> list[str]:
        """The lines that are left when the worker ended."""
        told = self.take(b"\n" if self._rest else b"", now)
        return told + self._count()

    def _begin_window(self, now: float) -> list[str]:
        if now < self._window_ends_s:
            return []
        self._window_ends_s = now + WINDOW_S
        self._told = 0
        return self._count()

    def _count(self) -> list[str]:
        count, self._withheld = self._withheld, 0
        return [f"… and {count} more lines"] if count else []


def _shown(line: bytes) -> str:
    text = line[: MAX_LINE + 1].decode(errors="replace")
    shown = "".join([char if char.isprintable() else " " for char in text]).rstrip()
    return shown if len(shown) <= MAX_LINE else shown[:MAX_LINE] + "…"
