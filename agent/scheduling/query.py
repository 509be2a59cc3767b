"""Query scheduler: area matching, task budgets, fan-out to IADs and gathering (DSSP Eq. 2)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from _core.orderstats import task_percentile
from agent.scheduling.aggregation import merge_missing, merge_results, unaccounted
from agent.scheduling.events import (
    Instruction,
    Peer,
    QueryArrived,
    QueryEvent,
    SendAnswer,
    SendTask,
    ServiceChanged,
    ServiceRemoved,
    TaskReturned,
    TaskUndeliverable,
    Tick,
    WriteRecord,
)
from agent.scheduling.query_entry import QueryEntry, Share
from agent.scheduling.records import query_record
from agent.scheduling.timers import Timers
from agent.wire.areas import covers, matching, overlaps
from agent.wire.base import LONGEST_TIMEOUT_MS
from agent.wire.messages import (
    Answer,
    AreaResult,
    Coverage,
    Missing,
    Query,
    Refusal,
    Status,
    Task,
    TaskReport,
    TaskResult,
)

# Share of the answer timeout kept back for a partial task result to travel home, and its cap.
RETURN_SHARE = 0.05
LONGEST_RETURN_S = 0.1
MOST_OPEN_QUERIES = 10_000
OVERLOADED = f"{MOST_OPEN_QUERIES} queries are open here; try again later"


class Member(Struct, frozen=True):
    """An IAD of the pool and the areas that it offers."""

    iad: str
    areas: tuple[str, ...]


class QueryScheduler:
    """Splits queries into one task per matched IAD and gathers their results into answers.

    `wall_offset_s` is wall time minus the monotonic clock of `now`; it dates the records only.
    `stopwatch` reads the clock that `now` comes from: it times evaluation and aggregation, and
    decides nothing; without one they take no time. `run` makes task ids unique across restarts.
    """

    def __init__(
        self,
        iad: str,
        pool: Sequence[Member],
        *,
        run: str,
        timeout_factor: float = 4.0,
        wall_offset_s: float = 0.0,
        stopwatch: Callable[[], float] | None = None,
    ) -> None:
        self._iad = iad
        self._stopwatch = stopwatch
        self._pool = tuple(pool)
        self._run = run
        self._timeout_factor = timeout_factor
        self._wall_offset_s = wall_offset_s
        self._task_count = 0
        self._open: dict[str, tuple[QueryEntry, Share]] = {}
        self._timers: Timers[QueryEntry] = Timers()
        self.counters = {"queries": 0, "late_or_unknown_task_results": 0}

    @property
    def open_queries(self) -> int:
        """Queries that wait for task results."""
        return len(self._timers)

    @property
    def next_tick(self) -> float | None:
        """When `Tick` is due next."""
        return self._timers.next_due()

    def handle(self, event: QueryEvent, now: float) -> list[Instruction]:
        """Take one event at monotonic time `now` (seconds); what to do follows, in order."""
        match event:
            case QueryArrived():
                return self._arrived(event.client, event.query, now)
            case TaskReturned():
                return self._returned(event.iad, event.result, now)
            case TaskUndeliverable():
                return self._undeliverable(event.iad, event.task_id, now)
            case ServiceChanged() | ServiceRemoved():
                raise NotImplementedError(event)
            case Tick():
                return [i for entry in self._timers.due(now) for i in self._timed_out(entry, now)]

    def _arrived(self, client: Peer, query: Query, now: float) -> list[Instruction]:
        self.counters["queries"] += 1
        entry = QueryEntry(client, query, now)
        if query.service != "default":
            return self._refuse(
                entry, "unknown_service", f"no service {query.service!r} here; use 'default'", now
            )
        if self.open_queries >= MOST_OPEN_QUERIES:
            return self._refuse(entry, "overloaded", OVERLOADED, now)
        areas = list(dict.fromkeys(query.areas))
        matched = []
        for member in self._pool:
            asked = [a for a in areas if any(overlaps(a, d) for d in member.areas)]
            if asked:
                matched.append((member, asked))
        covered = {area for _, asked in matched for area in asked}
        entry.unmatched = [a for a in areas if a not in covered]
        if not matched:
            return self._answer(entry, now)

        timeout_ms = query.timeout_ms or query.slo.latency_ms * self._timeout_factor
        timeout_s = min(timeout_ms, LONGEST_TIMEOUT_MS) / 1e3
        entry.task_percentile = task_percentile(query.slo.percentile, len(matched))
        instructions: list[Instruction] = []
        for member, asked in matched:
            self._task_count += 1
            task = Task(
                id=f"{self._run}-{self._task_count}",
                areas=tuple(asked),
                window=query.window,
                percentile=entry.task_percentile,
                budget_ms=query.slo.latency_ms,
                timeout_ms=(timeout_s - min(RETURN_SHARE * timeout_s, LONGEST_RETURN_S)) * 1e3,
                channels=query.channels,
                form=query.form,
                service=query.service,
                label=query.label,
                emulation_seed=query.emulation_seed,
            )
            share = Share(member.iad, task, _expected_areas(asked, member.areas))
            entry.shares.append(share)
            self._open[task.id] = (entry, share)
            instructions.append(SendTask(member.iad, task))
        entry.pending = len(entry.shares)
        entry.evaluated_s = self._read(now)
        entry.timer = self._timers.set(now + timeout_s, entry)
        entry.become("open")
        return instructions

    def _returned(self, iad: str, result: TaskResult, now: float) -> list[Instruction]:
        entry, share = self._open.get(result.id, (None, None))
        if entry is None or share is None or share.iad != iad:
            self.counters["late_or_unknown_task_results"] += 1
            return []
        share.result = result if iad == self._iad else _within(result, share.asked)
        if result.status == "refused":
            self._close(entry)
            return self._refuse(entry, result.reason or "malformed", result.message, now)
        return self._settled(entry, share, now)

    def _undeliverable(self, iad: str, task_id: str, now: float) -> list[Instruction]:
        entry, share = self._open.get(task_id, (None, None))
        if entry is None or share is None or share.iad != iad:
            return []
        share.gap = "iad_unreachable"
        return self._settled(entry, share, now)

    def _settled(self, entry: QueryEntry, share: Share, now: float) -> list[Instruction]:
        del self._open[share.task_id]
        entry.pending -= 1
        if entry.pending:
            return []
        self._close(entry)
        return self._answer(entry, now)

    def _timed_out(self, entry: QueryEntry, now: float) -> list[Instruction]:
        entry.timer = -1
        self._close(entry)
        return self._answer(entry, now)

    def _close(self, entry: QueryEntry) -> None:
        if entry.timer >= 0:
            self._timers.cancel(entry.timer)
            entry.timer = -1
        for share in entry.shares:
            self._open.pop(share.task_id, None)

    def _answer(self, entry: QueryEntry, now: float) -> list[Instruction]:
        results: list[AreaResult] = []
        missing = [Missing(area, "no_node") for area in entry.unmatched]
        reports = []
        for share in entry.shares:
            gaps, coverage, total_ms = _accounted(share, (now - entry.received_s) * 1e3)
            missing.extend(gaps)
            if share.result is not None:
                results.extend(share.result.results)
            reports.append(
                TaskReport(
                    share.iad,
                    entry.task_percentile,
                    entry.query.slo.latency_ms,
                    coverage,
                    total_ms,
                )
            )
        merged = merge_results(results)
        unanswered = merge_missing(missing, merged)
        status: Status = "partial" if unanswered else "complete"
        entry.become(status)
        elapsed_ms = (self._read(now) - entry.received_s) * 1e3
        answer = Answer(
            id=entry.query.id,
            status=status,
            elapsed_ms=elapsed_ms,
            slo_met=status == "complete" and elapsed_ms <= entry.query.slo.latency_ms,
            coverage=Coverage(len(merged), len(merged) + len(unanswered)),
            results=merged,
            missing=unanswered,
            tasks=tuple(reports),
        )
        return [SendAnswer(entry.client, answer), self._record(entry, answer)]

    def _refuse(
        self, entry: QueryEntry, reason: Refusal, message: str, now: float
    ) -> list[Instruction]:
        entry.become("refused")
        answer = Answer(
            id=entry.query.id,
            status="refused",
            elapsed_ms=(self._read(now) - entry.received_s) * 1e3,
            slo_met=False,
            coverage=Coverage(0, len(entry.query.areas)),
            reason=reason,
            message=message,
        )
        return [SendAnswer(entry.client, answer), self._record(entry, answer)]

    def _read(self, now: float) -> float:
        return now if self._stopwatch is None else self._stopwatch()

    def _record(self, entry: QueryEntry, answer: Answer) -> WriteRecord:
        return WriteRecord(query_record(self._iad, entry, answer, self._wall_offset_s))

    def check_invariants(self) -> None:
        """For tests: what must hold between any two events."""
        entries = {id(entry): entry for entry, _ in self._open.values()}.values()
        assert len(entries) == len(self._timers)
        for entry in entries:
            assert entry.state == "open"
            waiting = [s for s in entry.shares if s.task_id in self._open]
            assert entry.pending == len(waiting) > 0
            assert all(s.result is None for s in waiting)


def _within(result: TaskResult, asked: Sequence[str]) -> TaskResult:
    """A result without what nobody asked that IAD: it speaks for no other."""
    return replace(
        result,
        results=tuple(r for r in result.results if any(covers(a, r.area) for a in asked)),
        missing=tuple(g for g in result.missing if any(overlaps(a, g.area) for a in asked)),
    )


def _accounted(share: Share, waited_ms: float) -> tuple[list[Missing], Coverage, float]:
    """What one IAD left missing, its coverage, and its total time in milliseconds."""
    result = share.result
    if result is None:
        gaps = [Missing(area, share.gap) for area in share.areas]
        return gaps, Coverage(0, len(gaps)), waited_ms
    answered = [r.area for r in result.results]
    known = answered + [gap.area for gap in result.missing]
    # The IAD declares areas for which no node ever said hello.
    gaps = [*result.missing, *(Missing(a, "no_node") for a in unaccounted(share.areas, known))]
    asked = len(answered) + len(merge_missing(gaps, result.results))
    return gaps, Coverage(len(answered), asked), result.total_ms


def _expected_areas(asked: Sequence[str], declared: Sequence[str]) -> list[str]:
    """What an IAD that stays silent leaves unanswered: its declared areas below the asked ones,
    and asked areas finer than any it declared."""
    below = matching(asked, declared)
    return below + [a for a in asked if a not in below and not matching([a], declared)]
