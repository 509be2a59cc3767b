"""The folder of a run: locked by one run at a time; a new run moves the previous one aside."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from fleet.common import exits, locks
from fleet.terminal import output
from fleet.testbed import processes

MARKER: Final = ".sanderling-run"
# Databases of agents grow by less than this at a time.
FULL_BYTES: Final = 1 << 20
OTHERS: Final = "{} holds something else than a run; name another --directory"
IN_USE: Final = "the run before in {} is still in use by {}; or name another --directory"


class RunFolderError(exits.CommandError):
    """The folder cannot be used; one line says why."""

    status = exits.FAILED


def explained(problem: object, path: Path) -> str:
    """The words of a run's failure, with the cause if the disk of its folder is full."""
    said = str(problem)
    with suppress(OSError):
        if shutil.disk_usage(path).free < FULL_BYTES:
            cut = "\n" if "\n" in said else "; "  # a process's last output may be several lines
            return (
                f"{said}{cut}the disk of {path} is full: make room there, or name another "
                "--directory"
            )
    return said


@contextmanager
def kept_folder(path: Path) -> Iterator[Path]:
    """Context manager: a folder that goes on with what the run before left in it.

    `RunFolderError` as of `run_folder`, which see.
    """
    with _locked(path):
        found = [entry for entry in path.iterdir() if entry.name != MARKER]
        if found and not (path / MARKER).exists():
            raise RunFolderError(OTHERS.format(path))
        if writers := processes.holders(path):
            raise RunFolderError(IN_USE.format(path, processes.in_words(writers)))
        (path / MARKER).touch()
        yield path


@contextmanager
def run_folder(path: Path, say: Callable[[str], object] = output.say) -> Iterator[Path]:
    """Context manager: an empty folder for a run. The files of an earlier run are moved to a folder
    beside it, whose name is passed to `say`.

    `RunFolderError` if another run is using it, if a process still writes there (an agent that was
    started by hand would go on in the moved folder), or if it contains anything but a run, which
    may be someone's data.
    """
    with _locked(path):
        try:
            before = _move_aside(path)
        except OSError as error:
            raise RunFolderError(f"{path}: {error.strerror}") from None
        if before is not None:
            say(f"the run before is kept in {before}/")
        yield path


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with ExitStack() as held:
        try:
            path.mkdir(parents=True, exist_ok=True)
            busy = f"another run is at work in {path}: end it, or name another --directory"
            held.enter_context(locks.alone(path, RunFolderError(busy)))
        except OSError as error:
            raise RunFolderError(f"{path}: {error.strerror}") from None
        yield


def _move_aside(path: Path) -> Path | None:
    """Move the content aside; returns the new folder. `path` itself stays, because it is locked."""
    found = [entry for entry in path.iterdir() if entry.name != MARKER]
    marker = path / MARKER
    if found and not marker.exists():
        raise RunFolderError(OTHERS.format(path))
    aside = None
    if found:
        if writers := processes.holders(path):
            raise RunFolderError(IN_USE.format(path, processes.in_words(writers)))
        aside = _beside(path, datetime.fromtimestamp(marker.stat().st_mtime, UTC))
        # Recognisable as a run from its first entry on, even if this is interrupted.
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
