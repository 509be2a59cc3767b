"""Line splitter for byte streams from many hosts; pure."""

from __future__ import annotations

from typing import Final

# A longer line is returned in pieces, so that a host cannot fill this machine's memory.
MAX_LINE: Final = 64 * 1024


class Lines:
    """Splits a stream of bytes into lines, without their ends."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def feed(self, data: bytes) -> list[str]:
        """The lines that `data` completes. O(bytes)."""
        self._rest += data
        if b"\n" not in data and len(self._rest) <= MAX_LINE:
            return []
        *whole, rest = bytes(self._rest).split(b"\n")
        lines = [piece for line in whole for piece in _pieces(line)]
        while len(rest) > MAX_LINE:
            lines.append(rest[:MAX_LINE])
            rest = rest[MAX_LINE:]
        self._rest = bytearray(rest)
        return [_text(line) for line in lines]

    def end(self) -> list[str]:
        """The rest after the last line end."""
        rest, self._rest = bytes(self._rest), bytearray()
        return [_text(piece) for piece in _pieces(rest)] if rest else []


def _pieces(line: bytes) -> list[bytes]:
    if len(line) <= MAX_LINE:
        return [line]
    return [line[i : i + MAX_LINE] for i in range(0, len(line), MAX_LINE)]


def _text(line: bytes) -> str:
    return line.decode(errors="replace").removesuffix("\r")
