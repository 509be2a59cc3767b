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

# A folder within the staging area, which others use, too.
OURS: Final = "pull"


@contextmanager
def staged(lake: Lake, path: Path) -> Iterator[Path]:
    """Context manager: a file to write, which becomes `path` if the block succeeds and is removed
    otherwise.

    A reader of `path` sees the complete file, even after a power cut; an existing file is replaced.
    Two writers never share a file. OSError.
    """
    part = new_part(lake)
    try:
        yield part
        place(part, path)
    finally:
        part.unlink(missing_ok=True)


def new_part(lake: Lake) -> Path:
    """A path for a file without a final name yet; it is unique. OSError."""
    folder = lake.staging / OURS
    folder.mkdir(parents=True, exist_ok=True)
    return folder / uuid4().hex


def place(part: Path, path: Path) -> None:
    """Give a complete file its final name. OSError."""
    sync(part)
    make_folder(path.parent)
    part.replace(path)
    sync(path.parent)


def clear(lake: Lake) -> None:
    """Remove the remains of interrupted pulls; no pull may be running."""
    shutil.rmtree(lake.staging / OURS, ignore_errors=True)
