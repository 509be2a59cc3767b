"""Checker of a history against the promises to clients; pure. A line for each broken promise."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from agent.wire.base import TIMEOUT_FACTOR
from lab.chaos.fault_plan import START_S
from lab.chaos.history import Asked, History

LATENCY_MS: Final = 500.0
# From the answer timeout until a client on a busy machine has the answer.
TRAVEL_S: Final = 2.0


def broken(history: History) -> list[str]:
    """The promises that were broken. O(n log n) in what was seen."""
    return [
        *_answers(history),
        *_rounds(history),
        *_alerts(history),
        *_outputs(history),
        *_owners(history),
        *(f"a process ended by itself: {each}" for each in history.ended),
    ]


def _answers(history: History) -> Iterator[str]:
    """Complete or honestly partial, and in time, but where the master itself was away."""
    limit_s = LATENCY_MS * TIMEOUT_FACTOR / 1e3 + TRAVEL_S
    for each in history.asked:
        where = f"query at {each.at_s:.1f} s to {each.master}"
        named = {area for area, _ in each.gaps}
        if each.status == "no reply":
            if not _away(history, each):
                yield f"{where}: no reply, and it was not away"
            continue
        if each.status not in ("complete", "partial"):
            yield f"{where}: {each.status}"
        if each.until_s - each.at_s > limit_s and not _away(history, each):
            yield f"{where}: answered after {each.until_s - each.at_s:.1f} s"
        if missing := sorted({*each.areas} - {*each.answered} - named):
            yield f"{where}: {each.status}, but nothing is said of {', '.join(missing)}"
        if each.status == "complete" and each.gaps:
            yield f"{where}: complete, with gaps"
        if each.status == "partial" and not each.gaps:
            yield f"{where}: partial, without a reason"


def _away(history: History, asked: Asked) -> bool:
    return any(
        asked.master in fault.targets
        and fault.from_s <= asked.until_s
        and asked.at_s <= fault.until_s + START_S
        for fault in history.faults
    )


def _rounds(history: History) -> Iterator[str]:
    """Every round once, in order, each beginning where the one before ended."""
    for before, after in itertools.pairwise(history.rounds):
        if after.number != before.number + 1:
            yield f"round {after.number} came after {before.number}"
        elif after.start_ms != before.end_ms:
            yield f"round {after.number} begins {after.start_ms - before.end_ms} ms apart"


def _positions(name: str, positions: Sequence[int]) -> Iterator[str]:
    for before, after in itertools.pairwise(positions):
        if after != before + 1:
            yield f"{name}: position {after} came after {before}"


def _alerts(history: History) -> Iterator[str]:
    """Each alert since the first one once, and positions without a gap."""
    yield from _positions("alerts", [each.position for each in history.alerts])
    for area, last in sorted(history.events.items()):
        heard = [each.number for each in history.alerts if each.area == area]
        yield from _twice(f"alert of {area}", heard)
        if not heard:
            if last:
                yield f"no alert of {area} came"
            continue
        expected = {*range(min(heard), last + 1)} - {*history.others.get(area, ())}
        if lost := sorted(expected - {*heard}):
            yield f"alerts of {area} were lost: {lost}"
    if any(not each.area for each in history.alerts):
        yield "a durable subscription has a gap"


def _outputs(history: History) -> Iterator[str]:
    """What was published is put out once, and counted once; its order is no promise."""
    yield from _positions("outputs", [each.position for each in history.outputs])
    made = [each.n for each in history.outputs]
    yield from _twice("output", made)
    if lost := sorted({*history.published} - {*made}):
        yield f"messages were published and not put out: {lost}"
    counted = sorted(each.seen for each in history.outputs)
    if counted != list(range(1, len(counted) + 1)):
        yield f"the processor's state is not what it has done: {counted}"


def _owners(history: History) -> Iterator[str]:
    if len(history.owners) != 1:
        yield f"the topic has {len(history.owners)} owners: {', '.join(history.owners) or 'none'}"


def _twice(name: str, numbers: Iterable[int]) -> Iterator[str]:
    seen: set[int] = set()
    for number in numbers:
        if number in seen:
            yield f"{name} {number} came twice"
        seen.add(number)
