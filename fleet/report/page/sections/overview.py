"""Section: the report's scope and its findings."""

from __future__ import annotations

from typing import Final

from fleet.report.page import findings
from fleet.report.page.markup import Section, render
from fleet.report.page.shown import Shown

MAX_ROWS: Final = 24
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
    body = render(
        "overview.html",
        totals=totals,
        iads=shown.top(frame, ("iad",), MAX_ROWS),
        **findings.found(shown),
    )
    return Section("overview", "At a glance", body)
