"""Writes a report atomically: tables, page and plots."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from datetime import UTC, datetime
from importlib import metadata
from itertools import count
from pathlib import Path
from threading import Lock
from typing import Final

import msgspec
from msgspec import Struct
from pyspark.sql import DataFrame, SparkSession

from fleet.common import exits
from fleet.lake.schema.folder import Lake
from fleet.lake.schema.tables.model import Table
from fleet.report.files import DATA, write_table
from fleet.report.forecast import work
from fleet.report.job_table import FROM_READINGS, Sources, jobs, write_models
from fleet.report.page.page import PAGE, PICTURES, compose
from fleet.report.page.sections import sources
from fleet.report.page.shown import Shown
from fleet.report.threads import threads
from fleet.spark.few_rows import for_few_rows

LATEST: Final = "latest"
# What is kept of readings has less than a row for so many.
READINGS_A_ROW: Final = 1000


class NothingToReportError(exits.CommandError):
    """The lake has no data of the requested time."""

    status = exits.NOTHING


class OutputError(exits.CommandError):
    """The folder for the report cannot be used; the text says why."""


class Written(Struct, frozen=True):
    """A report: its paths, those of the models, and the number of rows of each table."""

    page: str
    pictures: list[str]
    data: list[str]
    models: str
    rows: dict[str, int]


def write(
    spark: SparkSession,
    lake: Lake,
    since: datetime | None,
    until: datetime | None,
    output: Path,
    say: Callable[[str], None] = lambda _text: None,
) -> Written:
    """Write the report of all that happened from `since` to `until` to the folder `output`.

    It appears by a rename, in the place of a report that is there. `say` is told what is being
    made. NothingToReportError; OutputError where `output` is something else. Memory here does not
    grow with the lake: Spark writes the tables, and few rows of them are shown.
    """
    _check(output)
    lake_tables = Sources(spark, lake, since, until)
    if lake_tables.is_empty():
        raise NothingToReportError(
            f"{lake.root} holds nothing from {_bound(since, 'the beginning')} to "
            f"{_bound(until, 'now')}; `fleet logs pull` brings what there is"
        )
    read = work(lake, since, until, with_new=False)
    few = read.records + read.readings // READINGS_A_ROW
    staging = _staging(output)
    try:
        say("computing hours and steps of readings that are new")
        with threads() as executor:
            lake_tables.keep_aggregates(executor)
        rows = _tables(spark, lake, lake_tables, staging, few, say)
        made = sources.Made(
            metadata.version("sanderling"),
            _command(lake, since, until),
            datetime.now(UTC).strftime("%Y-%m-%d %H:%M"),
            _bound(since, "the beginning"),
            _bound(until, "the end"),
            tuple(rows.items()),
        )
        with for_few_rows(spark, few), threads() as executor:
            say("writing models for fleet plan")
            models = executor.submit(write_models, lake, lake_tables)
            say("writing the page")
            pictures = compose(Shown(spark, staging, _rooms(lake)), made, executor)
            models.result()
        _replace(staging, output)
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    data = [output / DATA / f"{table.name}{s}" for table in rows for s in (".csv", ".parquet")]
    return Written(
        str(output / PAGE),
        [str(output / PICTURES / name) for name in pictures],
        [str(path) for path in data],
        str(lake.models),
        {table.name: count for table, count in rows.items()},
    )


def point_latest(output: Path) -> None:
    """Point the link ``latest`` beside `output` to it."""
    link = output.parent / LATEST
    new = output.parent / f"{LATEST}.part-{os.getpid()}"
    with suppress(FileNotFoundError):
        new.unlink()
    new.symlink_to(output.name)
    new.replace(link)


def _tables(
    spark: SparkSession,
    lake: Lake,
    lake_tables: Sources,
    folder: Path,
    few: int,
    say: Callable[[str], None],
) -> dict[Table, int]:
    shown = Shown(spark, folder)
    written: dict[Table, Future[int]] = {}

    def made(table: Table) -> DataFrame:
        # Of an earlier job: a thread has begun with it.
        written[table].result()
        return shown.frame(table.name)

    todo = list(jobs(spark, lake, lake_tables, made))

    begun, one_at_a_time = count(1), Lock()

    def compute(table: Table, job: Callable[[], DataFrame]) -> int:
        with one_at_a_time:
            say(f"computing {table.name}, table {next(begun)} of {len(todo)}")
        return write_table(table, job(), folder)

    with for_few_rows(spark, few), threads() as executor:
        for table, job in todo:
            if table not in FROM_READINGS:
                written[table] = executor.submit(compute, table, job)
        rows = {table: future.result() for table, future in written.items()}
    rows |= {table: compute(table, job) for table, job in todo if table in FROM_READINGS}
    return {table: rows[table] for table, _ in todo}


def _rooms(lake: Lake) -> dict[str, str]:
    try:
        return msgspec.json.decode(lake.rooms.read_bytes(), type=dict[str, str])
    except (OSError, ValueError):
        return {}  # a lake of an earlier version, or of a fleet without names


def _check(output: Path) -> None:
    is_report = (output / PAGE).is_file() and (output / DATA).is_dir()
    if output.is_symlink() or (output.exists() and not output.is_dir()):
        raise OutputError(f"{output} is no folder; name another --output")
    if output.is_dir() and any(output.iterdir()) and not is_report:
        raise OutputError(f"{output} holds something else than a report; name another --output")


def _staging(output: Path) -> Path:
    """An empty folder beside the report, so that a rename stays within a file system. One of this
    process id is of a run that was killed, as in a container, where each has the same."""
    staging = output.parent / f"{output.name}.part-{os.getpid()}"
    if staging.exists():
        shutil.rmtree(staging)
    staging.mkdir(parents=True)
    return staging


def _replace(staging: Path, output: Path) -> None:
    before = output.parent / f"{output.name}.before-{os.getpid()}"
    if output.exists():
        output.rename(before)
    staging.rename(output)
    shutil.rmtree(before, ignore_errors=True)


def _bound(time: datetime | None, otherwise: str) -> str:
    return otherwise if time is None else time.astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC")


def _command(lake: Lake, since: datetime | None, until: datetime | None) -> str:
    words = ["fleet", "report", "--lake", str(lake.root)]
    for name, time in (("--since", since), ("--until", until)):
        if time is not None:
            words += [name, time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S+00:00")]
    return shlex.join(words)
