"""The folder of a run: one run at a time, and a new one replaces the one before."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from fleet import locks

MARKER: Final = ".sanderling-run"


class RunFolderError(RuntimeError):
    """The folder cannot be used; one line says why."""


@contextmanager
def run_folder(path: Path) -> Iterator[Path]:
    """An empty folder for a run; what an earlier run left there goes.

    `RunFolderError` while another run is at work there, and for a folder that holds anything but a
    run: that may be somebody's.
    """
    with ExitStack() as held:
        try:
            path.mkdir(parents=True, exist_ok=True)
            lock = locks.alone(path, RunFolderError(f"another run is at work in {path}"))
            held.enter_context(lock)
        except OSError as error:
            raise RunFolderError(f"{path}: {error.strerror}") from None
        _clear(path)
        yield path


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
