"""Latencies of the gateway's own queries, against their objectives and budgets."""

from __future__ import annotations

from collections import Counter, deque
from typing import Any, Final

from msgspec import Struct

from agent.client.unknown_areas import without_unknown
from agent.wire.messages import Answer, AnswerStatus, Coverage, Slo, TaskReport

KEPT: Final = 200  # of one kind
MAX_KINDS: Final = 64
# Answers of all kinds, and their tasks: a page of so many has some 5 MB, and is made in one turn.
MAX_PARTS: Final = 40_000


class Seen(Struct, frozen=True):
    """One answer. `missing` counts the areas without an answer by reason; `reason` is that of a
    refusal."""

    time_ms: int
    status: AnswerStatus
    elapsed_ms: float
    slo_met: bool
    coverage: Coverage
    tasks: tuple[TaskReport, ...]
    missing: dict[str, int]
    reason: str


class Kind(Struct, frozen=True):
    """The answers to queries of one label to one service with one objective, the newest last.
    `late` are those of them that took longer than that, or were refused; `partial` those in time
    that lack areas: a node that is down makes no answer late."""

    label: str
    service: str
    percentile: float
    latency_ms: float
    count: int
    late: int
    partial: int
    answers: list[Seen]


class _Kept:
    def __init__(self, caller: str) -> None:
        self.caller = caller
        self.count = self.late = self.partial = 0
        self.parts = 0
        self.seen: deque[Seen] = deque()

    def forget_oldest(self) -> None:
        self.parts -= _parts(self.seen.popleft())


class Deadlines:
    """The last answers of each kind. Clients choose labels and objectives: beyond `MAX_KINDS` the
    client that brought most loses the one that it used longest ago, and beyond `MAX_PARTS` the one
    with most parts the oldest answer of its largest kind."""

    def __init__(self) -> None:
        self._kinds: dict[tuple[str, str, float, float], _Kept] = {}

    def took(
        self, label: str, service: str, slo: Slo, answer: Answer, now_ms: int, caller: str = ""
    ) -> None:
        """Note an answer to a client, or to the gateway itself. Areas that nobody knows do not
        count; an answer about nothing else is not noted."""
        is_whole = answer.status != "partial"
        answer = without_unknown(answer, slo)
        if not (is_whole or answer.coverage.asked):
            return
        key = (label, service, slo.percentile, slo.latency_ms)
        kept = self._kinds.pop(key, None) or _Kept(caller)
        self._kinds[key] = kept  # the one asked last is forgotten last
        if len(self._kinds) > MAX_KINDS:
            callers = Counter(each.caller for each in self._kinds.values())
            ((most, _),) = callers.most_common(1)
            del self._kinds[next(key for key, each in self._kinds.items() if each.caller == most)]
        missing: dict[str, int] = {}
        for gap in answer.missing:
            missing[gap.reason] = missing.get(gap.reason, 0) + 1
        kept.count += 1
        partial = answer.status == "partial" and answer.elapsed_ms <= slo.latency_ms
        kept.partial += partial
        kept.late += not (answer.slo_met or partial)
        seen = Seen(
            now_ms,
            answer.status,
            answer.elapsed_ms,
            answer.slo_met,
            answer.coverage,
            answer.tasks,
            missing,
            answer.reason or "",
        )
        kept.seen.append(seen)
        kept.parts += _parts(seen)
        if len(kept.seen) > KEPT:
            kept.forget_oldest()
        while sum(each.parts for each in self._kinds.values()) > MAX_PARTS:
            self._largest().forget_oldest()

    def _largest(self) -> _Kept:
        """The largest kind of the client that has most. O(kinds)."""
        parts: Counter[str] = Counter()
        for each in self._kinds.values():
            parts[each.caller] += each.parts
        ((most, _),) = parts.most_common(1)
        return max(
            (each for each in self._kinds.values() if each.caller == most),
            key=lambda each: each.parts,
        )

    def kinds(self) -> list[Kind]:
        """All of them, sorted by label."""
        return [
            Kind(*key, kept.count, kept.late, kept.partial, list(kept.seen))
            for key, kept in sorted(self._kinds.items())
        ]

    def numbers(self) -> list[tuple[dict[str, str], dict[str, Any]]]:
        """For metrics: labels, and counts, whatever the objective was."""
        found: dict[tuple[str, str], Counter[str]] = {}
        for (label, service, *_), kept in sorted(self._kinds.items()):
            counts = {"count": kept.count, "late": kept.late, "partial": kept.partial}
            found.setdefault((label, service), Counter()).update(counts)
        return [
            ({"label": label, "service": service}, dict(counts))
            for (label, service), counts in found.items()
        ]


def _parts(seen: Seen) -> int:
    return 1 + len(seen.tasks)
