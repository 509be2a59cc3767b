"""`fleet report`: writes the report of a lake."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from fleet.common import exits
from fleet.lake.selection import existing_lake
from fleet.terminal import output

if TYPE_CHECKING:
    from fleet.inventory.folder import Folder


def run(
    named: Path | None,
    folder: Folder | None,
    master: str,
    since: datetime | None,
    until: datetime | None,
    target: Path | None,
    *,
    ingest_first: bool,
    as_json: bool,
) -> int:
    """Write a report to `target`, or to a new folder in the lake; returns the exit status."""
    if since is not None and until is not None and since >= until:
        return exits.fail("--since must be before --until", exits.USAGE)
    lake = existing_lake(named, folder)
    from fleet.report.write import point_latest, write
    from fleet.spark.session import open_session

    say = output.say
    say("starting Spark")
    with open_session("fleet report", master) as spark:
        if ingest_first:
            from fleet.lake.ingest.stream import ingest

            say("taking in what was pulled")
            ingest(spark, lake)
        place = target or lake.reports / datetime.now(UTC).strftime("%Y-%m-%dT%H%M%SZ")
        written = write(spark, lake, since, until, place, say)
    if target is None:
        point_latest(place)
    if as_json:
        output.write_json(written)
    else:
        print(written.page)
    return exits.DONE
