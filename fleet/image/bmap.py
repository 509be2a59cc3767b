"""Block maps: the used blocks of an image and their checksums (bmap-tools' format, 2.0)."""

from __future__ import annotations

import hashlib
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Final, NamedTuple

from fleet.common.exits import CommandError

# Block size for an image without a map: small enough to locate damage and to show progress.
PIECE: Final = 4 << 20


class BmapError(CommandError):
    """The map does not belong to the image; the text is one line."""


class Extent(NamedTuple):
    """A range of an image to copy, and its SHA-256 in hexadecimal, if known."""

    offset: int
    length: int
    sha256: str | None


class Bmap(NamedTuple):
    """The parts of an image to copy. `size` is the image's, in bytes; extents are in order."""

    size: int
    extents: tuple[Extent, ...]

    @property
    def mapped(self) -> int:
        """Bytes that are copied."""
        return sum(extent.length for extent in self.extents)


def of(image: Path) -> Bmap:
    """The map of an image: that of the file beside it (``pi4.bmap`` or ``pi4.img.bmap`` of
    ``pi4.img``), or all of it. BmapError if the file is damaged or another image's."""
    size = image.stat().st_size
    places = (image.with_suffix(".bmap"), image.with_name(f"{image.name}.bmap"))
    beside = next((path for path in places if path.exists()), None)
    if beside is None:
        pieces = range(0, size, PIECE)
        return Bmap(size, tuple(Extent(at, min(PIECE, size - at), None) for at in pieces))
    try:
        found = parse(beside.read_bytes())
    except BmapError as error:
        raise BmapError(f"{beside}: {error}; build the image again") from None
    if found.size != size:
        raise BmapError(
            f"{beside} is for an image of {found.size} bytes, {image.name} has {size}; "
            "build the image again"
        )
    return found


def parse(text: bytes) -> Bmap:
    """Parse a map file. It contains its own checksum, computed with zeros in its place."""
    try:
        tree = ET.fromstring(text)  # noqa: S314 - as above
        if not (tree.get("version") or "").startswith("2."):
            raise BmapError(f"version {tree.get('version')} is unknown")
        kind = (tree.findtext("ChecksumType") or "").strip()
        if kind != "sha256":
            raise BmapError(f"checksums are {kind}, not sha256")
        own = (tree.findtext("BmapFileChecksum") or "").strip()
        blank = text.replace(own.encode(), b"0" * len(own), 1)
        if not own or hashlib.sha256(blank).hexdigest() != own:
            raise BmapError("it is damaged: its checksum is another one")
        size = int(tree.findtext("ImageSize") or "")
        block = int(tree.findtext("BlockSize") or "")
        ranges = tree.findall("BlockMap/Range")
        return Bmap(size, tuple(_extent(each, block, size) for each in ranges))
    except (ET.ParseError, ValueError) as error:
        raise BmapError(f"it cannot be read: {error}") from None


def _extent(element: ET.Element, block: int, size: int) -> Extent:
    first, _, last = (element.text or "").strip().partition("-")
    offset, end = int(first) * block, (int(last or first) + 1) * block
    if not 0 <= offset < end or offset >= size:
        raise BmapError(f"blocks {first}-{last or first} are outside the image")
    return Extent(offset, min(end, size) - offset, element.get("chksum"))
