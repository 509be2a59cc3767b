"""Tracks a master's record files: present, taken, and lost before they were taken; pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

from msgspec import Meta, Struct, field

from fleet.on_host.records import ID_DIGITS

FileId = Annotated[str, Meta(pattern=f"^[0-9a-f]{{{ID_DIGITS}}}$(?!\n)")]
Digest = Annotated[str, Meta(pattern="^[0-9a-f]{64}$(?!\n)")]
Offset = Annotated[int, Meta(ge=0, le=(1 << 53) - 1)]
# As the names of files have it (fleet/on_host/records.py).
Number = Annotated[int, Meta(ge=1, le=999_999)]


class Listed(Struct, frozen=True):
    """A file as listed by its host; the current one has no `number`. `holds`: it still begins with
    the bytes that were taken."""

    id: FileId
    number: Number | None
    size: Offset
    mtime_ms: int
    holds: bool


class Taken(Struct, frozen=True):
    """The taken part of a file; `tail` is the digest of the last bytes of that part."""

    number: int | None = None
    size: int = 0
    bytes: int = 0
    tail: str = ""


class RecordsState(Struct):
    """A master's state: the files of the last listing, by id, and the highest number of a closed
    one."""

    closed: int = 0
    files: dict[str, Taken] = field(default_factory=dict)


def after_listing(state: RecordsState, listing: Sequence[Listed]) -> tuple[RecordsState, int]:
    """The state with the files that exist now, and the number of files lost before they were taken
    completely.

    A master numbers its closed files without gaps, and deletes the oldest. So each missing number
    since the last listing was a file that was never seen closed, and the file that was current then
    was the first of these. O(files).
    """
    numbers = {file.number: file.id for file in listing if file.number is not None}
    ids = {file.id for file in listing}
    known = {taken.number: name for name, taken in state.files.items() if taken.number is not None}
    highest = max(numbers, default=state.closed)
    # The folder was started anew: its numbers say nothing about earlier files.
    anew = highest < state.closed or any(
        numbers.get(number, name) != name for number, name in known.items()
    )
    closed = 0 if anew else state.closed
    expired = highest - closed - sum(number > closed for number in numbers)
    for name, taken in state.files.items():
        if name in ids or taken.bytes >= taken.size:
            continue
        counted = taken.number is None and not anew and _missing(closed + 1, highest, numbers)
        expired += not counted
    files = {file.id: _with(state.files.get(file.id, Taken()), file) for file in listing}
    return RecordsState(highest, files), expired


def _missing(number: int, highest: int, numbers: Mapping[int, str]) -> bool:
    return number <= highest and number not in numbers


def _with(taken: Taken, file: Listed) -> Taken:
    if not file.holds:
        taken = Taken()
    return Taken(file.number, file.size, taken.bytes, taken.tail)
