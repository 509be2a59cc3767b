"""Completion of subtasks and tasks: with a result, without one, refused or cancelled.

Each gets exactly one record, whatever the outcome; a task's result is sent unless it was cancelled.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeVar

from msgspec import UNSET
from msgspec.structs import replace

from agent.scheduling.admission import Refused
from agent.scheduling.aggregation import merge_missing, merge_results
from agent.scheduling.events import Instruction, Peer, SendTaskResult, WriteRecord
from agent.scheduling.result_budget import as_known, without_parts
from agent.scheduling.stale import LastKnown, fill, nothing_known
from agent.scheduling.tasks.entry import SubtaskEntry, TaskEntry
from agent.scheduling.tasks.node_membership import Unserved
from agent.scheduling.tasks.records import subtask_record, task_record
from agent.scheduling.timers import Timers
from agent.wire.base import Form
from agent.wire.messages import AnswerStatus, AreaResult, Missing, MissingReason, TaskResult
from agent.wire.node_messages import SubtaskResult
from agent.wire.records import SubtaskOutcome

A = TypeVar("A", AreaResult, Missing)

# How often a task that is late looks for nodes that were lost since.
LOOK_S: Final = 1.0


class TaskEnds:
    """The open tasks of one IAD, and their answer timeouts. `read` gives the time that results and
    records state; `last_known` what clones keep of areas without a live answer; `names` are
    those of rooms, by area."""

    def __init__(
        self,
        iad: str,
        counters: dict[str, int],
        read: Callable[[float], float],
        wall_offset: Callable[[], float],
        last_known: LastKnown = nothing_known,
        names: Mapping[str, str] | None = None,
    ) -> None:
        self._iad = iad
        self._last_known = last_known
        self._names = names or {}
        self._counters = counters
        self._read = read
        self._wall_offset = wall_offset
        self.open: dict[tuple[Peer, str], TaskEntry] = {}
        self.timeouts: Timers[TaskEntry] = Timers()

    def give_up(self, unserved: Unserved, now: float, instructions: list[Instruction]) -> None:
        """Settle a subtask without a result; it has left its queue."""
        subtask, reason, message = unserved
        subtask.become("expired" if subtask.state == "queued" else "abandoned")
        subtask.lose(reason, message=message)
        self.settle(subtask, reason, now, None, instructions)

    def settle(
        self,
        subtask: SubtaskEntry,
        outcome: SubtaskOutcome,
        now: float,
        result: SubtaskResult | None,
        instructions: list[Instruction],
    ) -> None:
        """End the subtask's task if it was the last one, and record the subtask: who asked does not
        wait for the record."""
        entry = subtask.parent
        entry.pending.discard(subtask)
        if not entry.pending:
            instructions += self.finish(entry, now)
        record = subtask_record(subtask, outcome, result, now)
        self._counters["subtasks"] += 1
        if record.missed_deadline:
            self._counters["deadlines_missed"] += 1
        instructions.append(WriteRecord(record))

    def finish(self, entry: TaskEntry, now: float) -> list[Instruction]:
        """The task has no pending subtask: send its result."""
        if entry.timer >= 0:
            self.timeouts.cancel(entry.timer)
            entry.timer = -1
        self.open.pop((entry.origin, entry.task.id), None)
        if entry.state == "cancelled":
            return self._end(entry, None, self._read(now))
        if entry.refused is not None:
            return self._refusal(entry, entry.refused, now)
        results = merge_results(without_parts(entry.results, entry.missing))
        missing = as_known(
            merge_missing(entry.missing, results), takes_too_large=entry.task.takes_too_large
        )
        status: AnswerStatus = "partial" if missing else "complete"
        stale: tuple[AreaResult, ...] = ()
        if missing and (task := entry.task).stale_ok:
            form: Form = "series" if task.form == "series" else "aggregate"
            missing, stale = fill(
                missing, results, entry.within, entry.channels, form, self._last_known
            )
        entry.become(status)
        ended_s = self._read(now)
        result = TaskResult(
            id=entry.task.id,
            status=status,
            total_ms=(ended_s - entry.received_s) * 1e3,
            results=self._named(results + stale),
            missing=self._named(missing),
        )
        return self._end(entry, result, ended_s)

    def _named(self, areas: tuple[A, ...]) -> tuple[A, ...]:
        names = self._names
        if not names:
            return areas
        return tuple(
            [replace(each, name=names[each.area]) if each.area in names else each for each in areas]
        )

    def refuse(self, entry: TaskEntry, refused: Refused, now: float) -> list[Instruction]:
        """End a task of which nothing is asked."""
        entry.become("refused")
        if self.open.get((entry.origin, entry.task.id)) is entry:
            del self.open[entry.origin, entry.task.id]
        return self._refusal(entry, refused, now)

    def _refusal(self, entry: TaskEntry, refused: Refused, now: float) -> list[Instruction]:
        self._counters[f"tasks_refused_{refused.reason}"] += 1
        ended_s = self._read(now)
        result = TaskResult(
            id=entry.task.id,
            status="refused",
            total_ms=(ended_s - entry.received_s) * 1e3,
            reason=refused.reason,
            message=refused.message,
            would_keep=entry.would_keep or UNSET,
        )
        return self._end(entry, result, ended_s)

    def _end(
        self, entry: TaskEntry, result: TaskResult | None, ended_s: float
    ) -> list[Instruction]:
        """Record a task, and send its result unless it was cancelled."""
        record = WriteRecord(task_record(self._iad, entry, result, ended_s, self._wall_offset()))
        entry.held.release()
        entry.held_areas.release()
        # Subtasks that pods still work on would keep them.
        entry.results = []
        return [record] if result is None else [SendTaskResult(entry.origin, result), record]

    def wait(self, entry: TaskEntry, until_s: float) -> None:
        """Have the task's timer fire then, or at its answer timeout."""
        entry.timer = self.timeouts.set(min(until_s, entry.timeout_s), entry)

    def overdue(self, entry: TaskEntry, now: float) -> list[Instruction]:
        """Its timer fired: its time is over, so subtasks of lost nodes are given up, and at the
        answer timeout all."""
        entry.timer = -1
        instructions: list[Instruction] = []
        for subtask in _by_node(entry):
            reason: MissingReason = "timeout" if subtask.node.state == "live" else "node_down"
            if reason == "timeout" and now < entry.timeout_s:
                continue
            if subtask.state == "queued":
                subtask.node.queue.remove(subtask.handle)
            self.give_up(Unserved(subtask, reason), now, instructions)
        if entry.pending:
            self.wait(entry, now + LOOK_S)
        return instructions

    def cancel(self, entry: TaskEntry, now: float) -> list[Instruction]:
        """The result is no longer wanted; running subtasks are left to finish and their results
        discarded."""
        self._counters["cancelled"] += 1
        entry.become("cancelled")
        if not entry.pending:
            return self.finish(entry, now)
        instructions: list[Instruction] = []
        self._withdraw(entry, now, instructions)
        return instructions

    def refuse_open(
        self, entry: TaskEntry, refused: Refused, now: float, instructions: list[Instruction]
    ) -> None:
        """Refuse a task whose subtasks are in flight; one of them may just have returned."""
        entry.become("refused")
        entry.refused = refused
        self._withdraw(entry, now, instructions)

    def _withdraw(self, entry: TaskEntry, now: float, instructions: list[Instruction]) -> None:
        for subtask in _by_node(entry):
            if subtask.state == "queued":
                subtask.node.queue.remove(subtask.handle)
                subtask.become("expired")
            elif subtask.state == "dispatched":
                subtask.become("abandoned")
            # For the record alone: it states how much was asked.
            subtask.lose("timeout")
            self.settle(subtask, "cancelled", now, None, instructions)

    def ask_no_more(self, full: SubtaskEntry, now: float, instructions: list[Instruction]) -> None:
        """Give up queued subtasks of a task whose result is full: their readings would not fit."""
        for subtask in _by_node(full.parent):
            if subtask is not full and subtask.state == "queued":
                subtask.node.queue.remove(subtask.handle)
                subtask.become("expired")
                subtask.lose_too_large(full.parent.beyond(), full.parent.room.most)
                self.settle(subtask, "too_large", now, None, instructions)


def _by_node(entry: TaskEntry) -> list[SubtaskEntry]:
    """The pending subtasks, in an order that does not depend on memory addresses."""
    return sorted(entry.pending, key=lambda subtask: subtask.node.name)
