"""`fleet lake ingest`: ingests pulled files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from fleet.common import exits
from fleet.lake.selection import existing_lake
from fleet.terminal.installing import require
from fleet.terminal.output import printable

if TYPE_CHECKING:
    from fleet.inventory.folder import Folder
    from fleet.lake.ingest.merging import Ingested

SETTINGS: Final = {"spark.sql.shuffle.partitions": "32"}
SHOWN: Final = 3
LONGEST: Final = 200


def run(
    named: Path | None,
    folder: Folder | None,
    master: str,
    *,
    compact: bool,
    as_json: bool,
    tell_nothing: bool = False,
) -> int:
    """Ingest and print what was new; returns the exit status, `exits.NOTHING` only if the caller
    wants to know that nothing was new."""
    lake = existing_lake(named, folder)
    require("pyspark", "pyarrow")
    from fleet.lake.ingest import store
    from fleet.lake.ingest.stream import ingest
    from fleet.spark.session import open_session
    from fleet.terminal.output import say, write_json

    with store.writing(lake):
        pass  # report a held lock before Spark starts
    with open_session("fleet lake ingest", master, SETTINGS) as spark:
        done = ingest(spark, lake, compact=compact, told=say)
    if as_json:
        write_json(done)
    else:
        print("\n".join(table(done)))
    return exits.NOTHING if tell_nothing and not done.changed else exits.DONE


def table(done: Ingested) -> list[str]:
    """Lines for people: rows by table, quarantined rows by reason."""
    if not done.changed:
        return ["nothing new"]
    rows = {name: count for name, count in sorted(done.rows.items()) if count}
    if done.quarantined:
        rows["quarantine"] = done.quarantined
    width = max(map(len, rows), default=0)
    digits = max((len(f"{count:,}") for count in rows.values()), default=0)
    lines = [f"{name:{width}}  {count:>{digits},}" for name, count in rows.items()]
    if done.quarantined:
        lines[-1] += f"  {reasons(done)}"
    lines.append(f"from {done.files:,} new files" + remarks(done))
    return lines


def reasons(done: Ingested) -> str:
    """The most frequent reasons, in descending order; some are words of hosts."""
    ordered = sorted(done.reasons.items(), key=lambda item: (-item[1], item[0]))
    more = sum(count for _, count in ordered[SHOWN:])
    shown = [f"{printable(reason[:LONGEST])} ({count:,})" for reason, count in ordered[:SHOWN]]
    return ", ".join([*shown, *([f"others ({more:,})"] if more else [])])


def remarks(done: Ingested) -> str:
    """The end of the line: row groups that arrived again with other times, and what was left out
    of row groups."""
    again = f"; {done.replaced:,} row groups came again, put right" if done.replaced else ""
    left = f"; {done.dropped:,} readings of an impossible time left out" if done.dropped else ""
    return again + left
