"""Click commands: `fleet lake` and `fleet report`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from fleet.cli.grouped import Grouped
from fleet.cli.options import FLEET_IF_NAMED, INTERVAL, TEXT, Parsed

if TYPE_CHECKING:
    from datetime import datetime

    from fleet.inventory.folder import Folder

F = TypeVar("F", bound=Callable[..., Any])
FOLDER: Any = click.Path(file_okay=False, path_type=Path)


def _time(text: str) -> datetime:
    from fleet.terminal.times import parse_time

    return parse_time(text)


TIME = Parsed("time", _time)


def engine_options(command: F) -> F:
    """Where the lake is and what computes: the command gets `lake`, `folder` and `spark`."""
    for option in (
        click.option(
            "--spark",
            type=TEXT,
            metavar="URL",
            default="local[*]",
            show_default=True,
            help="Spark master: local[4], spark://host:7077, yarn, k8s://…; all of it must reach "
            "the lake's folder under the same path.",
        ),
        FLEET_IF_NAMED,
        click.option(
            "--lake",
            type=FOLDER,
            help="Folder of the lake; else $SANDERLING_LAKE, or `lake` in the fleet's folder, or "
            "that of the last demo.",
        ),
    ):
        command = option(command)
    return command


@click.group(cls=Grouped, short_help="What the fleet has logged, as tables for SQL.")
def lake() -> None:
    """What the fleet has logged, as tables: docs/run/lake.md has their columns."""


@lake.command(short_help="Turn pulled data into tables; existing rows stay.")
@engine_options
@click.option("--compact/--no-compact", default=True, help="Join small files afterwards.")
@click.option(
    "--exit-code", "tell_nothing", is_flag=True, help="End with status 5 if there was nothing new."
)
@click.option("--json", "as_json", is_flag=True, help="Print what was done as JSON.")
def ingest(
    lake: Path | None,
    folder: Folder | None,
    spark: str,
    compact: bool,
    tell_nothing: bool,
    as_json: bool,
) -> int:
    """Turn pulled data into tables; existing rows stay as they are.

    Exit status: 0 done, 2 wrong usage, 5 with --exit-code: there was nothing new, 130 interrupted.
    """
    from fleet.lake.ingest import run as command

    return command.run(
        lake, folder, spark, compact=compact, as_json=as_json, tell_nothing=tell_nothing
    )


@lake.command(short_help="Ingest continuously: pulled data becomes rows at once.")
@engine_options
@click.option(
    "--every", "every_s", type=INTERVAL, default="10s", show_default=True, help="How often to look."
)
def follow(lake: Path | None, folder: Folder | None, spark: str, every_s: float) -> int:
    """Ingest continuously, as a streaming job: pulled data becomes rows at once.

    Exit status: 0 ended by SIGTERM, 2 wrong usage, 130 interrupted.
    """
    from fleet.lake.ingest import follow as command

    return command.run(lake, folder, spark, every_s)


@lake.command(short_help="Query the tables in SQL.")
@engine_options
@click.argument("statement", type=TEXT)
@click.option(
    "--format",
    "form",
    type=click.Choice(["table", "csv", "json"]),
    default="table",
    show_default=True,
    help="csv and json print all rows, a table the first --rows.",
)
@click.option(
    "--rows",
    type=click.IntRange(1, 100_000),
    default=100,
    show_default=True,
    help="Rows of a table that are printed.",
)
def sql(
    lake: Path | None, folder: Folder | None, spark: str, statement: str, form: str, rows: int
) -> int:
    """Query the tables in SQL: fleet lake sql "select iad, count(*) from queries group by iad".

    Exit status: 0 done, 1 Spark failed, 2 wrong usage or no such table or column,
    130 interrupted.
    """
    from fleet.lake.sql import sql as command

    return command.run(lake, folder, spark, statement, form, rows)


@click.command(short_help="Write a page: objectives, deadlines, load, sensors, climate.")
@engine_options
@click.option("--since", type=TIME, help="Only from then on: 24h (ago), 2026-11-21, …T13:00.")
@click.option("--until", type=TIME, help="Only until then.")
@click.option(
    "--output", type=FOLDER, help="Folder of the report; by default a new one in the lake."
)
@click.option("--ingest/--no-ingest", default=True, help="First ingest what was pulled.")
@click.option("--json", "as_json", is_flag=True, help="Print the paths of everything as JSON.")
def report(
    lake: Path | None,
    folder: Folder | None,
    spark: str,
    since: datetime | None,
    until: datetime | None,
    output: Path | None,
    ingest: bool,
    as_json: bool,
) -> int:
    """Write a page about objectives, time, deadlines, load, sensors and climate.

    Models for `fleet plan` are written beside it.

    Exit status: 0 done, 2 wrong usage, 5 the lake has nothing of that time, so that no page was
    written, 130 interrupted.
    """
    from fleet.report import command

    return command.run(
        lake, folder, spark, since, until, output, ingest_first=ingest, as_json=as_json
    )
