"""Alert log: the alerts that came, each at a position, and what is raised now, in SQLite.

The durable subscription at the master is acknowledged only after an alert is committed here, with
its position there in the same transaction: none is lost or logged twice over a restart. Browsers
and outputs read from a position of their own on. What they could not have is told as a gap.
"""

from __future__ import annotations

import os
import secrets
import sqlite3
import threading
import time
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import takewhile
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from agent.gateway.feed.log_bounds import Ageing, Bounds, Kept, gap_among, wall_ms, within
from agent.gateway.feed.raised_table import Change, Cleared, Raised, RaisedTable
from agent.runtime import sqlite
from agent.runtime.console import Say
from agent.runtime.sqlite import BrokenFileError
from agent.wire.base import Text
from agent.wire.overlay import Notification

SCHEMA_VERSION: Final = 1  # the schema names it again
APPLICATION_ID: Final = 0x53414757  # "SAGW"; the schema names it again
SCHEMA: Final = """
BEGIN IMMEDIATE;
PRAGMA application_id = 0x53414757;
PRAGMA user_version = 1;
CREATE TABLE logged (
    position INTEGER PRIMARY KEY AUTOINCREMENT, received_ms INTEGER NOT NULL, body BLOB NOT NULL
) STRICT;
CREATE TABLE raised (key TEXT PRIMARY KEY, position INTEGER NOT NULL, body BLOB NOT NULL)
    STRICT, WITHOUT ROWID;
CREATE TABLE cursor (name TEXT PRIMARY KEY, position INTEGER NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE subscription (
    one INTEGER PRIMARY KEY CHECK (one = 1), id TEXT NOT NULL, filter TEXT NOT NULL, after INTEGER
) STRICT;
COMMIT;
"""
# Of the small tables.
COLUMNS: Final = (
    "key, position, body FROM raised",
    "name, position FROM cursor",
    "id, filter, after FROM subscription",
)
# The newest are also kept in memory: who keeps up reads no disk.
MAX_IN_MEMORY: Final = 256
MAX_READ: Final = 1_000
MAX_PAGE_BYTES: Final = 1 << 20
# Of what is read from the disk for one who follows: each holds it until its reader took it.
MAX_READ_BYTES: Final = 64 << 10
MAX_BYTES: Final = 256 << 20
DAY_MS: Final = 86_400_000
TOPIC: Final = "topic"  # the attribute that masters set on messages of topics, and on no alert


class Loss(Struct, frozen=True, omit_defaults=True):
    """Alerts that the gateway never had, or has no more; `message` says why. `first` and `last` are
    positions of this log, if they once stood there."""

    message: Text
    first: int = 0
    last: int = 0


class Logged(Struct, frozen=True):
    """Entry at a position: a notification, or a loss. `received_ms` is by this gateway's
    clock. A loss that is told to one reader alone has the last position that it stands for."""

    position: int
    received_ms: int
    notification: Notification | None = None
    loss: Loss | None = None


class Place(Struct, frozen=True):
    """The durable subscription of this log at the master: its id, and the last position taken
    there; None: it has none yet."""

    id: str
    after: int | None


class _Body(Struct, array_like=True):
    notification: Notification | None = None
    loss: Loss | None = None


_encode = msgspec.msgpack.Encoder().encode
_body = msgspec.msgpack.Decoder(_Body).decode
_raised = msgspec.msgpack.Decoder(Raised).decode


def is_alert(entry: Logged) -> bool:
    """Whether it is an alert or a loss: no message of a topic, which comes by the same way."""
    return entry.notification is None or TOPIC not in entry.notification.attributes


def _is_message(body: bytes) -> bool:
    return not is_alert(Logged(0, 0, _body(body).notification))


class AlertLog:
    """The log at `path`, bounded by `most` entries, `most_bytes` and `days`; messages of topics
    have at most half, and go first. For any thread.

    `append` raises OSError if the disk takes nothing; nothing has changed then. A broken file is
    put aside, and the log begins anew, behind the positions of the former one, with a loss.
    """

    def __init__(
        self,
        path: Path,
        say: Say,
        *,
        most: int = 100_000,
        most_bytes: int = MAX_BYTES,
        days: float = 30.0,
        now_ms: Callable[[], int] = wall_ms,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._bounds = Bounds(most, most_bytes, _is_message)
        self._now_ms = now_ms
        self._lock = threading.Lock()
        self._listeners: list[Callable[[], None]] = []
        self._broken = ""
        self._newest = 0
        self._oldest = 1

        def broken(why: str, aside: str) -> None:
            self._broken = why
            say(f"the log of alerts is broken ({why}) and kept as {aside}; a new one begins\n")

        self._holder, self._file, self._kept = sqlite.open_alone(
            str(path), _prepare, broken, f"{path} is in use by another gateway", any_thread=True
        )
        self._load()
        newest_ms = self._recent[-1].received_ms if self._recent else now_ms()
        self._ageing = Ageing(round(days * DAY_MS), newest_ms, now_ms, monotonic)
        if self._broken:
            # Cursors of readers are behind it, so each is told.
            self._newest = now_ms() // 1_000
            self._oldest = self._newest + 1
            self.append(None, Loss(f"the log of alerts was broken and began anew: {self._broken}"))

    def _load(self) -> None:
        (self._newest,) = self._file.execute(
            "SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'logged'"
        ).fetchone()
        rows = self._file.execute(
            "SELECT position, received_ms, body FROM logged ORDER BY position DESC LIMIT ?",
            (MAX_IN_MEMORY,),
        ).fetchall()
        # Replaced as a whole, so that who reads it needs no lock, and never waits for the disk.
        whole = takewhile(lambda at: rows[at][0] == rows[0][0] - at, range(len(rows)))  # no gap
        self._recent = tuple([_logged(rows[at]) for at in reversed(list(whole))])
        (self._oldest,) = self._file.execute(
            "SELECT coalesce(min(position), ?) FROM logged", (self._newest + 1,)
        ).fetchone()
        self.triggers = RaisedTable()
        rows = self._file.execute("SELECT key, body FROM raised ORDER BY position").fetchall()
        gone = self.triggers.load((key, _raised(body)) for key, body in rows)
        if gone:
            with suppress(OSError), _transaction(self._file):
                self._file.executemany("DELETE FROM raised WHERE key = ?", [(key,) for key in gone])
        row = self._file.execute("SELECT id, after FROM subscription").fetchone()
        self._place = None if row is None else Place(*row)

    def close(self) -> None:
        """Close the file; nothing can be read or written then."""
        with self._lock:
            self._file.close()
            if self._holder >= 0:
                os.close(self._holder)
                self._holder = -1

    # --- the subscription -----------------------------------------------------------------------

    def place(self, wanted: str) -> Place:
        """The subscription for the filter `wanted`; of another filter it is a new one. OSError."""
        with self._lock, _reading():
            row = self._file.execute("SELECT filter FROM subscription").fetchone()
            if self._place is None or row is None or row[0] != wanted:
                made = Place(secrets.token_hex(16), None)
                with _transaction(self._file):
                    self._file.execute(
                        "INSERT OR REPLACE INTO subscription VALUES (1, ?, ?, NULL)",
                        (made.id, wanted),
                    )
                self._place = made
            return self._place

    def append(
        self, notification: Notification | None, loss: Loss | None = None, after: int | None = None
    ) -> int:
        """Commit one entry, with the position `after` in the subscription up to which all is here
        then. Returns its position; OSError if the disk takes nothing."""
        with self._lock:
            entry = Logged(self._newest + 1, self._now_ms(), notification, loss)
            oldest_ms = self._ageing.oldest_ms
            change = raised_by(entry)
            changes = self.triggers.changes(change, oldest_ms)
            body = _encode(_Body(notification, loss))
            kept = self._kept.plus(1, len(body), is_message=not is_alert(entry))
            with _transaction(self._file):
                self._write(entry, body, changes, after)
                kept = self._bounds.trim(self._file, kept, entry.position, oldest_ms)
            self._kept = kept
            self._newest = entry.position
            self._oldest = max(self._oldest, kept.oldest)
            self.triggers.take(change, changes)
            self._recent = (*self._recent[1 - MAX_IN_MEMORY :], entry)
            if after is not None and self._place is not None:
                self._place = Place(self._place.id, after)
        for listener in tuple(self._listeners):
            listener()
        return entry.position

    def _write(
        self, entry: Logged, body: bytes, changes: Mapping[str, Raised | None], after: int | None
    ) -> None:
        self._file.execute(
            "INSERT INTO logged VALUES (?, ?, ?)", (entry.position, entry.received_ms, body)
        )
        for key, raised in changes.items():
            if raised is None:
                self._file.execute("DELETE FROM raised WHERE key = ?", (key,))
            else:
                self._file.execute(
                    "INSERT OR REPLACE INTO raised VALUES (?, ?, ?)",
                    (key, raised.position, _encode(raised)),
                )
        if after is not None:
            self._file.execute("UPDATE subscription SET after = ?", (after,))

    # --- reading --------------------------------------------------------------------------------

    @property
    def raised(self) -> tuple[Raised, ...]:
        """As `RaisedTable.raised`."""
        return self.triggers.raised

    @property
    def newest(self) -> int:
        """The last position; 0 if there was none yet."""
        return self._newest

    @property
    def oldest(self) -> int:
        """The first position that is kept; one after the newest if there is none."""
        return self._oldest

    def read_recent(self, after: int, limit: int = 100) -> list[Logged] | None:
        """As `read`, without waiting for the disk; None if that is needed."""
        recent, oldest = self._recent, self._oldest
        newest = recent[-1].position if recent else self._newest
        if after == newest:
            return []
        if after > newest or after < oldest - 1 or not recent or after < recent[0].position - 1:
            return None
        start = bisect_right(recent, after, key=lambda each: each.position)
        return list(recent[start : start + max(1, limit)])

    def read(self, after: int, limit: int = 100) -> list[Logged]:
        """Up to `limit` entries after that position, in order; from the disk, of 64 KiB together,
        unless the first has more. What is not there any more comes first, as one loss at the last
        position that it stands for. OSError."""
        limit = max(1, min(limit, MAX_READ))
        with self._lock, _reading():
            found: list[Logged] = []
            if after > self._newest:
                why = "the log of alerts is another one; what came since you read is unknown"
                found.append(Logged(self._oldest - 1, self._now_ms(), loss=Loss(why)))
                after = self._oldest - 1
            elif after < self._oldest - 1:
                loss = Loss("kept no longer", after + 1, self._oldest - 1)
                found.append(Logged(self._oldest - 1, self._now_ms(), loss=loss))
                after = self._oldest - 1
            return found + self._after(after, limit - len(found))

    def _after(self, after: int, limit: int) -> list[Logged]:
        if after >= self._newest or limit <= 0:
            return []
        if (found := self.read_recent(after, limit)) is not None:
            return found
        rows = within(
            MAX_READ_BYTES,
            self._file.execute(
                "SELECT position, received_ms, body FROM logged WHERE position > ?"
                " ORDER BY position LIMIT ?",
                (after, limit),
            ),
        )
        found = [_logged(row) for row in rows]
        if (gap := gap_among(after, [row[0] for row in rows])) is not None:
            at, first, why = gap
            last = found[at].position - 1
            found.insert(at, Logged(last, found[at].received_ms, loss=Loss(why, first, last)))
        return found[:limit]

    def before(self, position: int | None, limit: int = 100) -> list[Logged]:
        """Up to `limit` entries before that position, or the newest; the newest first. Together
        they have at most 1 MiB, unless the first has more. OSError."""
        with self._lock, _reading():
            rows = within(
                MAX_PAGE_BYTES,
                self._file.execute(
                    "SELECT position, received_ms, body FROM logged WHERE position < ?"
                    " ORDER BY position DESC LIMIT ?",
                    (self._newest + 1 if position is None else position, min(limit, MAX_READ)),
                ),
            )
            return [_logged(row) for row in rows]

    def listen(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call `listener` after each commit, in the thread that made it, until the function that
        is returned is called. It must not block."""
        self._listeners.append(listener)

        def stop() -> None:
            if listener in self._listeners:
                self._listeners.remove(listener)

        return stop

    # --- cursors --------------------------------------------------------------------------------

    def cursor(self, name: str) -> int:
        """The position up to which the output `name` has all; a new one begins at the end.
        OSError."""
        with self._lock, _reading():
            row = self._file.execute(
                "SELECT position FROM cursor WHERE name = ?", (name,)
            ).fetchone()
            if row is not None:
                return int(row[0])
            self._save_cursor(name, self._newest)
            return self._newest

    def move_cursor(self, name: str, position: int) -> None:
        """Note that the output `name` has all up to `position`; OSError."""
        with self._lock:
            self._save_cursor(name, position)

    def _save_cursor(self, name: str, position: int) -> None:
        with _transaction(self._file):
            self._file.execute("INSERT OR REPLACE INTO cursor VALUES (?, ?)", (name, position))

    def keep_cursors(self, names: Sequence[str]) -> None:
        """Forget the cursors of all other outputs."""
        with self._lock, _transaction(self._file):
            there = [name for (name,) in self._file.execute("SELECT name FROM cursor")]
            for name in there:
                if name not in names:
                    self._file.execute("DELETE FROM cursor WHERE name = ?", (name,))


def raised_by(entry: Logged) -> Change | None:
    """Effect of an entry on the raised alerts; None if it is no trigger's alert. Each node's
    trigger has a key of its own, by its history."""
    notification = entry.notification
    told = {} if notification is None else notification.attributes
    kind, trigger = told.get("kind"), told.get("trigger")
    if notification is None or not is_alert(entry):
        return None
    if kind not in ("raised", "cleared") or not isinstance(trigger, str):
        return None
    iad, area = str(told.get("iad", "")), str(told.get("area", ""))
    key = msgspec.json.encode([iad, trigger, area, notification.origin.history]).decode()
    at_ms = notification.time_ms
    if kind == "cleared":
        return Change(key, trigger, area, None, Cleared(at_ms, entry.received_ms))
    value = told.get("value")
    number = float(value) if isinstance(value, int | float) and value is not True else None
    metric = str(told.get("metric", ""))
    raised = Raised(iad, trigger, area, metric, at_ms, entry.position, number, entry.received_ms)
    return Change(key, trigger, area, raised)


@contextmanager
def _reading() -> Iterator[None]:
    """OSError if the disk gives nothing, or what it gives is damaged: who follows asks again."""
    try:
        yield
    except (msgspec.MsgspecError, *sqlite.DAMAGE) as error:
        raise OSError(f"the log cannot be read: {' '.join(str(error).split())}") from None


@contextmanager
def _transaction(file: sqlite3.Connection) -> Iterator[None]:
    """All or nothing; OSError if the disk takes nothing."""
    try:
        with sqlite.transaction(file):
            yield
    except sqlite3.Error as error:
        raise OSError(" ".join(str(error).split())) from None


def _logged(row: tuple[int, int, bytes]) -> Logged:
    position, received_ms, body = row
    read = _body(body)
    return Logged(position, received_ms, read.notification, read.loss)


def _prepare(file: sqlite3.Connection) -> Kept:
    """Check an existing file, or fill a new one; what is kept there."""
    kept = Kept()
    (tables,) = file.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    if not tables:
        file.executescript(SCHEMA)
        return kept
    (application,) = file.execute("PRAGMA application_id").fetchone()
    if application != APPLICATION_ID:
        raise OSError("it is no log of alerts; move it away, and a new one begins")
    (version,) = file.execute("PRAGMA user_version").fetchone()
    sqlite.require_version(version, SCHEMA_VERSION)
    sqlite.require_sound(file)
    try:
        for (body,) in file.execute("SELECT body FROM logged"):
            kept = kept.plus(1, len(body), is_message=_is_message(body))
        for (body,) in file.execute("SELECT body FROM raised"):
            _raised(body)
    except msgspec.MsgspecError as error:
        raise BrokenFileError(str(error)) from None
    for columns in COLUMNS:  # a damaged schema may have others, and texts may be none
        file.execute(f"SELECT {columns}").fetchall()
    return kept
