"""A disk that loses power: what may be on it, given what was written and synced before.

Contents. What was written to a file before an fsync or fdatasync of it that succeeded is there. Of
later changes each is there or not, whatever came after it; a write may be torn: any of the 512-byte
sectors that it touches may have arrived alone, and a sector that was being written may hold
garbage in the bytes of that write. A file that grew may have its new length without the data, and
then zeros or garbage in its place. After an fsync that failed, what it should have synced is never
sure, though a later one succeeds (as Linux marks such pages clean).

Names, in two variants. `STRICT`, what POSIX promises: making, renaming and removing a file is sure
after an fsync of its folder only, and otherwise any of them may have happened without the others.
`ORDERED`, as in the journals of ext4 and XFS: names change in the order in which they were changed,
and any fsync makes all changes of names before it sure.

Not in the model: a device that damages what was stored and synced before (next to what it was
writing, or that ignores the flush).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise
from random import Random
from typing import Final, Literal, NamedTuple

from tests.torture.recording import (
    CLOSE,
    EMPTIED,
    MADE,
    MARK,
    MKDIR,
    OPEN,
    RENAME,
    RMDIR,
    SYNC,
    TRUNCATE,
    UNLINK,
    WRITE,
    Operation,
)

SECTOR: Final = 512
FOLDER: Final = -1  # in place of a file's number, where a name is a folder's

Rules = Literal["strict", "ordered"]


class Survival(NamedTuple):
    """What comes of changes that were not synced."""

    # prefix: the first ones, the last of them torn. scattered: each by itself.
    style: Literal["none", "all", "prefix", "scattered"]
    share: float  # that survives, where scattered
    torn: float  # share of the surviving writes of which some sectors are missing
    garbage: bool  # what is missing of a torn write is garbage, not what was there before


def drawn(draw: Random) -> Survival:
    """A survival at random."""
    return Survival(
        draw.choices(("none", "all", "prefix", "scattered"), (1, 1, 3, 5))[0],
        draw.choice((0.1, 0.5, 0.9)),
        draw.choice((0.0, 0.3, 1.0)),
        draw.random() < 0.25,
    )


class _Change:
    """A write (`data`) at `offset`, or a new length `offset` (no data)."""

    __slots__ = ("data", "doubtful", "offset", "synced")

    def __init__(self, offset: int, data: bytes | None) -> None:
        self.offset = offset
        self.data = data
        self.synced = False
        self.doubtful = False  # an fsync of it failed


class _File:
    """A file's content: what is sure, and the changes since."""

    def __init__(self, content: bytes = b"") -> None:
        self.sure = bytearray(content)
        self.changes: list[_Change] = []

    def sync(self, failed: bool) -> None:
        for change in self.changes:
            if failed:
                change.doubtful = not change.synced
            elif not change.doubtful:
                change.synced = True
        if all(change.synced for change in self.changes):
            for change in self.changes:
                _apply(self.sure, change)
            self.changes.clear()

    def surviving(self, draw: Random, survival: Survival) -> bytes:
        content = bytearray(self.sure)
        unsure = sum(not change.synced for change in self.changes)
        first = draw.randrange(unsure + 1)  # of a prefix, how many
        n = 0
        for change in self.changes:
            if change.synced:
                _apply(content, change)
                continue
            n += 1
            if survival.style == "all" or (survival.style == "prefix" and n <= first):
                _apply(content, change)
            elif survival.style == "prefix" and n == first + 1:
                _apply_torn(content, change, draw, survival.garbage)
            elif survival.style == "scattered":
                if draw.random() >= survival.share:
                    _apply_length(content, change, draw, survival.garbage)
                elif draw.random() < survival.torn:
                    _apply_torn(content, change, draw, survival.garbage)
                else:
                    _apply(content, change)
        return bytes(content)


def _apply(content: bytearray, change: _Change) -> None:
    if change.data is None:
        _resize(content, change.offset)
        return
    end = change.offset + len(change.data)
    if end > len(content):
        _resize(content, end)
    content[change.offset : end] = change.data


def _apply_length(content: bytearray, change: _Change, draw: Random, garbage: bool) -> None:
    """The write is lost; the file's new length may have arrived all the same."""
    if change.data is None:
        return
    end = change.offset + len(change.data)
    if end > len(content) and draw.random() < 0.3:
        start = len(content)
        _resize(content, end)
        if garbage:
            content[start:end] = draw.randbytes(end - start)


def _apply_torn(content: bytearray, change: _Change, draw: Random, garbage: bool) -> None:
    """Some sectors of the write arrive: the first ones, or any."""
    if change.data is None:
        return
    start, end = change.offset, change.offset + len(change.data)
    borders = [start, *range(start - start % SECTOR + SECTOR, end, SECTOR), end]
    pieces = list(pairwise(borders))
    first = draw.randrange(len(pieces))
    share = draw.random()
    in_order = draw.random() < 0.5
    for n, (a, b) in enumerate(pieces):
        if n < first if in_order else draw.random() < share:
            if b > len(content):
                _resize(content, b)
            content[a:b] = change.data[a - start : b - start]
        elif garbage and draw.random() < 0.5:
            if b > len(content):
                _resize(content, b)
            content[a:b] = draw.randbytes(b - a)


def _resize(content: bytearray, length: int) -> None:
    if length > len(content):
        content.extend(bytes(length - len(content)))
    else:
        del content[length:]


def _folder_of(name: str) -> str:
    return name.rpartition("/")[0]


class _Naming(NamedTuple):
    """One change of names, which happens as a whole: the file's number by name, None for gone."""

    names: tuple[tuple[str, int | None], ...]

    def in_(self, folder: int | str) -> bool:
        return any(_folder_of(name) == folder for name, _ in self.names)


class Disk:
    """Files of one folder as a process changes them, and as a power cut may leave them.

    `files` is what is on it at first, synced. `marks` are the process's marks so far.
    """

    def __init__(self, rules: Rules, files: Mapping[str, bytes] | None = None) -> None:
        self.rules = rules
        self._files: dict[int, _File] = {}
        self._names: dict[str, int] = {}  # as the process sees them
        self._open: dict[int, int | str] = {}  # by descriptor: a file's number, or a folder's name
        self._namings: list[_Naming] = []
        self._next = 0
        for name, content in (files or {}).items():
            self._names[name] = self._new(content)
        self._sure_names = dict(self._names)
        self.marks: list[str] = []

    def apply(self, done: Operation) -> None:
        """Let the process do one thing more."""
        match done.kind:
            case x if x == OPEN:
                self._opened(done)
            case x if x == CLOSE:
                del self._open[done.fd]
            case x if x == WRITE:
                self._file(done.fd).changes.append(_Change(done.offset, done.data))
            case x if x == TRUNCATE:
                self._file(done.fd).changes.append(_Change(done.offset, None))
            case x if x == SYNC:
                self._synced(done.fd, failed=done.error != 0)
            case x if x == RENAME:
                number = self._names[done.path]
                self._rename(((done.path, None), (done.data.decode(), number)))
            case x if x in (UNLINK, RMDIR):
                self._rename(((done.path, None),))
            case x if x == MKDIR:
                self._rename(((done.path, FOLDER),))
            case x if x == MARK:
                self.marks.append(done.data.decode())

    def image(self, draw: Random, survival: Survival) -> dict[str, bytes]:
        """The files after a power cut now."""
        names = dict(self._sure_names)
        first = draw.randrange(len(self._namings) + 1)
        for n, naming in enumerate(self._namings):
            if survival.style == "none":
                kept = False
            elif survival.style == "all":
                kept = True
            elif self.rules == "ordered":
                kept = n < first
            else:
                kept = draw.random() < survival.share
            if kept:
                _rename(names, naming)
        return {
            name: self._files[number].surviving(draw, survival)
            for name, number in sorted(names.items())
            if number != FOLDER and _folder_of(name) in ("", *names)
        }

    def unsure(self) -> int:
        """How many changes of contents and names are not synced."""
        contents = (change for file in self._files.values() for change in file.changes)
        return len(self._namings) + sum(not change.synced for change in contents)

    def _new(self, content: bytes = b"") -> int:
        self._next += 1
        self._files[self._next] = _File(content)
        return self._next

    def _file(self, fd: int) -> _File:
        number = self._open[fd]
        assert isinstance(number, int)
        return self._files[number]

    def _opened(self, done: Operation) -> None:
        if not done.path or self._names.get(done.path) == FOLDER:
            self._open[done.fd] = done.path
            return
        if done.made == MADE:
            self._rename(((done.path, self._new()),))
        self._open[done.fd] = self._names[done.path]
        if done.made == EMPTIED:
            self._file(done.fd).changes.append(_Change(0, None))

    def _rename(self, names: tuple[tuple[str, int | None], ...]) -> None:
        naming = _Naming(names)
        _rename(self._names, naming)
        self._namings.append(naming)

    def _synced(self, fd: int, failed: bool) -> None:
        what = self._open[fd]
        if isinstance(what, int):
            self._files[what].sync(failed)
        if failed:
            return
        sure = [naming for naming in self._namings if self.rules == "ordered" or naming.in_(what)]
        for naming in sure:
            _rename(self._sure_names, naming)
        self._namings = [naming for naming in self._namings if naming not in sure]


def _rename(names: dict[str, int], naming: _Naming) -> None:
    for name, number in naming.names:
        if number is None:
            names.pop(name, None)
        else:
            names[name] = number


def replayed(
    rules: Rules, log: Iterable[Operation], files: Mapping[str, bytes] | None = None
) -> Disk:
    """The disk after all of the log."""
    disk = Disk(rules, files)
    for done in log:
        disk.apply(done)
    return disk
