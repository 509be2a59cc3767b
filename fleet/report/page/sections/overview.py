"""Section: the report's scope and its findings."""

from __future__ import annotations

from typing import Final

from fleet.report.page import findings
from fleet.report.page.markup import (
    Column,
    Html,
    Row,
    Section,
    behind,
    element,
    join,
    left_out,
    moment,
    name_of,
    number,
    numbers,
    table,
    whole,
)
from fleet.report.page.shown import Shown

MOST: Final = 24
LOSSES: Final = ("failed", "expired_readings", "expired_files", "quarantined")
COUNTS: Final = ("nodes", "queries", "tasks", "subtasks", "events", "readings", "pulls", "failed",
                 "expired_files", "expired_groups", "expired_readings", "quarantined")  # fmt: skip


def section(shown: Shown) -> Section:
    """The numbers of all IADs together, sentences, and a row for each IAD."""
    from pyspark.sql import functions as F  # noqa: N812 - everybody calls it F

    frame = shown.frame("contents")
    totals = shown.one(
        frame.agg(
            F.count("*").alias("iads"),
            F.min("first").alias("first"),
            F.max("last").alias("last"),
            *[F.sum(name).alias(name) for name in COUNTS],
        )
    )
    top = shown.top(frame, ("iad",), MOST)
    body = join(
        element("p", "From ", moment(totals["first"]), " to ", moment(totals["last"]), " UTC."),
        _tiles(totals),
        element(
            "ul", *[element("li", found) for found in findings.sentences(shown)], class_="found"
        ),
        table(
            "What the report is made from, by IAD",
            (
                name_of("iad", "IAD"),
                numbers("nodes", "nodes", whole),
                numbers("queries", "queries", whole),
                numbers("tasks", "tasks", whole),
                numbers("subtasks", "subtasks", whole),
                numbers("events", "events", whole),
                numbers("readings", "readings", whole),
                Column("first, UTC", lambda row: moment(row["first"])),
                Column("last, UTC", lambda row: moment(row["last"])),
            ),
            top.rows,
            source="contents",
        ),
        left_out(top.more, "IADs", "contents"),
        behind("contents"),
    )
    return Section("overview", "At a glance", body)


def _tiles(totals: Row) -> Html:
    def tile(key: str, name: str) -> Html:
        is_bad = key in LOSSES and totals[key]
        return element(
            "div",
            element("dt", name),
            element("dd", number(totals[key], whole)),
            class_="bad" if is_bad else None,
        )

    return element(
        "dl",
        tile("iads", "IADs"),
        tile("nodes", "edge nodes"),
        tile("queries", "queries"),
        tile("readings", "readings"),
        tile("failed", "pulls that failed"),
        tile("expired_readings", "readings expired before export"),
        tile("expired_files", "record files expired before export"),
        tile("quarantined", "quarantined"),
        class_="tiles",
    )
