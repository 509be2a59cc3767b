"""Reads the masters' records of a query from a run's folder."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from agent.wire.records import (
    AnyRecord,
    QueryRecord,
    SubtaskRecord,
    TaskRecord,
    decode_record,
)

# A master writes its records shortly after the answer.
PATIENCE_S: Final = 3.0
LOOK_EVERY_S: Final = 0.05


def read_records(folder: Path) -> Iterator[AnyRecord]:
    """Every record that a master has written to `folder` so far."""
    for path in sorted(folder.glob("*.jsonl")):
        with path.open("rb") as file:
            # A line without an end is still being written.
            yield from (decode_record(line) for line in file if line.endswith(b"\n"))


def tasks_of(label: str, folders: Iterable[Path]) -> dict[str, TaskRecord]:
    """The task records, by IAD, of the query with `label`, from all masters' record folders.

    Waits until they are written, at most `PATIENCE_S`; those still missing then are left out.
    """
    folders = list(folders)
    give_up_s = time.monotonic() + PATIENCE_S
    while True:
        records = [
            r
            for folder in folders
            for r in read_records(folder)
            if isinstance(r, QueryRecord | TaskRecord | SubtaskRecord) and r.label == label
        ]
        queries = [r for r in records if isinstance(r, QueryRecord)]
        tasks = {r.task: r for r in records if isinstance(r, TaskRecord)}
        wanted = queries[-1].tasks if queries else ()
        if (queries and tasks.keys() >= set(wanted)) or time.monotonic() > give_up_s:
            return {tasks[task].iad: tasks[task] for task in wanted if task in tasks}
        time.sleep(LOOK_EVERY_S)
