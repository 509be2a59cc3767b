"""Checker of a history against the promises to clients; pure. A line for each broken promise."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from fleet.testbed.page import GATEWAY
from lab.chaos.fault_plan import APART, AWAY, START_S, STARTS, Fault, Kind
from lab.chaos.history import CLIENTS, Asked, Claim, Events, History, RoundSeen

# From the answer timeout until a client on a busy machine has the answer.
TRAVEL_S: Final = 2.0
# After a fault of links, or of one that was away, others know within this time that it is back.
RECOVERY_S: Final = 10.0
# Reasons that a busy machine gives, too.
SLOW: Final = frozenset({"timeout"})
STEPPED: Final[frozenset[Kind]] = frozenset({"clock step"})
# A step that a stream follows is whole intervals, and a master looks at its clock each second.
SET_WITHIN_MS: Final = 2_000
# A move there and back takes longer.
MOVE_S: Final = 1.0
# Of a unit with a standby, at its owner.
LEASE_S: Final = 3.0
STREAM: Final = "stream"
ALERTED: Final = "on alerts"
# Each of the watches asks the service so often, also while its client gets no rounds.
ROUND_S: Final = 0.5
WATCHES: Final = 3


def broken(history: History) -> list[str]:
    """The promises that were broken. O(n log n) in what was seen."""
    return [
        *_answers(history),
        *_rates(history),
        *_rounds(history),
        *_alerts(history),
        *_outputs(history),
        *_clones(history),
        *_owners(history),
        *(f"a process ended by itself: {each}" for each in history.ended),
    ]


def _answers(history: History) -> Iterator[str]:
    """Complete or honestly partial, and in time, but where the master itself was away."""
    limit_s = history.timeout_ms / 1e3 + TRAVEL_S
    for each in history.asked:
        where = f"query at {each.at_s:.1f} s to {each.master}"
        named = {area for area, _ in each.gaps}
        away = _away(history, each)
        if each.status == "no reply":
            if not away:
                yield f"{where}: no reply, and it was not away"
            continue
        if each.until_s - each.at_s > limit_s and not away:
            yield f"{where}: answered after {each.until_s - each.at_s:.1f} s"
        if each.status not in ("complete", "partial"):
            if not _may_refuse(history, each, away=away):
                yield f"{where}: {each.status} {each.reason}".rstrip()
            continue
        if missing := sorted({*each.areas} - {*each.answered} - named):
            yield f"{where}: {each.status}, but nothing is said of {', '.join(missing)}"
        if each.status == "complete" and each.gaps:
            yield f"{where}: complete, with gaps"
        if each.status == "partial" and not each.gaps:
            yield f"{where}: partial, without a reason"
        for area, reason in each.gaps:
            if reason not in SLOW and not _excused(history, each, area, reason):
                yield f"{where}: {area} is missing ({reason}), and nothing had hurt it"


def _away(history: History, asked: Asked) -> bool:
    names = _asked_of(history, asked)
    return _starves(history, names | {CLIENTS}, asked) or any(
        _lasts(each, asked, AWAY, history.start_s) for each in _of(history, names)
    )


def _asked_of(history: History, asked: Asked) -> set[str]:
    """The gateway asks the first master."""
    return {asked.master, *_masters(history)[:1]} if asked.master == GATEWAY else {asked.master}


def _masters(history: History) -> list[str]:
    """In their order; the second one has the watches."""
    return [*dict.fromkeys(iad for _, iad in history.homes.values())]


def _may_refuse(history: History, asked: Asked, *, away: bool) -> bool:
    """Beyond the agreed rate, or an objective that was not kept lately; a gateway whose master is
    away says so."""
    if asked.master == GATEWAY and asked.status.startswith("http 5"):
        return away
    if asked.reason == "infeasible" or asked.status == "http 422":
        return _was_slow(history, asked)
    return history.agreed is not None and _over_rate(asked) and _empties(history, asked)


def _was_slow(history: History, asked: Asked) -> bool:
    """Whether something had held up one of its nodes or masters: such response times count for an
    hour."""
    names = _asked_of(history, asked).union(*(history.homes[area] for area in asked.areas))
    return _starves(history, names, asked, math.inf) or any(
        each.kind in APART and each.from_s <= asked.until_s for each in _of(history, names)
    )


def _over_rate(asked: Asked) -> bool:
    return asked.reason == "over_rate" or asked.status == "http 429"


def _empties(history: History, asked: Asked) -> bool:
    """Whether a bucket may have been empty: within some time before, more was taken than it holds
    and gains. A query takes one token at most, at any moment until its answer: at its master, and
    at each seller, whose bucket is for the queries of all masters together, and rounds of watches.
    """
    agreed = history.agreed
    assert agreed is not None
    gained_per_s = agreed.rate_per_s - WATCHES / ROUND_S
    ends = sorted(
        min(each.until_s, asked.at_s)
        for each in history.asked
        if not _over_rate(each) and each.at_s <= asked.until_s
    )
    return any(
        len(ends) - n + 1 > agreed.burst + gained_per_s * (asked.at_s - since_s)
        for n, since_s in enumerate(ends)
    )


def _excused(history: History, asked: Asked, area: str, reason: str) -> bool:
    """Whether something had hurt the area's node, its master, the one that was asked, or ways
    between them, and they had no time to recover. The window is of the node's wall clock: right
    after a step nothing was read within it."""
    node, master = history.homes[area]
    names = {node, master} | _asked_of(history, asked)
    recovery_s = RECOVERY_S + history.start_s - START_S
    stepped = reason == "no_data" and any(
        _lasts(each, asked, STEPPED, recovery_s) for each in _of(history, {node})
    )
    return (
        stepped
        or _starves(history, names, asked, recovery_s)
        or any(_lasts(each, asked, APART, recovery_s) for each in _of(history, names))
    )


def _starves(
    history: History, names: set[str], asked: Asked | Claim, recovery_s: float = 0.0
) -> bool:
    """Whether one of these processes got no processor of a busy machine, or recovered from that,
    while the query or look lasted."""
    return any(
        each.name in names
        and each.from_s <= asked.until_s
        and asked.at_s <= each.until_s + recovery_s
        for each in history.starved
    )


def _of(history: History, names: Iterable[str]) -> list[Fault]:
    wanted = {*names}
    return [each for each in history.faults if not wanted.isdisjoint(each.targets)]


def _lasts(fault: Fault, asked: Asked, kinds: frozenset[Kind], recovery_s: float) -> bool:
    """Whether a fault of these kinds, or the recovery from it, lasted while the query did."""
    until_s = fault.until_s + recovery_s
    return fault.kind in kinds and fault.from_s <= asked.until_s and asked.at_s <= until_s


def _rates(history: History) -> Iterator[str]:
    """No more is answered than was agreed; a master that starts again has a full bucket."""
    if (agreed := history.agreed) is None:
        return
    for master, asked in itertools.groupby(
        sorted(history.asked, key=lambda each: each.master), lambda each: each.master
    ):
        if master == GATEWAY:
            continue
        done = [each for each in asked if each.status in ("complete", "partial")]
        if not done:
            continue
        shares = sum(len(each.areas) for each in done) / agreed.areas
        lasted_s = max(each.until_s for each in done) - min(each.at_s for each in done)
        starts = sum(each.kind in STARTS for each in _of(history, {master}))
        most = agreed.rate_per_s * lasted_s + (agreed.burst + agreed.reserved) * (1 + starts)
        if shares > most:
            yield f"{master} answered {shares:.0f} queries in {lasted_s:.1f} s, not {most:.0f}"


def _rounds(history: History) -> Iterator[str]:
    """Every round of each watch once, in order; those of a stream each begin where the one before
    ended, unless their master's clock was set meanwhile, at both ends of a step: back, to where the
    stream had been, or forward by the step."""
    stepped = [each for each in _of(history, _masters(history)[1:2]) if each.kind in STEPPED]
    steps = 2 * len(stepped)
    watches: dict[str, list[RoundSeen]] = {}
    for each in history.rounds:
        watches.setdefault(each.watch, []).append(each)
    for watch, rounds in watches.items():
        reached_ms = 0
        for before, after in itertools.pairwise(rounds):
            reached_ms = max(reached_ms, before.end_ms)
            expected = after.previous if watch == ALERTED else after.number - 1
            if expected != before.number or after.number <= before.number:
                yield f"{watch}: round {after.number} came after {before.number}"
            elif watch == STREAM and after.start_ms != before.end_ms:
                steps -= 1
                apart_ms = after.start_ms - before.end_ms
                on = apart_ms > 0 and any(
                    abs(apart_ms - abs(each.amount) * 1_000) <= SET_WITHIN_MS for each in stepped
                )
                if steps >= 0 and (apart_ms < 0 or after.start_ms == reached_ms or on):
                    continue
                yield f"round {after.number} begins {apart_ms} ms apart"


def _positions(name: str, positions: Sequence[int]) -> Iterator[str]:
    for before, after in itertools.pairwise(positions):
        if after != before + 1:
            yield f"{name}: position {after} came after {before}"


def _alerts(history: History) -> Iterator[str]:
    """Each alert at least once at its master, once at the subscriber, and positions without a
    gap."""
    yield from _positions("alerts", [each.position for each in history.alerts])
    for events in history.events:
        area = events.area
        heard = [
            each.number
            for each in history.alerts
            if (each.area, each.history) == (area, events.history)
        ]
        yield from _twice(f"alert of {area}", heard)
        spooled = {n for n in range(1, events.last + 1) if n < events.below or n in events.taken}
        if not events.damaged and (left := sorted({*range(1, events.last + 1)} - spooled)):
            yield f"events of {area} never came to its master: {left}"
        if lost := sorted(_owed(events, spooled) - {*heard}):
            yield f"alerts of {area} were lost: {lost}"
    known = {(each.area, each.history) for each in history.events}
    for area in history.homes:
        if not any(each.area == area and (area, each.history) in known for each in history.alerts):
            yield f"no alert of {area} came"
    if any(not each.area for each in history.alerts):
        yield "a durable subscription has a gap"


def _owed(events: Events, spooled: set[int]) -> set[int]:
    """What the subscriber is to hear of."""
    owed = {*range(events.first, events.last + 1)} - {*events.others}
    return owed & spooled if events.damaged else owed


def _outputs(history: History) -> Iterator[str]:
    """What was published is put out once, and counted once; its order is no promise."""
    yield from _positions("outputs", [each.position for each in history.outputs])
    made = [each.n for each in history.outputs]
    yield from _twice("output", made)
    if lost := sorted({*history.published} - {*made}):
        yield f"messages were published and not put out: {lost}"
    counted = sorted(each.seen for each in history.outputs)
    if counted != list(range(1, len(counted) + 1)):
        off = [n for n, seen in enumerate(counted, 1) if n != seen]
        yield f"the processor's state is not what it has done from message {off[0]} on"


def _clones(history: History) -> Iterator[str]:
    """Each output of a clone comes once to the subscriber, and once to the home of its device."""
    yield from _positions("outputs of clones", [each.position for each in history.clone_outputs])
    for clone in history.clones:
        heard = [each.n for each in history.clone_outputs if each.topic == clone.topic]
        if not heard:
            yield f"no output of {clone.topic} came"
            continue
        yield from _twice(f"output of {clone.topic}", heard)
        # What it put out before there was a subscriber is not owed.
        if lost := sorted({*range(min(heard), clone.owed + 1)} - {*heard}):
            yield f"outputs of {clone.topic} were lost: {lost}"
        if clone.taken != clone.n:
            yield f"the home of {clone.topic} took {clone.taken} of {clone.n} outputs"


def _owners(history: History) -> Iterator[str]:
    """One at the end, and at no time two: none says that it has the topic before and after another
    one says so, sooner than it could have moved there and back."""
    if len(history.owners) != 1:
        yield f"the topic has {len(history.owners)} owners: {', '.join(history.owners) or 'none'}"
    latest: dict[str, Claim] = {}
    for claim in history.claims:
        if _out_of_date(history, claim):
            continue
        before = latest.get(claim.master)
        for other in latest.values():
            if (
                before is not None
                and other.master != claim.master
                and before.until_s <= other.at_s
                and other.until_s <= claim.at_s
                and claim.until_s - before.at_s < MOVE_S
            ):
                yield f"{claim.master} and {other.master} both had the topic at {other.at_s:.1f} s"
        latest[claim.master] = claim


def _out_of_date(history: History, claim: Claim) -> bool:
    """A master that stood still, got no processor, or was cut off, does not know yet that another
    one took the topic over: it puts nothing out before it has asked for its lease. That its outputs
    come once is another promise."""
    return _starves(history, {claim.master}, claim, LEASE_S) or any(
        each.kind in APART and each.from_s <= claim.until_s and claim.at_s <= each.until_s + LEASE_S
        for each in _of(history, {claim.master})
    )


def _twice(name: str, numbers: Iterable[int]) -> Iterator[str]:
    seen: set[int] = set()
    for number in numbers:
        if number in seen:
            yield f"{name} {number} came twice"
        seen.add(number)
