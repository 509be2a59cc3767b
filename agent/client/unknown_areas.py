"""Areas of a query that nobody knows: mistakes of the query, which make no answer partial."""

from __future__ import annotations

from msgspec.structs import replace

from agent.wire.messages import Answer, Coverage, Missing, Slo


def is_unknown(gap: Missing) -> bool:
    """Whether nobody knows such an area."""
    # Masters of an earlier version say so only where they have a suggestion.
    return gap.reason == "no_node" and (gap.unknown or bool(gap.nearest))


def without_unknown(answer: Answer, slo: Slo) -> Answer:
    """The answer about the areas that there are; its coverage is 0 of 0 if there are none."""
    left = tuple([gap for gap in answer.missing if not is_unknown(gap)])
    if len(left) == len(answer.missing):
        return answer
    asked = max(0, answer.coverage.asked - (len(answer.missing) - len(left)))
    there = replace(answer, missing=left, coverage=Coverage(answer.coverage.answered, asked))
    if left:
        return there
    return replace(there, status="complete", slo_met=answer.elapsed_ms <= slo.latency_ms)
