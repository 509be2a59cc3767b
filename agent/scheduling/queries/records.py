"""The record of a query."""

from __future__ import annotations

from agent.scheduling.queries.entry import QueryEntry
from agent.wire.messages import Answer
from agent.wire.records import QueryRecord


def query_record(iad: str, entry: QueryEntry, answer: Answer, wall_offset_s: float) -> QueryRecord:
    """A query that was answered or refused."""
    query = entry.query
    start_s = entry.received_s
    return QueryRecord(
        iad=iad,
        wall_ms=round((start_s + wall_offset_s) * 1e3),
        start_s=start_s,
        query=query.id,
        service=query.service,
        label=query.label,
        areas=query.areas,
        percentile=query.slo.percentile,
        slo_ms=query.slo.latency_ms,
        status=answer.status,
        reason=answer.reason,
        slo_met=answer.slo_met,
        answered=answer.coverage.answered,
        asked=answer.coverage.asked,
        tasks=tuple(share.task_id for share in entry.shares),
        task_percentile=entry.task_percentile,
        evaluated_ms=None if entry.evaluated_s is None else (entry.evaluated_s - start_s) * 1e3,
        aggregated_ms=answer.elapsed_ms,
        client=entry.sender.name if entry.sender.role == "client" else "",
    )
