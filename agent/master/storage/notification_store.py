"""SQLite store of the alerts: spool, what is kept of nodes' events, progress of topics, records of
units that move, subscriptions and inboxes."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from agent.alerts import inbox_events as i
from agent.alerts import spool_events as s
from agent.alerts.dedup_window import Taken
from agent.alerts.event_state import SaveNodeState
from agent.alerts.items import readable
from agent.placement.handover.events import Record
from agent.placement.handover.unit_records import ForgetUnit, SaveUnit, UnitChange
from agent.runtime import console, sqlite
from agent.runtime.outage import Outage
from agent.runtime.sqlite import BrokenFileError
from agent.topics.events import (
    ForgetCopy,
    ForgetProgress,
    Progress,
    SaveCopy,
    SaveProgress,
    TopicChange,
)
from agent.topics.state_patch import applied
from agent.wire.overlay import Notification
from agent.wire.push import Lost

SCHEMA_VERSION: Final = 1  # the schema names it again
APPLICATION_ID: Final = 0x5341504E  # "SAPN"; the schema names it again
# A row of `taken` or `lost` that is written again gets the next rowid: they are in order of time.
SCHEMA: Final = """
BEGIN IMMEDIATE;
PRAGMA application_id = 0x5341504E;
PRAGMA user_version = 1;
CREATE TABLE spooled (number INTEGER PRIMARY KEY, body BLOB NOT NULL) STRICT;
CREATE TABLE taken (
    node TEXT NOT NULL, history TEXT NOT NULL, body BLOB NOT NULL, UNIQUE (node, history)
) STRICT;
CREATE TABLE lost (
    publisher TEXT NOT NULL, history TEXT NOT NULL, body BLOB NOT NULL,
    UNIQUE (publisher, history)
) STRICT;
CREATE TABLE subscription (
    number INTEGER PRIMARY KEY, acknowledged INTEGER NOT NULL, body BLOB NOT NULL
) STRICT;
CREATE TABLE item (number INTEGER PRIMARY KEY, key BLOB NOT NULL, body BLOB) STRICT;
CREATE TABLE position (
    subscription INTEGER NOT NULL, position INTEGER NOT NULL, item INTEGER NOT NULL,
    PRIMARY KEY (subscription, position)
) STRICT, WITHOUT ROWID;
COMMIT;
"""
# Made in files of earlier versions, too; these versions do not look at it.
NODE_STATE: Final = (
    "CREATE TABLE IF NOT EXISTS node_state ("
    " kind TEXT NOT NULL, node TEXT NOT NULL, body BLOB NOT NULL, PRIMARY KEY (kind, node)"
    ") STRICT, WITHOUT ROWID"
)
TOPIC_PROGRESS: Final = (
    "CREATE TABLE IF NOT EXISTS topic_progress (topic TEXT PRIMARY KEY, body BLOB NOT NULL)"
    " STRICT, WITHOUT ROWID"
)
TOPIC_COPY: Final = (
    "CREATE TABLE IF NOT EXISTS topic_copy (topic TEXT PRIMARY KEY, state BLOB NOT NULL)"
    " STRICT, WITHOUT ROWID"
)
UNIT: Final = (
    "CREATE TABLE IF NOT EXISTS unit ("
    " kind TEXT NOT NULL, name TEXT NOT NULL, body BLOB NOT NULL, PRIMARY KEY (kind, name)"
    ") STRICT, WITHOUT ROWID"
)
# The client's cursor is unchanged.
SAVE_SUBSCRIPTION: Final = (
    "INSERT INTO subscription VALUES (?, 0, ?)"
    " ON CONFLICT (number) DO UPDATE SET body = excluded.body"
)
UNREADABLE: Final = (msgspec.MsgspecError, TypeError, ValueError)

Change = s.SpoolChange | SaveNodeState | TopicChange | UnitChange | i.InboxChange
encode: Final = msgspec.msgpack.encode
SET_POSITION_APART: Final = (
    "UPDATE OR REPLACE position SET subscription = -subscription"
    " WHERE subscription = ? AND position = ?"
)
# The statements of each change, and their parameters.
STATEMENTS: Final[dict[type, list[tuple[str, Callable[[Any], tuple[Any, ...]]]]]] = {
    s.StoreSpooled: [("INSERT INTO spooled VALUES (?, ?)", lambda c: (c.number, c.body))],
    s.ForgetSpooled: [("DELETE FROM spooled WHERE number = ?", lambda c: (c.number,))],
    s.SaveTaken: [
        (
            "INSERT OR REPLACE INTO taken VALUES (?, ?, ?)",
            lambda c: (c.node, c.history, encode(c.taken)),
        )
    ],
    s.ForgetTaken: [
        ("DELETE FROM taken WHERE node = ? AND history = ?", lambda c: (c.node, c.history))
    ],
    s.SaveLost: [
        (
            "INSERT OR REPLACE INTO lost VALUES (?, ?, ?)",
            lambda c: (c.lost.publisher, c.lost.history, encode(c.lost)),
        )
    ],
    s.ForgetLost: [
        (
            "DELETE FROM lost WHERE publisher = ? AND history = ?",
            lambda c: (c.publisher, c.history),
        )
    ],
    SaveNodeState: [
        (
            "INSERT OR REPLACE INTO node_state VALUES (?, ?, ?)",
            lambda c: (c.kind, c.node, c.body),
        )
    ],
    SaveProgress: [
        (
            "INSERT OR REPLACE INTO topic_progress VALUES (?, ?)",
            lambda c: (c.name, encode(c.progress)),
        )
    ],
    ForgetProgress: [("DELETE FROM topic_progress WHERE topic = ?", lambda c: (c.name,))],
    SaveCopy: [("INSERT OR REPLACE INTO topic_copy VALUES (?, ?)", lambda c: (c.name, c.state))],
    ForgetCopy: [("DELETE FROM topic_copy WHERE topic = ?", lambda c: (c.name,))],
    SaveUnit: [
        (
            "INSERT OR REPLACE INTO unit VALUES (?, ?, ?)",
            lambda c: (c.record.unit.kind, c.record.unit.name, encode(c.record)),
        )
    ],
    ForgetUnit: [
        (
            "DELETE FROM unit WHERE kind = ? AND name = ?",
            lambda c: (c.unit.kind, c.unit.name),
        )
    ],
    i.SaveSubscription: [(SAVE_SUBSCRIPTION, lambda c: (c.number, encode(c.saved)))],
    i.SaveCursor: [
        (
            "UPDATE subscription SET acknowledged = ? WHERE number = ?",
            lambda c: (c.acknowledged, c.number),
        )
    ],
    i.ForgetSubscription: [
        ("DELETE FROM subscription WHERE number = ?", lambda c: (c.number,)),
        (
            "DELETE FROM position WHERE subscription IN (?, ?)",
            lambda c: (c.number, -c.number),
        ),
    ],
    i.StoreItem: [
        ("INSERT OR REPLACE INTO item VALUES (?, ?, ?)", lambda c: (c.number, c.key, c.body))
    ],
    i.ForgetBody: [("UPDATE item SET body = NULL WHERE number = ?", lambda c: (c.number,))],
    i.ForgetItem: [("DELETE FROM item WHERE number = ?", lambda c: (c.number,))],
    i.StorePosition: [
        (
            "INSERT INTO position VALUES (?, ?, ?)",
            lambda c: (c.subscription, c.position, c.item),
        )
    ],
    i.ForgetPositions: [
        (
            "DELETE FROM position WHERE subscription = ? AND position <= ?",
            lambda c: (c.subscription, c.position),
        )
    ],
    i.SetPositionApart: [(SET_POSITION_APART, lambda c: (c.subscription, c.position))],
    i.ForgetPosition: [
        (
            "DELETE FROM position WHERE subscription = ? AND position = ?",
            lambda c: (-c.subscription, c.position),
        )
    ],
}


def beside(folder: Path, state: str) -> Path | None:
    """The store's file, next to the state if there is one."""
    path = folder / state
    return path.with_name(f"{path.stem}-notifications{path.suffix}") if state else None


class NotificationStore:
    """Writes changes in order, each write atomically.

    A corrupt file is set aside, and one line reports it. A path of None keeps nothing; OSError if
    the file cannot be used. `write` may be called in another thread, one call at a time and none
    during `close`.
    """

    def __init__(self, path: Path | None, report: Callable[[str], object] = console.write) -> None:
        self._report = report
        self._outage = Outage(report, "notifications: changes are written again\n")
        self._spool, self._inboxes = s.SavedSpool(), i.SavedInboxes()
        self._nodes: list[SaveNodeState] = []
        self._topics: list[SaveProgress] = []
        self._units: list[Record] = []
        self._holder: int | None = None
        self._file = None if path is None else self._open(path)

    def load(self) -> tuple[s.SavedSpool, i.SavedInboxes]:
        """The content of the file when it was opened; call once."""
        loaded = self._spool, self._inboxes
        self._spool, self._inboxes = s.SavedSpool(), i.SavedInboxes()
        return loaded

    def load_nodes(self) -> list[SaveNodeState]:
        """The same of what is kept of nodes' events."""
        loaded, self._nodes = self._nodes, []
        return loaded

    def load_topics(self) -> list[SaveProgress]:
        """The same of the progress of topics."""
        loaded, self._topics = self._topics, []
        return loaded

    def load_units(self) -> list[Record]:
        """The same of units that moved, or were to."""
        loaded, self._units = self._units, []
        return loaded

    def write(self, changes: Sequence[Change]) -> bool:
        """Put the changes on stable storage, in one transaction; False if the disk refuses."""
        if self._file is None or not changes:
            return True
        try:
            with sqlite.transaction(self._file):
                for kind, run in groupby(changes, type):
                    same = list(run)
                    for statement, row in STATEMENTS[kind]:
                        self._file.executemany(statement, [row(change) for change in same])
        except sqlite3.Error as error:
            self._outage.fail(
                f"notifications: changes (now {len(changes)}) could not be written: {error}; "
                "nothing new is taken until they are\n"
            )
            return False
        self._outage.succeed()
        return True

    def close(self) -> None:
        """Close the file and release its lock."""
        if self._file is not None:
            self._file.close()
            self._file = None
        if self._holder is not None:
            os.close(self._holder)
            self._holder = None

    def _open(self, path: Path) -> sqlite3.Connection:
        def broken(why: str, aside: str) -> None:
            self._report(
                f"{path} is broken ({why}); it is kept as {aside}. Notifications that "
                "waited are lost, and who has a durable subscription here must subscribe anew\n"
            )

        in_use = f"{path} is in use by another process; is this master running twice?"
        self._holder, file, saved = sqlite.open_alone(
            str(path), _saved, broken, in_use, any_thread=True
        )
        self._spool, (self._inboxes, lost), self._nodes, self._topics, self._units = saved
        if lost:
            self._report(
                f"{path}: {lost} of the notifications that wait for durable subscriptions cannot "
                "be read and are lost; the others are delivered\n"
            )
        return file


def _saved(
    file: sqlite3.Connection,
) -> tuple[
    s.SavedSpool,
    tuple[i.SavedInboxes, int],
    list[SaveNodeState],
    list[SaveProgress],
    list[Record],
]:
    if not file.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]:
        file.executescript(SCHEMA)
    _check(file)
    file.execute(NODE_STATE)
    file.execute(TOPIC_PROGRESS)
    file.execute(TOPIC_COPY)
    file.execute(UNIT)
    nodes = file.execute("SELECT kind, node, body FROM node_state ORDER BY kind, node")
    units = file.execute("SELECT body FROM unit ORDER BY kind, name")
    record = msgspec.msgpack.Decoder(Record).decode
    try:
        return (
            _spool_in(file),
            _inboxes_in(file),
            [SaveNodeState(*row) for row in nodes],
            _topics_in(file),
            [record(body) for (body,) in units],
        )
    except UNREADABLE as error:
        raise BrokenFileError(" ".join(str(error).split())) from None


def _topics_in(file: sqlite3.Connection) -> list[SaveProgress]:
    copies = dict(file.execute("SELECT topic, state FROM topic_copy").fetchall())
    rows = file.execute("SELECT topic, body FROM topic_progress ORDER BY topic")
    read = msgspec.msgpack.Decoder(Progress).decode
    saved = []
    for name, body in rows:
        progress = read(body)
        if progress.patch:
            state = applied(copies.pop(name, b""), progress.patch)
            progress = replace(progress, state=state, patch=b"")
        saved.append(SaveProgress(name, progress))
    # No progress needs these any more.
    file.executemany("DELETE FROM topic_copy WHERE topic = ?", [(name,) for name in copies])
    return saved


def _check(file: sqlite3.Connection) -> None:
    if file.execute("PRAGMA application_id").fetchone()[0] != APPLICATION_ID:
        raise BrokenFileError("it is no file of notifications")
    (version,) = file.execute("PRAGMA user_version").fetchone()
    sqlite.require_version(version, SCHEMA_VERSION)
    sqlite.require_sound(file)


def _spool_in(file: sqlite3.Connection) -> s.SavedSpool:
    readable = msgspec.msgpack.Decoder(Notification).decode
    spooled = file.execute("SELECT number, body FROM spooled ORDER BY number").fetchall()
    for _, body in spooled:
        readable(body)
    taken = msgspec.msgpack.Decoder(Taken).decode
    lost = msgspec.msgpack.Decoder(Lost).decode
    return s.SavedSpool(
        tuple(spooled),
        tuple(
            [
                (node, history, taken(body))
                for node, history, body in file.execute(
                    "SELECT node, history, body FROM taken ORDER BY rowid"
                )
            ]
        ),
        tuple([lost(body) for (body,) in file.execute("SELECT body FROM lost ORDER BY rowid")]),
    )


def _inboxes_in(file: sqlite3.Connection) -> tuple[i.SavedInboxes, int]:
    """The inboxes, and how many of their notifications cannot be read."""
    saved = msgspec.msgpack.Decoder(i.SavedSubscription).decode
    items, lost = [], 0
    for row in file.execute("SELECT number, key, body FROM item ORDER BY number"):
        items.append(readable(*row))
        lost += items[-1] != row
    inboxes = i.SavedInboxes(
        tuple(
            [
                (number, saved(body), acknowledged)
                for number, acknowledged, body in file.execute(
                    "SELECT number, acknowledged, body FROM subscription ORDER BY number"
                )
            ]
        ),
        tuple(items),
        tuple(
            file.execute(
                "SELECT subscription, position, item FROM position ORDER BY subscription, position"
            ).fetchall()
        ),
    )
    return inboxes, lost
