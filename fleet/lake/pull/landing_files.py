"""Durable writes to the landing zone: files are staged and synced before they are renamed."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from uuid import uuid4

from fleet.common.durable import make_folder, sync
from fleet.lake.schema.folder import Lake

# Below the staging, which others use, too.
OURS: Final = "pull"


@contextmanager
def staged(lake: Lake, path: Path) -> Iterator[Path]:
    """A file to write, which becomes `path` when the block ends well, and nothing otherwise.

    Whoever sees `path` sees all of it, also after a power cut; one that was there is replaced.
    Two writers never share a file. OSError.
    """
    part = new_part(lake)
    try:
        yield part
        place(part, path)
    finally:
        part.unlink(missing_ok=True)


def new_part(lake: Lake) -> Path:
    """Where a file may be written that has no name yet; nobody else gets the same. OSError."""
    folder = lake.staging / OURS
    folder.mkdir(parents=True, exist_ok=True)
    return folder / uuid4().hex


def place(part: Path, path: Path) -> None:
    """Give a file that is complete its name. OSError."""
    sync(part)
    make_folder(path.parent)
    part.replace(path)
    sync(path.parent)


def clear(lake: Lake) -> None:
    """Remove what pulls left that were cut off; none may be under way."""
    shutil.rmtree(lake.staging / OURS, ignore_errors=True)
