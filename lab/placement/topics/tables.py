"""The data of the experiment, and the tables of its page."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from math import isnan, nan
from statistics import fmean
from typing import Any, Final

from msgspec import Struct

from fleet.terminal.tables import Table
from lab.placement.topics.accuracy import OURS, SECOND, Score
from lab.placement.topics.campaign import (
    KINDS,
    NETWORK_WITH_HEADROOM,
    NETWORK_WITHIN_LIMITS,
    OURS_PLANNER,
    OURS_WITH_HEADROOM,
    PAPER_HEADROOM,
    SHARED_MOST,
    Found,
)
from lab.placement.topics.packed import PLANNERS, Packed
from lab.statistics import mean_text, share

HEADINGS: Final = ("request", "arrivals", *Packed.__struct_fields__)


def rows(found: Found) -> Iterable[list[object]]:
    """Every packing, for the data."""
    for kind in found.packings:
        even = [*found.packings[kind], *found.queues[kind]]
        for name, packings in (("even", even), ("heavy", found.heavy[kind])):
            for each in packings:
                yield [name, kind, *(getattr(each, field) for field in each.__struct_fields__)]


def tables(found: Found) -> dict[str, Table]:
    """The tables of the page by their names."""
    shown = {"goals": _goals(found)}
    for kind in found.packings:
        key = kind.lower()
        shown[f"accuracy-{key}"] = _accuracy(found.scores[kind])
        shown[f"packing-{key}"] = _packing([*found.packings[kind], *found.queues[kind]])
        shown[f"heavy-{key}"] = _packing(found.heavy[kind])
    shown["exact"] = _exact(found)
    shown["drift"] = _drift(found)
    return shown


def _accuracy(scores: Sequence[Score]) -> Table:
    sizes = sorted({score.topics for score in scores})
    rows = []
    for model in dict.fromkeys(score.model for score in scores):
        mine = {score.topics: score for score in scores if score.model == model}
        runs = str(mine[sizes[-1]].runs or "–")
        accepted = sum(score.accepted for score in mine.values())
        missed = share(sum(score.missed for score in mine.values()), max(accepted, 1))
        rows.append(
            [
                model,
                runs,
                *(f"{mine[k].r2:.3f} [{mine[k].low:.3f}, {mine[k].high:.3f}]" for k in sizes),
                f"{missed.found:.1%} [{missed.low:.1%}, {missed.high:.1%}]",
            ]
        )
    headings = ("model", "training runs", *(f"k = {k}" for k in sizes), "accepted, misses τ")
    return Table("R² of the logarithm of the 90th percentile", headings, rows)


def _packing(packings: Sequence[Packed]) -> Table:
    sizes = sorted({each.topics for each in packings})
    most = sizes[-1]
    rows = []
    for feasibility, planner in dict.fromkeys(
        (each.feasibility, each.planner) for each in packings
    ):
        mine = [p for p in packings if (p.feasibility, p.planner) == (feasibility, planner)]
        last = [each for each in mine if each.topics == most]
        rows.append(
            [
                feasibility,
                planner,
                *(_mean(lambda p: p.brokers, mine, n, 1) for n in sizes),
                _mean(lambda p: 1e3 * p.seconds, last, most, 1),
                _mean(lambda p: 100 * p.topics_over, last, most, 1),
                _mean(lambda p: 100 * p.messages_over, last, most, 1),
                _mean(lambda p: 1e3 * p.p90_s, last, most, 0),
            ]
        )
    headings = (
        "feasible by",
        "planner",
        *(f"brokers, n = {n}" for n in sizes),
        "solve, ms of CPU",
        "topics over τ, %",
        "messages over τ, %",
        "mean 90th percentile, ms",
    )
    return Table("Packings", headings, rows, 2)


def _mean(value: Callable[[Packed], float], packings: Sequence[Packed], n: int, digits: int) -> str:
    return mean_text([float(value(each)) for each in packings if each.topics == n], digits)


class Known(Struct, frozen=True):
    """Of n topics: what each planner has over the fewest brokers known, in percent; the mean of
    these, and of the lower bound; how many requests' bounds are proven."""

    over: dict[str, float]
    fewest: float
    bound: float
    proven: int
    requests: int


def _known(found: Found, kind: str) -> dict[int, Known]:
    """By n; the fewest known are those of any planner for the same request and model."""
    known = {}
    mine = [each for each in found.packings[kind] if each.feasibility == OURS_WITH_HEADROOM]
    for n in sorted({each.topics for each in mine}):
        by: dict[str, list[Packed]] = defaultdict(list)
        for each in mine:
            if each.topics == n:
                by[each.planner].append(each)
        best = [min(p.brokers for p in row) for row in zip(*by.values(), strict=True)]
        exact = by.get("exact", [])
        known[n] = Known(
            {name: 100 * (sum(p.brokers for p in by[name]) / sum(best) - 1) for name in by},
            fmean(best),
            fmean([each.bound for each in exact]) if exact else nan,
            sum(each.brokers <= each.bound for each in exact),
            len(exact),
        )
    return known


def _exact(found: Found) -> Table:
    """Each planner over the fewest brokers that any planner found, by the same model."""
    planners = (*PLANNERS, "exact")
    rows = [
        [
            *(kind, str(n)),
            *(f"{known.over[p]:+.1f} %" if p in known.over else "–" for p in planners),
            f"{known.fewest:.1f}",
            f"{known.bound:.1f}" if known.requests else "–",
            f"{known.proven} of {known.requests}" if known.requests else "–",
        ]
        for kind in found.packings
        for n, known in _known(found, kind).items()
    ]
    headings = ("publishers", "n", *planners, "fewest known", "lower bound", "proven")
    return Table("Planners beside the fewest brokers known", headings, rows)


class Goal(Struct, frozen=True):
    """A number of each kind of publishers that is to be at most so much: `most` has the limits for
    periodic and Poisson publishers."""

    what: str
    most: tuple[float, float]
    text: str  # how a number is written
    found: Callable[[str], float]


def _goals(found: Found) -> Table:
    """The goals, what came out, and whether that meets them."""
    kinds = [kind for kind in KINDS.values() if kind in found.packings]
    rows = []
    for goal in _goals_of(found):
        values = [goal.found(kind) for kind in kinds]
        most = goal.most[: len(kinds)]
        met = all(value <= limit for value, limit in zip(values, most, strict=True))
        limits = " / ".join(dict.fromkeys(goal.text.format(limit) for limit in most))
        cells = ["–" if isnan(value) else goal.text.format(value) for value in values]
        verdict = "not run" if any(map(isnan, values)) else "met" if met else "**missed**"
        rows.append([cell.replace("-", "−") for cell in (goal.what, limits, *cells)] + [verdict])
    return Table("Goals", ("goal", "at most", *kinds, ""), rows, 2)


def _goals_of(found: Found) -> list[Goal]:
    ours, mine = OURS_WITH_HEADROOM, OURS_PLANNER

    def even(kind: str) -> list[Packed]:
        return [*found.packings[kind], *found.queues[kind]]

    def heavy(kind: str) -> list[Packed]:
        return found.heavy[kind]

    def fewer(
        packings: Callable[[str], list[Packed]], one: tuple[str, str], other: tuple[str, str]
    ) -> Callable[[str], float]:
        def percent(kind: str) -> float:
            first, second = (
                sum(each.brokers for each in _last(packings(kind), *who)) for who in (one, other)
            )
            return 100 * (first / second - 1)

        return percent

    def over(packings: Callable[[str], list[Packed]]) -> Callable[[str], float]:
        return lambda kind: (
            100 * fmean(each.topics_over for each in _last(packings(kind), ours, mine))
        )

    def known(planner: str) -> Callable[[str], float]:
        return lambda kind: max(
            each.over.get(planner, nan) for each in _known(found, kind).values()
        )

    def taken(planner: str) -> Callable[[str], float]:
        def ms(kind: str) -> float:
            last = _last(found.packings[kind], ours, planner)
            return 1e3 * fmean(each.seconds for each in last) if last else nan

        return ms

    def lost(kind: str) -> float:
        r2 = {(score.model, score.topics): score.r2 for score in found.scores[kind]}
        return max(r2[SECOND, k] - r2[OURS, k] for model, k in r2 if model == OURS and k > 1)

    def left(kind: str) -> float:
        return 100 * fmean(each.topics_over_after for each in found.drifts[kind])

    def moves(kind: str) -> float:
        return fmean(each.moves for each in found.drifts[kind])

    requests = (("even", even), ("heavy", heavy))
    networks = {
        f"FFD, the network + {PAPER_HEADROOM.share:.0%}": (NETWORK_WITH_HEADROOM, "FFD"),
        f"LFS, the network + {PAPER_HEADROOM.share:.0%}": (NETWORK_WITH_HEADROOM, "LFS"),
        "FFD, the network with enough": (NETWORK_WITHIN_LIMITS, "FFD"),
    }
    queues = [f"one queue, k = {most}" for most in (found.most, SHARED_MOST)]
    return [
        Goal("R² of log p90 below a second run's, worst k ≥ 2", (0.01, 0.01), "{:.3f}", lost),
        *(Goal(f"{name}: topics over τ", (1, 2), "{:.1f} %", over(of)) for name, of in requests),
        *(
            Goal(f"{name}: brokers against {who}", (-10, -10), "{:+.1f} %",
                 fewer(of, (ours, mine), other))
            for name, of in requests
            for who, other in networks.items()
        ),
        *(
            Goal(f"{name}: brokers, FFD against FFD, the network with enough", (-10, -10),
                 "{:+.1f} %", fewer(of, (ours, "FFD"), (NETWORK_WITHIN_LIMITS, "FFD")))
            for name, of in requests
        ),
        *(
            Goal(f"brokers over the fewest known, worst n: {planner}", (most, most), "{:+.1f} %",
                 known(planner))
            for planner, most in (("FFD", 8), ("balanced", 8), (mine, 8), ("exact", 2))
        ),
        *(
            Goal(f"{name}: brokers, {queue} against a thread a topic", (-25, -25), "{:+.1f} %",
                 fewer(of, (queue, mine), (ours, mine)))
            for name, of in requests
            for queue in queues
        ),
        *(
            Goal(f"CPU time of a plan: {planner}", (most, most), "{:,.1f} ms", taken(planner))
            for planner, most in (("FFD", 5), ("balanced", 5), (mine, 1_000), ("exact", 10_000))
        ),
        Goal("after a drift: topics over τ one window later", (1, 1), "{:.1f} %", left),
        Goal("after a drift: moves", (4, 4), "{:.1f}", moves),
    ]  # fmt: skip


def _last(packings: Sequence[Packed], name: str, planner: str) -> list[Packed]:
    """Those of the largest requests."""
    most = max(each.topics for each in packings)
    return [
        each
        for each in packings
        if (each.feasibility, each.planner, each.topics) == (name, planner, most)
    ]


def _drift(found: Found) -> Table:
    def column(values: Sequence[Any], of: Callable[[Any], float], digits: int) -> str:
        return mean_text([float(of(each)) for each in values], digits)

    rows = [
        [
            kind,
            column(drifts, lambda d: 100 * d.topics_over_before, 1),
            column(drifts, lambda d: 100 * d.topics_over_after, 1),
            column(drifts, lambda d: d.moves, 1),
            column(drifts, lambda d: d.brokers_before, 1),
            column(drifts, lambda d: d.brokers_after, 1),
            column(drifts, lambda d: d.brokers_anew, 1),
            column(found.online[kind], lambda o: 100 * o.extra, 1),
            column(found.online[kind], lambda o: o.moves_an_event, 2),
        ]
        for kind, drifts in found.drifts.items()
    ]
    headings = (
        *("publishers", "topics over τ, %", "after repair, %", "moves"),
        *("brokers before", "after", "planned anew"),
        *("come and go: brokers over a new plan, %", "moves an event"),
    )
    return Table("After a drift, and with topics that come and go; 50 topics", headings, rows)
