"""Write-ahead log ("tail"): puts the readings of growing row groups on stable storage.

A small file beside the history's, `<history>.tail`. Each commit appends one chunk for every group
with new readings, followed by one fdatasync. The file is created at full length, filled with zeros,
so that an append changes neither its length nor its block map: the card writes the chunk's pages
and no file system metadata. When it is full, or may be damaged because a write failed, a rename
replaces it by a new one, which begins with everything that is only in memory. Once a group is
complete in the history, its chunks are obsolete.

A record is [mark, 4 bytes][length, u32][CRC-32 of the body, u32][body: MessagePack], little-endian.
The first is a `Head`, all others are `Chunk`s. A record with a wrong checksum is skipped.
"""

# ruff: noqa: PTH104, PTH123 - pathlib takes 0.6 MiB; see history.file

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
# Written in small blocks: otherwise the kernel may use one large page for the file and write all
# of it at each sync.
ZEROS: Final = 4096
VERSION: Final = 1


class Head(Struct, array_like=True, frozen=True):
    """The history that the readings belong to."""

    version: int
    history: str
    boot: str


class Chunk(Struct, array_like=True, frozen=True):
    """Readings `start` … of the group `sequence`, as `columns.encode` packs them. Derived values of
    `source` are there up to `position`."""

    sequence: int
    start: int
    sensor: str
    first_monotonic_ms: int
    last_monotonic_ms: int
    synchronised: bool
    layout: str
    data: bytes
    position: int = 0
    source: str = ""


class Found(Struct, frozen=True):
    """A tail's content: its chunks in the order written, and the number of damaged records, not
    counting a last one torn by a power cut."""

    head: Head
    chunks: list[Chunk]
    damaged: int


class WalError(Exception):
    """The file is not a usable tail; the text says why."""


class WriteAheadLog:
    """The file, open for appending. After an OSError its state is unknown: create a new one."""

    def __init__(self, path: str, head: Head, chunks: Iterable[Chunk]) -> None:
        """Replace the file at `path` by a new one, on stable storage when this returns. OSError
        leaves the old file."""
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
        """Whether there is room for them, in a file that was not removed."""
        if not os.fstat(self._file).st_nlink:
            return False
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
    """Read the file at `path`; None if there is none. TailError, OSError."""
    try:
        with open(path, "rb") as file:
            content = file.read()
    except FileNotFoundError:
        return None
    bodies, damaged = _bodies(content)
    if not bodies:
        raise WalError("it has no record that can be read")
    try:
        head = msgspec.msgpack.decode(bodies[0], type=Head)
        if head.version > VERSION:
            raise WalError(f"it is of format {head.version}, this one reads {VERSION}")
        decode = msgspec.msgpack.Decoder(Chunk).decode
        return Found(head, [decode(body) for body in bodies[1:]], damaged)
    except msgspec.MsgspecError as error:
        raise WalError(str(error)) from None


def sync_folder(path: str) -> None:
    """Sync the folder of `path`, so that its entries are on stable storage; OSError."""
    folder = os.open(os.path.dirname(path) or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)  # noqa: PTH120 - as above
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _record(body: Head | Chunk) -> bytes:
    packed = msgspec.msgpack.encode(body)
    return RECORD.pack(MARK, len(packed), zlib.crc32(packed)) + packed


def _bodies(content: bytes) -> tuple[list[bytes], int]:
    """The intact bodies, and the number of damaged records before the last of them."""
    bodies: list[bytes] = []
    damaged = suspects = 0
    at = content.find(MARK)
    while 0 <= at <= len(content) - RECORD.size:
        _, length, crc = RECORD.unpack_from(content, at)
        start = at + RECORD.size
        body = content[start : start + length]
        # A torn record may be a mark followed by zeros: the valid checksum of an empty body.
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
