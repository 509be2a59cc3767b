"""`fleet lake sql`: runs a Spark SQL statement over the lake's tables."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from fleet.common import exits
from fleet.lake.schema.wholeness import require_whole
from fleet.lake.selection import existing_lake
from fleet.terminal.installing import require

if TYPE_CHECKING:
    from fleet.inventory.folder import Folder


def run(
    named: Path | None, folder: Folder | None, master: str, statement: str, form: str, rows: int
) -> int:
    """Print the result of `statement`; returns the exit status."""
    lake = existing_lake(named, folder)
    require("pyspark")
    require_whole(lake)
    from fleet.lake.sql import answers, views
    from fleet.spark.session import open_session

    with open_session("fleet lake sql", master) as spark:
        known = views.register(spark, lake)
        frame = views.select(spark, statement, known)
        if form == "table":
            answers.write_table(frame, rows)
        elif form == "csv":
            answers.write_csv(frame)
        else:
            answers.write_json(frame)
    return exits.DONE
