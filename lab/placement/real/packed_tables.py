"""Data and tables of the packings that were run: real masters beside what was to stand for them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from math import isfinite
from statistics import median
from typing import Final

from msgspec import Struct

from _core.colocation.model_file import ModelFile
from fleet.placement.latency import Topic
from fleet.simulation import statistics
from fleet.terminal.tables import Table
from lab.placement.real.outcomes import Outcome, agreement, messages_over, topics_over
from lab.placement.real.packings import EXACT, Packing, Set
from lab.statistics import mean_text, share, shown

REAL: Final = "real masters"
VIRTUAL: Final = "virtual time"
SIMULATED: Final = "simulated broker"
PREDICTED: Final = "predicted"
AGAIN: Final = "a second real run"
WAYS: Final = (REAL, VIRTUAL, SIMULATED, PREDICTED)
COUNTED: Final = WAYS[:3]  # with messages
# Where the loads of sets, in cores, are cut into rows.
LOADS: Final = (0.0, 0.9, 1.2, 1.4, 1.6, 99.0)
HEADINGS: Final = (
    *("request", "set", "planners", "load_cores", "cpu_ms", "rate_per_s"),
    *("real_p90_ms", "virtual_p90_ms", "simulated_p90_ms", "predicted_p90_ms"),
    *("real_messages", "real_over", "virtual_over", "simulated_messages", "simulated_over"),
)


class Ran(Struct):
    """A set of topics, and what became of each by the way in which the set was run."""

    topics: list[Topic]
    outcomes: dict[str, list[Outcome]]

    @property
    def load(self) -> float:
        """In cores."""
        return sum(topic.load for topic in self.topics)


class World(Struct):
    """Packings by a model that was trained where their sets were then run, and the outcomes."""

    planned: list[Packing]
    ran: dict[Set, list[Outcome]]


class Found(Struct):
    """The model that planners asked, of which `learned` runs were made for it; packings, and what
    became of each of their sets in `seconds`; cores that `others` took meanwhile, and how late the
    publisher was. The same requests in other `worlds`."""

    model: ModelFile
    learned: int
    requests: list[list[Topic]]
    planned: list[Packing]
    ran: dict[Set, Ran]
    seconds: float
    others: list[float]
    late_s: float = 0.0
    worlds: dict[str, World] = {}

    def planners(self) -> dict[str, list[Packing]]:
        """Each planner's packings, in the order of the requests."""
        return by_planner(self.planned)

    def outcomes(self, packing: Packing, way: str) -> list[Outcome]:
        """What became of the request's topics."""
        return [each for at in packing.sets for each in self.ran[at].outcomes[way]]


def by_planner(planned: Iterable[Packing]) -> dict[str, list[Packing]]:
    """Each planner's packings, in the order of the requests."""
    found: dict[str, list[Packing]] = {}
    for each in planned:
        found.setdefault(each.planner, []).append(each)
    return found


def rows(found: Found) -> Iterable[list[object]]:
    """Each topic of each set, for the data."""
    for number, (at, ran) in enumerate(found.ran.items(), 1):
        planners = "; ".join(each.planner for each in found.planned if at in each.sets)
        columns = [ran.outcomes[way] for way in WAYS]
        for topic, real, virtual, simulated, predicted in zip(ran.topics, *columns, strict=True):
            yield [
                *(at[0] + 1, number, planners, round(ran.load, 3)),
                *(round(topic.service_s * 1e3, 3), round(topic.rate, 3)),
                *(round(1e3 * each.p90_s, 2) for each in (real, virtual, simulated, predicted)),
                *(real.sent, real.over, virtual.over, simulated.sent, simulated.over),
            ]


def tables(found: Found, seed: int) -> Mapping[str, Table]:
    """The tables of the page by their names."""
    return {
        "brokers": _brokers(found),
        "worlds": _worlds(found),
        "topics": _topics(found),
        "messages": _messages(found),
        "agreement": _agreement(found, seed),
        "loads": _loads(found),
        "model": _model(found.model),
    }


def _brokers(found: Found) -> Table:
    """Of all requests with the same number of topics together, and over the exact planner's."""
    sizes = sorted({len(topics) for topics in found.requests})
    planners = found.planners()
    fewest = [len(each.bins) for each in planners[EXACT]]
    lines = []
    for name, mine in planners.items():
        counts = [len(each.bins) for each in mine]
        by_size = [
            sum(len(each.bins) for each in mine if len(found.requests[each.request]) == size)
            for size in sizes
        ]
        over = statistics.interval([float(a - b) for a, b in zip(counts, fewest, strict=True)])
        sets = len({at for each in mine for at in each.sets})
        lines.append([name, *map(str, by_size), str(sum(counts)), shown(over, 2, "+"), str(sets)])
    headings = (
        *("planner", *(f"n = {size}" for size in sizes), "all"),
        *("over exact, a request", "different sets"),
    )
    return Table("Brokers of all requests with n topics", headings, lines)


def _worlds(found: Found) -> Table:
    """Each planner's brokers and topics over τ, by a model that was trained in the same world."""
    real = World(found.planned, {at: ran.outcomes[REAL] for at, ran in found.ran.items()})
    lines: dict[str, list[str]] = {}
    for world in (real, *found.worlds.values()):
        for name, mine in by_planner(world.planned).items():
            every = [each for packing in mine for at in packing.sets for each in world.ran[at]]
            brokers = sum(len(each.bins) for each in mine)
            lines.setdefault(name, [name]).extend([str(brokers), _share(every)])
    names = (REAL, *found.worlds)
    headings = [f"{name}: {what}" for name in names for what in ("brokers", "topics over τ, %")]
    return Table("Each with a model of its own", ("planner", *headings), list(lines.values()))


def _share(outcomes: Sequence[Outcome]) -> str:
    over = share(topics_over(outcomes), len(outcomes))
    return f"{100 * over.found:.1f} [{100 * over.low:.1f}, {100 * over.high:.1f}]"


def _topics(found: Found) -> Table:
    """Shares of topics over τ with Wilson's interval, all requests together."""
    lines = []
    for name, mine in found.planners().items():
        cells = []
        for way in WAYS:
            every = [each for packing in mine for each in found.outcomes(packing, way)]
            cells.append(_share(every))
        lines.append([name, *cells])
    return Table("Topics over τ, %", ("planner", *WAYS), lines)


def _messages(found: Found) -> Table:
    """Shares of messages over τ, the means over requests."""
    lines = []
    for name, mine in found.planners().items():
        cells = [
            mean_text([100 * messages_over(found.outcomes(each, way)) for each in mine], 2)
            for way in COUNTED
        ]
        lines.append([name, *cells])
    return Table("Messages over τ, %", ("planner", *COUNTED), lines)


def _agreement(found: Found, seed: int) -> Table:
    """Each way beside real masters, over the sets that were run so."""
    lines = []
    for way in (AGAIN, *WAYS[1:]):
        some = [ran.outcomes for ran in found.ran.values() if way in ran.outcomes]
        one = agreement([each[REAL] for each in some], [each[way] for each in some], seed)
        lines.append(
            [
                way,
                str(len(some)),
                f"{one.r2:.2f} [{one.low:.2f}, {one.high:.2f}]",
                f"{one.ratio:.2f}",
                *map(str, (one.both, one.only_real, one.only_other)),
            ]
        )
    headings = (
        *("", "sets", "R² of log p90", "its p90 over the real one, median"),
        *("topics over τ: both", "only real", "only here"),
    )
    return Table("Beside real masters", headings, lines)


def _loads(found: Found) -> Table:
    """By the load of a set: the median over topics of their 90th percentiles, and topics over τ."""
    lines = []
    for low, high in pairwise(LOADS):
        some = [ran for ran in found.ran.values() if low <= ran.load < high]
        every = {way: [each for ran in some for each in ran.outcomes[way]] for way in WAYS}
        if some:
            told = f"{low:g} … {high:g}" if high < LOADS[-1] else f"> {low:g}"
            lines.append([told, str(len(some)), *(_cell(every[way]) for way in WAYS)])
    headings = ("load, cores", "sets", *(f"{way}, ms (over τ)" for way in WAYS))
    return Table("Median over topics of their 90th percentiles", headings, lines)


def _cell(outcomes: Sequence[Outcome]) -> str:
    known = [1e3 * each.p90_s for each in outcomes if isfinite(each.p90_s)]
    return f"{median(known):.0f} ({topics_over(outcomes)})" if known else "–"


def _model(model: ModelFile) -> Table:
    row = [
        *(str(model.runs), f"{model.cores:.2f}", f"{model.service_scale:.2f}"),
        *(f"{model.overhead_s * 1e3:.1f}", f"{model.interference:.2f}"),
        "yes" if model.trees else "no",
    ]
    headings = ("runs", "cores", "scale of CPU times", "overhead, ms", "interference", "trees")
    return Table("The model", headings, [row])
