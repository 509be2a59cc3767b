"""The page on overlays of many shapes: formulas against measurements."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct

from fleet.terminal.tables import Table
from lab.overlay import formulas, pictures, scale
from lab.overlay.alone import Done
from lab.overlay.formulas import Expected
from lab.overlay.memory import Resident
from lab.overlay.scale import MILLION, ON_PAPER, Measured
from lab.overlay.topology import spread
from lab.provenance import Provenance

NAME: Final = "overlay-scale"
# (what, its name in both `Measured` and `Expected`, digits)
COLUMNS: Final = (
    ("SRT", "srt", 2),
    ("PRT", "prt", 1),
    ("messages an advertisement", "advertisement_messages", 2),
    ("a subscription", "subscription_messages", 2),
    ("a notification", "notification_messages", 2),
)
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


def write(found: Findings, origin: Provenance, folder: Path) -> list[Path]:
    """Data, picture and page into `folder`; their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    data, picture, page = (folder / f"{NAME}.{end}" for end in ("csv", "svg", "md"))
    names = [name for _, name, _ in (*COLUMNS, START)]
    with data.open("w", encoding="utf-8", newline="") as file:
        lines = csv.writer(file, lineterminator="\n")
        columns = [column for name in names for column in (name, f"{name}_expected")]
        lines.writerow(["vertices", "clusters", "subscriptions", "seed", *columns])
        for each in found.all:
            shape = each.shape
            pairs = [(getattr(each, name), getattr(each.expected, name)) for name in names]
            values = ["" if value is None else f"{value:.4f}" for pair in pairs for value in pair]
            lines.writerow(
                [shape.vertices, shape.clusters, each.subscriptions, shape.seed, *values]
            )
    pictures.draw_scale(found.all, on_paper(), picture)
    page.write_text(_page(found, origin), encoding="utf-8")
    return [data, picture, page]


def _differ(results: Sequence[Measured]) -> str:
    off = [
        abs(getattr(each, name) / getattr(each.expected, name) - 1.0)
        for each in results
        for _, name, _ in COLUMNS
        if getattr(each.expected, name)
    ]
    return f"by {100 * sum(off) / len(off):.1f} % in the mean, {100 * max(off):.1f} % at most"


def _undelivered(results: Sequence[Measured]) -> str:
    return f"{sum(abs(each.due - each.delivered) for each in results) * scale.NOTIFICATIONS:.0f}"


def _large(found: Findings) -> str:
    """The section on large overlays; empty without any."""
    results = found.ten_thousand
    if not results:
        return ""
    took = [done for done in found.worlds if done.result[0].shape.told]
    seconds = [done.cpu_s for done in took]
    return f"""\
## Ten thousand brokers, measured

The same with ten thousand brokers, in one process for each shape, with {scale.ENTRIES[0]} and then
{scale.ENTRIES[1]} subscriptions for each cluster: twice as many make twice the entries, and what
each costs stays. Here the brokers do not begin with telling their clusters that they have no
subscriptions, which n brokers of a cluster do in n (n − 1) messages: they are told by nobody, and
give up waiting. Measurement and expectation differ {_differ(results)}, where
two want a notification. Deliveries that were due and did not come, or came twice:
{_undelivered(results)}. A process took
{min(seconds):,.0f} to {max(seconds):,.0f} s of a processor and at most
{max(done.most_mib for done in took):,.0f} MiB.

{large_table(found).markdown()}

"""


def _page(found: Findings, origin: Provenance) -> str:
    best = formulas.best_clusters(10_000, 1.0, 1.0)
    often = formulas.best_clusters(10_000, 100.0, 1.0)
    seldom = formulas.best_clusters(10_000, 1.0, 100.0)
    return f"""\
# Overlay: shapes, and how they scale

Written by `fleet lab overlay --experiment scale`; what is simulated, and how, is in
[overlay-lab.md](../papers/overlay-lab.md).

![Tables and messages against the number of clusters](overlay-scale.svg)

{origin.table(data=f"[{NAME}.csv]({NAME}.csv): a row for each measured overlay")}

The tree has |V_a| vertices, up to four below each; |V_c| clusters are copies of it. With A
advertisements and S subscriptions at brokers drawn from all:

| | |
|---|---|
| SRT entries a broker | A / \\|V_a\\| |
| PRT entries a broker | S / \\|V_c\\| |
| messages an advertisement | \\|V_c\\| − 1 |
| messages a subscription | \\|V_a\\| − 1, and CIB_SETs where it is the cluster's first |
| messages a notification | one a link on the ways to those who want it, and target cluster |
| hops of a subscription | at most the diameter of the tree |
| hops of a notification, static routing | at most one more |
| messages of a broker's start | \\|V_a\\| − 1 empty sets, 3 (\\|V_c\\| − 1), two for an aLink |

## Measured

Brokers of production in virtual time, {scale.ADVERTISEMENTS} advertisements, subscriptions at 2 %
selectivity, {scale.NOTIFICATIONS} notifications, static routing. The expectation is a mean over all
draws of who is where, the measurement is one draw; they differ
{_differ(found.few)}. Deliveries that were due and did not come, or
came twice: {_undelivered(found.few)}. A broker's start is that of all together, none of which has
anything to tell.

{table(found).markdown()}

{_large(found)}## Ten thousand brokers, a million subscriptions

By arithmetic, for {MILLION.advertisements:,} advertisements that {MILLION.matching:,.0f}
subscriptions match, and notifications that {MILLION.interested:,.0f} want. An entry takes
{found.entry_bytes:,.0f} bytes. Beside the arithmetic stands what one broker of production takes,
in a process of its own, that was told of as many advertisements and subscriptions as a broker of
that shape has, as from sockets: resident memory.

{paper_table(found).markdown()}

## Which shape

Clusters divide the table of subscriptions, vertices that of advertisements; a change of the one
costs messages by the vertices, of the other by the clusters. Where a advertisements and s
subscriptions change each second, (|V_c| − 1) · a + (|V_a| − 1) · s messages are fewest at
|V_c| = √(|V| · s / a): for ten thousand brokers {best:,.0f} clusters where both change as often,
{often:,.0f} where advertisements change a hundred times as often, {seldom:,.0f} where subscriptions
do. A broker has |V_c| − 1 neighbours in its region, each a connection, which limits |V_c| first;
few vertices keep the ways short. Notifications hardly mind: their messages go by who wants them.
"""
