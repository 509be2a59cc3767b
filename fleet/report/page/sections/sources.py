"""Section: data sources of the report."""

from __future__ import annotations

from typing import Final, NamedTuple

from pyspark.sql import functions as F  # noqa: N812 - everybody calls it F

from fleet.lake.schema.tables.model import Table
from fleet.report.page.markup import Section, render
from fleet.report.page.shown import Shown

MAX_ROWS: Final = 12
TITLE: Final = "Where the numbers come from"


class Made(NamedTuple):
    """How a report was made; `tables` with their rows."""

    version: str
    command: str
    at: str
    since: str
    until: str
    tables: tuple[tuple[Table, int], ...]


def section(shown: Shown, made: Made) -> Section:
    """Definitions, files, what was pulled and what could not be used."""
    gone = F.col("expired_files") + F.col("expired_groups")
    pulled = shown.frame("pulled").where((F.col("failed") > 0) | (gone > 0))
    body = render(
        "sources.html",
        made=made,
        pulls=shown.top(
            pulled, (F.desc("failed"), F.desc("expired_readings"), "iad", "host"), MAX_ROWS
        ),
        quarantine=shown.top("quarantined", (F.desc("items"), "iad", "reason"), MAX_ROWS),
    )
    return Section("sources", TITLE, body)
