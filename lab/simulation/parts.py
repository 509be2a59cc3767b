"""Tables of the contribution of each part of sanderling, and of the advances that training
learnt."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from fleet.terminal.tables import Table
from lab.simulation.comparisons import gain_text, load_text
from lab.simulation.contenders import CONTENDERS, OWN, title
from lab.simulation.evaluation import Evaluation
from lab.simulation.table_v import Size

# The rows, from the key alone to all parts.
BASE: Final = "tedfq"
ROWS: Final = (
    "edfq",
    BASE,
    "balance",
    "demotion",
    "sanderling",
    "online",
    "half",
    "sizes-demotion",
    "sanderling-sizes",
    "sizes-task",
    "sizes-query",
    "sizes-online",
)


def parts(report: Evaluation, size: Size) -> Table:
    """Every part at one fleet, with the first reading of the fanouts."""
    variant = report.variants[0]

    def rows() -> Iterable[Sequence[str]]:
        for name in ROWS:
            loads = report.loads(size, variant, name)
            if loads:
                gain = None if name == BASE else report.gain(size, variant, name, BASE)
                load = load_text(report.load(size, variant, name))
                yield *_what(name), load, gain_text(gain), str(len(loads))

    headings = ("", "known", "demotion", "advances", "queries/s", "over T-EDFQ", "seeds")
    return Table(f"{size.nodes:,} nodes, {variant.name}", headings, list(rows()), left=4)


def _what(name: str) -> tuple[str, str, str, str]:
    contender = CONTENDERS[name]
    if contender.policy == name and name not in OWN:
        return contender.title, "", "", ""
    demotion = "–" if contender.demotion == "never" else f"by {contender.demotion}"
    learnt = "frozen" if contender.trained_as else "–"
    advances = "learnt all the time" if contender.online else learnt
    return title(OWN[0]), f"{100 * contender.known:g} %", demotion, advances


def advances(report: Evaluation) -> Table:
    """The advances learnt for each class by the main contenders."""

    def rows() -> Iterable[Sequence[str]]:
        for size in report.sizes:
            cells = [_advances(report.advances(size, name)) for name in report.own]
            yield f"{size.nodes:,}", *cells

    headings = ("nodes", *map(title, report.own))
    return Table("Advances in ms", headings, list(rows()))


def _advances(of_class: tuple[float, ...] | None) -> str:
    """``−23 +5 0 +18``."""
    if of_class is None:
        return "–"
    return " ".join(f"{1e3 * advance_s:+.0f}" for advance_s in of_class).replace("-", "−")
