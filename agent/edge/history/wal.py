"""The tail: readings of groups that are still growing, on stable storage.

A small file beside the history's, `<history>.tail`, to which each commit appends one chunk for
every group that has something new, followed by one fdatasync. It is made with its full length of
zeros, so that an append changes no length and no block map: the card writes the pages of the chunk
and nothing of the file system's own. When it is full, or may be damaged because a write failed, a
new one takes its place by a rename; it begins with all that is in memory only. What a complete
group in the history has is of no use here any more.

A record is [mark, 4 bytes][length, u32][CRC-32 of the body, u32][body: MessagePack], little-endian.
The first is a `Head`, all others are `Chunk`s. A record that does not pass is skipped.
"""

# ruff: noqa: PTH104, PTH123 - pathlib takes 0.6 MiB; see history_file

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterable
from typing import Final

import msgspec
from msgspec import Struct

MARK: Final = b"\xb5SnT"
RECORD: Final = struct.Struct("<4s2I")
SUFFIX: Final = ".tail"
SIZE: Final = 128 << 10  # half a day of one sensor at 1 Hz
# Written in small pieces, or the kernel may take the file for one large page, and write all of it.
ZEROS: Final = 4096
VERSION: Final = 1


class Head(Struct, array_like=True, frozen=True):
    """Whose readings these are."""

    version: int
    history: str
    boot: str


class Chunk(Struct, array_like=True, frozen=True):
    """Readings `start` … of the group `sequence`, as `columns.encode` packs them."""

    sequence: int
    start: int
    sensor: str
    first_monotonic_ms: int
    last_monotonic_ms: int
    synchronised: bool
    layout: str
    data: bytes


class Found(Struct, frozen=True):
    """What a tail has: its chunks in the order written, and how many records were damaged, other
    than a last one that a power cut has torn."""

    head: Head
    chunks: list[Chunk]
    damaged: int


class TailError(Exception):
    """The file is no tail that can be used; the text says why."""


class Tail:
    """The file, open at its end. What an OSError leaves behind is not used any more: begin anew."""

    def __init__(self, path: str, head: Head, chunks: Iterable[Chunk]) -> None:
        """Put a new file in the place of the one at `path`; on stable storage when this returns.
        OSError leaves the file that was there."""
        new = path + "-new"
        records = b"".join([_record(head), *map(_record, chunks)])
        self.used = len(records)
        self.size = max(SIZE, 2 * self.used)
        self._file = os.open(new, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
        try:
            _write(self._file, records, 0)
            for at in range(self.used, self.size, ZEROS):
                _write(self._file, bytes(min(ZEROS, self.size - at)), at)
            os.fsync(self._file)
            os.rename(new, path)
            sync_folder(path)
        except OSError:
            os.close(self._file)
            raise

    def takes(self, chunks: list[Chunk]) -> bool:
        """Whether there is room for them."""
        return self.used + len(b"".join(map(_record, chunks))) <= self.size

    def append(self, chunks: list[Chunk]) -> None:
        """Put chunks on stable storage; OSError."""
        records = b"".join(map(_record, chunks))
        _write(self._file, records, self.used)
        os.fdatasync(self._file)
        self.used += len(records)

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)


def read(path: str) -> Found | None:
    """What the file at `path` has; None if there is no file. TailError, OSError."""
    try:
        with open(path, "rb") as file:
            content = file.read()
    except FileNotFoundError:
        return None
    bodies, damaged = _bodies(content)
    if not bodies:
        raise TailError("it has no record that can be read")
    try:
        head = msgspec.msgpack.decode(bodies[0], type=Head)
        if head.version > VERSION:
            raise TailError(f"it is of format {head.version}, this one reads {VERSION}")
        decode = msgspec.msgpack.Decoder(Chunk).decode
        return Found(head, [decode(body) for body in bodies[1:]], damaged)
    except msgspec.MsgspecError as error:
        raise TailError(str(error)) from None


def sync_folder(path: str) -> None:
    """Put the names in the folder of `path` on stable storage; OSError."""
    folder = os.open(os.path.dirname(path) or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)  # noqa: PTH120 - as above
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _record(body: Head | Chunk) -> bytes:
    packed = msgspec.msgpack.encode(body)
    return RECORD.pack(MARK, len(packed), zlib.crc32(packed)) + packed


def _bodies(content: bytes) -> tuple[list[bytes], int]:
    """The bodies that pass, and the damaged records before the last of them."""
    bodies: list[bytes] = []
    damaged = suspects = 0
    at = content.find(MARK)
    while 0 <= at <= len(content) - RECORD.size:
        _, length, crc = RECORD.unpack_from(content, at)
        start = at + RECORD.size
        body = content[start : start + length]
        # A mark that alone arrived has zeros behind it, which are the checksum of nothing.
        if length and len(body) == length and zlib.crc32(body) == crc:
            bodies.append(body)
            damaged, suspects = damaged + suspects, 0
            at = content.find(MARK, start + length)
        else:
            suspects += 1
            at = content.find(MARK, at + 1)
    return bodies, damaged


def _write(file: int, data: bytes, at: int) -> None:
    view = memoryview(data)
    while view:
        written = os.pwrite(file, view, at)
        view, at = view[written:], at + written
