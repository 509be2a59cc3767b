"""Migration: converts a history of format 1 to the current format, in one transaction.

Format 1 had one unnamed sensor, rows with their columns in three blobs, four statistics per
channel, no checksums and no flags. Missing values get the flag that they would get today.
"""

from __future__ import annotations

import sqlite3
from typing import Any, Final

from agent.edge.history.columns import RecordBatch
from agent.edge.history.database import META, make_tables
from agent.edge.history.group_table import Complete, insert
from agent.runtime.sqlite import transaction
from agent.wire.packed import Float32Column
from sensors.quality.flags import NO_RESPONSE

COLUMNS_1: Final = (
    "sequence, count, boot, first_monotonic_ms, last_monotonic_ms, synchronised, channels,"
    " time_ms, source_time_ms, channel_values, first_ms, last_ms"
)


def migrate(db: sqlite3.Connection) -> None:
    """Convert the file; sqlite3.Error leaves it unchanged."""
    with transaction(db):
        db.execute("DROP INDEX groups_by_time")
        db.execute("ALTER TABLE groups RENAME TO groups_1")
        db.execute("ALTER TABLE meta RENAME TO meta_1")
        make_tables(db)
        db.executemany("INSERT INTO meta (key, value) VALUES (?, ?)", META.items())
        db.execute(
            "INSERT OR REPLACE INTO meta (key, value)"
            " SELECT key, value FROM meta_1 WHERE key IN ('history', 'openings')"
        )
        for row in db.execute(f"SELECT {COLUMNS_1} FROM groups_1"):  # noqa: S608 - a constant
            if (group := _group(*row)) is not None:
                insert(db, group)
            else:
                db.execute(
                    "INSERT INTO quarantine (sequence, reason, layout, data) VALUES (?, ?, ?, ?)",
                    (row[0], "it contradicts itself", row[6], row[9]),
                )
        db.execute("DROP TABLE groups_1")
        db.execute("DROP TABLE meta_1")


def _group(*row: Any) -> Complete | None:
    """A row as a group; None if it contradicts itself."""
    sequence, count, boot, first_monotonic_ms, last_monotonic_ms, synchronised = row[:6]
    channels, time_ms, source_time_ms, values, first_ms, last_ms = row[6:]
    names = channels.split(",")
    sizes = (len(time_ms), len(values), len(source_time_ms or time_ms))
    if count < 1 or first_ms > last_ms or sizes != (8 * count, 4 * count * len(names), 8 * count):
        return None
    columns = {name: values[4 * count * i : 4 * count * (i + 1)] for i, name in enumerate(names)}
    flags = {name: _flags(column) for name, column in columns.items()}
    quality = {name: found for name, found in flags.items() if any(found)}
    batch = RecordBatch(first_ms, last_ms, time_ms, source_time_ms, columns, {}, quality, None)
    return Complete(
        sequence, "", boot, first_monotonic_ms, last_monotonic_ms, bool(synchronised), batch
    )


def _flags(column: bytes) -> bytes:
    # Only NaN differs from itself.
    return bytes([NO_RESPONSE if x != x else 0 for x in Float32Column(column).numbers()])
