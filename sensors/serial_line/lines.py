"""Whole lines out of bytes as they come: pure, in bounded memory."""

from __future__ import annotations

from typing import Final

# Far above any sensor's line, and small: what runs on without an end is no line protocol.
MAX_LINE: Final = 4096


class Splitter:
    """Cuts bytes into lines, which end with \\n, \\r or both.

    Bytes before the first line end are dropped: nobody knows how much of that line came before
    them, and `1.5,40.2` is as good a line as `21.5,40.2`. Empty lines are dropped too.
    """

    def __init__(self, limit: int = MAX_LINE) -> None:
        self._limit = limit
        self._rest = bytearray()
        self._begun = False
        self._skipping = False

    def feed(self, data: bytes) -> list[bytes | None]:
        """The lines that end within `data`, oldest first; None stands for one that has grown longer
        than the limit, where it does. O(len(data))."""
        lines: list[bytes | None] = []
        for piece in data.splitlines(keepends=True):
            line = piece.rstrip(b"\r\n")
            if not self._skipping:
                self._rest += line
            if len(self._rest) > self._limit:
                self._rest.clear()
                self._skipping = True
                lines.append(None)
            if len(line) < len(piece):
                if self._begun and self._rest:
                    lines.append(bytes(self._rest))
                self._rest.clear()
                self._begun = True
                self._skipping = False
        return lines
