"""The folder of a run: one run at a time, and a new one replaces the one before."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

MARKER: Final = ".sanderling-run"


class RunFolderError(RuntimeError):
    """The folder cannot be used; one line says why."""


@contextmanager
def run_folder(path: Path) -> Iterator[Path]:
    """An empty folder for a run; what an earlier run left there goes.

    `RunFolderError` while another run is at work there, and for a folder that holds anything but a
    run: that may be somebody's.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
        folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise RunFolderError(f"{path}: {error.strerror}") from None
    try:
        try:
            # Ends with this process, however that ends.
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RunFolderError(f"another run is at work in {path}") from None
        _clear(path)
        yield path
    finally:
        os.close(folder)


def _clear(path: Path) -> None:
    found = list(path.iterdir())
    if found and not (path / MARKER).exists():
        raise RunFolderError(f"{path} holds something else than a run; name another --directory")
    for entry in found:
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        elif entry.name != MARKER:  # last: a clearing that is cut off can be done again
            entry.unlink()
    (path / MARKER).touch()
