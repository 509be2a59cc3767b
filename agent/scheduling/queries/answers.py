"""Replies to clients: the answer assembled from a query's shares, or its refusal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from operator import attrgetter
from typing import Final, get_args

from msgspec.structs import replace

from agent.scheduling.admission import Refused
from agent.scheduling.aggregation import merge_missing, merge_results, unaccounted
from agent.scheduling.buckets import checked
from agent.scheduling.channels import channels_of, only
from agent.scheduling.held import with_held
from agent.scheduling.plausible import implausible
from agent.scheduling.queries.entry import QueryEntry, Share
from agent.scheduling.queries.infeasible import instead
from agent.scheduling.result_budget import ResultBudget, as_known, gap_of, without_parts
from agent.scheduling.shared_budget import FULL
from agent.scheduling.stale import fresher
from agent.wire.areas import AreaSet
from agent.wire.base import MAX_TEXT, QueryForm
from agent.wire.messages import (
    Answer,
    AnswerStatus,
    AreaResult,
    Coverage,
    Missing,
    Task,
    TaskReport,
    TaskResult,
)

# Why a whole IAD's areas are missing.
SILENT: Final[dict[str, str]] = {
    "iad_unreachable": "{}'s master did not answer",
    "timeout": "{}'s master gave no answer before the answer timeout",
}
# That one IAD may have results for, and gaps; each costs the loop a microsecond or more.
MAX_AREAS_TOLD: Final = 1 << 16
# The fields of a result, of which it has the one that was asked for.
FORMS: Final = get_args(QueryForm)


def gather(entry: QueryEntry, now: float, read: Callable[[float], float]) -> Answer:
    """The answer from the results at `now`; `read(now)` is its completion time. O(results)."""
    waited_ms = (now - entry.received_s) * 1e3
    results: list[AreaResult] = []
    missing: list[Missing] = []
    stale: list[AreaResult] = []
    reports = []
    for share in entry.shares:
        if share.cancelled:
            continue
        stale.extend(share.stale)
        gaps, coverage, total_ms = _accounted(share, waited_ms)
        missing.extend(gaps)
        if share.result is not None:
            results.extend(share.result.results)
        reports.append(
            TaskReport(
                share.iad, entry.task_percentile, entry.query.slo.latency_ms, coverage, total_ms
            )
        )
    if entry.firsts is not None:
        results, missing = entry.firsts.results, entry.firsts.unsettled(missing)
    else:
        results = without_parts(results, missing)
    merged = merge_results(results)
    unanswered = as_known(
        merge_missing([*entry.unmatched, *missing], merged),
        takes_too_large=entry.query.takes_too_large,
    )
    status: AnswerStatus = "partial" if unanswered else "complete"
    elapsed_ms = (read(now) - entry.received_s) * 1e3
    return Answer(
        id=entry.query.id,
        status=status,
        elapsed_ms=elapsed_ms,
        slo_met=status == "complete" and elapsed_ms <= entry.query.slo.latency_ms,
        coverage=Coverage(len(merged), len(merged) + len(unanswered)),
        results=_in_order(with_held(merged, entry.query.window.length_s), fresher(stale, merged)),
        missing=unanswered,
        tasks=tuple(reports),
    )


def _in_order(live: tuple[AreaResult, ...], stale: Sequence[AreaResult]) -> tuple[AreaResult, ...]:
    return tuple(sorted([*live, *stale], key=attrgetter("area"))) if stale else live


def apart(result: TaskResult) -> tuple[TaskResult, tuple[AreaResult, ...]]:
    """The result without last known values, and these."""
    stale = tuple([each for each in result.results if each.stale_ms is not None])
    if not stale:
        return result, ()
    live = tuple([each for each in result.results if each.stale_ms is None])
    return replace(result, results=live), stale


def fitting(entry: QueryEntry, share: Share, result: TaskResult) -> TaskResult:
    """The result of that share reduced to the size that an answer may have: areas that do not fit
    become missing. An IAD that sent more than this one makes room for it: no IAD shall take the
    places of the others. If the shared budget of all answers is used up, the result becomes a
    refusal."""
    room, firsts = entry.room, entry.firsts
    before, refused = room.taken, room.refused
    room.taken += sum([len(gap.message) for gap in result.missing])
    counted = [each for each in result.results if firsts is None or each.area not in firsts]
    beyond = [each for each in counted if not room.takes_result(each)]
    if beyond and (larger := _larger(entry, counted)) is not None:
        room.refused = refused
        before -= _leave_out(entry, larger)
        beyond = [each for each in beyond if not room.takes_result(each)]
    if not entry.held.grow(room.taken - before):
        return TaskResult(result.id, "refused", result.total_ms, reason="overloaded", message=FULL)
    share.taken = room.taken - before
    return _without(entry, result, {each.area for each in beyond}) if beyond else result


def _larger(entry: QueryEntry, results: Iterable[AreaResult]) -> Share | None:
    """The IAD whose results take most, if that is more than these would; first answers to redundant
    tasks stay."""
    largest = max(entry.shares, key=attrgetter("taken"))
    less = ResultBudget(largest.taken - 1)
    fit = all(less.takes_result(each) for each in results)
    return largest if fit and entry.firsts is None else None


def _leave_out(entry: QueryEntry, share: Share) -> int:
    """Take its results and the words of its gaps out of the answer; the bytes that this frees."""
    assert share.result is not None
    areas = {each.area for each in share.result.results}
    taken, share.taken = share.taken, 0
    entry.room.leave_out(areas, taken)
    entry.held.grow(-taken)
    gaps = tuple([replace(gap, message="") for gap in share.result.missing])
    share.result = _without(entry, replace(share.result, missing=gaps), areas)
    return taken


def _without(entry: QueryEntry, result: TaskResult, beyond: Collection[str]) -> TaskResult:
    """The result without these areas, which are too large."""
    room = entry.room
    come = len(entry.shares) - entry.pending + 1
    timed = entry.query.form in ("series", "aggregate")
    length_s = entry.query.window.length_s if timed else 0.0
    found = room.told(length_s, len(entry.shares), come)
    names = {each.area: each.name for each in result.results}
    return replace(
        result,
        status="partial",
        results=tuple(each for each in result.results if each.area not in beyond),
        missing=(
            *result.missing,
            *(gap_of(area, found, room.most, names[area]) for area in sorted(beyond)),
        ),
    )


def stale_fitting(entry: QueryEntry, stale: tuple[AreaResult, ...]) -> tuple[AreaResult, ...]:
    """The last known values that the query takes and that still fit into its answer."""
    if not entry.query.stale_ok:
        return ()
    room = entry.room
    before = room.taken
    fits = tuple([each for each in stale if room.takes_result(each)])
    return fits if entry.held.grow(room.taken - before) else ()


def came_late(entry: QueryEntry, answer: Answer, now: float) -> bool:
    """Whether a better place in the queues might have kept the SLO. Areas without a node make no
    query late, and waiting for a node or a master that is down says nothing about queues."""
    down = any(gap.reason in ("node_down", "iad_unreachable") for gap in answer.missing)
    return (now - entry.received_s) * 1e3 > entry.query.slo.latency_ms and not down


def why_refused(entry: QueryEntry, refusing: TaskResult) -> Refused:
    """The reason of the task that refuses the query, with objectives that could be kept."""
    message = ""
    if refusing.reason == "infeasible":
        refusals = [each.refusal for each in entry.refused if each.refusal is not None]
        told = [each for each in refusals if each.reason == "infeasible"]
        message = instead(entry.query.slo, entry.task_percentile, told)
    return Refused(refusing.reason or "malformed", message or refusing.message)


def refusal(entry: QueryEntry, refused: Refused, elapsed_ms: float) -> Answer:
    """The answer to a refused query."""
    return Answer(
        id=entry.query.id,
        status="refused",
        elapsed_ms=elapsed_ms,
        slo_met=False,
        coverage=Coverage(0, len(entry.query.areas)),
        reason=refused.reason,
        message=refused.message,
    )


def named(refused: TaskResult, iad: str) -> TaskResult:
    """Another IAD's refusal, with its name: one that refuses all refuses each query for its
    areas."""
    text = f"{iad} refuses: {refused.message}" if refused.message else f"{iad} refuses"
    return replace(refused, message=text[:MAX_TEXT])


def within(result: TaskResult, share: Share) -> TaskResult:
    """A result restricted to the areas asked of that IAD; it may not answer for others."""
    areas = AreaSet(share.asked) if share.allowed is None else share.allowed
    return replace(
        result,
        results=tuple([r for r in result.results if areas.covers(r.area)]),
        missing=tuple([gap for gap in result.missing if areas.overlaps(gap.area)]),
    )


def plausible(result: TaskResult, task: Task, iad: str) -> TaskResult:
    """Another IAD's result without what cannot be true or was not asked: those areas are missing,
    unless they have a channel that was. Of areas without end the first are taken. O(readings), in
    compiled code."""
    if max(len(result.results), len(result.missing)) > MAX_AREAS_TOLD:
        result = replace(
            result,
            results=result.results[:MAX_AREAS_TOLD],
            missing=result.missing[:MAX_AREAS_TOLD],
        )
    areas = Counter([each.area for each in result.results])
    gaps = {
        each.area: why
        for each in result.results
        if (why := _unlike(each, task) or implausible(each) or _repeated(areas[each.area]))
    }
    if not gaps and not task.channels:
        return result
    told = [
        Missing(area, "node_error", message=f"a result of {iad} that cannot be true: {why}")
        for area, why in gaps.items()
    ]
    there = [only(task.channels, each) for each in result.results if each.area not in gaps]
    if task.form != "about":
        told += [Missing(r.area, "no_channel", name=r.name) for r in there if not channels_of(r)]
        there = [each for each in there if channels_of(each)]
    return replace(
        result,
        status="partial" if told else result.status,
        results=tuple(there),
        missing=(*result.missing, *told),
    )


def _unlike(result: AreaResult, task: Task) -> str:
    """Why this is no result of that task; empty: it may be one."""
    if [form for form in FORMS if getattr(result, form) is not None] != [task.form]:
        return f"form {task.form} alone was asked"
    if result.buckets is not None:
        try:
            checked(result.buckets, task.window, task.bucket_ms)
        except ValueError as error:
            return str(error)
    return ""


def _repeated(times: int) -> str:
    return "its area comes more than once" if times > 1 else ""


def _accounted(share: Share, waited_ms: float) -> tuple[list[Missing], Coverage, float]:
    """One IAD's missing areas, its coverage, and its total time in milliseconds."""
    result = share.result
    if result is None:
        why = share.why or SILENT.get(share.gap, "").format(share.iad)
        gaps = [Missing(area, share.gap, message=why) for area in share.areas]
        return gaps, Coverage(0, len(gaps)), waited_ms
    answered = [r.area for r in result.results]
    known = answered + [gap.area for gap in result.missing]
    # The IAD declares areas for which no node has said hello.
    gaps = [*result.missing, *(Missing(a, "no_node") for a in unaccounted(share.areas, known))]
    asked = len(answered) + len(merge_missing(gaps, result.results))
    # It took no longer than it was waited for, whatever it says.
    total_ms = max(0.0, min(result.total_ms, waited_ms))
    return gaps, Coverage(len(answered), asked), total_ms
