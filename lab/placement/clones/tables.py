"""Tables of the page: goals, the printed setting, rounds, equilibria, costs, faults, changes, many
clones."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from math import isfinite, log
from statistics import fmean
from typing import Final

import numpy as np

from fleet.terminal.tables import Table
from lab.placement.clones.anarchy import ETAS
from lab.placement.clones.experiments import (
    ARRIVED,
    METHODS,
    OURS,
    PAPER,
    PLANNED,
    Results,
    Row,
    Worst,
)
from lab.statistics import mean_text

NONE: Final = "–"
RULES: Final = (PAPER, OURS, ARRIVED)


def tables(found: Results) -> dict[str, Table]:
    """All tables but the provenance."""
    compared = [row for row in found.rows if row.experiment == "compare"]
    printed = [row for row in compared if not row.scaled]
    scaled = [row for row in compared if row.scaled]
    return {
        "goals": goals(found),
        "claims": claims(found),
        "printed": rounds(printed),
        "rounds": rounds(scaled),
        "anarchy": anarchy(found.worst),
        "cost": cost(scaled),
        "faults": faults(of(found, "faults")),
        "changes": changes(found),
        "many": many(found),
        "fit": fit(found),
    }


def of(found: Results, experiment: str) -> list[Row]:
    """The rows of an experiment."""
    return [row for row in found.rows if row.experiment.startswith(experiment)]


def grouped(rows: Iterable[Row], *keys: str) -> dict[tuple[object, ...], list[Row]]:
    """The rows by the values of these fields; floats rounded."""
    found: dict[tuple[object, ...], list[Row]] = defaultdict(list)
    for row in rows:
        values = (getattr(row, key) for key in keys)
        found[tuple(round(v, 6) if isinstance(v, float) else v for v in values)].append(row)
    return dict(found)


def rounds(rows: Sequence[Row]) -> Table:
    """Rounds and moves a clone until a rule settles, and the cost over annealing's."""
    lines: list[tuple[str, ...]] = []
    scaled = bool(rows) and rows[0].scaled
    for at in grouped(rows, "clones", *(["utilisation"] if scaled else [])).values():
        utilisation = fmean(row.utilisation for row in at)
        lines += [
            (str(at[0].clones), f"{utilisation:.2f}", rule, *_ended(mine))
            for rule in RULES
            if (mine := [row for row in at if row.method == rule])
        ]
    headings = ("clones", "utilisation", "rule", "settled", "rounds", "moves a clone", "cost")
    return Table("Rounds", headings, lines)


def _ended(rows: Sequence[Row]) -> tuple[str, str, str, str]:
    settled = [row for row in rows if row.settled]
    return (
        f"{len(settled)} of {len(rows)}",
        mean_text([float(row.rounds) for row in settled], 0) if settled else NONE,
        mean_text([row.moves for row in rows], 2),
        ratio(rows),
    )


def ratio(rows: Sequence[Row]) -> str:
    """The mean cost over annealing's; how often a cloud was overloaded."""
    known = [row.ratio for row in rows if row.ratio == row.ratio]
    finite = [each for each in known if isfinite(each)]
    if not known:
        return NONE
    over = f", {len(known) - len(finite)} overloaded" if len(finite) < len(known) else ""
    return (mean_text(finite, 3) if finite else NONE) + over


def anarchy(worst: Sequence[Worst]) -> Table:
    """Mean (maximum) over games: of the dearest equilibrium, and of those reached."""
    lines = []
    points = dict.fromkeys((each.share, each.delta) for each in worst)
    for share, delta in points:
        at = [each for each in worst if (each.share, each.delta) == (share, delta)]
        kinds = dict.fromkeys((each.method, each.eta) for each in at)
        for method, eta in kinds:
            mine = [each for each in at if (each.method, each.eta) == (method, eta)]
            dearest = [each.worst for each in mine if each.worst == each.worst]
            reached = [value for each in mine for value in each.reached]
            lines.append(
                (
                    f"{share:g}",
                    f"{delta:g}",
                    method + (f", η = {eta:g}" if method == PAPER else ""),
                    str(len(mine)),
                    _mean_max(reached),
                    _mean_max(dearest),
                )
            )
    headings = ("p", "δ, ms", "rule", "games", "reached", "dearest equilibrium")
    return Table("Anarchy", headings, lines)


def _mean_max(values: Sequence[float]) -> str:
    finite = [each for each in values if each < 1e6]
    if not finite:
        return NONE
    over = f"; {len(values) - len(finite)} overloaded" if len(finite) < len(values) else ""
    return f"{fmean(finite):.3f} ({max(finite):.2f}){over}"


def cost(rows: Sequence[Row]) -> Table:
    """The cost of every method over annealing's."""
    lines = []
    for at in grouped(rows, "clones", "utilisation").values():
        if any(row.ratio == row.ratio for row in at):
            cells = [ratio([row for row in at if row.method == method]) for method in METHODS[:-1]]
            lines.append((str(at[0].clones), f"{at[0].utilisation:.1f}", *cells))
    return Table("Cost", ("clones", "utilisation", *METHODS[:-1]), lines)


def faults(rows: Sequence[Row]) -> Table:
    """The rules by the age of facts and the share of lost messages."""
    lines = [
        (str(at[0].age), f"{at[0].lost:.0%}".replace("%", " %"), rule, *_ended(mine))
        for at in grouped(rows, "age", "lost").values()
        for rule in RULES
        if (mine := [row for row in at if row.method == rule])
    ]
    headings = ("age", "lost", "rule", "settled", "rounds", "moves a clone", "cost")
    return Table("Faults", headings, lines)


def changes(found: Results) -> Table:
    """What happens after a change of the world."""
    rows = [*of(found, "a master dies"), *of(found, "a fifth arrive")]
    lines = [
        (at[0].experiment, f"{round(at[0].utilisation, 1):g}", at[0].method, *_ended(at))
        for at in _by_change(rows)
    ]
    headings = ("", "utilisation", "rule", "settled", "rounds", "moves a clone", "cost")
    return Table("Changes", headings, lines)


def _by_change(rows: Sequence[Row]) -> list[list[Row]]:
    found: dict[tuple[str, float, str], list[Row]] = defaultdict(list)
    for row in rows:
        found[row.experiment, round(row.utilisation, 1), row.method].append(row)
    return list(found.values())


def many(found: Results) -> Table:
    """Rounds by the number of clones."""
    lines = []
    for at in grouped(of(found, "many"), "experiment", "clones").values():
        taken = [float(row.rounds) for row in at]
        squared = log(at[0].clones) ** 2
        lines.append(
            (
                _a_round(at[0]),
                str(at[0].clones),
                str(at[0].clouds),
                f"{sum(row.settled for row in at)} of {len(at)}",
                mean_text(taken, 0),
                f"{fmean(taken) / squared:.2f}",
                mean_text([row.moves for row in at], 2),
                f"{fmean(row.cpu_s for row in at):.1f} s",
            )
        )
    headings = (
        *("moves a master a round", "clones", "masters", "settled", "rounds", "rounds / log² n"),
        *("moves a clone", "CPU time of the drift"),
    )
    return Table("Many", headings, lines, left=1)


def _a_round(row: Row) -> str:
    number = row.experiment.split()[1]
    return f"{number} move{'' if number == '1' else 's'}"


def fit(found: Results) -> Table:
    """Least squares on logarithms: rounds = c · (log² n)^k."""
    lines = []
    for at in grouped(of(found, "many"), "experiment").values():
        k, c, error = exponent(at)
        lines.append((_a_round(at[0]), f"{c:.2f}", f"{k:.2f} ± {error:.2f}"))
    return Table("Fit", ("moves a master a round", "c", "k"), lines)


def exponent(rows: Sequence[Row]) -> tuple[float, float, float]:
    """k and c of rounds = c · (log² n)^k, and half of k's 95 % interval. Each size counts once."""
    sizes = grouped((row for row in rows if row.rounds), "clones")
    if len(sizes) < 3:
        return float("nan"), float("nan"), float("nan")
    from fleet.simulation.statistics import student_t

    x = np.log([log(each[0].clones) ** 2 for each in sizes.values()])
    y = np.log([fmean(row.rounds for row in each) for each in sizes.values()])
    k, c = np.polyfit(x, y, 1)
    left = ((y - c - k * x) ** 2).sum() / (len(x) - 2)
    error = student_t(0.95, len(x) - 2) * (left / ((x - x.mean()) ** 2).sum()) ** 0.5
    return float(k), float(np.exp(c)), float(error)


def goals(found: Results) -> Table:
    """The goals, and what came out."""
    lines: list[tuple[str, str, str]] = []
    for method, start in ((OURS, "from random clouds"), (ARRIVED, "after arrivals by price")):
        hard = [row for row in of(found, "faults") if row.method == method]
        if hard:
            lines += [
                ("settles, facts up to 10 rounds old, half of the messages lost, " + start,
                 "always", f"{sum(row.settled for row in hard)} of {len(hard)}"),
                ("the same, most rounds", "≤ 100", str(max(row.rounds for row in hard))),
                ("the same, most moves a clone", "≤ 1.5", f"{max(row.moves for row in hard):.2f}"),
            ]  # fmt: skip
    scaled = [row for row in of(found, "compare") if row.scaled and row.ratio == row.ratio]
    for method, limits in ((ARRIVED, {0.5: 1.15, 0.7: 1.25}), (PLANNED, {0.5: 1.03, 0.7: 1.03})):
        for utilisation, goal in limits.items():
            rows = [
                row
                for row in scaled
                if row.method == method and abs(row.utilisation - utilisation) < 1e-6
            ]
            lines += [
                (
                    f"cost, {at[0].clones} clones, utilisation {utilisation:g}, {method}",
                    f"≤ {goal:g}",
                    ratio(at),
                )
                for at in grouped(rows, "clones").values()
            ]
    for at in grouped(of(found, "many"), "experiment").values():
        k, _, error = exponent(at)
        sizes = f"{max(row.clones for row in at):,} clones, {_a_round(at[0])} a master a round"
        lines.append((f"rounds as (log² n)^k, to {sizes}: k", "< 1", f"{k:.2f} ± {error:.2f}"))
    drifted = [row for row in found.rows if row.method in {OURS, ARRIVED}]
    moves = round(sum(row.moves * row.clones for row in drifted))
    lines.append(("moves that raised the cost", "0", f"{sum(r.rose for r in drifted)} of {moves}"))
    ours = [each for each in found.worst if each.method == ARRIVED]
    after = [each for each in found.worst if each.method == PLANNED]
    if ours:
        reached = [value for each in ours for value in each.reached]
        planned = [value for each in after for value in each.reached]
        lines += [
            ("price of anarchy, n = 8, ours as reached, mean (maximum)", "1.21 as a mean",
             _mean_max(reached)),
            ("the same after a plan, maximum", "≤ 1.05", f"{max(planned):.3f}"),
        ]  # fmt: skip
    return Table("Goals", ("", "goal", "found"), lines, left=2)


def claims(found: Results) -> Table:
    """What the paper reports, and what its rule did here."""
    printed = [
        row
        for row in of(found, "compare")
        if not row.scaled and row.method == PAPER and row.settled and row.rounds
    ]
    lines: list[tuple[str, str, str]] = []
    sizes = grouped(printed, "clones")
    if len(sizes) > 2:
        x = np.log([each[0].clones for each in sizes.values()])
        y = np.log([fmean(row.rounds for row in each) for each in sizes.values()])
        lines.append(
            ("rounds grow slower than n: exponent of n", "< 1", f"{np.polyfit(x, y, 1)[0]:.2f}")
        )
    for eta in ETAS:
        mine = [each for each in found.worst if each.method == PAPER and each.eta == eta]
        if mine:
            reached = [value for each in mine for value in each.reached]
            said = "≤ 1.21 as η → 1" if eta == max(ETAS) else NONE
            lines.append((f"price of anarchy, η = {eta:g}, as reached", said, _mean_max(reached)))
    return Table("Claims", ("claim", "paper", "here"), lines, left=2)
