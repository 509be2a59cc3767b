"""Overlays of many shapes written down: the arithmetic beside the measurements."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from fleet.lab.overlay import formulas, pictures, scale
from fleet.lab.overlay.formulas import Expected
from fleet.lab.overlay.scale import MILLION, ON_PAPER, Measured
from fleet.lab.overlay.topology import spread
from fleet.lab.provenance import Provenance
from fleet.lab.tables import Table

NAME: Final = "overlay-scale"
# (what, its name in both `Measured` and `Expected`, digits)
COLUMNS: Final = (
    ("SRT", "srt", 1),
    ("PRT", "prt", 1),
    ("messages an advertisement", "advertisement_messages", 2),
    ("a subscription", "subscription_messages", 2),
    ("a notification", "notification_messages", 2),
)


def table(results: Sequence[Measured]) -> Table:
    """Measured and, by arithmetic, expected."""
    rows = []
    for each in results:
        shape = each.shape
        row = [f"{shape.vertices:,} × {shape.clusters}", f"{each.expected.brokers:,}"]
        row += [f"{shape.subscriptions:,}"]
        for _, name, digits in COLUMNS:
            row += [
                f"{getattr(each, name):,.{digits}f}",
                f"{getattr(each.expected, name):,.{digits}f}",
            ]
        rows.append(row)
    headings = ["vertices × clusters", "brokers", "subscriptions"]
    for title, _, _ in COLUMNS:
        headings += [title, "expected"]
    return Table("Measured, and expected by arithmetic", tuple(headings), rows)


def on_paper() -> list[tuple[int, int, Expected]]:
    """Ten thousand brokers and a million subscriptions, in several shapes."""
    return [
        (vertices, clusters, formulas.octopia(spread(vertices, clusters), MILLION))
        for vertices, clusters in ON_PAPER
    ]


def paper_table(entry_bytes: float) -> Table:
    """Of `on_paper`."""
    rows = []
    for vertices, clusters, expected in on_paper():
        memory = (expected.srt + expected.prt) * entry_bytes / 2**20
        rows.append(
            (
                *(f"{vertices:,} × {clusters:,}", f"{expected.brokers:,}"),
                *(f"{expected.neighbours:,.0f}", f"{expected.srt:,.0f}", f"{expected.prt:,.0f}"),
                f"{memory:,.1f}",
                f"{expected.advertisement_messages:,.0f}",
                f"{expected.subscription_messages:,.0f}",
                f"{expected.notification_messages:,.0f}",
                f"{expected.subscription_hops}",
                f"{expected.notification_hops}",
            )
        )
    headings = (
        *("vertices × clusters", "brokers", "neighbours", "SRT", "PRT", "tables, MiB"),
        *("messages an advertisement", "a subscription", "a notification"),
        *("hops of a subscription", "of a notification"),
    )
    return Table("", headings, rows)


def write(
    results: Sequence[Measured], entry_bytes: float, origin: Provenance, folder: Path
) -> list[Path]:
    """Data, picture and page into `folder`; their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    data, picture, page = (folder / f"{NAME}.{end}" for end in ("csv", "svg", "md"))
    names = [name for _, name, _ in COLUMNS]
    with data.open("w", encoding="utf-8", newline="") as file:
        lines = csv.writer(file, lineterminator="\n")
        columns = [column for name in names for column in (name, f"{name}_expected")]
        lines.writerow(["vertices", "clusters", "subscriptions", "seed", *columns])
        for each in results:
            shape = each.shape
            pairs = [(getattr(each, name), getattr(each.expected, name)) for name in names]
            values = [f"{value:.4f}" for pair in pairs for value in pair]
            lines.writerow(
                [shape.vertices, shape.clusters, shape.subscriptions, shape.seed, *values]
            )
    pictures.draw_scale(results, on_paper(), picture)
    page.write_text(_page(results, entry_bytes, origin), encoding="utf-8")
    return [data, picture, page]


def _page(results: Sequence[Measured], entry_bytes: float, origin: Provenance) -> str:
    best = formulas.best_clusters(10_000, 1.0, 1.0)
    often = formulas.best_clusters(10_000, 100.0, 1.0)
    seldom = formulas.best_clusters(10_000, 1.0, 100.0)
    off = [
        abs(getattr(each, name) / getattr(each.expected, name) - 1.0)
        for each in results
        for _, name, _ in COLUMNS
        if getattr(each.expected, name)
    ]
    undelivered = sum(abs(each.due - each.delivered) for each in results) * scale.NOTIFICATIONS
    return f"""\
# Overlay: shapes, and how they scale

Written by `fleet lab overlay --experiment scale`; what is simulated, and how, is in
[overlay-lab.md](../overlay-lab.md).

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

## Measured

Brokers of production in virtual time, {scale.ADVERTISEMENTS} advertisements, subscriptions at 2 %
selectivity, {scale.NOTIFICATIONS} notifications, static routing. The expectation is a mean over all
draws of who is where, the measurement is one draw; they differ by {100 * sum(off) / len(off):.1f} %
in the mean, {100 * max(off):.1f} % at most. Deliveries that were due and did not come, or came
twice: {undelivered:.0f}.

{table(results).markdown()}

## Ten thousand brokers, a million subscriptions

By arithmetic, for {MILLION.advertisements:,} advertisements that {MILLION.matching:,.0f}
subscriptions match, and notifications that {MILLION.interested:,.0f} want. An entry takes
{entry_bytes:,.0f} bytes, as measured: resident memory, the mean of a broker's own subscription and
of another's.

{paper_table(entry_bytes).markdown()}

## Which shape

Clusters divide the table of subscriptions, vertices that of advertisements; a change of the one
costs messages by the vertices, of the other by the clusters. Where a advertisements and s
subscriptions change each second, (|V_c| − 1) · a + (|V_a| − 1) · s messages are fewest at
|V_c| = √(|V| · s / a): for ten thousand brokers {best:,.0f} clusters where both change as often,
{often:,.0f} where advertisements change a hundred times as often, {seldom:,.0f} where subscriptions
do. A broker has |V_c| − 1 neighbours in its region, each a connection, which limits |V_c| first;
few vertices keep the ways short. Notifications hardly mind: their messages go by who wants them.
"""
