"""Events of nodes that are no alerts, from masters' records whose oldest files go during a run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from agent.wire.records import NodeEventRecord, decode_record
from lab.background import Background

LOOK_S: Final = 1.0
_MARKS: Final = (b'"record":"node_event"', b'"trigger":""')


class KeptEvents(Background):
    """Reads each file of records once it is closed, before it goes; `folders` are those of masters,
    by name. A context manager."""

    def __init__(self, folders: Mapping[str, Path]) -> None:
        super().__init__("kept events")
        self._folders = folders
        self._seen: set[Path] = set()
        self._found: dict[str, list[NodeEventRecord]] = {name: [] for name in folders}

    def of(self, master: str) -> list[NodeEventRecord]:
        """What closed files of this master had so far."""
        return [*self._found[master]]

    @property
    def closed(self) -> int:
        """How many files were closed so far."""
        return len(self._seen)

    def _run(self) -> None:
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
