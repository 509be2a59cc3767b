"""Writes the mapped blocks of an image to a card and verifies them by reading the card back."""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Callable, Iterator
from typing import BinaryIO, Final, NamedTuple, Protocol

from fleet.common.exits import FAILED, CommandError
from fleet.image.bmap import Bmap, Extent

CHUNK: Final = 1 << 20


class WriteError(CommandError):
    """The card differs from the image; the text is one line."""

    status = FAILED


class Card(Protocol):
    """The destination. All three methods raise OSError; `write` and `read` may process less than
    requested."""

    def write(self, offset: int, data: memoryview) -> int:
        """Bytes written."""
        ...

    def read(self, offset: int, length: int) -> bytes:
        """Read from the medium, after `sync`; empty at its end."""
        ...

    def sync(self) -> None:
        """Flush all written data to the medium, and drop it from the page cache."""
        ...


class Step(NamedTuple):
    """Progress: the current pass, and the number of bytes just processed."""

    stage: str  # "writing" or "verifying"
    bytes: int


def write(image: BinaryIO, bmap: Bmap, card: Card, told: Callable[[Step], None]) -> None:
    """Write the blocks that the map lists, and verify each. WriteError says what is damaged: the
    image, by the map's checksums, or the card. O(bytes mapped)."""
    digests = []
    for extent in bmap.extents:
        digest = _copy(image, extent, card, told)
        if extent.sha256 not in {None, digest}:
            raise WriteError(
                f"the image is damaged: {_where(extent)} are not what its map says; build it again"
            )
        digests.append(digest)
    try:
        card.sync()
    except OSError as error:
        raise WriteError(f"the card did not take what was written: {_reason(error)}") from error
    for extent, digest in zip(bmap.extents, digests, strict=True):
        if _digest_on(card, extent, told) != digest:
            raise WriteError(
                f"the card is bad: {_where(extent)} are not what was written; take another one"
            )


def _copy(image: BinaryIO, extent: Extent, card: Card, told: Callable[[Step], None]) -> str:
    """Write one extent; returns its SHA-256 as read from the image."""
    digest = hashlib.sha256()
    image.seek(extent.offset)
    for offset, length in _chunks(extent):
        data = image.read(length)
        if len(data) != length:
            raise WriteError(f"the image ends early, at byte {offset + len(data)}; build it again")
        digest.update(data)
        _write_all(card, offset, memoryview(data))
        told(Step("writing", length))
    return digest.hexdigest()


def _write_all(card: Card, offset: int, data: memoryview) -> None:
    while data:
        try:
            written = card.write(offset, data)
            if written == 0:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError as error:
            raise WriteError(
                f"the card could not be written at byte {offset}: {_reason(error)}"
            ) from error
        offset += written
        data = data[written:]


def _digest_on(card: Card, extent: Extent, told: Callable[[Step], None]) -> str:
    digest = hashlib.sha256()
    for start, length in _chunks(extent):
        offset, left = start, length
        while left:
            try:
                data = card.read(offset, left)
            except OSError as error:
                raise WriteError(
                    f"the card is bad: it cannot be read at byte {offset}: {_reason(error)}; "
                    "take another one"
                ) from error
            if not data:
                raise WriteError(f"the card is bad: it ends at byte {offset}; take another one")
            digest.update(data)
            offset += len(data)
            left -= len(data)
        told(Step("verifying", length))
    return digest.hexdigest()


def _chunks(extent: Extent) -> Iterator[tuple[int, int]]:
    end = extent.offset + extent.length
    for offset in range(extent.offset, end, CHUNK):
        yield offset, min(CHUNK, end - offset)


def _where(extent: Extent) -> str:
    return f"bytes {extent.offset} to {extent.offset + extent.length - 1}"


def _reason(error: OSError) -> str:
    if error.errno == errno.ENOSPC:
        return "it is smaller than it says"
    return error.strerror or str(error)
