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
    """A number that is to be at most so much; `text` is how it is written."""

    what: str
    text: str
    most: float
    found: float


def _goals(found: Found) -> Table:
    """The goals, what came out for each kind of publishers, and whether that meets them."""
    rows = []
    for goals in zip(*(_goals_of(found, kind) for kind in found.packings), strict=True):
        text = goals[0].text
        limits = " / ".join(dict.fromkeys(text.format(goal.most) for goal in goals))
        cells = ["–" if isnan(goal.found) else text.format(goal.found) for goal in goals]
        met = "met" if all(goal.found <= goal.most for goal in goals) else "**missed**"
        if any(isnan(goal.found) for goal in goals):
            met = "not run"
        rows.append([goals[0].what, *(cell.replace("-", "−") for cell in (limits, *cells)), met])
    return Table("Goals", ("goal", "at most", *found.packings, ""), rows, 2)


def _goals_of(found: Found, kind: str) -> Iterable[Goal]:
    requests = {"even": [*found.packings[kind], *found.queues[kind]], "heavy": found.heavy[kind]}
    mine = (OURS_WITH_HEADROOM, OURS_PLANNER)
    paper = f"the network + {PAPER_HEADROOM.share:.0%}"
    percent = "{:+.1f} %"

    def fewer(packings: Sequence[Packed], one: Sequence[str], other: Sequence[str]) -> float:
        first, second = (sum(p.brokers for p in _last(packings, *who)) for who in (one, other))
        return 100 * (first / second - 1)

    r2 = {(score.model, score.topics): score.r2 for score in found.scores[kind]}
    lost = max(r2[SECOND, k] - r2[OURS, k] for model, k in r2 if model == OURS and k > 1)
    yield Goal("R² of log p90 below a second run's, worst k ≥ 2", "{:.3f}", 0.01, lost)
    for name, of in requests.items():
        over = 100 * fmean(each.topics_over for each in _last(of, *mine))
        most = 1 if kind == KINDS[True] else 2
        yield Goal(f"{name}: topics over τ", "{:.1f} %", most, over)
    for name, of in requests.items():
        for who, other in (
            (f"FFD, {paper}", (NETWORK_WITH_HEADROOM, "FFD")),
            (f"LFS, {paper}", (NETWORK_WITH_HEADROOM, "LFS")),
            ("FFD, the network with enough", (NETWORK_WITHIN_LIMITS, "FFD")),
        ):
            gain = fewer(of, mine, other)
            yield Goal(f"{name}: brokers against {who}", percent, -10, gain)
    for name, of in requests.items():
        gain = fewer(of, (OURS_WITH_HEADROOM, "FFD"), (NETWORK_WITHIN_LIMITS, "FFD"))
        what = f"{name}: brokers, FFD against FFD, the network with enough"
        yield Goal(what, percent, -10, gain)
    known = _known(found, kind).values()
    for planner, most in (("FFD", 8), ("balanced", 8), (OURS_PLANNER, 8), ("exact", 2)):
        worst = max(each.over.get(planner, nan) for each in known)
        yield Goal(f"brokers over the fewest known, worst n: {planner}", percent, most, worst)
    for name, of in requests.items():
        for queue in (f"one queue, k = {most}" for most in (found.most, SHARED_MOST)):
            what = f"{name}: brokers, {queue} against a thread a topic"
            yield Goal(what, percent, -25, fewer(of, (queue, OURS_PLANNER), mine))
    for planner, most in (("FFD", 5), ("balanced", 5), (OURS_PLANNER, 1_000), ("exact", 10_000)):
        plans = _last(found.packings[kind], OURS_WITH_HEADROOM, planner)
        ms = 1e3 * fmean(each.seconds for each in plans) if plans else nan
        yield Goal(f"CPU time of a plan: {planner}", "{:,.1f} ms", most, ms)
    drifts = found.drifts[kind]
    left = 100 * fmean(each.topics_over_after for each in drifts)
    yield Goal("after a drift: topics over τ one window later", "{:.1f} %", 1, left)
    yield Goal("after a drift: moves", "{:.1f}", 4, fmean(each.moves for each in drifts))


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
