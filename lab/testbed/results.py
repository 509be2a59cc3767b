"""Output of the testbed experiment: tables beside the paper's, every run as CSV."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from agent.wire.base import Policy
from fleet.simulation.policies import policy_name
from fleet.terminal.tables import Table
from lab import pages
from lab.testbed.analysis import SOURCES, Analysis, Experiment
from lab.testbed.measures import (
    CLASSES,
    SLO_MS,
    Interval,
    Run,
    interval,
    missed,
    p99_ms,
)
from lab.testbed.steps import Steps
from lab.testbed.virtual import LEARNING

TABLE_III_RATE_PER_S: Final = 15.6
TABLE_III_POLICY: Final[Policy] = "edfq"
PAPER_III: Final = Steps(100.51, 2.57, 1.33, 41.88, 2.87, 97.64, 0.31, math.nan, 0)
PAPER_IV: Final[dict[Policy, tuple[float, float, float, float]]] = {
    "fifo": (12.2, 17.8, 20.0, 13.23),
    "spr": (20.0, 22.2, 15.6, 15.73),
    "edfq": (18.9, 20.0, 17.8, 17.98),
}
# Goals: which policy shall sustain how many percent more than which.
GOALS: Final[tuple[tuple[Policy, Policy, float], ...]] = (
    ("edfq", "fifo", 36.0),
    ("sanderling", "edfq", 10.0),
    ("sanderling", "tedfq", 0.0),
)


# --- tables ---------------------------------------------------------------------------------------


def table_iii(steps: Steps) -> Table:
    """Mean times at the hot spot beside the paper's."""
    rows = [
        ("unloaded subtask response time", steps.unloaded_ms, PAPER_III.unloaded_ms),
        ("(1) query evaluation", steps.query_evaluation_ms, PAPER_III.query_evaluation_ms),
        ("(2) task evaluation", steps.task_evaluation_ms, PAPER_III.task_evaluation_ms),
        ("(3) queueing", steps.queueing_ms, PAPER_III.queueing_ms),
        ("(4) + (6) communication", steps.communication_ms, PAPER_III.communication_ms),
        ("(5) subtask execution", steps.execution_ms, PAPER_III.execution_ms),
        ("(7) task aggregation", steps.task_aggregation_ms, PAPER_III.task_aggregation_ms),
        ("(8) query aggregation, with the way there", steps.query_aggregation_ms, math.nan),
    ]
    cells = [(name, _ms(ours), _ms(theirs)) for name, ours, theirs in rows]
    return Table(
        f"Table III: mean times at the hot spot, {policy_name(TABLE_III_POLICY)}, "
        f"λ = {TABLE_III_RATE_PER_S:g}/s",
        ("step", "real processes", "paper"),
        [*cells, ("subtasks", str(steps.subtasks), "")],
    )


def table_iv(analysis: Analysis) -> Table:
    """The highest rate of every class, and of all."""
    rows = []
    for each in analysis.found:
        for source, highest in each.sources.items():
            per_class = [_rate(interval(highest.by_class[kind])) for kind in CLASSES]
            overall = _rate(interval(highest.overall))
            rows.append((policy_name(each.policy), source, *per_class, overall))
        if each.policy in PAPER_IV:
            numbers = [f"{rate:g}" for rate in PAPER_IV[each.policy]]
            rows.append((policy_name(each.policy), "paper", *numbers))
    headings = ("policy", "from", *(f"class {kind}" for kind in CLASSES), "all classes")
    return Table("Table IV: highest λ with p99 within the SLO, queries/s", headings, rows, left=2)


def table_gains(analysis: Analysis) -> Table:
    """Gains in sustained rate between policies."""
    rows = []
    policies = [each.policy for each in analysis.found]
    for base, over in itertools.combinations(policies, 2):
        cells = [_gain(analysis.gain(over, base, source)) for source in SOURCES[:-1]]
        name = f"{policy_name(over)} over {policy_name(base)}"
        rows.append((name, *cells, _paper_gain(over, base)))
    return Table("How much more load, %", ("", *SOURCES), rows)


def table_runs(experiment: Experiment) -> Table:
    """Every real run: the p99 and the number of misses; beside it virtual time for the same
    queries."""
    rows = []
    for each in experiment.policies:
        for pair in sorted(each.pairs, key=lambda pair: pair.real.rate_per_s):
            cells = []
            for kind in CLASSES:
                late = missed(pair.real, kind)
                cells.append(f"{_p99(pair.real, kind)} / {_p99(pair.virtual, kind)}")
                cells.append(
                    f"{late.missed} of {late.n}, {100 * late.low:.1f}–{100 * late.high:.1f} %"
                )
            rows.append((policy_name(each.policy), f"{pair.real.rate_per_s:g}", *cells))
    headings = [f"class {kind}: {what}" for kind in CLASSES for what in ("p99", "late")]
    title = "Real runs: p99 in ms (real / virtual, same queries), and queries beyond the SLO"
    return Table(title, ("policy", "λ", *headings), rows)


def table_goals(analysis: Analysis) -> Table:
    """Each goal beside what was reached, in percent."""
    rows = []
    for over, base, goal in GOALS:
        gains = [analysis.gain(over, base, source) for source in SOURCES[:-1]]
        if any(found is not None for found in gains):
            rows.append(
                (
                    f"{policy_name(over)} over {policy_name(base)}",
                    "more" if goal == 0 else f"{goal:+g}",
                    *map(_gain, gains),
                    _paper_gain(over, base),
                )
            )
    return Table("Goals, in %", ("", "goal", *SOURCES), rows)


def table_effort(experiment: Experiment, analysis: Analysis) -> Table:
    """What the numbers rest on. Queries of a real run are those of the one in the middle."""
    effort = experiment.effort
    rows = [
        ("seconds of a real run", f"{experiment.seconds:g}"),
        ("before a policy's runs, not counted, s", f"{experiment.learning_s:g}"),
        ("queries of a virtual run", f"{effort.queries:,}"),
        ("of them not counted", f"{int(effort.queries * LEARNING):,}"),
        ("virtual runs at a rate", str(effort.seeds)),
        ("virtual runs at a rate that decides", str(effort.seeds + effort.more_seeds)),
        ("resamples of blocks of queries", f"{len(analysis.blocks.counts) - 1:,}"),
    ]
    runs = [pair.real for each in experiment.policies for pair in each.pairs]
    for kind in CLASSES if runs else ():
        counts = sorted(len(run.of_class(kind)) for run in runs)
        rows.append((f"queries of class {kind} in a real run", str(counts[len(runs) // 2])))
    return Table("What the numbers rest on", ("", "number"), rows)


def _ms(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:.2f} ms"


def _p99(run: Run, kind: str) -> str:
    value = p99_ms(run.of_class(kind))
    return "–" if math.isnan(value) else f"{value:.0f}"


def _bound(value: float, text: str) -> str:
    if math.isinf(value):
        return "beyond" if value > 0 else "below"
    return text


def _rate(found: Interval) -> str:
    if math.isnan(found.value):
        return "–"
    return _with_ends(*(_bound(value, f"{value:.1f}") for value in found))


def _gain(found: Interval | None) -> str:
    if found is None or math.isnan(found.value):
        return "–"
    return _with_ends(*(_bound(value, f"{value:+.0f}") for value in found))


def _with_ends(value: str, low: str, high: str) -> str:
    return value if value == low == high else f"{value} ({low} … {high})"


def _paper_gain(over: Policy, base: Policy) -> str:
    if over not in PAPER_IV or base not in PAPER_IV:
        return "–"
    return f"{100 * (PAPER_IV[over][-1] / PAPER_IV[base][-1] - 1):+.1f}"


# --- files ----------------------------------------------------------------------------------------

COLUMNS: Final = (
    "source",
    "policy",
    "rate_per_s",
    "class",
    "slo_ms",
    "queries",
    "p99_ms",
    "p99_low_ms",
    "p99_high_ms",
    "late",
)


def csv_rows(experiment: Experiment, analysis: Analysis) -> Iterator[tuple[str, ...]]:
    """A row per run and class."""
    for each in experiment.policies:
        runs = [*each.curve, *(run for pair in each.pairs for run in pair)]
        same_queries = {id(pair.virtual) for pair in each.pairs}
        for run in runs:
            source = "virtual, same queries" if id(run) in same_queries else run.source
            blocks = analysis.blocks if id(run) in same_queries else analysis.blocks_for(run)
            for kind in CLASSES:
                latencies = run.of_class(kind)
                if not len(latencies):
                    continue
                p99 = interval(blocks.p99_ms(run, kind))
                numbers = [f"{value:.1f}" for value in p99]
                yield (
                    source,
                    run.policy,
                    f"{run.rate_per_s:g}",
                    kind,
                    f"{SLO_MS[kind]:g}",
                    str(len(latencies)),
                    *numbers,
                    str(missed(run, kind).missed),
                )


def write(experiment: Experiment, analysis: Analysis, folder: Path) -> list[Path]:
    """Write data, picture, tables and page into `folder`; the paths of data, picture and page."""
    from lab.testbed.pictures import draw

    name = experiment.name
    data = pages.write_csv(folder / f"{name}.csv", COLUMNS, csv_rows(experiment, analysis))
    picture = folder / f"{name}.svg"
    draw(experiment, analysis, picture)
    tables = {
        "goals": table_goals(analysis),
        "table-iv": table_iv(analysis),
        "gains": table_gains(analysis),
        "runs": table_runs(experiment),
        "effort": table_effort(experiment, analysis),
    }
    if experiment.steps is not None:
        tables["table-iii"] = table_iii(experiment.steps)
    more = {"data": f"[{name}.csv]({name}.csv): a row per run and class"}
    return [data, picture, pages.write(folder, name, tables, experiment.origin, more)]
