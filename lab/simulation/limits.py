"""`fleet lab limits`: how far each policy is from what any policy could do, and the results."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import fmean
from typing import Final

from msgspec import Struct

from fleet.common import exits
from fleet.simulation.statistics import interval
from fleet.terminal import screen
from fleet.terminal.tables import Table
from lab import pages, provenance
from lab.simulation import small
from lab.simulation.bound import highest_bound
from lab.simulation.contenders import title
from lab.simulation.run import FIRST_GUESS_PER_S, Setting, World
from lab.simulation.table_v import SIZES, Size
from lab.statistics import shown

NAME: Final = "policy-limits"
# Sanderling without advances: learning them is an experiment of its own.
BLIND: Final = ("fifo", "spr", "tedfq", "edfq", "demotion")
TITLES: Final = {
    **{name: title(name) for name in BLIND},
    "demotion": "Sanderling",
    "sizes-demotion": "Sanderling, sizes known",
}
GOAL: Final = 1.10
QUERIES: Final = {100: 20_000, 1_000: 10_000, 4_000: 5_000, 12_000: 5_000, 18_000: 5_000}
# Nodes whose epochs are looked at, those that most queries ask; more of them tighten the bound.
NODES: Final = {100: 12, 1_000: 30, 4_000: 40, 12_000: 40, 18_000: 40}
COLUMNS: Final = ("experiment", "nodes", "queries", "seed", "policy", "value")


class Options(Struct, frozen=True):
    """The options of the command: `bursts` small cases, `seeds` traces of each fleet."""

    results: Path
    nodes: tuple[int, ...]
    bursts: int
    seeds: int
    seed: int
    queries: int | None = None


class Found(Struct, frozen=True):
    """One result: late queries of a burst, or a load in queries/s; policy `optimum` or `bound`."""

    experiment: str
    nodes: int
    queries: int
    seed: int
    policy: str
    value: float


def run(options: Options) -> int:
    """Measure, show and write; returns the exit status."""
    console = screen.console()
    words = [f"fleet lab limits --bursts {options.bursts} --seeds {options.seeds}"]
    words += [f"--nodes {nodes}" for nodes in options.nodes if set(options.nodes) != set(QUERIES)]
    words += [f"--queries {options.queries}"] if options.queries else []
    origin = provenance.now(" ".join([*words, f"--seed {options.seed}"]))
    seeds = range(options.seed, options.seed + options.seeds)
    screen.line(console, f"{options.bursts} bursts …", "dim")
    found = list(bursts(range(options.seed, options.seed + options.bursts)))
    for size in SIZES:
        if size.nodes in options.nodes:
            screen.line(console, f"{size.nodes:,} nodes …", "dim")
            queries = options.queries or QUERIES[size.nodes]
            found += [one for seed in seeds for one in loads(size, queries, seed)]
    tables = tables_of(found)
    for table in tables.values():
        table.show(console)
    pages.write_csv(options.results / f"{NAME}.csv", COLUMNS, map(_row, found))
    more = {
        "bursts": f"{options.bursts} of {small.QUERIES} queries",
        "traces": f"{options.seeds} of each fleet",
        "data": f"[{NAME}.csv]({NAME}.csv): a row per result",
    }
    screen.line(console, f"wrote {pages.write(options.results, NAME, tables, origin, more)}")
    return exits.DONE


def bursts(seeds: Iterable[int]) -> Iterable[Found]:
    """Late queries of each burst, under each policy and at the least."""
    for seed in seeds:
        case = small.burst(seed)
        late = {name: small.late(case, name) for name in (*BLIND, "sizes-demotion")}
        for name, count in {**late, "optimum": small.fewest_late(case)}.items():
            yield Found("burst", small.SIZE.nodes, small.QUERIES, seed, name, count)


def loads(size: Size, queries: int, seed: int) -> Iterable[Found]:
    """The load that each policy sustains on a trace, and one that none which does not know sizes
    passes."""
    world = World(Setting(size, "query", "clip", queries, seed))
    for name in BLIND:
        load_per_s, _ = world.search(name, FIRST_GUESS_PER_S)
        yield Found("load", size.nodes, queries, seed, name, load_per_s)
    bound_per_s = highest_bound(world.draw, NODES[size.nodes], seed)
    yield Found("load", size.nodes, queries, seed, "bound", bound_per_s)


def tables_of(found: Sequence[Found]) -> dict[str, Table]:
    """The tables of the page."""
    small_ones = [one for one in found if one.experiment == "burst"]
    large_ones = [one for one in found if one.experiment == "load"]
    return {
        "bursts": _bursts(small_ones),
        "bounds": _bounds(large_ones),
        "shares": _shares(large_ones),
    }


def _values(found: Sequence[Found], policy: str, nodes: int) -> list[float]:
    return [one.value for one in found if one.policy == policy and one.nodes == nodes]


def _bursts(found: Sequence[Found]) -> Table:
    nodes = small.SIZE.nodes
    optimum = _values(found, "optimum", nodes)
    rows = []
    for name in (*BLIND, "sizes-demotion", "optimum"):
        late = _values(found, name, nodes)
        if not late:
            continue
        rows.append(
            (
                TITLES.get(name, "optimum, everything known"),
                shown(interval(late), 2),
                shown(interval([a - b for a, b in zip(late, optimum, strict=True)]), 2, "+"),
                f"{100.0 * fmean(a == b for a, b in zip(late, optimum, strict=True)):.0f} %",
            )
        )
    headings = ("policy", f"late of {small.QUERIES}", "more than the optimum", "as few in")
    return Table("Late queries of a burst", headings, rows)


def _fleets(found: Sequence[Found]) -> list[int]:
    return sorted({one.nodes for one in found})


def _bounds(found: Sequence[Found]) -> Table:
    rows = []
    for nodes in _fleets(found):
        base, bound = _values(found, "tedfq", nodes), _values(found, "bound", nodes)
        ours = _values(found, "demotion", nodes)
        goal = [GOAL * load for load in base]
        rows.append(
            (
                f"{nodes:,}",
                *(shown(interval(each), 2) for each in (base, ours, goal, bound)),
                *(
                    shown(
                        interval([100.0 * (a / b - 1.0) for a, b in zip(each, base, strict=True)]),
                        1,
                        "+",
                    )
                    + " %"
                    for each in (ours, bound)
                ),
            )
        )
    headings = (
        "nodes", "T-EDFQ", "Sanderling", "goal", "bound", "Sanderling over T-EDFQ",
        "bound over T-EDFQ",
    )  # fmt: skip
    return Table("Loads, queries/s, sizes unknown", headings, rows)


def _shares(found: Sequence[Found]) -> Table:
    rows = []
    for nodes in _fleets(found):
        bound = _values(found, "bound", nodes)
        shares = [
            fmean(a / b for a, b in zip(_values(found, name, nodes), bound, strict=True))
            for name in BLIND
        ]
        rows.append((f"{nodes:,}", *(f"{100.0 * share:.0f} %" for share in shares)))
    return Table("Share of the bound", ("nodes", *(TITLES[name] for name in BLIND)), rows)


def _row(one: Found) -> list[str]:
    return [
        one.experiment, str(one.nodes), str(one.queries), str(one.seed), one.policy,
        f"{one.value:.4f}",
    ]  # fmt: skip
