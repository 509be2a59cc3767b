"""Section: data sources of the report."""

from __future__ import annotations

from typing import Final, NamedTuple

from pyspark.sql import functions as F  # noqa: N812 - everybody calls it F

from fleet.lake.schema.tables.model import Table
from fleet.report.page.markup import (
    Column,
    Html,
    Section,
    behind,
    element,
    join,
    left_out,
    moment,
    name_of,
    numbers,
    plain,
    table,
    whole,
    words,
)
from fleet.report.page.shown import Shown

MOST: Final = 12
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
    """Definitions, files, pulled hosts and quarantined data."""
    body = join(
        element(
            "p",
            f"Made at {made.at} UTC by Sanderling {made.version}, from {made.since} to "
            f"{made.until}: ",
            element("code", made.command),
        ),
        element(
            "p",
            "Every number above is in a file of the folder data, beside this page, as CSV and as "
            "Parquet; the links work where the page lies in its folder. ",
            element("code", "fleet lake sql"),
            " asks the "
            "tables of the newest report under these names. A text in a CSV file that a "
            "spreadsheet would run as a formula has a ' before it; in Parquet it is as it was.",
        ),
        _pulls(shown),
        _quarantine(shown),
        element("h3", "Definitions"),
        *[_definition(each, rows) for each, rows in made.tables],
    )
    return Section("sources", TITLE, body)


def _definition(each: Table, rows: int) -> Html:
    columns = [
        element(
            "tr",
            element("th", element("code", column.name), scope="row"),
            element("td", column.unit),
            element("td", column.meaning),
        )
        for column in each.columns
    ]
    head = [element("th", name, scope="col") for name in ("column", "unit", "meaning")]
    return element(
        "details",
        element("summary", element("code", each.name), f", {whole(rows)} rows: {each.meaning}"),
        element(
            "div",
            element(
                "table",
                element("caption", element("span", f"Columns of {each.name}")),
                element("thead", element("tr", *head)),
                element("tbody", *columns),
            ),
            class_="wide",
            tabindex="0",
            role="region",
            aria_label=f"Columns of {each.name}",
        ),
        behind(each.name),
    )


def _pulls(shown: Shown) -> Html:
    gone = F.col("expired_files") + F.col("expired_groups")
    frame = shown.frame("pulled").where((F.col("failed") > 0) | (gone > 0))
    top = shown.top(frame, (F.desc("failed"), F.desc("expired_readings"), "iad", "host"), MOST)
    if not top.rows:
        return element("p", "No pull failed, and nothing expired before it was exported.")
    return join(
        element("h3", "Hosts with failed pulls or losses"),
        table(
            "Hosts of which a pull failed, or something expired before it was exported",
            (
                name_of("host", "host"),
                numbers("pulls", "pulls", whole),
                numbers("failed", "failed", whole),
                Column("last, UTC", lambda row: moment(row["last"])),
                Column("came of it", lambda row: plain(row["outcome"], 30)),
                words("error", "error"),
                numbers("expired_files", "record files expired", whole),
                numbers("expired_groups", "row groups expired", whole),
                numbers("expired_readings", "readings in them, at most", whole),
            ),
            top.rows,
            source="pulled",
        ),
        left_out(top.more, "hosts", "pulled"),
    )


def _quarantine(shown: Shown) -> Html:
    top = shown.top("quarantined", (F.desc("items"), "iad", "reason"), MOST)
    if not top.rows:
        return element("p", "Nothing was quarantined.")
    return join(
        element("h3", "Quarantined"),
        table(
            "What could not be used, and why",
            (
                name_of("iad", "IAD"),
                name_of("reason", "reason"),
                numbers("items", "lines and row groups", whole),
                words("example", "one of them begins"),
            ),
            top.rows,
            source="quarantined",
        ),
        left_out(top.more, "reasons", "quarantined"),
    )
