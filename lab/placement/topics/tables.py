"""The data of the experiment, and the tables of its page."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from fleet.terminal.tables import Table
from lab.placement.topics.accuracy import Score
from lab.placement.topics.campaign import Found
from lab.placement.topics.packed import Packed
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
    shown = {}
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


def _exact(found: Found) -> Table:
    """Each planner over the fewest brokers that any planner found, by the same model."""
    rows = []
    for kind, packings in found.packings.items():
        name = packings[-1].feasibility
        mine = [each for each in packings if each.feasibility == name]
        for n in sorted({each.topics for each in mine}):
            by_planner: dict[str, list[Packed]] = {}
            for each in (each for each in mine if each.topics == n):
                by_planner.setdefault(each.planner, []).append(each)
            best = [min(p.brokers for p in row) for row in zip(*by_planner.values(), strict=True)]
            exact = by_planner.get("exact", [])
            bounds = [each.bound for each in exact]
            proven = sum(each.brokers <= each.bound for each in exact)
            rows.append(
                [
                    kind,
                    str(n),
                    *(
                        f"{100 * (sum(p.brokers for p in by_planner[each]) / sum(best) - 1):+.1f} %"
                        if each in by_planner
                        else "–"
                        for each in ("FFD", "LFS3+FFD", "LFS", "exact")
                    ),
                    f"{sum(best) / len(best):.1f}",
                    f"{sum(bounds) / len(bounds):.1f}" if bounds else "–",
                    f"{proven} of {len(exact)}" if exact else "–",
                ]
            )
    headings = (
        *("publishers", "n", "FFD", "LFS3+FFD", "LFS", "exact"),
        *("fewest known", "lower bound", "proven"),
    )
    return Table("Planners beside the fewest brokers known", headings, rows)


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
        *("come and go: brokers over FFD, %", "moves an event"),
    )
    return Table("After a drift, and with topics that come and go; 50 topics", headings, rows)
