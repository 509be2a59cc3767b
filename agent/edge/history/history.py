"""Local history: a time-series store for a node's readings, in a SQLite file of row groups.

Each sensor is a stream with its own groups. A growing group is kept entirely in memory, where
readers find a reading at once. On stable storage it is in the tail, a write-ahead log
(`agent.edge.history.wal`), until it is complete; then it becomes a row of the file. A power cut
loses at most `commit_s` seconds of readings.

A reading is identified by (history id, sequence). A group reserves a block of sequences when it
begins. A process's first sequence is the number of times the file was opened, times 2³², so a
sequence lost in a power cut is never reused.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterable
from contextlib import suppress
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from agent.edge.history import derived_positions, group_table, wal
from agent.edge.history.columns import encode
from agent.edge.history.database import connect_to_read
from agent.edge.history.event_store import EventStore
from agent.edge.history.file import HistoryError, hold
from agent.edge.history.group_cache import GroupCache
from agent.edge.history.group_table import Complete
from agent.edge.history.memtable import RowGroup, Sample
from agent.edge.history.recovery import PASSING, open_history, quarantined, write_log_again
from agent.edge.history.snapshot import Recent
from agent.edge.history.stream import Stream
from agent.runtime import sqlite

if TYPE_CHECKING:
    from agent.edge.timebase import Correction

# Complete groups kept in memory while the file cannot be written; older ones are discarded.
MAX_UNWRITTEN: Final = 16
# First sequence while the file cannot be opened: above every sequence in a file.
UNNUMBERED: Final = 1 << 56


class History:
    """The history's only writer. Each stream appends in its own thread; any thread may call
    everything else. Readers never wait for a write.

    `report` has lines about files put aside, damaged groups, or a file that cannot be written;
    `notices()` returns later ones. The agent also starts if the file cannot be written for lack of
    space or permission: readings stay in memory, and each commit tries again.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        boot: str,
        *,
        group_readings: int,
        commit_s: float,
        retention_s: float,
        retention_bytes: int = 0,
        most_events: int = 10_000,
    ) -> None:
        """HistoryError if another agent has the file open, or the folder does not exist."""
        self.path = os.fspath(path)
        self.id = os.urandom(16).hex()
        self.given_up = 0  # readings lost because the file could not be written
        self.acknowledged = 0  # readings on stable storage since the opening
        self.damaged = False  # the file was found damaged: a restart repairs it
        self.derived: dict[str, int] = {}  # by source: the position up to which all is stored
        self.cache = GroupCache()
        self._boot = boot
        self._group_readings = group_readings
        self._commit_ms = round(commit_s * 1000)
        self._retention_ms = round(retention_s * 1000)
        self._retention_bytes = retention_bytes
        self._wall_age = group_table.WallAge()
        self._streams: list[Stream] = []
        self._writer = threading.Lock()  # taken before _lock; held while files are written
        self._lock = threading.Lock()  # protects what readers see: the groups and their content
        self._sequence = UNNUMBERED
        self._filed_until_ms: int | None = None  # latest time in the file
        self._waiting_since_ms: int | None = None  # monotonic time of the first uncommitted reading
        self._retry_at_ms: int | None = None  # after a failure
        self._correction: Correction | None = None  # the latest
        self._notices: list[str] = []
        self._doubtful: dict[int, str] = {}  # groups that readers found damaged
        self._db: sqlite.NamedConnection | None = None
        self._holder: int | None = None
        self._immutable = False
        self._wal: wal.WriteAheadLog | None = None
        self.events = EventStore(self.path, boot, most_events, self._writer, self._opened)
        try:
            self._open()
        except (sqlite3.Error, OSError) as error:
            self._release()
            if isinstance(error, OSError) and error.errno not in PASSING:
                raise HistoryError(f"history {path}: {_text(error)}") from None
            self._do_without(error)
        except HistoryError:
            self._release()
            raise
        self.report = "; ".join(self.notices())

    def stream(self, sensor: str, channels: tuple[str, ...], *, keeps_raw: bool = False) -> Stream:
        """The stream to append a sensor's readings to; channel names are unique among streams."""
        stream = Stream(self, sensor, channels, keeps_raw=keeps_raw)
        with self._lock:
            self._streams.append(stream)
        return stream

    def append(self, stream: Stream, sample: Sample) -> None:
        """As `Stream.append`."""
        with self._lock:
            if self._correction is not None:
                sample = _as_corrected(sample, self._correction)
            stream.add(sample, self._block, self._group_readings)
            if self._waiting_since_ms is None:
                self._waiting_since_ms = sample.monotonic_ms
            due = self._due(sample.monotonic_ms)
        if due:
            self.commit()

    def load(self, stream: Stream, samples: Iterable[Sample]) -> None:
        """As `Stream.load`."""
        with self._writer:
            db = self._opened()
            filler = Stream(self, stream.name, stream.channels, keeps_raw=stream.keeps_raw)
            readings = 0
            try:
                with sqlite.transaction(db):
                    for sample in samples:
                        with self._lock:
                            filler.add(sample, self._block, self._group_readings)
                        readings += 1
                        if len(filler.groups) > 1:
                            group_table.insert(db, self._complete(filler.groups.pop(0)))
                    for group in filler.groups:
                        group_table.insert(db, self._complete(group))
                    latest_ms = group_table.latest_ms(db)
            except sqlite3.Error as error:
                raise HistoryError(f"history {self.path}: not loaded: {_text(error)}") from None
            self._filed([], latest_ms)
            self.acknowledged += readings

    def lacks(self, sensor: str) -> bool:
        """As `Owner.lacks`; format 1 names no sensor, so its readings count for all."""
        with self._writer:
            if self._db is None:
                return self._filed_until_ms is None
            found = self._db.execute(
                "SELECT 1 FROM groups WHERE sensor IN (?, '') LIMIT 1", (sensor,)
            )
            return found.fetchone() is None

    def commit(self) -> None:
        """Put every reading on stable storage and, when a group is complete, drop expired groups.
        On HistoryError the readings stay in memory, as far as there is room."""
        with self._writer:
            waiting_since_ms = self._waiting_since_ms
            try:
                self._commit()
            except (sqlite3.Error, OSError, HistoryError) as error:
                with self._lock:
                    self._waiting_since_ms = waiting_since_ms
                    self._give_up()
                    self._pause()
                self.damaged = self.damaged or sqlite.damaged(error)
                lost = f"; {self.given_up} readings given up so far" if self.given_up else ""
                raise HistoryError(
                    f"history {self.path}: not written: {_text(error)}{lost}"
                ) from None
            self._retry_at_ms = None

    def correct(self, correction: Correction) -> int:
        """Correct the wall times of this boot's groups and events; returns the largest shift of
        readings in ms. HistoryError leaves everything unchanged: try again.

        A concurrent reader sees each group once, either before or after its shift.
        """
        with self._writer:
            if self._db is None:
                try:
                    self._open()
                except (sqlite3.Error, OSError) as error:
                    raise HistoryError(
                        f"history {self.path}: times not corrected: {_text(error)}"
                    ) from None
            db = self._opened()
            with self._lock:
                self._correction = correction
                groups = self._groups()
                growing = [group for group in groups if not group.closed]
                for group in growing:
                    group.closed = True
            try:
                with sqlite.transaction(db):
                    for group in groups:
                        self._insert(db, group)
                    farthest_ms = group_table.move(db, self._boot, correction)
                    self.events.move(db, correction)
                    latest_ms = group_table.latest_ms(db)  # nothing may fail after the commit
            except sqlite3.Error as error:
                with self._lock:
                    for group in growing:
                        # Unless a later group has begun.
                        group.closed = all(s.groups[-1:] != [group] for s in self._streams)
                raise HistoryError(
                    f"history {self.path}: times not corrected: {_text(error)}"
                ) from None
            self._filed(groups, latest_ms)
        return farthest_ms

    def close(self) -> None:
        """Write everything to the file and close it; on HistoryError the file is closed, too."""
        with self._lock:
            for group in self._groups():
                group.closed = True
        try:
            self.commit()
            if self._db is not None:
                with suppress(OSError):  # the file has everything that it has
                    os.unlink(self.path + wal.SUFFIX)  # noqa: PTH108 - see history.file
        finally:
            self._release()

    def notices(self) -> list[str]:
        """Take the lines for the operator that were added since the last call."""
        with self._lock:
            found, self._notices = self._notices, []
        return found + self.events.take_notices()

    def doubt(self, sequence: int, reason: str) -> None:
        """A reader found a damaged group in the file: the next commit quarantines it."""
        with self._lock:
            self._doubtful[sequence] = reason

    @property
    def writable(self) -> bool:
        """Whether the file is open; otherwise readings wait in memory until it can be opened."""
        return self._db is not None

    @property
    def empty(self) -> bool:
        """Whether there is no reading."""
        with self._lock:
            return self._filed_until_ms is None and not self._groups()

    def holds(self, start_ms: int, most: int) -> bool:
        """Whether memory has all readings since `start_ms`, and no more than `most` in all."""
        with self._lock:
            filed_until_ms = self._filed_until_ms
            readings = sum([len(group) for group in self._groups()])
        return (filed_until_ms is None or filed_until_ms < start_ms) and readings <= most

    def recent(self, start_ms: int, end_ms: int) -> Recent:
        """For readers: the part of [start_ms, end_ms) in memory, and what to read from the file."""
        with self._lock:
            groups = self._groups()
            before = self._sequence
            filed_until_ms = self._filed_until_ms
            batches = [(group.sequence, group.cut(start_ms, end_ms)) for group in groups]
        in_file = filed_until_ms is not None and filed_until_ms >= start_ms
        return Recent(
            [(sequence, batch) for sequence, batch in batches if batch is not None],
            tuple([group.sequence for group in groups]),
            before if in_file else None,
            self._immutable,
        )

    def reference(self) -> tuple[int, int] | None:
        """(monotonic ms, wall minus monotonic ms) of the latest group of this boot that is
        synchronised; None if there is none."""
        with self._writer:
            if self._db is None:
                return None
            found: tuple[int, int] | None = self._db.execute(
                "SELECT last_monotonic_ms, first_ms - first_monotonic_ms FROM groups"
                " WHERE boot = ? AND synchronised ORDER BY last_monotonic_ms DESC LIMIT 1",
                (self._boot,),
            ).fetchone()
        return found

    def _due(self, now_ms: int) -> bool:
        """Whether to commit now, because the next reading of any stream may come too late."""
        if self._retry_at_ms is not None:
            return now_ms >= self._retry_at_ms
        assert self._waiting_since_ms is not None
        until_ms = self._waiting_since_ms + self._commit_ms
        coming = [stream.next_ms for stream in self._streams if stream.next_ms > now_ms]
        if now_ms >= until_ms or (coming and min(coming) > until_ms):
            return True
        return any(group.closed for group in self._groups())

    def _groups(self) -> list[RowGroup]:
        return [group for stream in self._streams for group in stream.groups]

    def _block(self) -> int:
        """Reserve a block of sequences for a new group; returns its first."""
        sequence = self._sequence
        self._sequence += self._group_readings
        return sequence

    def _commit(self) -> None:
        with self._lock:
            self._waiting_since_ms = None
            closed, doubtful = [g for g in self._groups() if g.closed], dict(self._doubtful)
        if self._db is None:
            self._open()
        else:
            self._db.require_there()  # what is in the tail counts only beside its file
        if closed or doubtful:
            self._file(closed, doubtful)
        with self._lock:
            new = [(group, len(group)) for group in self._groups() if group.written < len(group)]
            chunks = [self._chunk(group, group.written, n) for group, n in new]
        if chunks:
            self._write_tail(new, chunks)

    def _file(self, closed: list[RowGroup], doubtful: dict[int, str]) -> None:
        """Insert a row for each complete group, and drop expired groups."""
        db = self._opened()
        with sqlite.transaction(db):
            for group in closed:
                self._insert(db, group)
            group_table.quarantine(db, doubtful.items())
            if closed:
                now_ms = self._wall_age.now_ms(max(closed, key=attrgetter("last_monotonic_ms")))
                group_table.drop_old(db, self._boot, now_ms, self._retention_ms)
            if closed and self._retention_bytes:
                group_table.drop_beyond(db, self._retention_bytes)
            latest_ms = group_table.latest_ms(db)  # nothing may fail after the commit
        self._filed(closed, latest_ms)
        with self._lock:
            for sequence, reason in doubtful.items():
                del self._doubtful[sequence]
                self._notices.append(quarantined(self.path, sequence, reason))

    def _filed(self, closed: list[RowGroup], latest_ms: int | None) -> None:
        """Release the groups that are in the file from memory."""
        done = {group.sequence for group in closed}
        with self._lock:
            self._filed_until_ms = latest_ms
            for group in closed:
                self.acknowledged += len(group) - group.written
                self._stored(group.source, group.position)
            for stream in self._streams:
                stream.groups[:] = [g for g in stream.groups if g.sequence not in done]

    def _write_tail(self, new: list[tuple[RowGroup, int]], chunks: list[wal.Chunk]) -> None:
        in_use, self._wal = self._wal, None
        try:
            if in_use is not None and in_use.takes(chunks):
                in_use.append(chunks)
                self._wal = in_use
            else:
                with self._lock:
                    new = [(group, len(group)) for group in self._groups()]
                    chunks = [self._chunk(group, 0, n) for group, n in new]
                head = wal.Head(wal.VERSION, self.id, self._boot)
                self._wal = wal.WriteAheadLog(self.path + wal.SUFFIX, head, chunks)
        finally:
            # After an error neither the file's content nor which file has the name is known.
            if in_use is not None and in_use is not self._wal:
                in_use.close()
        with self._lock:
            for group, n in new:
                self.acknowledged += n - group.written
                group.written = n
            for chunk in chunks:
                self._stored(chunk.source, chunk.position)

    def _stored(self, source: str, position: int) -> None:
        derived_positions.remember(self.derived, source, position)

    def _insert(self, db: sqlite3.Connection, group: RowGroup) -> None:
        group_table.insert(db, self._complete(group))
        if group.source:
            derived_positions.keep(db, group.source, group.position)

    def _chunk(self, group: RowGroup, start: int, end: int) -> wal.Chunk:
        layout, data = encode(group.slice(start, end))
        first = group.first
        return wal.Chunk(
            group.sequence,
            start,
            group.sensor,
            first.monotonic_ms,
            group.last_monotonic_ms,
            first.synchronised,
            layout,
            data,
            group.position,
            group.source,
        )

    def _complete(self, group: RowGroup) -> Complete:
        return Complete(
            group.sequence,
            group.sensor,
            self._boot,
            group.first.monotonic_ms,
            group.last_monotonic_ms,
            group.first.synchronised,
            group.slice(0, len(group)),
        )

    def _give_up(self) -> None:
        """Discard the oldest readings beyond the limit in memory. Those on stable storage stay:
        they are in the tail, and their group has yet to enter the file."""
        waiting = sorted(self._groups(), key=attrgetter("sequence"))
        room = MAX_UNWRITTEN * self._group_readings
        excess = sum(map(len, waiting)) - room
        for group in waiting:
            if excess <= 0 or not group.closed:
                continue
            if group.written < len(group):
                excess -= len(group) - group.written
                self._stored(group.source, group.position)  # nobody is to wait for them
                if group.written:
                    self.given_up += group.cut_to_written()
                else:
                    self.given_up += len(group)
                    for stream in self._streams:
                        stream.groups[:] = [g for g in stream.groups if g is not group]

    def _pause(self) -> None:
        last = max([group.last_monotonic_ms for group in self._groups()], default=None)
        self._retry_at_ms = last + self._commit_ms if last is not None else None

    def _opened(self) -> sqlite3.Connection:
        if self._db is None:
            raise HistoryError(f"history {self.path}: it cannot be written now")
        return self._db

    def _open(self) -> None:
        """Open or reopen the file, and number the readings in memory. sqlite3.Error and OSError:
        the file cannot be accessed now."""
        if self._holder is None:
            self._holder = hold(self.path)
        write_log_again(self.path)
        db, history, sequence, notices = open_history(self.path, self.id, self._retention_ms)
        self.events.opened(db)
        latest_ms = group_table.latest_ms(db)
        with self._lock:
            for group in self._groups():
                group.sequence += sequence - UNNUMBERED
            self._sequence += sequence - UNNUMBERED
            self.id = history
            self._db, self._immutable, self._filed_until_ms = db, False, latest_ms
            self.derived = derived_positions.kept(db)
            self._notices += notices

    def _do_without(self, error: Exception) -> None:
        """Continue without a writable file. Its content is still readable if possible, except what
        is only in its log: that may not be on the card, and must not be checkpointed yet."""
        self._notices.append(
            f"history {self.path}: it cannot be written now ({_text(error)});"
            " readings stay in memory until it can be"
        )
        self._immutable = True
        try:
            db = connect_to_read(self.path, immutable=True)
        except sqlite.DAMAGE:
            return
        try:
            meta = dict(db.execute("SELECT key, value FROM meta"))
            self._filed_until_ms = group_table.latest_ms(db)
            self.id = str(meta["history"])
        except (*sqlite.DAMAGE, KeyError):
            pass
        finally:
            db.close()

    def _release(self) -> None:
        for opened in (self._db, self._wal):
            if opened is not None:
                opened.close()
        if self._holder is not None:
            os.close(self._holder)
        self._db = self._wal = self._holder = None


def _as_corrected(sample: Sample, correction: Correction) -> Sample:
    """The reading with a correction applied to its time: a slow sensor's reading may be stamped
    before a correction and arrive after it."""
    monotonic_ms = sample.monotonic_ms
    since_ms = correction.since_monotonic_ms or min(monotonic_ms, 0)
    if not since_ms <= monotonic_ms < correction.until_monotonic_ms or (
        sample.synchronised and not correction.every
    ):
        return sample
    time_ms = monotonic_ms + correction.offset_ms(monotonic_ms)
    return sample._replace(time_ms=time_ms, synchronised=correction.synchronised)


def _text(error: Exception) -> str:
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return " ".join(text.split())
