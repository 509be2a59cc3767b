"""The folder of a run: locked by one run at a time; a new run moves the previous one aside."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from fleet.common import locks
from fleet.terminal import output

MARKER: Final = ".sanderling-run"


class RunFolderError(RuntimeError):
    """The folder cannot be used; one line says why."""


@contextmanager
def run_folder(path: Path, say: Callable[[str], object] = output.say) -> Iterator[Path]:
    """An empty folder for a run. What an earlier run left there, also one that was stopped, goes
    into a folder beside it, and `say` is told which.

    `RunFolderError` while another run is at work there, and for a folder that holds anything but a
    run: that may be somebody's.
    """
    with ExitStack() as held:
        try:
            path.mkdir(parents=True, exist_ok=True)
            lock = locks.alone(path, RunFolderError(f"another run is at work in {path}"))
            held.enter_context(lock)
            before = _move_aside(path)
        except OSError as error:
            raise RunFolderError(f"{path}: {error.strerror}") from None
        if before is not None:
            say(f"the run before is kept in {before}/")
        yield path


def _move_aside(path: Path) -> Path | None:
    """Where what was there is now. Its entries move, and `path` itself stays: it is locked."""
    found = [entry for entry in path.iterdir() if entry.name != MARKER]
    marker = path / MARKER
    if found and not marker.exists():
        raise RunFolderError(f"{path} holds something else than a run; name another --directory")
    aside = None
    if found:
        aside = _beside(path, datetime.fromtimestamp(marker.stat().st_mtime, UTC))
        # It is a run from its first entry on, should this be cut off.
        (aside / MARKER).touch()
        for entry in found:
            entry.rename(aside / entry.name)
    marker.touch()
    return aside


def _beside(path: Path, began: datetime) -> Path:
    """A new folder, named after the run and the time at which it began."""
    if path.name in {"", ".."}:
        path = path.resolve()  # of "." the name is not known
    name = f"{path.name}-{began:%Y-%m-%dT%H%M%SZ}"
    for number in itertools.count(1):
        aside = path.with_name(name if number == 1 else f"{name}-{number}")
        try:
            aside.mkdir()
        except FileExistsError:
            continue
        return aside
    raise AssertionError
