"""Paths of lake files: local paths and the URIs that Spark uses."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from datetime import date
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import unquote, urlsplit

from fleet.lake.schema.folder import Lake
from fleet.lake.schema.tables.model import Table

SPECIAL: Final = re.compile(r"([\\{}\[\]*?,])")


class Partition(NamedTuple):
    """One IAD and one day of a table."""

    iad: str
    date: date


def named_whole(lake: Lake) -> Lake:
    """The lake with an absolute path, as Spark names its files."""
    return Lake(Path(os.path.abspath(lake.root)))  # noqa: PTH100 - no link is resolved


def uri(path: Path) -> str:
    """A file or folder for Spark calls that interpret *, ? and [ as patterns."""
    return "file:" + SPECIAL.sub(r"\\\1", os.path.abspath(path))  # noqa: PTH100 - no link is resolved


def plain_uri(path: Path) -> str:
    """The same for Spark calls without patterns: for writing, and for options."""
    return "file:" + os.path.abspath(path)  # noqa: PTH100 - as above


def local(given: str) -> Path:
    """The local path of a value of Spark's ``_metadata.file_path``."""
    return Path(unquote(urlsplit(given).path))


def partition_folders(lake: Lake, table: Table) -> dict[Partition, Path]:
    """The folders of a table's partitions. O(partitions): one listing per IAD."""
    found = {}
    for iad in _folders(lake.table(table.name), "iad="):
        for day in _folders(iad, "date="):
            found[partition_of(day)] = day
    return found


def existing(lake: Lake, table: Table, wanted: Iterable[Partition]) -> list[Path]:
    """The folders of those of these partitions that exist. O(IADs + `wanted`)."""
    top = lake.table(table.name)
    iads = {unquote(folder.name[4:]): folder for folder in _folders(top, "iad=")}
    found = []
    for iad, day in sorted(set(wanted)):
        if iad in iads and (folder := iads[iad] / f"date={day.isoformat()}").is_dir():
            found.append(folder)
    return found


def partition_of(folder: Path) -> Partition:
    """The partition of a path ``…/iad=…/date=…``."""
    return Partition(unquote(folder.parent.name[4:]), date.fromisoformat(folder.name[5:]))


def parquet_files(folder: Path) -> list[Path]:
    """The files of one partition."""
    return sorted(folder.glob("[!._]*.parquet"))


def _folders(folder: Path, prefix: str) -> Iterator[Path]:
    if not folder.is_dir():
        return
    with os.scandir(folder) as entries:
        names = sorted(entry.name for entry in entries if entry.name.startswith(prefix))
    for name in names:
        yield folder / name
