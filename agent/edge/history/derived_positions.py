"""Positions of derived values in the history's file, by source.

A position moves in the transaction that stores its values. In the tail it stands in the values' own
record. So after a power cut there are exactly the values up to the position that is found.
"""

from __future__ import annotations

import sqlite3
from typing import Final

# Sources whose positions are kept: a clone that is made anew has a new one.
MAX_SOURCES: Final = 16
# In memory some more: a value that is stored is acknowledged a little later.
MAX_REMEMBERED: Final = 4 * MAX_SOURCES
# The row becomes the latest.
KEEP: Final = """
INSERT OR REPLACE INTO derived (source, position)
SELECT ?1, max(?2, coalesce((SELECT position FROM derived WHERE source = ?1), 0))
"""
DROP_OLD: Final = """
DELETE FROM derived
WHERE rowid NOT IN (SELECT rowid FROM derived ORDER BY rowid DESC LIMIT ?)
"""


def keep(db: sqlite3.Connection, source: str, position: int) -> None:
    """The values of `source` up to `position` are stored, in the open transaction."""
    db.execute(KEEP, (source, position))
    db.execute(DROP_OLD, (MAX_SOURCES,))


def kept(db: sqlite3.Connection) -> dict[str, int]:
    """The position of each source."""
    return dict(db.execute("SELECT source, position FROM derived ORDER BY rowid"))


def remember(known: dict[str, int], source: str, position: int) -> None:
    """The values of `source` up to `position` are on stable storage; those of the sources that were
    heard of last are known. Readings have no source."""
    if source:
        known[source] = max(position, known.pop(source, 0))
        if len(known) > MAX_REMEMBERED:
            del known[next(iter(known))]
