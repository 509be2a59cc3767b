"""The topics that a gateway has had retained, a row each, on disk."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Mapping
from typing import Final

import msgspec

from agent.gateway.outputs.retained import Components
from agent.runtime.console import Say
from agent.runtime.sqlite import DAMAGE, BrokenFileError, open_alone, require_sound, transaction

_TABLE: Final = (
    "CREATE TABLE IF NOT EXISTS retained (broker TEXT, topic TEXT, components TEXT, "
    "PRIMARY KEY (broker, topic)) WITHOUT ROWID"
)


class RetainedStore:
    """Of one broker; another broker has its own rows in the same file. OSError in one line if the
    file cannot be used. A broken one is put aside: what stood in it may be retained for ever."""

    def __init__(self, path: str, broker: str, say: Say) -> None:
        self._broker = broker
        self._holder, self._file, self.topics = open_alone(
            path,
            self._opened,
            lambda why, aside: say(
                f"the store of retained topics is broken ({why}), and is now {aside}\n"
            ),
            f"{path} is in use by another gateway",
            any_thread=True,
        )

    def _opened(self, file: sqlite3.Connection) -> dict[str, Components]:
        require_sound(file)
        file.execute(_TABLE)
        rows = file.execute(
            "SELECT topic, components FROM retained WHERE broker = ?", (self._broker,)
        )
        try:
            return {topic: msgspec.json.decode(text, type=dict[str, str]) for topic, text in rows}
        except msgspec.DecodeError as error:
            raise BrokenFileError(str(error)) from None

    def write(self, changes: Mapping[str, Components | None]) -> str:
        """Write in one transaction; returns why it failed, or nothing."""
        kept = [
            (self._broker, topic, msgspec.json.encode(components).decode())
            for topic, components in changes.items()
            if components is not None
        ]
        gone = [(self._broker, topic) for topic, each in changes.items() if each is None]
        try:
            with transaction(self._file):
                self._file.executemany("INSERT OR REPLACE INTO retained VALUES (?, ?, ?)", kept)
                self._file.executemany("DELETE FROM retained WHERE broker = ? AND topic = ?", gone)
        except DAMAGE as error:
            return " ".join(f"the store of retained topics cannot be written: {error}".split())
        return ""

    def close(self) -> None:
        """Close the file."""
        self._file.close()
        os.close(self._holder)
