"""Estimates from masters' records for a capacity plan: unloaded response times, and the time of
a query outside queues and pods."""

from __future__ import annotations

import itertools
import re
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Final

import msgspec
from msgspec import Struct

from agent.wire.base import MAX_TIMEOUT_MS
from agent.wire.config import ConfigError
from agent.wire.records import AnyRecord, QueryRecord, SubtaskRecord, TaskRecord, decode_record
from fleet.simulation.virtual import TESTBED_DELAYS

# Minimum of queries (tasks) with complete records; with fewer, the testbed's means are used.
LEAST_MEASURED: Final = 30
# The longest answer timeout, plus the evaluation before it.
MAX_RECORD_MS: Final = 2.0 * MAX_TIMEOUT_MS
# Of IADs and nodes: they are printed.
NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}\Z")


class Overheads(Struct, frozen=True):
    """Seconds of a query outside queues and pods: before its subtasks are enqueued and after the
    last result; both evaluations, aggregation, and the way between masters."""

    before_s: float
    after_s: float


ASSUMED_OVERHEADS: Final = Overheads(
    TESTBED_DELAYS.query_evaluation_s + TESTBED_DELAYS.task_evaluation_s,
    TESTBED_DELAYS.aggregation_s,
)


class Measured(Struct, frozen=True):
    """`unloaded_s` by (IAD, node); `overheads` None if the records are too few; `unreadable` lines
    were left out, and lines that no master writes."""

    unloaded_s: dict[tuple[str, str], list[float]]
    overheads: Overheads | None
    unreadable: int

    def names(self) -> dict[str, list[str]]:
        """The nodes of each IAD, with n2 before n10."""
        by_iad: dict[str, list[str]] = {}
        for iad, node in sorted(self.unloaded_s, key=lambda at: (at[0], len(at[1]), at[1])):
            by_iad.setdefault(iad, []).append(node)
        return by_iad


NOTHING: Final = Measured({}, None, 0)


def read_measured(folders: Sequence[Path]) -> Measured:
    """Read all masters' records in these folders and below; ConfigError where there are none."""
    reader = _Reader()
    for folder in folders:
        files = sorted(path for path in folder.rglob("*.jsonl") if _holds_records(path))
        if not files:
            raise ConfigError(
                f"{folder}: no records: neither current.jsonl nor records-*.jsonl is there or below"
            )
        for path in files:
            try:
                reader.read(path)
            except OSError as error:
                raise ConfigError(f"{path}: {error.strerror}") from None
    return reader.measured()


class _ImpossibleError(Exception):
    """No master writes this."""


def _check_order(*times_ms: float) -> None:
    """ValueError unless the times of a record are ascending and the answer took no longer than
    permitted."""
    if not all(a <= b for a, b in itertools.pairwise((*times_ms, MAX_RECORD_MS))):
        raise _ImpossibleError


def _holds_records(path: Path) -> bool:
    return path.name == "current.jsonl" or path.name.startswith("records-")


class _Reader:
    def __init__(self) -> None:
        self._unloaded_s: dict[tuple[str, str], list[float]] = defaultdict(list)
        self._last_ms: dict[str, float] = {}  # of a task: when its last result arrived
        self._tasks: dict[str, TaskRecord] = {}
        self._queries: list[QueryRecord] = []
        self._unreadable = 0

    def read(self, path: Path) -> None:
        with path.open("rb") as file:
            for line in file:
                try:
                    self._add(decode_record(line))
                except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, _ImpossibleError):
                    # A torn or damaged line, or one of a later version.
                    self._unreadable += 1

    def _add(self, record: AnyRecord) -> None:
        match record:
            case SubtaskRecord(outcome="ok"):
                self._add_subtask(record)
            case TaskRecord(status="complete"):
                _check_order(0.0, record.evaluated_ms, record.aggregated_ms)
                self._tasks[record.task] = record
            case QueryRecord(status="complete"):
                _check_order(0.0, record.evaluated_ms or 0.0, record.aggregated_ms)
                self._queries.append(record)
            case _:
                pass

    def _add_subtask(self, record: SubtaskRecord) -> None:
        dispatched_ms, result_ms = record.dispatched_ms, record.result_ms
        if dispatched_ms is None or result_ms is None:
            return
        _check_order(0.0, dispatched_ms, result_ms)
        if not (NAME.match(record.iad) and NAME.match(record.node)):
            raise _ImpossibleError
        self._last_ms[record.task] = max(self._last_ms.get(record.task, 0.0), result_ms)
        # It was dispatched twice, so its time includes that of a broken link.
        if record.dispatches == 1:
            at = (record.iad, record.node)
            self._unloaded_s[at].append((result_ms - dispatched_ms) / 1e3)

    def measured(self) -> Measured:
        return Measured(dict(self._unloaded_s), self._overheads(), self._unreadable)

    def _overheads(self) -> Overheads | None:
        aggregation_ms = [
            max(0.0, task.aggregated_ms - self._last_ms[name])
            for name, task in self._tasks.items()
            if name in self._last_ms
        ]
        # Both durations are by their own master's clock: the difference is the travel time both
        # ways.
        way_ms = [
            query.aggregated_ms
            - (query.evaluated_ms or 0.0)
            - max(self._tasks[task].aggregated_ms for task in query.tasks)
            for query in self._queries
            if query.tasks and all(task in self._tasks for task in query.tasks)
        ]
        if min(len(aggregation_ms), len(way_ms)) < LEAST_MEASURED:
            return None
        evaluation_ms = fmean(query.evaluated_ms or 0.0 for query in self._queries)
        evaluation_ms += fmean(task.evaluated_ms for task in self._tasks.values())
        half_way_ms = max(0.0, fmean(way_ms)) / 2.0
        return Overheads(
            (evaluation_ms + half_way_ms) / 1e3, (fmean(aggregation_ms) + half_way_ms) / 1e3
        )
