"""Line splitter: complete lines from a byte stream, in bounded memory; pure."""

from __future__ import annotations

from typing import Final

# Far longer than any sensor's line; a longer one means that the port has no line protocol.
MAX_LINE: Final = 4096


class Splitter:
    """Cuts bytes into lines, which end with \\n, \\r or both.

    Bytes before the first line end are dropped, as the line's beginning may be missing, and
    `1.5,40.2` is as valid a line as `21.5,40.2`. Empty lines are dropped, too.
    """

    def __init__(self, limit: int = MAX_LINE) -> None:
        self._limit = limit
        self._rest = bytearray()
        self._begun = False
        self._skipping = False

    def feed(self, data: bytes) -> list[bytes | None]:
        """The lines that end within `data`, oldest first; None for a line that exceeds the limit,
        at the point where it does. O(len(data))."""
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
