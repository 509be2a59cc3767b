"""Whether the files of a lake's tables are there as a whole, such as after it was copied."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from fleet.common.exits import CommandError
from fleet.common.files import require_regular
from fleet.lake.schema.folder import Lake

# A Parquet file begins and ends so.
MARK: Final = b"PAR1"
LEAST: Final = 3 * len(MARK)
MOST: Final = 1 << 62


class CutFileError(CommandError):
    """A file of a table is not whole; the text is one line with the remedy."""


def require_whole(lake: Lake) -> None:
    """CutFileError for files of tables that were cut off, or are no Parquet: Spark passes over
    empty ones without a word, and does not name the others. O(files), of which it reads 8 bytes."""
    cut = list(_cut(lake))
    if cut:
        more = f" (and {len(cut) - 1} more)" if cut[1:] else ""
        raise CutFileError(
            f"{cut[0]}{more} is damaged, perhaps cut off when it was copied: copy the lake again; "
            f"or remove tables, index and checkpoints in {lake.root}, which the next ingest makes "
            "anew"
        )


def is_whole(path: Path) -> bool:
    """Whether a file begins and ends as Parquet does; also if it is gone meanwhile. OSError."""
    try:
        with open(path, "rb", opener=_at_once) as file:
            status = os.fstat(file.fileno())
            require_regular(path, status, MOST)
            if status.st_size < LEAST or file.read(len(MARK)) != MARK:
                return False
            file.seek(-len(MARK), os.SEEK_END)
            return file.read() == MARK
    except FileNotFoundError:
        return not path.is_symlink()  # a dead link is there


def _cut(lake: Lake) -> Iterator[Path]:
    for path in sorted(lake.tables.glob("*/iad=*/date=*/[!._]*.parquet")):
        try:
            if not is_whole(path):
                yield path
        except OSError as error:
            raise CommandError(f"{path}: {error.strerror}") from None


def _at_once(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)
