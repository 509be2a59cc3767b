"""Tables on overlays of many shapes: formulas against measurements."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct

from fleet.terminal.tables import Table
from lab import pages
from lab.overlay import formulas, pictures
from lab.overlay.alone import Done
from lab.overlay.formulas import Expected
from lab.overlay.memory import Resident
from lab.overlay.scale import COLUMNS, MILLION, ON_PAPER, Measured
from lab.overlay.topology import spread
from lab.provenance import Provenance

NAME: Final = "overlay-scale"
START: Final = ("a broker's start", "start_messages", 2)


class Findings(Struct, frozen=True):
    """All measurements: overlays, and tables of single brokers."""

    worlds: Sequence[Done[list[Measured]]]
    tables: Sequence[Done[Resident]]

    @property
    def few(self) -> list[Measured]:
        """Those measured from their start on."""
        return [each for each in self.all if not each.shape.told]

    @property
    def ten_thousand(self) -> list[Measured]:
        """Each with one population of subscriptions and the next."""
        return [each for each in self.all if each.shape.told]

    @property
    def all(self) -> list[Measured]:
        """Few brokers and many."""
        return [each for done in self.worlds for each in done.result]

    @property
    def entry_bytes(self) -> float:
        """Bytes per entry of the broker with most entries."""
        most = max((done.result for done in self.tables), key=lambda each: each.srt + each.prt)
        return most.size / (most.srt + most.prt)

    def resident_mib(self, vertices: int, clusters: int) -> float | None:
        """Memory of a broker in that shape with a million subscriptions; None if it was not
        measured."""
        for done in self.tables:
            case = done.result.case
            if (case.vertices, case.clusters) == (vertices, clusters):
                return done.result.size / 2**20
        return None


def table(found: Findings) -> Table:
    """Measured and, by arithmetic, expected."""
    return _beside(found.few, (*COLUMNS, START), "Measured, and expected by arithmetic")


def large_table(found: Findings) -> Table:
    """Of ten thousand brokers."""
    return _beside(found.ten_thousand, COLUMNS, "Ten thousand brokers, measured and expected")


def _beside(
    results: Sequence[Measured], columns: Sequence[tuple[str, str, int]], title: str
) -> Table:
    rows = []
    for each in results:
        shape = each.shape
        row = [f"{shape.vertices:,} × {shape.clusters}", f"{each.expected.brokers:,}"]
        row += [f"{each.subscriptions:,}"]
        for _, name, digits in columns:
            row += [
                f"{getattr(each, name):,.{digits}f}",
                f"{getattr(each.expected, name):,.{digits}f}",
            ]
        rows.append(row)
    headings = ["vertices × clusters", "brokers", "subscriptions"]
    for heading, _, _ in columns:
        headings += [heading, "expected"]
    return Table(title, tuple(headings), rows)


def on_paper() -> list[tuple[int, int, Expected]]:
    """By formula: ten thousand brokers and a million subscriptions, in several shapes."""
    return [
        (vertices, clusters, formulas.octopia(spread(vertices, clusters), MILLION))
        for vertices, clusters in ON_PAPER
    ]


def paper_table(found: Findings) -> Table:
    """Rows of `on_paper`, with the measured memory of one real broker of each."""
    rows = []
    for vertices, clusters, expected in on_paper():
        memory = (expected.srt + expected.prt) * found.entry_bytes / 2**20
        measured = found.resident_mib(vertices, clusters)
        rows.append(
            (
                *(f"{vertices:,} × {clusters:,}", f"{expected.brokers:,}"),
                *(f"{expected.neighbours:,.0f}", f"{expected.srt:,.0f}", f"{expected.prt:,.0f}"),
                *(f"{memory:,.1f}", "" if measured is None else f"{measured:,.1f}"),
                f"{expected.advertisement_messages:,.0f}",
                f"{expected.subscription_messages:,.0f}",
                f"{expected.notification_messages:,.0f}",
                f"{expected.start_messages:,.0f}",
                f"{expected.subscription_hops}",
                f"{expected.notification_hops}",
            )
        )
    headings = (
        *("vertices × clusters", "brokers", "neighbours", "SRT", "PRT"),
        *("tables, MiB", "measured", "messages an advertisement", "a subscription"),
        *("a notification", "a broker's start", "hops of a subscription", "of a notification"),
    )
    return Table("Ten thousand brokers, a million subscriptions", headings, rows)


def checks(found: Findings) -> Table:
    """How far the measured overlays are from arithmetic and from delivering everything, and what
    those of ten thousand brokers took."""
    columns = [each for each in (found.few, found.ten_thousand) if each]
    took = [done for done in found.worlds if done.result[0].shape.told]
    rows = [
        (
            "differ from the expectation, in the mean",
            *(f"{_off(each)[0]:.1f} %" for each in columns),
        ),
        ("at most", *(f"{_off(each)[1]:.1f} %" for each in columns)),
        ("deliveries that did not come, or came twice", *map(_undelivered, columns)),
    ]
    if took:
        seconds = [done.cpu_s for done in took]
        rows += [
            ("processor of a process, s", "", f"{min(seconds):,.0f} to {max(seconds):,.0f}"),
            ("its memory at most, MiB", "", f"{max(done.most_mib for done in took):,.0f}"),
        ]
    headings = ("", "few brokers", "ten thousand")[: len(columns) + 1]
    return Table("Checks", headings, rows)


def entry(found: Findings) -> Table:
    """Bytes of an entry, by the broker that has most of them."""
    return Table("An entry", ("bytes an entry",), [(f"{found.entry_bytes:,.0f}",)], left=0)


def best_shapes() -> Table:
    """The number of clusters with fewest messages for ten thousand brokers, by formula."""
    rows = [
        (what, f"{formulas.best_clusters(10_000, advertisements, subscriptions):,.0f}")
        for what, advertisements, subscriptions in (
            ("both change as often", 1.0, 1.0),
            ("advertisements a hundred times as often", 100.0, 1.0),
            ("subscriptions a hundred times as often", 1.0, 100.0),
        )
    ]
    return Table("Choice of a shape", ("", "clusters"), rows)


def write(found: Findings, origin: Provenance, folder: Path) -> list[Path]:
    """Data, picture, tables and page into `folder`; the paths of data, picture and page."""
    names = [name for _, name, _ in (*COLUMNS, START)]
    columns = [column for name in names for column in (name, f"{name}_expected")]
    data = pages.write_csv(
        folder / f"{NAME}.csv",
        ["vertices", "clusters", "subscriptions", "seed", *columns],
        (_line(each, names) for each in found.all),
    )
    picture = folder / f"{NAME}.svg"
    pictures.draw_scale(found.all, on_paper(), picture)
    tables = {
        "few": table(found),
        "many": large_table(found),
        "checks": checks(found),
        "shapes": paper_table(found),
        "entry": entry(found),
        "best": best_shapes(),
    }
    more = {"data": f"[{NAME}.csv]({NAME}.csv): a row for each measured overlay"}
    shown = {key: each for key, each in tables.items() if each.rows}
    return [data, picture, pages.write(folder, NAME, shown, origin, more)]


def _line(each: Measured, names: Sequence[str]) -> list[object]:
    shape = each.shape
    pairs = [(getattr(each, name), getattr(each.expected, name)) for name in names]
    values = ["" if value is None else f"{value:.4f}" for pair in pairs for value in pair]
    return [shape.vertices, shape.clusters, each.subscriptions, shape.seed, *values]


def _off(results: Sequence[Measured]) -> tuple[float, float]:
    """Distances of measurements from their expectations in percent: the mean, and the most."""
    off = [
        100 * abs(getattr(each, name) / getattr(each.expected, name) - 1.0)
        for each in results
        for _, name, _ in COLUMNS
        if getattr(each.expected, name)
    ]
    return sum(off) / len(off), max(off)


def _undelivered(results: Sequence[Measured]) -> str:
    off = sum(abs(each.due - each.delivered) * each.shape.sample.notifications for each in results)
    return f"{off:.0f}"
