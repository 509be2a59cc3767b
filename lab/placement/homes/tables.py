"""Tables of the page: the sweeps, the goals, the paper's claims, optima, events."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from statistics import fmean
from typing import Final

from msgspec import Struct

from fleet.simulation.statistics import interval
from fleet.terminal.tables import Table
from lab.placement.homes.online import Look
from lab.placement.homes.optimum import COMPARED, Found
from lab.placement.homes.sweeps import (
    CENTROID,
    CLUSTERS,
    FREE,
    LEAST_USED,
    METHODS,
    NEAREST,
    OURS,
    PEERS,
    RANDOM,
    RELOC,
    Row,
)
from lab.statistics import mean_text

# A case is (limits, sweep, topics, σ, spool factor, clusters, seed); a point all but its seed.
Case = tuple[str, str, str, float, float, int, int]
TIE: Final = 1.0 + 1e-9


class Results(Struct, frozen=True):
    """Everything that a run measured."""

    rows: list[Row]
    optima: list[Found]
    looks: list[Look]


def case_of(row: Row) -> Case:
    """The case that a row is of."""
    return (
        *(row.limits, row.sweep, row.topics),
        *(row.sigma_km, row.spool_factor, row.clusters, row.seed),
    )


def by_case(rows: Iterable[Row]) -> dict[Case, dict[str, Row]]:
    """The rows of every case, by method."""
    found: dict[Case, dict[str, Row]] = defaultdict(dict)
    for row in rows:
        found[case_of(row)][row.method] = row
    return dict(found)


def tables(results: Results) -> dict[str, Table]:
    """All tables but the provenance."""
    ratio = by_case(row for row in results.rows if row.limits == "ratio")
    hard = by_case(row for row in results.rows if row.limits == "hard")
    return {
        "goals": goals(ratio, results),
        "sigma": sweep(ratio, "σ", "σ, km"),
        "spool": sweep(ratio, "spool", "spool size"),
        "clusters": sweep(ratio, "clusters", "n_c"),
        "use": use(ratio),
        "claims": claims(ratio),
        "hard": sweep(hard, "σ", "σ, km, spool size"),
        "optimum": optimum(results.optima),
        "online": online(results.looks),
    }


def sweep(cases: dict[Case, dict[str, Row]], name: str, heading: str) -> Table:
    """Delay (resource part) / storage of every method, a line for each point."""
    lines: list[tuple[str, ...]] = []
    for point, rows in _points(cases, name).items():
        cells = [_cell([row[method] for row in rows]) for method in METHODS]
        lines.append((point[2], _where(point, name, hard=point[0] == "hard"), *cells))
    return Table(heading, ("topics", heading, *METHODS), lines, left=2)


def _points(cases: dict[Case, dict[str, Row]], name: str) -> dict[Case, list[dict[str, Row]]]:
    """The cases of a sweep by point: the seed is 0."""
    found: dict[Case, list[dict[str, Row]]] = defaultdict(list)
    for case, rows in cases.items():
        if case[1] == name:
            found[*case[:-1], 0].append(rows)
    return dict(found)


def _where(point: Case, name: str, *, hard: bool = False) -> str:
    sigma, factor, clusters = point[3:6]
    if hard:
        return f"{sigma:g}, {factor:g}"
    if name == "clusters":
        return f"{clusters} (σ {sigma:g})"
    return f"{sigma if name == 'σ' else factor:g}"


def _cell(rows: Sequence[Row]) -> str:
    resource, storage = (
        fmean(getattr(row, key) for row in rows) for key in ("resource", "storage")
    )
    part = f" ({resource:.2f})" if resource >= 0.005 else ""
    return f"{mean_text([row.delay for row in rows], 2)}{part} / {storage:.0f}"


def use(cases: dict[Case, dict[str, Row]]) -> Table:
    """The fullest server's storage and load, in limits."""
    lines = []
    for name in ("σ", "spool"):
        for point, rows in _points(cases, name).items():
            cells = [
                f"{fmean(row[method].highest_use for row in rows):.2f} / "
                f"{fmean(row[method].highest_load for row in rows):.2f}"
                for method in METHODS
            ]
            lines.append((point[2], f"{point[3]:g}, {point[4]:g}", *cells))
    return Table("Use", ("topics", "σ, km, spool size", *METHODS), lines, left=2)


def goals(cases: dict[Case, dict[str, Row]], results: Results) -> Table:
    """The goals, and what came out."""
    gains = [_gain(each) for each in cases.values()]
    all_, usual = _by_seed(cases), _by_seed({c: e for c, e in cases.items() if c[1] != "clusters"})
    equal = [each for each in cases.values() if each[OURS].storage <= each[RELOC].storage]
    within = _dearer(equal, OURS, lambda peer, reloc: peer.storage <= reloc.storage)
    free = _dearer(list(cases.values()), FREE, lambda *_: True)
    also = _dearer(equal, OURS, lambda *_: True)
    over = [each.over[OURS] for each in results.optima if each.over]
    last = _last(results.looks)
    n = len(cases)
    lines = [
        ("delay against RELOC, at most its storage, mean", "−20 %", all_),
        (f"the same, with {CLUSTERS} clusters only", "−20 %", usual),
        ("the same, least and greatest gain", "", f"{_signed(max(gains))} … {_signed(min(gains))}"),
        ("stores more than RELOC", "never", f"{n - len(equal)} of {n}"),
        ("dearer than a peer that stores no more than RELOC", "never", f"{within} of {n}"),
        ("without a budget of bytes: dearer than a peer", "never", f"{free} of {n}"),
        ("with RELOC's bytes: dearer than a peer that stores more", "", f"{also} of {n}"),
    ]
    if over:
        lines.append(
            (
                "over the optimum, mean (worst)",
                "≤ 2 %",
                f"{100 * (fmean(over) - 1):.2f} % ({100 * (max(over) - 1):.1f} %)",
            )
        )
    if last:
        lines += [
            (
                "migrations an event, 16 servers",
                "≤ 0.5",
                f"{max(each.migrations for each in last):.2f}",
            ),
            (
                "off a plan made anew, 16 servers, worst look",
                "≤ 3.5 %",
                f"{max(each.off_percent for each in results.looks):.1f} %",
            ),
            (
                "an event, 16 servers, CPU time",
                "≤ 1 ms",
                f"{max(each.event_ms for each in last):.2f} ms",
            ),
        ]
    return Table("Goals", ("", "goal", "found"), lines, left=2)


def _gain(methods: dict[str, Row]) -> float:
    return 100.0 * (methods[OURS].delay / methods[RELOC].delay - 1.0)


def _by_seed(cases: dict[Case, dict[str, Row]]) -> str:
    """The mean gain, with its interval over seeds."""
    found: dict[int, list[float]] = defaultdict(list)
    for case, methods in cases.items():
        found[case[-1]].append(_gain(methods))
    mean = interval([fmean(each) for each in found.values()])
    return _signed(mean.mean) + ("" if mean.half_width is None else f" ± {mean.half_width:.1f}")


def _dearer(cases: Sequence[dict[str, Row]], ours: str, counts: Callable[[Row, Row], bool]) -> int:
    return sum(
        any(
            each[ours].delay > each[peer].delay * TIE
            for peer in PEERS
            if counts(each[peer], each[RELOC])
        )
        for each in cases
    )


def _signed(percent: float) -> str:
    return f"{percent:+.1f} %".replace("-", "−")


def claims(cases: dict[Case, dict[str, Row]]) -> Table:
    """What the paper says, and in how many cases it was so."""
    everything = [each for case, each in cases.items() if case[1] != "clusters"]
    tight = [each for each in everything if each[NEAREST].resource > 0.01]
    ample = [each for each in everything if each[NEAREST].resource <= 0.01]
    disjoint = [each for case, each in cases.items() if case[1:3] == ("σ", "disjoint")]
    shared = [each for case, each in cases.items() if case[1:3] == ("σ", "overlapping")]

    def less(of: Sequence[dict[str, Row]], one: str, *others: str, key: str = "delay") -> str:
        hits = sum(
            all(getattr(each[one], key) < getattr(each[other], key) for other in others)
            for each in of
        )
        return f"{hits} of {len(of)}"

    lines = [
        ("tight: RELOC below random and nearest", less(tight, RELOC, RANDOM, NEAREST)),
        ("tight: RELOC below OTOS on the least used server", less(tight, RELOC, LEAST_USED)),
        ("tight: RELOC below OTOS at the centroid", less(tight, RELOC, CENTROID)),
        ("ample: nearest below random, RELOC and OTOS on the least used server",
         less(ample, NEAREST, RANDOM, RELOC, LEAST_USED)),
        ("ample: nearest below OTOS at the centroid", less(ample, NEAREST, CENTROID)),
        ("disjoint: OTOS at the centroid stores less than RELOC",
         less(disjoint, CENTROID, RELOC, key="storage")),
        ("overlapping: OTOS at the centroid stores less than RELOC",
         less(shared, CENTROID, RELOC, key="storage")),
    ]  # fmt: skip
    return Table("Claims", ("claim", "cases"), lines)


def optimum(found: Sequence[Found]) -> Table:
    """Delays over the optimum's, mean and worst."""
    lines = []
    for overlap in (False, True):
        of = [each for each in found if each.overlap == overlap]
        proven = [each for each in of if each.over]
        if not proven:
            continue
        cells = [
            f"{fmean(each.over[name] for each in proven):.3f} "
            f"({max(each.over[name] for each in proven):.3f})"
            for name in COMPARED
        ]
        sizes = [each.clients for each in of]
        lines.append(
            (
                "overlapping" if overlap else "disjoint",
                f"{min(sizes)}–{max(sizes)}",
                f"{len(proven)} of {len(of)}",
                *cells,
                f"{max(each.solved_s for each in of):.1f} s",
            )
        )
    headings = ("topics", "clients", "solved", *COMPARED, "slowest program")
    return Table("Optimum", headings, lines)


def online(looks: Sequence[Look]) -> Table:
    """Means over seeds, by the number of events so far."""
    groups: dict[tuple[bool, int], list[Look]] = defaultdict(list)
    for look in looks:
        groups[look.overlap, look.events].append(look)
    lines = []
    for (overlap, events), of in groups.items():
        lines.append(
            (
                "overlapping" if overlap else "disjoint",
                str(events),
                f"{fmean(each.migrations for each in of):.2f}",
                f"{mean_text([each.off_percent for each in of], 1)} %",
                f"{fmean(each.event_ms for each in of):.2f} ms",
            )
        )
    headings = ("topics", "events", "migrations an event", "off a plan made anew", "an event")
    return Table("Online", headings, lines)


def _last(looks: Sequence[Look]) -> list[Look]:
    last = max((each.events for each in looks), default=0)
    return [each for each in looks if each.events == last]
