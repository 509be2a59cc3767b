"""`fleet report`: writes the report of a lake."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from fleet.common import exits
from fleet.lake.schema.wholeness import require_whole
from fleet.lake.selection import existing_lake
from fleet.report import forecast
from fleet.terminal import output
from fleet.terminal.installing import require
from fleet.terminal.units import format_duration

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
    require("pyspark", "pyarrow", "matplotlib", "jinja2")
    require_whole(lake)
    work = forecast.work(lake, since, until, with_new=ingest_first)
    expected_s = work.expected_s(os.cpu_count() or 1)
    output.say(forecast.said(work, expected_s, forecast.pace_of(lake, master)))
    began_s = time.monotonic()
    say = _timed(began_s)
    say("starting Spark")
    from fleet.report.write import point_latest, write
    from fleet.spark.session import open_session

    with open_session("fleet report", master) as spark:
        if ingest_first:
            from fleet.lake.ingest.stream import ingest

            say("taking in what was pulled")
            ingest(spark, lake, told=say)
        place = target or lake.reports / datetime.now(UTC).strftime("%Y-%m-%dT%H%M%SZ")
        written = write(spark, lake, since, until, place, say)
    took_s = time.monotonic() - began_s
    forecast.keep_pace(lake, master, took_s / expected_s)
    if target is None:
        point_latest(place)
    if as_json:
        output.write_json(written)
    else:
        print(written.page)
    return exits.DONE


def _timed(began_s: float) -> Callable[[str], None]:
    """Says each step, and how long it took so far."""

    def say(text: str) -> None:
        passed_s = round(time.monotonic() - began_s)
        output.say(f"{text} (after {format_duration(passed_s)})" if passed_s else text)

    return say
