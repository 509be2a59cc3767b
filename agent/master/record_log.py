"""Record log: JSON lines, batched in memory, rotated by size."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from agent.wire.master_config import MasterRecords
from agent.wire.records import AnyRecord

CURRENT = "current.jsonl"
BATCH_RECORDS = 2_048
NUMBER_DIGITS = 6


class RecordLog:
    """Appends records to ``current.jsonl``; a full file becomes ``records-<n>.jsonl``.

    A record waits at most `flush_s` seconds in memory. A disk that refuses a batch costs that
    batch, one line on stderr and `lost`: serving goes on. What is written through instead is on
    stable storage or not there at all.
    """

    def __init__(
        self,
        config: MasterRecords,
        directory: Path,
        report: Callable[[str], object] = sys.stderr.write,
    ) -> None:
        self._config = config
        self._directory = directory
        self._report = report
        self._batch: list[AnyRecord] = []
        self._first_s = 0.0
        self._encode = msgspec.json.Encoder().encode_lines
        self.lost = 0
        directory.mkdir(parents=True, exist_ok=True)
        self._number = max((int(p.stem.split("-")[1]) for p in self._closed_files()), default=0)
        self._torn = True
        self._good_bytes: int | None = None  # of a file that could not be cut back yet
        self._entered = False  # the current file's name is on stable storage
        self._refusing = False
        try:
            self._end_torn_line()
        except OSError as error:
            self._report(f"records: {directory / CURRENT}: {error.strerror}\n")

    def _closed_files(self) -> list[Path]:
        return sorted(self._directory.glob(f"records-{'[0-9]' * NUMBER_DIGITS}.jsonl"))

    def _end_torn_line(self) -> None:
        """A crash or a full disk may have left half a line: end it, so that only that record is
        lost."""
        current = self._directory / CURRENT
        if current.exists() and (data := current.read_bytes()) and not data.endswith(b"\n"):
            with current.open("ab") as file:
                file.write(b"\n")
        self._torn = False

    def append(self, record: AnyRecord, now: float) -> None:
        """Take a record; O(1) but for every 2,048th."""
        if not self._batch:
            self._first_s = now
        self._batch.append(record)
        if len(self._batch) >= BATCH_RECORDS:
            self.flush()

    @property
    def next_flush(self) -> float | None:
        """When `flush` is due; None while nothing waits."""
        return self._first_s + self._config.flush_s if self._batch else None

    def flush(self) -> None:
        """Write what waits."""
        if not self._batch:
            return
        batch, self._batch = self._batch, []
        try:
            size = self._write(self._encode(batch), sync=False)
        except OSError as error:
            self.lost += len(batch)
            current = self._directory / CURRENT
            self._report(f"records: {len(batch)} not written to {current}: {error.strerror}\n")
            return
        self._rotate_when_full(size)

    def write_through(self, records: Sequence[AnyRecord]) -> bool:
        """Write what waits, then these; whether these are on stable storage. If not, the file has
        none of them, and the first such refusal in a row is one line on stderr."""
        self.flush()
        try:
            size = self._write(self._encode(records), sync=True)
        except OSError as error:
            if not self._refusing:
                current = self._directory / CURRENT
                self._report(f"records: {current} takes no events now: {error.strerror}\n")
            self._refusing = True
            return False
        self._refusing = False
        self._rotate_when_full(size)
        return True

    def _write(self, data: bytes, *, sync: bool) -> int:
        """Append all of `data`, or nothing and OSError; the size of the file after it."""
        current = self._directory / CURRENT
        if self._good_bytes is not None:
            self._cut_back(current, self._good_bytes)
        if self._torn:
            self._end_torn_line()
        before = current.stat().st_size if current.exists() else 0
        try:
            with current.open("ab") as file:
                file.write(data)
                file.flush()
                if sync:
                    os.fsync(file.fileno())
            if sync and not self._entered:
                _sync(self._directory)
                self._entered = True
        except OSError:
            # A disk that is full may have taken a part.
            self._torn = True
            with suppress(OSError):
                self._cut_back(current, before)
            raise
        return before + len(data)

    def _cut_back(self, current: Path, size: int) -> None:
        self._good_bytes = size
        if current.exists():
            os.truncate(current, size)
        self._good_bytes = None

    def _rotate_when_full(self, size: int) -> None:
        if size < self._config.rotate_bytes:
            return
        current = self._directory / CURRENT
        try:
            self._rotate(current)
        except OSError as error:
            self._report(f"records: {current} stays open: {error.strerror}\n")

    def recent(self, kind: str) -> Iterator[bytes]:
        """The lines of that kind in the current file and the one before, put on stable storage
        first: what was written last, by a process that may have been killed. A file that cannot be
        read costs a line on stderr."""
        mark = b'"record":"%s"' % kind.encode()
        for path in [*self._closed_files()[-1:], self._directory / CURRENT]:
            if not path.exists():
                continue
            try:
                _sync(path)
                lines = path.read_bytes().splitlines()
            except OSError as error:
                self._report(f"records: {path}: {error.strerror}; its events may be repeated\n")
                continue
            for line in lines:
                if mark in line:
                    yield line

    def _rotate(self, current: Path) -> None:
        self._number += 1
        self._entered = False
        current.rename(self._directory / f"records-{self._number:0{NUMBER_DIGITS}d}.jsonl")
        for old in self._closed_files()[: -self._config.keep_files]:
            old.unlink()


def _sync(path: Path) -> None:
    """Put a file, or a folder's names, on stable storage."""
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
