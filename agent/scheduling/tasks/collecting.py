"""Results of subtasks, added to their task in the form asked for."""

from __future__ import annotations

from agent.scheduling.buckets import buckets_of, checked
from agent.scheduling.channels import channels_of, only
from agent.scheduling.tasks.entry import SubtaskEntry
from agent.wire.base import RAW
from agent.wire.buckets import Buckets
from agent.wire.codec import MAX_SUBTASK_SERIES_BYTES
from agent.wire.messages import AreaResult, MissingReason
from agent.wire.node_messages import SubtaskResult
from agent.wire.records import SubtaskOutcome
from agent.wire.too_large import bytes_of


def collect(subtask: SubtaskEntry, result: SubtaskResult) -> SubtaskOutcome:
    """Add what was asked of a subtask's result to its task; returns the outcome for the record. It
    is `cancelled` if the shared budget of all answers is used up: give up the task."""
    entry = subtask.parent
    form = entry.task.form
    result = only(entry.channels, result)
    series = result.series if form == "series" else None
    aggregate = result.aggregate if form == "aggregate" else None
    buckets: Buckets | None = None
    if form == "buckets" and result.outcome == "ok":
        try:
            buckets = _buckets(subtask, result)
        except ValueError as error:
            subtask.lose("node_error", message=f"a result that cannot be true: {error}")
            return "node_error"
    found = [AreaResult(area, series, aggregate, buckets=buckets) for area in subtask.areas]
    there = series is not None or aggregate is not None or buckets is not None
    none_asked = there and not channels_of(found[0])  # it had others only
    if result.outcome == "ok" and there and not none_asked:
        before = entry.room.taken
        if result.series is not None:
            length_s = max(1.0, entry.task.window.length_s)
            subtask.node.bytes_per_s = bytes_of(result.series) / length_s
        for each in found:
            if not entry.room.takes_result(each):
                subtask.lose_too_large(entry.beyond(), entry.room.most)
                return "too_large"
            entry.results.append(each)
        return "ok" if entry.held.grow(entry.room.taken - before) else "cancelled"
    if result.outcome == "error" and result.too_large is not None:
        subtask.lose_too_large(result.too_large, MAX_SUBTASK_SERIES_BYTES)
        return "too_large"
    has_none = result.outcome == "no_data" or (result.outcome == "ok" and none_asked)
    if has_none and _lacks_channels(subtask):
        subtask.lose("no_channel", () if subtask.parent.limited else subtask.node.hello.channels)
        return "no_channel"
    reason: MissingReason = "no_data" if has_none else "node_error"
    subtask.lose(reason)
    return reason


def _buckets(subtask: SubtaskEntry, result: SubtaskResult) -> Buckets | None:
    """Those that the node made; made here of the series of a node of an earlier version. ValueError
    if they cannot be."""
    task = subtask.parent.task
    if result.buckets is not None:
        return checked(result.buckets, task.window, task.bucket_ms)
    if result.series is None or not len(result.series.time_ms):
        return None
    return buckets_of(result.series, task.window, task.bucket_ms)


def _lacks_channels(subtask: SubtaskEntry) -> bool:
    """Whether its node has none of the channels asked for. Checked only after the node was asked,
    since a history keeps readings under a name that was changed since."""
    asked, there = subtask.parent.channels, subtask.node.hello.channels
    return bool(asked) and not any(name.removesuffix(RAW) in there for name in asked)
