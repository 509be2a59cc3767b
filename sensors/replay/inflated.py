"""The content of a gzip file. `gzip` does the same, for 0.15 MiB that a node keeps for years."""

# ruff: noqa: PTH123 - pathlib takes 0.6 MiB of memory, on every node

from __future__ import annotations

import io
import zlib
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

CHUNK: Final = 4096  # bytes of the file that are looked at together
GZIP: Final = 16 + zlib.MAX_WBITS  # a header, and a checksum at the end


class Inflated(io.RawIOBase):
    """A stream of what the gzip file at `path` holds, its members one after the other. OSError; and
    EOFError or zlib.error, while reading, for a file that is cut off or damaged."""

    def __init__(self, path: str) -> None:
        self._file = open(path, "rb", buffering=0)  # noqa: SIM115 - close() closes it
        self._begin(b"")

    def _begin(self, data: bytes) -> None:
        self._inflate = zlib.decompressobj(GZIP)
        self._data = data

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        room = memoryview(buffer)
        while True:
            if self._inflate.eof:
                # Some programs fill the last block of a file with zeros.
                rest = (self._inflate.unused_data or self._file.read(CHUNK)).lstrip(b"\0")
                if not rest:
                    return 0
                self._begin(rest)
            data = self._data or self._file.read(CHUNK)
            found = self._inflate.decompress(data, len(room))
            self._data = self._inflate.unconsumed_tail
            if found:
                room[: len(found)] = found
                return len(found)
            if not data and not self._inflate.eof:
                raise EOFError("the file ends too early")

    def close(self) -> None:
        self._file.close()
        super().close()


def open_text(path: str) -> io.TextIOWrapper:
    """The file at `path` as text, its line ends untouched."""
    return io.TextIOWrapper(io.BufferedReader(Inflated(path)), encoding="utf-8", newline="")
