"""Event store: keeps events in the history's file until the master has acknowledged them."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from agent.edge.history.database import ADDED_TO_EVENTS, connect_to_read
from agent.edge.history.file import HistoryError
from agent.runtime import sqlite
from agent.wire.base import TRIGGER_CLEARED, TRIGGER_RAISED
from agent.wire.node_messages import NodeEvent

if TYPE_CHECKING:
    from agent.edge.timebase import Correction

Found = TypeVar("Found")
FIELDS: Final = (
    "sequence, kind, time_ms, synchronised, sensor, channel, text, trigger, value, areas"
)
FIRST_COLUMNS: Final = (
    "sequence, kind, time_ms, boot, monotonic_ms, synchronised, sensor, channel, text"
)
# 0 before the first event.
LAST: Final = "SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'events'"
# Of what a master says it knows: sequences that follow have room within 53 bits.
MAX_KNOWN: Final = 1 << 52
COUNTS: Final = "SELECT count(*), min(sequence) FROM events"
RAISED_COLUMNS: Final = "trigger, definition, sensor, channel, areas"
# The masters for which triggers are followed, in the table `meta`.
MASTERS: Final = "trigger_masters"


def salvage_events(db: sqlite3.Connection, aside: str) -> None:
    """Copy the readable events, raised triggers and positions of derived values out of a broken
    file, in the open transaction."""
    found = False
    for table, columns in (
        ("events", f"{FIRST_COLUMNS}, {', '.join(ADDED_TO_EVENTS)}"),
        ("events", FIRST_COLUMNS),  # of a file last opened before the columns were added
        ("raised", RAISED_COLUMNS),
        ("derived", "source, position"),
    ):
        if not (found and table == "events"):
            found = _salvage(db, aside, table, columns)


def _salvage(db: sqlite3.Connection, aside: str, table: str, columns: str) -> bool:
    """Copy one table; whether it had any rows."""
    found = False
    places = ",".join("?" * len(columns.split(",")))
    try:
        old = connect_to_read(aside)
        try:
            for row in old.execute(f"SELECT {columns} FROM {table} ORDER BY 1"):  # noqa: S608 - constants
                found = True
                db.execute(
                    f"INSERT OR IGNORE INTO {table} ({columns}) VALUES ({places})",  # noqa: S608 - constants
                    row,
                )
        finally:
            old.close()
    except sqlite.DAMAGE:
        pass
    return found


class Raised(NamedTuple):
    """A trigger that is raised: its name, its definition when it was raised, and the event's
    details."""

    trigger: str
    definition: str
    sensor: str
    channel: str
    areas: tuple[str, ...]


class EventStore:
    """Store for store-and-forward. A change is on stable storage when the call returns; on
    HistoryError it was not made. Any thread may call.

    Beyond `most` events the oldest are dropped and counted.
    """

    def __init__(
        self,
        path: str,
        boot: str,
        most: int,
        writer: threading.Lock,
        opened: Callable[[], sqlite3.Connection],
    ) -> None:
        """`writer` is held while `opened()`, which raises HistoryError, is used."""
        self._path = path
        self._boot = boot
        self._most = most
        self._writer = writer
        self._database = opened
        self._notices: list[str] = []
        self._counted = False  # or the file could not be opened yet
        self.count = 0  # that wait
        # The first of them, or one that was before it: nothing below waits, nor ever will.
        self.oldest: int | None = None
        self.last = 0  # the sequence of the latest, which may wait no longer
        self.dropped = 0  # given up for want of room since the history began
        self.has_raised = False  # triggers were raised when the file was opened

    def opened(self, db: sqlite3.Connection) -> None:
        """Take the counts from a file that was opened."""
        self._counted = True
        self.count, self.oldest = db.execute(COUNTS).fetchone()
        (self.last,) = db.execute(LAST).fetchone()
        (self.dropped,) = db.execute(
            "SELECT coalesce(max(value), 0) FROM meta WHERE key = 'events_dropped'"
        ).fetchone()
        self.has_raised = db.execute("SELECT 1 FROM raised").fetchone() is not None

    def add(
        self,
        *,
        monotonic_ms: int,
        kind: str,
        time_ms: int,
        synchronised: bool,
        sensor: str = "",
        channel: str = "",
        text: str = "",
        trigger: str = "",
        value: float | None = None,
        areas: tuple[str, ...] = (),
        definition: str = "",
    ) -> NodeEvent:
        """Store an event under the next sequence; sequences are never reused. With a `trigger`, the
        same transaction stores that it is raised, with its `definition`, or cleared."""

        def change(db: sqlite3.Connection) -> tuple[int, int]:
            row = (kind, time_ms, self._boot, monotonic_ms, synchronised, sensor, channel, text)
            more = (trigger, value, " ".join(areas))
            sequence = db.execute(
                "INSERT INTO events"
                " (kind, time_ms, boot, monotonic_ms, synchronised, sensor, channel, text,"
                " trigger, value, areas) VALUES (?,?,?,?,?,?,?,?,?,?,?)",
                row + more,
            ).lastrowid
            assert sequence is not None
            if kind == TRIGGER_RAISED:
                _keep(db, Raised(trigger, definition, sensor, channel, areas))
            elif kind == TRIGGER_CLEARED:
                db.execute("DELETE FROM raised WHERE trigger = ?", (trigger,))
            excess = max(0, self.count + 1 - self._most)
            if excess:
                db.execute(
                    "DELETE FROM events WHERE sequence IN"
                    " (SELECT sequence FROM events ORDER BY sequence LIMIT ?)",
                    (excess,),
                )
                db.execute(
                    "UPDATE meta SET value = ? WHERE key = 'events_dropped'",
                    (self.dropped + excess,),
                )
            return sequence, excess

        with self._writer:
            sequence, excess = self._change(change)
            self.count += 1 - excess
            self.last = sequence
            self.dropped += excess
            if self.oldest is None:
                self.oldest = sequence
        return NodeEvent(
            sequence, kind, time_ms, synchronised, sensor, channel, text, trigger, value, areas
        )

    def take_notices(self) -> list[str]:
        """Take the lines for the operator that were added since the last call."""
        found, self._notices = self._notices, []
        return found

    def is_older_copy(self, settled: int, to: int) -> bool:
        """Whether this file was put back from an older copy: the master has events of it up to the
        sequence `to`, and expects none below `settled`."""
        if not self._counted or max(settled, to) > MAX_KNOWN:
            return False
        return to > self.last or (self.oldest is not None and self.oldest < settled)

    def number_anew(self, settled: int, to: int) -> None:
        """In an older copy, give the events that wait sequences above all that were used there and
        here: others had theirs, for which the master would take them. Those of them that it has all
        the same come twice."""
        above = max(settled, to)

        def change(db: sqlite3.Connection) -> tuple[int, int | None, int]:
            count, oldest = db.execute(COUNTS).fetchone()
            (last,) = db.execute(LAST).fetchone()
            by = 0 if oldest is None else max(above, last) + 1 - oldest
            db.execute("UPDATE events SET sequence = sequence + ?", (by,))
            db.execute("DELETE FROM sqlite_sequence WHERE name = 'events'")
            last = max(above, last + by)
            db.execute("INSERT INTO sqlite_sequence (name, seq) VALUES ('events', ?)", (last,))
            return count, None if oldest is None else oldest + by, last

        with self._writer:
            if not self.is_older_copy(settled, to):
                return
            before = self.last
            self.count, self.oldest, self.last = self._change(change)
        self._notices.append(
            f"history {self._path} is an older copy: the master has its events up to {above}, and "
            f"it ends at {before}; {self.count} that wait have new numbers, and may come twice"
        )

    def _rows(self, query: str, *given: str) -> list[tuple[Any, ...]]:
        with self._writer:
            try:
                return self._database().execute(query, given).fetchall()
            except sqlite3.Error as error:
                raise HistoryError(f"history {self._path}: events: {error}") from None

    def raised(self) -> list[Raised]:
        """The triggers that are raised."""
        rows = self._rows(f"SELECT {RAISED_COLUMNS} FROM raised")  # noqa: S608 - a constant
        return [Raised(row[0], row[1], row[2], row[3], _areas(row[4])) for row in rows]

    @property
    def masters(self) -> frozenset[str]:
        """The masters for which triggers were followed last; none: it is not known."""
        found = self._rows("SELECT value FROM meta WHERE key = ?", MASTERS)
        return frozenset(name for (kept,) in found for name in str(kept).split())

    def keep_masters(self, masters: Iterable[str]) -> None:
        """From now on triggers are followed for these masters."""
        row = MASTERS, " ".join(sorted(masters))
        with self._writer:
            self._change(lambda db: db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", row))

    def waiting(self, after: int, most: int) -> list[NodeEvent]:
        """The first `most` events with a sequence above `after`, ascending."""
        if self._counted and not self.count:
            return []
        with self._writer:
            try:
                rows = self._database().execute(
                    f"SELECT {FIELDS} FROM events WHERE sequence > ? ORDER BY sequence LIMIT ?",  # noqa: S608 - a constant
                    (after, most),
                )
                return [_event(row) for row in rows]
            except sqlite3.Error as error:
                raise HistoryError(f"history {self._path}: events: {error}") from None

    def remove(self, sequences: Iterable[int]) -> None:
        """Delete events that the master has; unknown sequences are ignored."""
        found = [(sequence,) for sequence in sequences]

        def change(db: sqlite3.Connection) -> tuple[int, int | None]:
            db.executemany("DELETE FROM events WHERE sequence = ?", found)
            counts: tuple[int, int | None] = db.execute(COUNTS).fetchone()
            return counts

        with self._writer:
            self.count, self.oldest = self._change(change)

    def move(self, db: sqlite3.Connection, correction: Correction) -> None:
        """Correct the wall times of this boot's events, in the open transaction."""
        rows = db.execute(
            "SELECT sequence, monotonic_ms FROM events WHERE boot = ? AND monotonic_ms >= ?"
            " AND monotonic_ms < ? AND (? OR NOT synchronised)",
            (
                self._boot,
                correction.since_monotonic_ms,
                correction.until_monotonic_ms,
                correction.every,
            ),
        ).fetchall()
        db.executemany(
            "UPDATE events SET time_ms = ?, synchronised = ? WHERE sequence = ?",
            [
                (monotonic_ms + correction.offset_ms(monotonic_ms), correction.synchronised, number)
                for number, monotonic_ms in rows
            ],
        )

    def _change(self, change: Callable[[sqlite3.Connection], Found]) -> Found:
        try:
            db = self._database()
            with sqlite.transaction(db):
                return change(db)
        except sqlite3.Error as error:
            raise HistoryError(f"history {self._path}: events: not written: {error}") from None


def _keep(db: sqlite3.Connection, raised: Raised) -> None:
    db.execute(
        f"INSERT OR REPLACE INTO raised ({RAISED_COLUMNS}) VALUES (?,?,?,?,?)",  # noqa: S608 - a constant
        (*raised[:-1], " ".join(raised.areas)),
    )


def _event(row: tuple[Any, ...]) -> NodeEvent:
    return NodeEvent(
        row[0],
        row[1],
        row[2],
        bool(row[3]),
        row[4],
        row[5],
        row[6],
        row[7],
        row[8],
        _areas(row[9]),
    )


def _areas(stored: str) -> tuple[str, ...]:
    return tuple(stored.split())
