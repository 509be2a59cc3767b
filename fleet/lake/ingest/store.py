"""Atomic, crash-safe changes of tables through a journal.

Tables are folders of plain Parquet files that never change. A `TableChange` names files to add,
which lie complete in the staging, and files to remove. It is written to the journal first, in one
rename; then it is carried out, and taken out of the journal. `recover` carries out what a killed
writer left in the journal, and deletes what it had staged beside. Everything is on stable storage
before the next step, so that a power cut costs no more than a kill.

There is one writer (`writing`). Readers take no part: between the renames of a change they may
see a part of it for a moment, rows that are rewritten even twice; and a file that they have listed
may be gone when they open it, because its rows are in another one now. They read again then.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from uuid import uuid4

import msgspec

from fleet.common import locks
from fleet.common.durable import make_folder, sync
from fleet.common.exits import CommandError
from fleet.common.files import read
from fleet.lake.schema.folder import Lake

# A folder within the staging area, which pulls use, too.
OURS: Final = "tables"
LOCK: Final = "writer.lock"
MAX_ENTRY: Final = 256 << 20


class BusyError(CommandError):
    """Another writer is at work."""


class StoreError(CommandError):
    """A change cannot be carried out."""


class TableChange(msgspec.Struct, frozen=True):
    """Paths relative to the lake: `add` from the staging to their place, `remove`."""

    add: tuple[tuple[str, str], ...] = ()
    remove: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.add or self.remove)

    def __or__(self, other: TableChange) -> TableChange:
        """Both at once."""
        return TableChange(self.add + other.add, self.remove + other.remove)


@contextmanager
def writing(lake: Lake) -> Iterator[None]:
    """Context manager: be the lake's only writer. BusyError; OSError."""
    lake.root.mkdir(parents=True, exist_ok=True)
    busy = BusyError(f"another ingest or follow is at work in {lake.root}")
    with locks.alone(lake.root / LOCK, busy):
        yield


def new_staging(lake: Lake) -> Path:
    """A new path in the staging area, on the same file system as the tables."""
    folder = lake.staging / OURS
    folder.mkdir(parents=True, exist_ok=True)
    return folder / uuid4().hex


def commit(lake: Lake, change: TableChange) -> None:
    """Carry out all of `change`; it is final once this returns, or once the journal has it.
    OSError."""
    if not change:
        return
    folders = {(lake.root / staged).parent for staged, _ in change.add}
    for staged, _ in change.add:
        sync(lake.root / staged)
    for folder in folders:
        sync(folder)
    make_folder(lake.journal)
    name = uuid4().hex
    part = lake.journal / f"{name}.part"
    with part.open("wb") as file:
        file.write(msgspec.json.encode(change))
        file.flush()
        os.fsync(file.fileno())
    entry = lake.journal / f"{name}.json"
    os.replace(part, entry)  # noqa: PTH105 - tests fail each of these calls in turn
    sync(lake.journal)
    _carry_out(lake, change, entry)


def recover(lake: Lake) -> int:
    """Complete the changes of a killed writer; returns their number. A writer calls it before
    anything else. StoreError; OSError."""
    entries = sorted(lake.journal.glob("*.json"))
    for entry in entries:
        _carry_out(lake, _read(lake, entry), entry)
    for part in lake.journal.glob("*.part"):
        os.unlink(part)  # noqa: PTH108 - as above
    if (lake.staging / OURS).is_dir():
        shutil.rmtree(lake.staging / OURS)
    return len(entries)


def _read(lake: Lake, entry: Path) -> TableChange:
    """The change of a journal's entry. The lake may come from elsewhere: StoreError for an entry
    that is damaged, or would change files beside the lake. OSError."""
    try:
        change = msgspec.json.decode(read(entry, MAX_ENTRY), type=TableChange)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise StoreError(
            f"{entry} is damaged ({error}), so that nobody knows what it was to change; remove it, "
            f"{lake.tables} and {lake.checkpoints}, and ingest again"
        ) from None
    for place in (*(name for both in change.add for name in both), *change.remove):
        if place.startswith("/") or ".." in place.split("/") or not place.isprintable():
            raise StoreError(
                f"{entry} would change {place!r}, which is not in the lake; remove {entry.name}, "
                "and ask whoever made the lake"
            )
    return change


def _carry_out(lake: Lake, change: TableChange, entry: Path) -> None:
    """Carry out a change of which any step may be done already."""
    folders = set()
    for staged, place in change.add:
        source, target = lake.root / staged, lake.root / place
        if source.exists():
            make_folder(target.parent)
            os.replace(source, target)  # noqa: PTH105 - as above
        elif not target.exists():
            raise StoreError(
                f"{entry} adds {source}, which is gone; restore it, or remove {entry.name}, "
                f"{lake.tables} and {lake.checkpoints}, and ingest again"
            )
        folders.add(target.parent)
    for place in change.remove:
        target = lake.root / place
        if target.exists():
            os.unlink(target)  # noqa: PTH108 - as above
        if target.parent.is_dir():
            folders.add(target.parent)
    for folder in sorted(folders):
        sync(folder)
    os.unlink(entry)  # noqa: PTH108 - as above
    sync(lake.journal)
