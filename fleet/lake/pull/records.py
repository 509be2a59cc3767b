"""Takes a master's records: immutable segments of whole lines in the landing zone."""

from __future__ import annotations

import hashlib
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from fleet.common.msgspec_types import made_ready
from fleet.inventory.parties import MASTER
from fleet.lake.pull.counts import Counts
from fleet.lake.pull.host_source import Header
from fleet.lake.pull.landing_files import new_part, place
from fleet.lake.pull.record_files import (
    Digest,
    FileId,
    Listed,
    Offset,
    RecordsState,
    Taken,
    after_listing,
)
from fleet.lake.pull.state import load, save, state_path
from fleet.lake.schema.folder import Lake
from fleet.ssh.errors import HostError

# Maximum amount that is taken again after a lost connection.
SEGMENT_BYTES: Final = 8 << 20
# No master writes a longer line; a host cannot fill this machine's disk with one.
MAX_LINE: Final = 64 << 20
OFFSET_DIGITS: Final = 12
DIGEST_DIGITS: Final = 8


class Files(Struct, frozen=True, tag_field="at", tag="files"):
    """Files of records that the host has."""

    files: tuple[Listed, ...]


class Data(Struct, frozen=True, tag_field="at", tag="data"):
    """Bytes of a segment."""


class Segment(Struct, frozen=True, tag_field="at", tag="segment", rename={"start": "from"}):
    """The segment is complete."""

    id: FileId
    start: Offset
    to: Offset
    sha256: Digest
    tail: Digest


class Drop(Struct, frozen=True, tag_field="at", tag="drop"):
    """It never will be."""


class More(Struct, frozen=True, tag_field="at", tag="more"):
    """There is more than was asked for."""


AnyHeader = Files | Data | Segment | Drop | More
made_ready(AnyHeader, RecordsState)


class RecordsTaker:
    """Takes what `fleet.on_host.records` sends; a `Taker` of fleet/lake/pull/host_source.py.

    A segment is written as it arrives, checked against the digest computed on its host, and gets
    its final name when it is on stable storage; then the state is updated. So the landing has only
    complete segments at any moment, and an interrupted pull resumes after the last one. The state
    names all files of a host: it is written once for as many bytes as a segment may have, which a
    killed pull takes again. A segment that is taken twice has the same name; other bytes have
    another name.
    """

    program = "fleet.on_host.records"

    def __init__(
        self, lake: Lake, iad: str, since_ms: int | None, segment_bytes: int = SEGMENT_BYTES
    ) -> None:
        """HostError if the state cannot be read."""
        self.counts = Counts()
        self.received = 0
        self.more = False
        self._lake = lake
        self._folder = lake.records / f"iad={iad}"
        self._since_ms = since_ms
        self._segment_bytes = segment_bytes
        self._path = state_path(lake, iad, MASTER)
        self._state = load(self._path, RecordsState)
        self._part: _Part | None = None
        # Files that the host named last, and segments that are shorter than what was asked for:
        # only the last one of a file is. Each takes a file here, however few bytes it has.
        self._named = 0
        self._short = 0
        self._unsaved = 0  # bytes that landed since the state was written

    @property
    def under_way(self) -> bool:
        """As Taker has it."""
        return self._part is not None

    def asked(self, max_bytes: int) -> dict[str, Any]:
        """The request to the host."""
        return {
            "known": {
                name: (taken.bytes, taken.tail)
                for name, taken in self._state.files.items()
                if taken.bytes
            },
            "since_ms": self._since_ms,
            "segment_bytes": self._segment_bytes,
            "max_bytes": max_bytes,
        }

    def take(self, header: Header, data: bytes) -> None:
        """Take a frame. HostError, OSError."""
        try:
            said = msgspec.convert(header, AnyHeader)
        except msgspec.ValidationError as error:
            raise HostError("failed", f"the host sent what nobody understands: {error}") from None
        match said:
            case Files():
                self._named = len(said.files)
                self._state, expired = after_listing(self._state, said.files)
                save(self._lake, self._path, self._state)
                self.counts.expired_files += expired
            case Data():
                self._add(data)
            case Segment():
                self._land(said)
            case Drop():
                self._drop()
            case More():
                self.more = True

    def end(self) -> None:
        """All frames have come. OSError."""
        self._save()

    def close(self) -> None:
        """Discard an incomplete segment."""
        self._drop()
        with suppress(OSError):  # else it is taken again
            self._save()

    def _drop(self) -> None:
        if self._part is not None:
            self._part.drop()
            self._part = None

    def _save(self) -> None:
        if self._unsaved:
            save(self._lake, self._path, self._state)
            self._unsaved = 0

    def _add(self, data: bytes) -> None:
        if self._part is None:
            self._part = _Part(self._lake)
        self._part.add(data)
        self.received += len(data)
        if self._part.size > self._segment_bytes + MAX_LINE:
            raise HostError("failed", f"it has a line of more than {MAX_LINE} bytes")

    def _land(self, segment: Segment) -> None:
        part = self._part
        if part is None or not part.is_whole(segment):
            raise HostError("lost", "a segment of records came damaged; it was not kept")
        self._short += part.size < self._segment_bytes
        if self._short > self._named:
            raise HostError("failed", "the host sends its records in more pieces than it was asked")
        part.place(self._folder / name_of(segment))
        self._part = None
        before = self._state.files.get(segment.id, Taken())
        size = max(before.size, segment.to)
        self._state.files[segment.id] = replace(
            before, size=size, bytes=segment.to, tail=segment.tail
        )
        self._unsaved += part.size
        if self._unsaved >= self._segment_bytes:
            self._save()
        self.counts.records += part.lines
        self.counts.bytes += part.size


class _Part:
    """A segment that is being written."""

    def __init__(self, lake: Lake) -> None:
        self.size = 0
        self.lines = 0
        self._path = new_part(lake)
        self._file = self._path.open("wb")
        self._digest = hashlib.sha256()
        self._last = b""

    def add(self, data: bytes) -> None:
        self._file.write(data)
        self._digest.update(data)
        self.size += len(data)
        self.lines += data.count(b"\n")
        self._last = data[-1:] or self._last

    def is_whole(self, segment: Segment) -> bool:
        return (
            self._last == b"\n"
            and self.size == segment.to - segment.start
            and self._digest.hexdigest() == segment.sha256
        )

    def place(self, path: Path) -> None:
        self._file.close()
        place(self._path, path)

    def drop(self) -> None:
        with suppress(OSError):  # a full disk may not take the rest
            self._file.close()
        self._path.unlink(missing_ok=True)


def name_of(segment: Segment) -> str:
    """The name of a segment: file, range and digest of its bytes."""
    first, end = (f"{offset:0{OFFSET_DIGITS}}" for offset in (segment.start, segment.to))
    return f"{segment.id}-{first}-{end}-{segment.sha256[:DIGEST_DIGITS]}.jsonl"
