"""Bounds of the log of alerts: in entries, bytes and days, messages of topics before alerts."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple


def wall_ms() -> int:
    """Milliseconds since 1970 UTC."""
    return time.time_ns() // 1_000_000


class Ageing:
    """When an entry is too old: by the wall clock, but since the start no more time has passed for
    the newest entry than by the monotonic one. So a wall clock that is set forward deletes nothing,
    and what was kept while no gateway ran ages from its start."""

    def __init__(
        self,
        longest_ms: int,
        newest_ms: int,
        now_ms: Callable[[], int],
        monotonic: Callable[[], float],
    ) -> None:
        self._longest_ms = longest_ms
        self._now_ms = now_ms
        self._monotonic = monotonic
        self._ahead_ms = newest_ms - round(monotonic() * 1e3)

    @property
    def oldest_ms(self) -> int:
        """Entries received before this time are too old."""
        lived_ms = self._ahead_ms + round(self._monotonic() * 1e3)
        return min(self._now_ms(), lived_ms) - self._longest_ms


class Kept(NamedTuple):
    """Number and bytes of the entries kept, and of the messages of topics among them. None of these
    stands below `floor`, and nothing below `oldest`."""

    entries: int = 0
    size: int = 0
    messages: int = 0
    messages_size: int = 0
    floor: int = 0
    oldest: int = 0

    def plus(self, count: int, size: int, *, is_message: bool) -> Kept:
        """With one more; with negative numbers, one fewer."""
        made = self._replace(entries=self.entries + count, size=self.size + size)
        if not is_message:
            return made
        return made._replace(
            messages=self.messages + count, messages_size=self.messages_size + size
        )


class Bounds(NamedTuple):
    """Messages of topics have at most half of the entries and of the bytes, and go first if all
    are too many; `is_message` says whether a body is one."""

    most: int
    most_bytes: int
    is_message: Callable[[bytes], bool]

    def trim(self, file: sqlite3.Connection, kept: Kept, newest: int, oldest_ms: int) -> Kept:
        """Delete what is beyond the bounds or from before `oldest_ms`, never the newest; what is
        kept then. Amortised O(1) an entry, as each is visited once here, and once when it goes."""
        kept = self._trim_oldest(file, self._trim_messages(file, kept, newest), newest, oldest_ms)
        (oldest,) = file.execute("SELECT min(position) FROM logged").fetchone()
        return kept._replace(oldest=oldest)

    def _is_over(self, kept: Kept) -> bool:
        return kept.entries > self.most or kept.size > self.most_bytes

    def _trim_messages(self, file: sqlite3.Connection, kept: Kept, newest: int) -> Kept:
        rows = file.execute(
            "SELECT position, body FROM logged WHERE position >= ? AND position < ?"
            " ORDER BY position",
            (kept.floor, newest),
        )
        going: list[tuple[int]] = []
        while kept.messages and (
            self._is_over(kept)
            or kept.messages > self.most // 2
            or kept.messages_size > self.most_bytes // 2
        ):
            if (row := rows.fetchone()) is None:
                break
            position, body = row
            kept = kept._replace(floor=position + 1)
            if self.is_message(body):
                going.append((position,))
                kept = kept.plus(-1, -len(body), is_message=True)
        rows.close()
        file.executemany("DELETE FROM logged WHERE position = ?", going)
        return kept

    def _trim_oldest(
        self, file: sqlite3.Connection, kept: Kept, newest: int, oldest_ms: int
    ) -> Kept:
        rows = file.execute(
            "SELECT position, received_ms, body FROM logged WHERE position < ? ORDER BY position",
            (newest,),
        )
        last = 0
        for position, received_ms, body in rows:
            if not self._is_over(kept) and received_ms >= oldest_ms:
                break
            last = position
            kept = kept.plus(-1, -len(body), is_message=self.is_message(body))
        rows.close()
        if last:
            file.execute("DELETE FROM logged WHERE position <= ?", (last,))
        return kept


def within(most_bytes: int, rows: Iterable[tuple[int, int, bytes]]) -> list[tuple[int, int, bytes]]:
    """The first rows, whose bodies have so many bytes together; one in any case."""
    found: list[tuple[int, int, bytes]] = []
    for row in rows:
        most_bytes -= len(row[2])
        if found and most_bytes < 0:
            break
        found.append(row)
    return found


def gap_among(after: int, positions: Sequence[int]) -> tuple[int, int, str] | None:
    """The messages of topics that are missing after that position and between these, told as one:
    the index before which the last of them stood, the first of them, and words; None if none is."""
    missing, first, at = 0, 0, 0
    for index, position in enumerate(positions):
        if position > after + 1:
            missing += position - after - 1
            first, at = first or after + 1, index
        after = position
    if not missing:
        return None
    return at, first, f"{missing} message{'s' if missing > 1 else ''} of topics kept no longer"
