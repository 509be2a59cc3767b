"""Events of nodes that are no alerts, from masters' records whose oldest files go during a run."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final, Self

from agent.wire.records import NodeEventRecord, decode_record

LOOK_S: Final = 1.0
_MARKS: Final = (b'"record":"node_event"', b'"trigger":""')


class KeptEvents:
    """Reads each file of records once it is closed, before it goes; `folders` are those of masters,
    by name. A context manager."""

    def __init__(self, folders: Mapping[str, Path]) -> None:
        self._folders = folders
        self._seen: set[Path] = set()
        self._found: dict[str, list[NodeEventRecord]] = {name: [] for name in folders}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, name="kept events")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def of(self, master: str) -> list[NodeEventRecord]:
        """What closed files of this master had so far."""
        return [*self._found[master]]

    @property
    def closed(self) -> int:
        """How many files were closed so far."""
        return len(self._seen)

    def _look(self) -> None:
        while not self._over.wait(LOOK_S):
            for master, folder in self._folders.items():
                self._found[master] += self._new(folder)

    def _new(self, folder: Path) -> Iterator[NodeEventRecord]:
        for path in sorted(folder.glob("records-*.jsonl")):
            if path in self._seen:
                continue
            with suppress(FileNotFoundError):
                for line in path.read_bytes().splitlines():
                    if all(mark in line for mark in _MARKS):
                        record = decode_record(line)
                        assert isinstance(record, NodeEventRecord)
                        yield record
            self._seen.add(path)
