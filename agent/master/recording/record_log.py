"""Record log: JSON lines, batched in memory, rotated by size."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

import msgspec

from agent.runtime import console
from agent.runtime.disk_writer import DiskWriter, InlineDiskWriter
from agent.runtime.outage import Outage
from agent.wire.master_config import MasterRecords
from agent.wire.records import AnyRecord

CURRENT = "current.jsonl"
BATCH_RECORDS = 2_048
BATCH_BYTES = 1 << 20
# Records that may wait while a batch is being written; any beyond are lost.
MAX_WAITING = 8 * BATCH_RECORDS
MAX_WAITING_BYTES = 16 * BATCH_BYTES
NUMBER_DIGITS = 6
MAX_NUMBER = 10**NUMBER_DIGITS - 1


class RecordLog:
    """Appends records to ``current.jsonl``; a full file becomes ``records-<n>.jsonl``.

    A record waits at most `flush_s` seconds in memory, or as long as the disk takes for those
    before it. A batch that the disk refuses is lost and counted in `lost`, and the master goes on;
    one line on stderr reports the first such batch in a row, and one the end of it. Records that
    are written through are either all on stable storage or absent.

    Once the files are open, only `writer` touches them: whatever is not marked as the loop's runs
    in the writer's thread, and reports from there.
    """

    def __init__(
        self,
        config: MasterRecords,
        directory: Path,
        report: Callable[[str], object] = console.write,
        writer: DiskWriter | None = None,
    ) -> None:
        self._config = config
        self._directory = directory
        self._report = report
        self._writer = writer or InlineDiskWriter()
        self._encode = msgspec.json.Encoder().encode_lines
        # Owned by the loop's thread.
        # Lines, encoded one at a time: for a batch at once the writer's thread would hold the
        # interpreter's lock too long, and a query's areas take six times the memory of its line.
        self._batch: list[bytes] = []
        self._bytes = 0
        self._first_s = 0.0
        self._flushing = False
        self._overflowing = False
        self.lost = 0
        # Owned by the writer's thread.
        directory.mkdir(parents=True, exist_ok=True)
        self._number = 0  # of the last file that was closed
        self._torn = True
        self._good_bytes: int | None = None  # length of a file that could not be truncated yet
        self._entered = False  # the current file's name is on stable storage
        self._refused = 0  # records lost in a row
        self._no_events = Outage(report, f"records: {directory / CURRENT} takes events again\n")
        self._no_rotation = Outage(report)
        try:
            self._end_torn_line()
        except OSError as error:
            self._report(f"records: {directory / CURRENT}: {error.strerror}\n")

    # --- in the loop's thread ------------------------------------------------------------------

    def append(self, record: AnyRecord, now: float) -> None:
        """Take a record. O(size)."""
        if len(self._batch) >= MAX_WAITING or self._bytes >= MAX_WAITING_BYTES:
            self._overflow()
            return
        if not self._batch:
            self._first_s = now
        # A list: of any other iterable msgspec 0.22 keeps the iterator for ever.
        line = self._encode([record])
        self._batch.append(line)
        self._bytes += len(line)
        if self._is_full:
            self.flush()

    @property
    def _is_full(self) -> bool:
        return len(self._batch) >= BATCH_RECORDS or self._bytes >= BATCH_BYTES

    def _overflow(self) -> None:
        self.lost += 1
        if not self._overflowing:
            current = self._directory / CURRENT
            self._report(f"records: {current} takes too long; what comes meanwhile is lost\n")
        self._overflowing = True

    @property
    def next_flush(self) -> float | None:
        """When `flush` is due; None while nothing waits, or a batch is being written."""
        if self._flushing or not self._batch:
            return None
        return self._first_s + self._config.flush_s

    def flush(self) -> None:
        """Hand waiting records to the writer; one batch at a time."""
        if self._batch and not self._flushing:
            self._flushing = True
            self._writer.submit(partial(self._write_batch, self._take()), self._flushed)

    def _take(self) -> list[bytes]:
        batch, self._batch, self._bytes = self._batch, [], 0
        return batch

    def _flushed(self, lost: int) -> None:
        self.lost += lost
        self._flushing = self._overflowing = False
        if self._is_full:
            self.flush()

    def write_through(self, records: Sequence[AnyRecord], then: Callable[[bool], object]) -> None:
        """Write the waiting records, then these; `then` gets whether these are on stable storage.
        If not, the file has none of them, and the first such refusal in a row is one line on
        stderr."""
        batch = self._take()

        def job() -> tuple[int, bool]:
            return self._write_batch(batch) if batch else 0, self._write_synced(records)

        def done(result: tuple[int, bool]) -> None:
            lost, written = result
            self.lost += lost
            then(written)

        self._writer.submit(job, done)

    def close(self) -> None:
        """Write the waiting records. It takes as long as the disk does."""
        self._writer.drain()
        self.flush()
        self._writer.drain()

    # --- in the writer's thread ----------------------------------------------------------------

    def _closed_files(self) -> list[Path]:
        return sorted(self._directory.glob(f"records-{'[0-9]' * NUMBER_DIGITS}.jsonl"))

    def _end_torn_line(self) -> None:
        """A crash or a full disk may have left a truncated line: end it, so that only that record
        is lost."""
        current = self._directory / CURRENT
        if _is_there(current) and current.stat().st_size:
            with current.open("r+b") as file:
                file.seek(-1, os.SEEK_END)
                if file.read() != b"\n":
                    file.write(b"\n")
        self._torn = False

    def _write_batch(self, batch: list[bytes]) -> int:
        """Returns the number of lost records."""
        try:
            size = self._write(b"".join(batch), sync=False)
        except OSError as error:
            if not self._refused:
                current = self._directory / CURRENT
                self._report(
                    f"records: {len(batch)} not written to {current}: {error.strerror}; those that "
                    "follow are lost until it is written again\n"
                )
            self._refused += len(batch)
            return len(batch)
        self._rotate_when_full(size)
        return 0

    def _write_synced(self, records: Sequence[AnyRecord]) -> bool:
        try:
            size = self._write(self._encode(records), sync=True)
        except OSError as error:
            current = self._directory / CURRENT
            self._no_events.fail(f"records: {current} takes no events now: {error.strerror}\n")
            return False
        self._no_events.succeed()
        self._rotate_when_full(size)
        return True

    def _write(self, data: bytes, *, sync: bool) -> int:
        """Append all of `data`, or nothing and OSError; returns the size of the file after it."""
        current = self._directory / CURRENT
        if self._good_bytes is not None:
            self._cut_back(current, self._good_bytes)
        if self._torn:
            self._end_torn_line()
        before = 0
        if _is_there(current):
            before = current.stat().st_size
        else:
            self._enter_again()
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
            # A full disk may have accepted a part.
            self._torn = True
            with suppress(OSError):
                self._cut_back(current, before)
            raise
        if self._refused:
            self._report(f"records: {current} is written again; {self._refused} were lost\n")
            self._refused = 0
        return before + len(data)

    def _enter_again(self) -> None:
        """The current file is to be made. Who makes room on a full disk may remove the folder."""
        self._entered = False
        with suppress(FileExistsError):
            self._directory.mkdir()
            _sync(self._directory.parent)

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
            self._no_rotation.fail(f"records: {current} stays open: {error.strerror}\n")
        else:
            self._no_rotation.succeed()

    def recent(self, kind: str) -> Iterator[bytes]:
        """The lines of that kind in the current file and the one before, synced first because their
        writer may have been killed. A file that cannot be read costs a line on stderr."""
        mark = b'"record":"%s"' % kind.encode()
        for path in [*self._closed_files()[-1:], self._directory / CURRENT]:
            try:
                if not _is_there(path):
                    continue
                _sync(path)
                lines = path.read_bytes().splitlines()
            except OSError as error:
                self._report(f"records: {path}: {error.strerror}; its events may be repeated\n")
                continue
            for line in lines:
                if mark in line:
                    yield line

    def _rotate(self, current: Path) -> None:
        closed = self._closed_files()
        number = 1 + max(self._number, *(int(path.stem.split("-")[1]) for path in closed[-1:]), 0)
        if number > MAX_NUMBER:  # a longer name would neither be pulled nor deleted
            raise OSError(errno.EEXIST, f"{closed[-1].name} has the last number; move it away")
        current.rename(self._directory / f"records-{number:0{NUMBER_DIGITS}d}.jsonl")
        self._number = number
        self._entered = False
        for old in self._closed_files()[: -self._config.keep_files]:
            old.unlink()


def _is_there(path: Path) -> bool:
    """Whether the file exists. OSError for something else of its name: a pipe would be waited for,
    and a device is endless."""
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return False
    if not stat.S_ISREG(mode):
        number = errno.EISDIR if stat.S_ISDIR(mode) else errno.EINVAL
        what = "Is a directory" if stat.S_ISDIR(mode) else "it is not a regular file"
        raise OSError(number, what, str(path))
    return True


def _sync(path: Path) -> None:
    """Sync a file, or a directory's entries."""
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
