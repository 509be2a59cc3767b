"""Reads a master's records on its host: whole lines, in segments.

What `frames` is, says fleet/lake/pull/host_source.py. Asked for: `known`, by file id how many bytes
were taken and the SHA-256 of the last ones before there; `since_ms`, `segment_bytes`, `max_bytes`.
Its frames, by `at`:

    files      what there is: `files` with id, number (null: the current one), size of its whole
               lines, mtime_ms, and whether what was taken of it `holds`
    data       bytes of a segment
    segment    the segment is complete: id, from, to, sha256 of its bytes, tail as in `known`
    drop       it is not, and never will be: its file went, or the master took lines back
    more       `max_bytes` ended it

A file's **id** is what its first line says: the current file keeps it when it is closed and gets a
number. Closed files never change. Of the current one a batch that a full disk took half of may be
cut off again: then the bytes before the known offset are others, and it is taken from its start.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import stat
import tomllib
from collections.abc import Iterator
from typing import Any, BinaryIO

from fleet.on_host.files import at_once

Frame = tuple[dict[str, Any], bytes]

CURRENT = "current.jsonl"
CLOSED = re.compile(r"records-([0-9]{6})\.jsonl")
CHUNK = 1 << 18
# Number of bytes before an offset whose digest shows whether a file is still the one that was read.
TAIL = 256
ID_DIGITS = 16


def place(asked: dict[str, Any]) -> str:
    """What is read; empty if there is nothing."""
    return folder_of(asked["config"])


def frames(asked: dict[str, Any]) -> Iterator[Frame]:
    """The frames of new records in the configured folder, oldest first."""
    folder = folder_of(asked["config"])
    known = asked["known"]
    found = list(listed(folder, known))
    yield {"at": "files", "files": found}, b""
    left = asked["max_bytes"]
    for each in found:
        if asked["since_ms"] is not None and each["mtime_ms"] < asked["since_ms"]:
            continue
        for header, data in of_file(os.path.join(folder, name_of(each)), each, asked, left):
            yield header, data
            if header["at"] == "more":
                return
            if header["at"] == "segment":
                left -= header["to"] - header["from"]


def folder_of(config: str) -> str:
    """The records folder in a master's configuration; empty if it writes none."""
    try:
        with open(config, "rb") as file:
            directory = tomllib.load(file).get("records", {}).get("directory", "records")
    except FileNotFoundError:
        raise FileNotFoundError(f"{config} is missing: no master is installed there") from None
    except ValueError as error:
        raise ValueError(f"{config}: {error}") from None
    return os.path.join(os.path.dirname(config), directory) if directory else ""


def listed(folder: str, known: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The files with at least one whole line, oldest first."""
    try:
        names = os.listdir(folder) if folder else []
    except FileNotFoundError:
        return  # nothing was asked of it yet
    closed = sorted(name for name in names if CLOSED.fullmatch(name))
    for name in [*closed, *([CURRENT] if CURRENT in names else [])]:
        try:
            with opened(os.path.join(folder, name)) as file:
                if size := whole(file):
                    match = CLOSED.fullmatch(name)
                    its_id = id_of(file)
                    taken, tail = known.get(its_id, (0, ""))
                    yield {
                        "id": its_id,
                        "number": int(match[1]) if match else None,
                        "size": size,
                        "mtime_ms": int(os.fstat(file.fileno()).st_mtime * 1e3),
                        "holds": holds(file, taken, tail),
                    }
        except FileNotFoundError:
            continue  # closed, or deleted for its age, since the listing


def opened(path: str) -> BinaryIO:
    """A file, open for reading. FileNotFoundError also for what is no file: a pipe would be waited
    for, a device is endless."""
    file = open(path, "rb", opener=at_once)  # noqa: SIM115 - the caller closes it
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise FileNotFoundError(errno.ENOENT, "not a regular file", path)
    return file


def name_of(file: dict[str, Any]) -> str:
    """The name that a file has now."""
    return CURRENT if file["number"] is None else f"records-{file['number']:06}.jsonl"


def whole(file: BinaryIO) -> int:
    """The number of bytes of a file up to its last line end."""
    end = file.seek(0, os.SEEK_END)
    while end:
        start = max(0, end - CHUNK)
        at = os.pread(file.fileno(), end - start, start).rfind(b"\n")
        if at >= 0:
            return start + at + 1
        end = start
    return 0


def id_of(file: BinaryIO) -> str:
    """A file's id, independent of its name: the digest of its first line."""
    digest = hashlib.sha256()
    file.seek(0)
    while piece := file.readline(CHUNK):
        digest.update(piece)
        if piece.endswith(b"\n"):
            break
    return digest.hexdigest()[:ID_DIGITS]


def of_file(path: str, listed: dict[str, Any], asked: dict[str, Any], left: int) -> Iterator[Frame]:
    """The segments of a file from the known offset on, or from its start."""
    try:
        file = opened(path)
    except FileNotFoundError:
        return
    with file:
        if id_of(file) != listed["id"]:
            return  # another file has that name now; this one is sent at the next pull
        start, tail = asked["known"].get(listed["id"], (0, ""))
        if not holds(file, start, tail):
            start = 0
        end = whole(file)
        last = before(file, start)
        while start < end:
            if left <= 0:
                yield {"at": "more"}, b""
                return
            to = line_end(file, start + min(asked["segment_bytes"], left), end)
            digest = hashlib.sha256()
            for piece in pieces(file, start, to):
                digest.update(piece)
                last = (last + piece)[-TAIL:]
                yield {"at": "data"}, piece
            segment = {"id": listed["id"], "from": start, "to": to, "sha256": digest.hexdigest()}
            if listed["number"] is None and not unchanged(file, segment):
                yield {"at": "drop"}, b""
                return
            yield {"at": "segment", **segment, "tail": digest_of(last)}, b""
            left -= to - start
            start = to


def pieces(file: BinaryIO, start: int, to: int) -> Iterator[bytes]:
    """The bytes from `start` to `to`; fewer if the file became shorter."""
    while start < to and (piece := os.pread(file.fileno(), min(CHUNK, to - start), start)):
        yield piece
        start += len(piece)


def unchanged(file: BinaryIO, segment: dict[str, Any]) -> bool:
    """Whether the bytes that were sent are still in the file: while the network was slow, the
    master may have removed lines and written others."""
    digest = hashlib.sha256()
    for piece in pieces(file, segment["from"], segment["to"]):
        digest.update(piece)
    return bool(digest.hexdigest() == segment["sha256"])


def line_end(file: BinaryIO, at: int, end: int) -> int:
    """The end of the line that contains the byte before `at`; the last line ends at `end`."""
    while at < end:
        piece = os.pread(file.fileno(), CHUNK, at - 1)
        found = piece.find(b"\n")
        if found >= 0:
            return at + found
        at += len(piece)
        if not piece:
            break
    return end


def holds(file: BinaryIO, taken: int, tail: str) -> bool:
    """Whether the first `taken` bytes of a file are still those that were taken."""
    return 0 < taken <= whole(file) and digest_of(before(file, taken)) == tail


def before(file: BinaryIO, offset: int) -> bytes:
    """The last bytes before an offset."""
    start = max(0, offset - TAIL)
    return os.pread(file.fileno(), offset - start, start)


def digest_of(data: bytes) -> str:
    """SHA-256 of these bytes, in hexadecimal."""
    return hashlib.sha256(data).hexdigest()
