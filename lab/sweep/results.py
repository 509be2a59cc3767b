"""Output of the testbed experiment: tables beside the paper's, a page, every run as CSV."""

from __future__ import annotations

import csv
import itertools
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from agent.wire.base import Policy
from fleet.simulation.policies import policy_name
from fleet.terminal.tables import Table
from lab.provenance import Provenance
from lab.sweep.measures import (
    CLASSES,
    SLO_MS,
    TAIL,
    Blocks,
    Floats,
    Highest,
    Interval,
    Pair,
    Run,
    blocks_of,
    corrected,
    gain,
    interval,
    measured,
    missed,
    p99_ms,
)
from lab.sweep.steps import Steps
from lab.sweep.virtual import LEARNING, Effort

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
SOURCES: Final = ("real", "real, trace's luck removed", "virtual", "paper")


class PolicyRuns(NamedTuple):
    """One policy: its curve in virtual time, and its real runs, each with the same queries in
    virtual time."""

    policy: Policy
    curve: Sequence[Run]
    pairs: Sequence[Pair]


class Experiment(NamedTuple):
    """The runs of the experiment; `steps` are None if Table III's run was not requested."""

    origin: Provenance
    name: str
    seconds: float
    learning_s: float
    seed: int
    effort: Effort
    policies: Sequence[PolicyRuns]
    steps: Steps | None


class Found(NamedTuple):
    """The highest rates of one policy, by their source."""

    policy: Policy
    sources: dict[str, Highest]


class Analysis:
    """The resamples of an experiment, computed once for all tables."""

    def __init__(self, experiment: Experiment) -> None:
        self.experiment = experiment
        curves = [run for each in experiment.policies for run in each.curve]
        pairs = [pair for each in experiment.policies for pair in each.pairs]
        self.curve_blocks = blocks_of(curves, experiment.seed)
        self.blocks = blocks_of([pair.real for pair in pairs], experiment.seed + 1)
        self.found = [self._found(each) for each in experiment.policies]

    def _found(self, each: PolicyRuns) -> Found:
        real, removed, virtual, _ = SOURCES
        sources = {}
        if each.pairs:
            sources[real] = measured([pair.real for pair in each.pairs], self.blocks)
            sources[removed] = corrected(each.curve, self.curve_blocks, each.pairs, self.blocks)
        sources[virtual] = measured(each.curve, self.curve_blocks)
        return Found(each.policy, sources)

    def blocks_for(self, run: Run) -> Blocks:
        """The blocks for its kind of run."""
        return self.blocks if run.source == "real" else self.curve_blocks

    def gain(self, over: Policy, base: Policy, source: str) -> Interval | None:
        """Gain in sustained rate of `over`, in percent; None if one of them was not run so."""
        rates: dict[Policy, Floats] = {
            each.policy: each.sources[source].overall
            for each in self.found
            if source in each.sources
        }
        if over not in rates or base not in rates:
            return None
        return interval(gain(rates[over], rates[base]))


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
    return Table(
        f"Table III: mean times at the hot spot, {policy_name(TABLE_III_POLICY)}, "
        f"λ = {TABLE_III_RATE_PER_S:g}/s, {steps.subtasks} subtasks",
        ("step", "real processes", "paper"),
        [(name, _ms(ours), _ms(theirs)) for name, ours, theirs in rows],
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


def verdicts(analysis: Analysis) -> Iterator[str]:
    """Each goal beside the result, in a sentence."""
    for over, base, goal in GOALS:
        gains = [analysis.gain(over, base, source) for source in SOURCES[:-1]]
        if all(found is None for found in gains):
            continue
        said = "; ".join(
            f"{source} {_gain(found)}"
            for source, found in zip(SOURCES, gains, strict=False)
            if _gain(found) != "–"
        )
        paper = _paper_gain(over, base)
        paper = "" if paper == "–" else f"; paper {paper}"
        yield (
            f"{policy_name(over)} over {policy_name(base)} in %: {said}{paper}; "
            f"goal {'more' if goal == 0 else f'{goal:+g}'}."
        )


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
PAGE: Final = """\
# {title}

Written by `fleet lab testbed`; how to run and read it: [testbed.md](../papers/testbed.md).{sized}

{origin}

{verdicts}

![The 99th percentile of each class over the rate, by policy]({name}.svg)

## Table IV

{table_iv}

{gains}

In brackets: the middle 95 % of {resamples:,} resamples of blocks of consecutive queries.

- *real*: {seconds:g} s of real processes at each rate, alone. Before a policy's runs come
  {learning_s:g} s that are not counted: `sanderling` learns from misses, and all get the same time.
- *real, trace's luck removed*: the virtual curve, shifted by how much slower (or faster) the real
  fleet's slowest {tail:g} % were than virtual time's for the same queries and service times, with
  the same time to learn.
- *virtual*: the simulator, no measurement: {queries:,} queries each run, of which the first
  {discarded:,} are not counted; {seeds} runs at a rate, {all_seeds} where it decides.
- *beyond*, *below*: outside of what the rates allow to say. The paper's "all classes" is its own
  estimate, not the least of its classes.

**How uncertain.** {uncertainty}

## Table III

{table_iii}

## Every real run

{runs}

A class keeps its SLO where at most 1 % of its queries are late; the range is the 95 % interval
(Wilson) of their share.
"""
TITLE: Final = "The testbed: Tables III and IV, Fig. 8"
TITLE_SIZED: Final = "The testbed with service times that grow with the request"
SIZED_TEXT: Final = (
    " Emulated\nhardware is slower the longer the window is "
    "([edge.md](../understand/edge.md#pods)); without "
    "that:\n[testbed](testbed.md)."
)


def page_of(experiment: Experiment, analysis: Analysis) -> str:
    """The page as Markdown."""
    steps = experiment.steps
    name = experiment.name
    is_sized = name != "testbed"
    effort = experiment.effort
    return PAGE.format(
        title=TITLE_SIZED if is_sized else TITLE,
        sized=SIZED_TEXT if is_sized else "",
        name=name,
        origin=experiment.origin.table(
            data=f"[{name}.csv]({name}.csv): a row per run and class",
        ),
        verdicts="\n".join(f"- {sentence}" for sentence in verdicts(analysis)),
        table_iv=table_iv(analysis).markdown(),
        gains=table_gains(analysis).markdown(),
        resamples=len(analysis.blocks.counts) - 1,
        seconds=experiment.seconds,
        learning_s=experiment.learning_s,
        queries=effort.queries,
        tail=100 * TAIL,
        discarded=int(effort.queries * LEARNING),
        seeds=effort.seeds,
        all_seeds=effort.seeds + effort.more_seeds,
        uncertainty=uncertainty(experiment),
        table_iii="Not asked for." if steps is None else _titled(table_iii(steps)),
        runs=table_runs(experiment).markdown(),
    )


def _titled(table: Table) -> str:
    title = table.title.partition(": ")[2]
    return f"{title[0].upper()}{title[1:]}.\n\n{table.markdown()}"


def uncertainty(experiment: Experiment) -> str:
    """The basis of a real run's 99th percentiles, in a sentence or two."""
    runs = [pair.real for each in experiment.policies for pair in each.pairs]
    typical = {
        kind: sorted(len(run.of_class(kind)) for run in runs)[len(runs) // 2] for kind in CLASSES
    }
    counts = ", ".join(f"{n} of class {kind}" for kind, n in typical.items())
    least = CLASSES[-1]
    return (
        f"A real run has some {counts}: the p99 of class {least} is set by its slowest "
        f"{max(1, typical[least] // 100)} or {max(1, typical[least] // 100) + 1} queries. "
        "The p99 rises by only 3 to 6 % for each query/s, so 5 % of error in it are a query/s or "
        "more in *real*. The two other lines rest on the long virtual runs and on the difference, "
        "which has little of that noise because both sides have the same arrivals and the same "
        "service times."
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
    """Write data, picture and page into `folder`; their paths."""
    from lab.sweep.pictures import draw

    folder.mkdir(parents=True, exist_ok=True)
    data, picture, page = (folder / f"{experiment.name}.{end}" for end in ("csv", "svg", "md"))
    with data.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        writer.writerows(csv_rows(experiment, analysis))
    draw(experiment, analysis, picture)
    page.write_text(page_of(experiment, analysis), encoding="utf-8")
    return [data, picture, page]
