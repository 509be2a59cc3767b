"""Histories that a test breaks: filled, left as by a crash, with bytes overwritten."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path
from typing import Any

from agent.edge.history import wal
from agent.edge.history.history import History
from agent.edge.history.reader import Reader
from tests.edge.history_oracle import CHANNELS, filled, rows


def fill(path: Path, readings: int = 500, **settings: Any) -> str:
    """A closed history; its id."""
    history, _ = filled(path, range(readings), **settings)
    history.close()
    return history.id


def crash(path: Path, copy: Path) -> None:
    """A copy of the files as they are now."""
    for suffix in ("", "-wal", wal.SUFFIX):
        if Path(f"{path}{suffix}").exists():
            shutil.copy(f"{path}{suffix}", f"{copy}{suffix}")


def found_in(history: History) -> list[int]:
    """The readings, as counted by their source times; closed afterwards."""
    reader = Reader(history)
    found = [row.source_time_ms for row in rows(reader.series(0, 2**53), CHANNELS)]
    reader.aggregate(0, 2**53)
    reader.close()
    return found


def break_file(path: Path, how: str) -> None:
    content = bytearray(path.read_bytes())
    if how == "text":
        content = bytearray(b"this is no database\n" * 100)
    elif how == "short":
        del content[len(content) // 2 + 100 :]
    elif how == "page":
        content[4096:8192] = b"\xaa" * 4096
    elif how == "foreign":
        path.unlink()
        with sqlite3.connect(path) as db:
            db.execute("CREATE TABLE other (x)")
        db.close()
        return
    path.write_bytes(content)
