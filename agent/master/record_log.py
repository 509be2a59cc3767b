"""Record log: JSON lines, batched in memory, rotated by size."""

from __future__ import annotations

import sys
from collections.abc import Callable
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
    batch, one line on stderr and `lost`: serving goes on.
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
        current = self._directory / CURRENT
        try:
            if self._torn:
                self._end_torn_line()
            with current.open("ab") as file:
                file.write(self._encode(batch))
                size = file.tell()
        except OSError as error:
            # A disk that is full may have taken a part.
            self._torn = True
            self.lost += len(batch)
            self._report(f"records: {len(batch)} not written to {current}: {error.strerror}\n")
            return
        if size >= self._config.rotate_bytes:
            try:
                self._rotate(current)
            except OSError as error:
                self._report(f"records: {current} stays open: {error.strerror}\n")

    def _rotate(self, current: Path) -> None:
        self._number += 1
        current.rename(self._directory / f"records-{self._number:0{NUMBER_DIGITS}d}.jsonl")
        for old in self._closed_files()[: -self._config.keep_files]:
            old.unlink()
