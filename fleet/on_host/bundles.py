"""Reads bundles that anybody may have made: bounds what tarfile and lzma would take a header's word
for, and knows what a release may have in it.

A host unpacks a bundle as root, and the operator's machine reads it before. Its sha256 is the one
that the operator has, who may have got the bundle from elsewhere.
"""

from __future__ import annotations

import contextlib
import io
import lzma
import os
import stat
import tarfile
from collections.abc import Iterator
from typing import BinaryIO

# What a bundle may become; a release takes a twentieth of it.
MAX_UNPACKED = 1 << 31
# A release has some 3,000 files.
MAX_MEMBERS = 1 << 16
MAX_NAME = 255
MAX_SHOWN = 80
# All headers of one member: long names are in headers of their own.
MAX_HEADERS = 1 << 16
# Packing takes a dictionary of 8 MiB; a header may ask for 4 GiB.
MAX_DICTIONARY = 96 << 20
CHUNK = 1 << 16
# The one link of a release that leads out of it, and where.
INTERPRETER = ("bin/python3", "/usr/bin/python3")
# What reading one raises beside `Unusable`; RecursionError: a header for a header, and so on.
DAMAGE = (tarfile.TarError, lzma.LZMAError, EOFError, ValueError, RecursionError)


class Unusable(Exception):
    """The bundle holds what no release has."""


class Unpacked:
    """The tar in an xz file, read forwards."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._lzma = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=MAX_DICTIONARY)
        self._at = 0
        # Bytes that may still be read of the headers of a member; None: its content is read.
        self.headers: int | None = MAX_HEADERS
        # What was read last of headers: zeros at the end of a tar.
        self.header = b""

    def tell(self) -> int:
        return self._at

    def seek(self, to: int) -> int:
        """Go forwards. tarfile.ReadError for a member of negative size, which would be endless."""
        if to < self._at:
            raise tarfile.ReadError("a member begins before the end of the one before it")
        while self._at < to and self._next(min(CHUNK, to - self._at)):
            pass
        return self._at

    def read(self, size: int) -> bytes:
        """So many bytes, or fewer at the end."""
        if self.headers is not None:
            if not 0 <= size <= self.headers:
                raise tarfile.ReadError("its headers are too large")
            self.headers -= size
        found = bytearray()
        while len(found) < size and (piece := self._next(size - len(found))):
            found += piece
        if self.headers is not None:
            self.header = bytes(found)
        return bytes(found)

    def _next(self, most: int) -> bytes:
        """At most so many bytes; none at the end. EOFError if the file ends before that."""
        while not self._lzma.eof:
            more = self._file.read(CHUNK) if self._lzma.needs_input else b""
            if self._lzma.needs_input and not more:
                raise EOFError("it ends too early")
            if found := self._lzma.decompress(more, most):
                self._at += len(found)
                return found
        return b""


@contextlib.contextmanager
def opened(file: BinaryIO) -> Iterator[tarfile.TarFile]:
    """A bundle whose members `members` tells. `DAMAGE`."""
    source: io.IOBase = Unpacked(file)  # type: ignore[assignment]  # all that tarfile asks of it
    with tarfile.open(fileobj=source, mode="r:") as archive:
        yield archive


def members(archive: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    """The files, folders and links of a bundle, each below its folder and root's; Unusable for
    anything else, and when they take more than a release ever does. `DAMAGE`.

    Links lead to places within the release whatever other links there are: no member is below a
    link, and no link goes up after it went down."""
    source: Unpacked = archive.fileobj  # type: ignore[assignment]
    size = 0
    places: set[str] = set()
    links: set[str] = set()
    for member in archive:
        place = os.path.normpath(member.name)
        if reason := _refused(member, place, places, links):
            raise Unusable(f"the bundle holds {member.name[:MAX_SHOWN]!r}, {reason}")
        places.add(place)
        if member.issym():
            links.add(place)
        size += member.size
        if size > MAX_UNPACKED or len(places) > MAX_MEMBERS:
            most = f"{MAX_UNPACKED >> 30} GiB or {MAX_MEMBERS:,} files"
            raise Unusable(f"the bundle becomes more than {most}")
        member.uid = member.gid = 0
        member.uname = member.gname = "root"
        member.mode &= 0o755
        source.headers = None
        yield member
        source.headers = MAX_HEADERS
    if any(source.header):  # tarfile takes a later header that is none for the end
        raise Unusable("the bundle holds a header that is none")


def _refused(member: tarfile.TarInfo, place: str, places: set[str], links: set[str]) -> str:
    """Why no release has this member; empty if one may."""
    known = member.isreg() or member.isdir() or member.issym()
    if not known or member.issparse() or member.size < 0 or _leaves(place):
        return "which no release has"
    if len(place) > MAX_NAME or not place.isprintable():
        return "which no release has"
    above = place
    while above := os.path.dirname(above):
        if above in links or above == INTERPRETER[0]:
            return "which no release has"
    if place in places:  # the second one would be written through a link that is the first
        return "which no release has twice"
    if place == INTERPRETER[0] and not member.issym():
        return "which no release has"
    if member.issym():
        leads = os.path.join(os.path.dirname(place), member.linkname)
        inside = os.path.normpath(member.linkname) == member.linkname and not _leaves(leads)
        if not inside and (place, leads) != INTERPRETER:
            return f"a link to {member.linkname[:MAX_SHOWN]!r}"
    if member.mode & (stat.S_ISUID | stat.S_ISGID):
        return "which would run with other rights"
    return ""


def _leaves(path: str) -> bool:
    path = os.path.normpath(path)
    return path.startswith("/") or path.split("/")[0] == ".."
