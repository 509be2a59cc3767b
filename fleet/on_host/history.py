"""Reads a node's history on its host while its agent writes: row groups that are new or changed.

What `frames` is, says fleet/lake/pull/host_source.py. Asked for: `known`, by history id the groups
that were taken, packed as `KNOWN`; `latest`, the history whose groups count for one that is not
known (a history that was rebuilt has copies of them); `since_ms`, `max_bytes`, `max_groups`. Its
frames, by `at`:

    history    id, `openings`, `group_readings` as configured, `tail`: the groups that its tail has,
               `whole`: whether all rows could be read, and are named
    gone       those of `known` that are not there as they were, packed like it
    fresh      groups that are there and not in `known`, whatever the bounds, packed as `FRESH`; if
               they are more than `max_groups`, the oldest of those that are sent
    listed     these were all
    group      row, crc, columns_crc, bytes; the statistics of the row in hexadecimal digits, the
               columns as bytes, those beyond `PIECE` in frames `rest`
    bad        a group that cannot be read: sequence, crc, reason, text
    more       `max_bytes` or `max_groups` ended it
    end        that was all

Nothing is written beside the history. Each look at it is a connection of its own that is closed
before a frame goes out: no slow network holds back a checkpoint, nor keeps the log of an agent that
stops. A read-only connection makes the files of SQLite's log if they are missing, and cannot delete
them; so a history without a log, which nobody writes, is read as immutable, and once more if it
changed meanwhile.
"""

from __future__ import annotations

import base64
import errno
import os
import sqlite3
import struct
import tomllib
import zlib
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

Frame = tuple[dict[str, Any], bytes]

# The same as in agent/edge/history/row_groups.py; a test compares them.
APPLICATION_ID = 0x53414E44
VERSION = 2
ROW = (
    "sequence, sensor, count, first_ms, last_ms, shift_ms, boot, first_monotonic_ms,"
    " last_monotonic_ms, synchronised, layout, statistics"
)
# The same as in agent/edge/history/wal.py: mark, length, CRC-32 of a MessagePack body.
TAIL_MARK = b"\xb5SnT"
TAIL_RECORD = struct.Struct("<4s2I")
TAIL_VERSION = 1

KNOWN = struct.Struct("<qI")  # sequence, CRC of the row
FRESH = struct.Struct("<qq")  # sequence, count
PIECE = 1 << 20
# Groups read in one query: half a megabyte for a sensor with three channels.
READINGS = 1 << 14
PATIENCE_S = 5.0
TRIES = 5
DAMAGE = (sqlite3.Error, UnicodeError, OverflowError)
# SQLite errors of a file that cannot be accessed now, which does not mean that it is damaged.
OUT_OF_REACH = {
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_NOMEM,
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_READONLY,
}


def place(asked: dict[str, Any]) -> str:
    """What is read."""
    return configured(asked["config"])[0]


def frames(asked: dict[str, Any]) -> Iterator[Frame]:
    """The frames of the configured history, oldest groups first."""
    path, group_readings = configured(asked["config"])
    if not os.path.exists(path):
        return  # its agent was never started
    if not os.path.isfile(path):  # SQLite would wait for the writer of a pipe
        raise OSError(errno.EINVAL, "not a regular file", path)
    # Read the tail first: its groups move from it to the file.
    tail_history, tail = tail_of(path + ".tail")
    history = History(path)
    listing = Listing(asked)
    meta = history.meta()
    listing.read(history, meta["history"])
    yield (
        {
            "at": "history",
            "id": meta["history"],
            "openings": meta["openings"],
            "group_readings": group_readings,
            "tail": tail if tail_history == meta["history"] else [],
            "whole": not listing.problem and not listing.cut,
        },
        b"",
    )
    yield from packed("gone", KNOWN, listing.gone)
    yield from packed("fresh", FRESH, [(each[0], each[2]) for each in listing.fresh])
    yield {"at": "listed"}, b""
    if listing.problem:
        yield bad(0, 0, listing.problem, "")
    yield from listing.bad
    yield from sent(history, listing.wanted(), asked["max_bytes"])
    if listing.more:
        yield {"at": "more"}, b""
    yield {"at": "end"}, b""


def configured(config: str) -> tuple[str, int]:
    """The path of an edge agent's history, and its readings per group."""
    try:
        with open(config, "rb") as file:
            table = tomllib.load(file).get("history", {})
    except FileNotFoundError:
        raise FileNotFoundError(f"{config} is missing: no edge agent is installed there") from None
    except ValueError as error:
        raise ValueError(f"{config}: {error}") from None
    path = os.path.join(os.path.dirname(config), table.get("path", "history.sqlite"))
    return path, table.get("group_readings", 600)


class History:
    """The history's file. OSError: it cannot be read now; `DAMAGE`: the errors of a damaged
    file."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._inode = os.stat(path).st_ino

    def meta(self) -> dict[str, Any]:
        """Its metadata, such as its id; ValueError if its format is unknown here."""
        try:
            (application,) = self.look("PRAGMA application_id")[0]
            meta = dict(self.look("SELECT key, value FROM meta")) if application else {}
        except DAMAGE as error:
            raise ValueError(f"{self._path}: {one_line(error)}") from None
        version, compatible = meta.get("version"), meta.get("compatible")
        if application != APPLICATION_ID or not isinstance(version, int):
            raise ValueError(f"{self._path}: it is not a Sanderling history")
        if version < VERSION or (
            version > VERSION and not (isinstance(compatible, int) and compatible <= VERSION)
        ):
            raise ValueError(f"{self._path}: it is of format {version}, this reads {VERSION}")
        history, openings = meta.get("history"), meta.get("openings")
        if not isinstance(history, str) or not isinstance(openings, int):
            raise ValueError(f"{self._path}: its id or the count of its openings is missing")
        return meta

    def look(self, query: str, values: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        """All rows of a query, on a connection of its own."""
        for _ in range(TRIES):
            immutable = not os.path.exists(self._path + "-wal")
            before = os.stat(self._path)
            if before.st_ino != self._inode:
                raise OSError(0, "another history took its place", self._path)
            try:
                found = self._rows(query, values, immutable)
            except DAMAGE as error:
                if immutable and self._changed(before):
                    continue
                if getattr(error, "sqlite_errorcode", 0) & 0xFF in OUT_OF_REACH:
                    raise OSError(0, one_line(error), self._path) from None
                raise
            if not immutable or not self._changed(before):
                return found
        raise OSError(0, "its agent starts and stops all the time", self._path)

    def _rows(self, query: str, values: tuple[Any, ...], immutable: bool) -> list[tuple[Any, ...]]:
        uri = f"file:{quote(os.path.abspath(self._path))}?mode=ro"
        db = sqlite3.connect(
            uri + "&immutable=1" * immutable, uri=True, isolation_level=None, timeout=PATIENCE_S
        )
        try:
            # Damaged text is detected by a checksum.
            db.text_factory = lambda text: text.decode("utf-8", "replace")
            return db.execute(query, values).fetchall()
        finally:
            db.close()

    def _changed(self, before: os.stat_result) -> bool:
        now = os.stat(self._path)
        return os.path.exists(self._path + "-wal") or (
            (now.st_ino, now.st_size, now.st_mtime_ns)
            != (before.st_ino, before.st_size, before.st_mtime_ns)
        )


class Listing:
    """The groups in the history, compared with those taken before."""

    def __init__(self, asked: dict[str, Any]) -> None:
        self.gone: list[tuple[int, int]] = []
        self.fresh: list[tuple[int, int, int, int]] = []  # sequence, crc, count, last_ms
        self.bad: list[Frame] = []
        self.problem = ""  # why not all rows could be read
        self.cut = False  # `fresh` has not all of them
        self.more = False  # nor all that are wanted
        self._asked = asked

    def read(self, history: History, name: str) -> None:
        """Look at all rows."""
        known = self._asked["known"]
        packed = base64.b64decode(known.get(name, known.get(self._asked["latest"], "")))
        taken = set(KNOWN.iter_unpack(packed))
        there = set()
        for *fields, crc in self._rows(history):
            row = tuple(fields)
            there.add((row[0], crc))
            if (row[0], crc) in taken:
                continue
            if row_crc(row) != crc:
                self.bad.append(bad(row[0], crc, "the checksum of its row is wrong", row))
            else:
                self.fresh.append((row[0], crc, row[2], row[4]))
        self.gone = sorted(taken - there)
        self.fresh.sort()
        most = self._asked["max_groups"]
        self.cut = len(self.fresh) > most
        if self.cut:
            wanted = self.wanted()
            self.fresh, self.more = wanted[:most], len(wanted) > most

    def _rows(self, history: History) -> list[tuple[Any, ...]]:
        """The rows; if a page cannot be read, the rows around it."""
        query = f"SELECT {ROW}, crc FROM groups"  # noqa: S608 - a constant
        try:
            return history.look(query)
        except DAMAGE as error:
            self.problem = one_line(error)
        found: dict[int, tuple[Any, ...]] = {}
        below, above = -(1 << 63), (1 << 63) - 1
        for order, most in (("ASC", 200), ("ASC", 1), ("DESC", 200), ("DESC", 1)):
            while True:
                try:
                    rows = history.look(
                        f"{query} WHERE sequence >= ? AND sequence <= ?"
                        f" ORDER BY sequence {order} LIMIT {most}",
                        (below, above),
                    )
                except DAMAGE:
                    break
                if not rows:
                    return list(found.values())
                found.update({row[0]: row for row in rows})
                if order == "ASC":
                    below = rows[-1][0] + 1
                else:
                    above = rows[-1][0] - 1
        return list(found.values())

    def wanted(self) -> list[tuple[int, int, int, int]]:
        """The groups to send."""
        since_ms = self._asked["since_ms"]
        return [each for each in self.fresh if since_ms is None or each[3] >= since_ms]


def sent(
    history: History, wanted: list[tuple[int, int, int, int]], max_bytes: int
) -> Iterator[Frame]:
    """Frames of the wanted groups up to `max_bytes`; groups deleted meanwhile are left out."""
    left = max_bytes
    for batch in batches(wanted):
        for found in read(history, batch):
            if left <= 0:
                yield {"at": "more"}, b""
                return
            for header, data in found:
                left -= len(data)
                yield header, data


def batches(
    wanted: list[tuple[int, int, int, int]],
) -> Iterator[list[tuple[int, int, int, int]]]:
    """Groups of about `READINGS`."""
    batch: list[tuple[int, int, int, int]] = []
    readings = 0
    for each in wanted:
        if batch and (readings + each[2] > READINGS or len(batch) >= 500):
            yield batch
            batch, readings = [], 0
        batch.append(each)
        readings += each[2]
    if batch:
        yield batch


def read(history: History, batch: list[tuple[int, int, int, int]]) -> Iterator[list[Frame]]:
    """The frames of each group."""
    row = ", ".join(f"groups.{name}" for name in ROW.split(", "))
    query = (
        f"SELECT {row}, groups.crc, columns.crc, data FROM groups"  # noqa: S608 - constants
        " LEFT JOIN columns ON columns.sequence = groups.sequence WHERE groups.sequence IN"
        f" ({', '.join('?' * len(batch))}) ORDER BY groups.sequence"
    )
    try:
        rows = history.look(query, tuple([each[0] for each in batch]))
    except DAMAGE as error:
        if len(batch) > 1:
            for each in batch:
                yield from read(history, [each])
        else:
            yield [bad(batch[0][0], batch[0][1], one_line(error), "")]
        return
    for *fields, crc, columns_crc, data in rows:
        yield group(tuple(fields), crc, columns_crc, data)


def group(row: tuple[Any, ...], crc: int, columns_crc: Any, data: Any) -> list[Frame]:
    """The frames of a group."""
    if row_crc(row) != crc:
        return [bad(row[0], crc, "the checksum of its row is wrong", row)]
    if not isinstance(data, bytes):
        return [bad(row[0], crc, "its columns are missing", row)]
    if not (isinstance(columns_crc, int) and 0 <= columns_crc < 1 << 32):
        return [bad(row[0], crc, "the checksum of its columns is wrong", row)]
    header = {
        "at": "group",
        "row": [*row[:-1], row[-1].hex()],
        "crc": crc,
        "columns_crc": columns_crc,
        "bytes": len(data),
    }
    first = [(header, data[:PIECE])]
    return first + [
        ({"at": "rest"}, data[at : at + PIECE]) for at in range(PIECE, len(data), PIECE)
    ]


def row_crc(row: tuple[Any, ...]) -> int | None:
    """The same as in agent/edge/history/row_groups.py; None for an invalid row."""
    try:
        return zlib.crc32(row[-1], zlib.crc32(" ".join(map(str, row[:-1])).encode()))
    except (TypeError, UnicodeError):
        return None


def bad(sequence: int, crc: object, reason: str, row: object) -> Frame:
    """The frame for a group that cannot be read."""
    crc = crc if isinstance(crc, int) and 0 <= crc < 1 << 32 else 0
    text = str(row)[:2000].encode(errors="replace").decode()
    return {"at": "bad", "sequence": sequence, "crc": crc, "reason": reason, "text": text}, b""


def packed(name: str, kind: struct.Struct, items: list[Any]) -> Iterator[Frame]:
    """Frames of numbers."""
    most = PIECE // kind.size
    for at in range(0, len(items), most):
        yield {"at": name}, b"".join([kind.pack(*each) for each in items[at : at + most]])


def one_line(error: Exception) -> str:
    """SQLite's error as one line; it may quote damaged content."""
    return " ".join(str(error).encode(errors="replace").decode().split())


def tail_of(path: str) -> tuple[str, list[int]]:
    """The id of the history that a tail belongs to, and the groups that may be only in the tail:
    the last two of each sensor. Earlier ones are in the file, which stores a sensor's groups in
    order."""
    try:
        if os.path.exists(path) and not os.path.isfile(path):
            return "", []
        with open(path, "rb") as file:
            content = file.read()
    except FileNotFoundError:
        return "", []
    history = ""
    sensors: dict[str, set[int]] = {}
    try:
        for n, body in enumerate(records(content)):
            sequence, at = number(body, 1)
            if n:
                _, at = number(body, at)
                sensors.setdefault(text(body, at), set()).add(sequence)
            elif sequence != TAIL_VERSION:
                break
            else:
                history = text(body, at)
    except (IndexError, ValueError):
        return "", []  # a later version's
    return history, sorted(each for groups in sensors.values() for each in sorted(groups)[-2:])


def records(content: bytes) -> Iterator[bytes]:
    """The bodies of a tail's records that pass their checks."""
    at = content.find(TAIL_MARK)
    while 0 <= at <= len(content) - TAIL_RECORD.size:
        _, length, crc = TAIL_RECORD.unpack_from(content, at)
        start = at + TAIL_RECORD.size
        body = content[start : start + length]
        at += 1
        if length and len(body) == length and zlib.crc32(body) == crc:
            yield body
            at = start + length
        at = content.find(TAIL_MARK, at)


def number(body: bytes, at: int) -> tuple[int, int]:
    """Decode a non-negative MessagePack integer: its value, and the offset of its end."""
    kind = body[at]
    if kind < 0x80:
        return kind, at + 1
    end = at + 1 + (1 << kind - 0xCC)
    return int.from_bytes(body[at + 1 : end], "big"), end


def text(body: bytes, at: int) -> str:
    """Decode a MessagePack string of less than 256 bytes."""
    kind = body[at]
    start, length = (at + 2, body[at + 1]) if kind == 0xD9 else (at + 1, kind & 0x1F)
    return body[start : start + length].decode("utf-8", "replace")
