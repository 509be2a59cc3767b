"""Fault schedule, and the verdicts on the answers during each fault; pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from msgspec import Struct

from agent.wire.base import TIMEOUT_FACTOR
from fleet.simulation.layout import FleetLayout
from fleet.simulation.measures import Outcome, percentile
from fleet.simulation.workload import Arrival, QueryClass

# The background queries: one room, or one room in each IAD.
CLASSES: Final = (
    QueryClass("narrow", 0.7, iads=1, nodes=1, slo_ms=500.0),
    QueryClass("wide", 0.3, iads=3, nodes=1, slo_ms=800.0),
)
# Time that an answer may need beyond its answer timeout to reach the client.
TRAVEL_MS: Final = 500.0


class Fault(Struct, frozen=True):
    """A process that is killed and started again; seconds from the start of the load.

    `areas` are those that it served: queries for other areas must not be affected.
    """

    name: str
    process: str
    kill_s: float
    start_s: float
    areas: tuple[str, ...]


class Line(Struct, frozen=True):
    """One finding: the expectation, the observation, and whether they agree. `timed`: it depends on
    the speed of this machine."""

    fault: str
    expected: str
    seen: str
    ok: bool
    timed: bool = False


def schedule(plan: FleetLayout, directory: str, unit_s: float) -> tuple[Fault, ...]:
    """An edge node, a master and the registration service, one after the other: each is down for
    two units, with a quiet one before and two after."""
    node, master = plan.iads[1].nodes[0], plan.iads[-1]
    return (
        Fault("edge node", node.name, 1 * unit_s, 3 * unit_s, (node.area,)),
        Fault("master", master.name, 5 * unit_s, 7 * unit_s, master.areas),
        Fault("DRS", directory, 9 * unit_s, 11 * unit_s, ()),
    )


# Length of the run, in units.
UNITS: Final = 12


def judge(
    fault: Fault,
    gaps: frozenset[str],
    trace: Sequence[Arrival],
    outcomes: Sequence[Outcome],
) -> list[Line]:
    """Judge the queries that arrived during `fault`; `gaps` are the permitted reasons of partial
    answers."""
    during = [
        (arrival, outcome)
        for arrival, outcome in zip(trace, outcomes, strict=True)
        if fault.kill_s <= arrival.at_s < fault.start_s
    ]
    hit = [o for a, o in during if not set(a.areas).isdisjoint(fault.areas)]
    others = [o for a, o in during if set(a.areas).isdisjoint(fault.areas)]
    lines = [
        _line(fault, "the other queries are answered complete", others, _complete),
        _line(fault, "the other queries keep their SLO", others, _kept, timed=True),
    ]
    if fault.areas:
        known = ", ".join(sorted(gaps))
        lines += [
            _line(
                fault,
                f"queries to it are answered, partial ones with the reason ({known})",
                hit,
                lambda o: o.status == "complete" or (o.status == "partial" and set(o.gaps) <= gaps),
            ),
            _line(fault, "and by their answer timeout", hit, _in_time),
        ]
    return lines


def _complete(outcome: Outcome) -> bool:
    return outcome.status == "complete"


def _kept(outcome: Outcome) -> bool:
    return outcome.within_slo


def _in_time(outcome: Outcome) -> bool:
    longest_ms = outcome.slo_ms * TIMEOUT_FACTOR + TRAVEL_MS
    return outcome.latency_ms is not None and outcome.latency_ms <= longest_ms


def _line(
    fault: Fault,
    expected: str,
    outcomes: Sequence[Outcome],
    holds: Callable[[Outcome], bool],
    *,
    timed: bool = False,
) -> Line:
    good = sum(map(holds, outcomes))
    latencies = sorted(o.latency_ms for o in outcomes if o.latency_ms is not None)
    slowest, median = percentile(latencies, 100), percentile(latencies, 50)
    reasons = sorted({gap for o in outcomes for gap in o.gaps})
    seen = f"{good} of {len(outcomes)}"
    if median is not None and slowest is not None:
        seen += f"; median {median:.0f} ms, slowest {slowest:.0f} ms"
    if reasons:
        seen += f"; {', '.join(reasons)}"
    # One in a hundred may miss an SLO at the 99th percentile; of a few, one.
    allowed = max(1, len(outcomes) // 100) if timed else 0
    return Line(
        fault.name, expected, seen, len(outcomes) - good <= allowed and bool(outcomes), timed
    )
