"""Write-ahead journal of a run: ``runs/<time>-<n>.jsonl`` in the fleet's folder. Each line is on
disk before the next step begins."""

from __future__ import annotations

import os
import re
import secrets
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Literal

import msgspec

from fleet.common import files, locks
from fleet.common.exits import CommandError
from fleet.inventory.folder import Folder
from fleet.rollout.events import AnyEvent, Result

LOCK: Final = ".lock"
# Least number of a second's first run, which is drawn: another laptop may begin one, too.
FIRST: Final = 1_000_000
RUN: Final = re.compile(r"[0-9]{8}T[0-9]{6}Z-[0-9]+")
# A rollout to ten thousand hosts writes a tenth of it.
MAX_JOURNAL: Final = 256 << 20
Command = Literal["deploy", "rollback"]
# The release that earlier versions wrote in the journal of a rollback; they had no field for the
# command.
BEFORE: Final = "the one before"


class Begun(msgspec.Struct, frozen=True, tag_field="event", tag="begun"):
    """Start of a run: its hosts and options. `release` is the one requested by name; empty: the
    inventory's."""

    run: str
    hosts: tuple[str, ...]
    release: str = ""
    serial: str = ""
    max_fail: str = ""
    command: Command | None = None  # None: written by a version without this field


class HostEnded(msgspec.Struct, frozen=True, tag_field="event", tag="host_ended"):
    """How it ended for a host."""

    host: str
    result: Result


class Ended(msgspec.Struct, frozen=True, tag_field="event", tag="ended"):
    """End of a run; `stopped` says why it was stopped early."""

    counts: dict[str, int]
    stopped: str = ""


Line = AnyEvent | Begun | HostEnded | Ended


class _Entry(msgspec.Struct, frozen=True):
    at: float  # Unix time
    line: Line


class Busy(CommandError):
    """Another deployment of this fleet is in progress."""


class Journal:
    """The journal of one run, open for appending."""

    def __init__(self, path: Path) -> None:
        self.run = path.stem
        self._file = path.open("xb")

    def write(self, line: Line) -> None:
        """Add a line."""
        self._file.write(msgspec.json.encode(_Entry(round(time.time(), 3), line)) + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Close the file."""
        self._file.close()


@contextmanager
def opened(folder: Folder) -> Iterator[Journal]:
    """Open the journal of a new run and hold the lock that excludes other runs. Busy."""
    folder.runs.mkdir(exist_ok=True)
    busy = Busy("another deployment of this fleet is under way; wait for its end")
    with locks.alone(folder.runs / LOCK, busy):
        journal = Journal(_new_path(folder.runs))
        try:
            yield journal
        finally:
            journal.close()


def read(path: Path) -> list[Line]:
    """The lines of a journal; a line torn by a crash is skipped. CommandError if it cannot be
    read."""
    try:
        content = files.read(path, MAX_JOURNAL)
    except OSError as error:
        raise CommandError(f"{path}: {error.strerror}") from None
    found = []
    for row in content.splitlines():
        try:
            found.append(msgspec.json.decode(row, type=_Entry).line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            break
    return found


def is_own(folder: Folder, run: str) -> bool:
    """Whether a run, as a host names it, was begun in this folder. While the lock is held, it is
    over."""
    return RUN.fullmatch(run) is not None and (folder.runs / f"{run}.jsonl").exists()


def unfinished(folder: Folder, hosts: Iterable[str]) -> dict[str, str]:
    """Those of `hosts` whose last run was a deployment that did not succeed on them, with its
    release as in `Begun`. Hosts that were rolled back since, successfully or not, are left out:
    that was the operator's intention. CommandError for a journal whose first line is damaged: an
    earlier run would pass for the last."""
    left = set(hosts)
    found: dict[str, str] = {}
    for path in sorted(folder.runs.glob("*.jsonl"), key=_order, reverse=True):
        if not left:
            break
        lines = read(path)
        begun = next((line for line in lines if isinstance(line, Begun)), None)
        if begun is None:
            if lines or _has_line(path):
                raise CommandError(
                    f"{path}: its first line is damaged, and nobody knows of which hosts this run "
                    "was; move it away, and deploy without --retry-failed"
                )
            continue  # it was cut before anything was done
        good = {
            line.host
            for line in lines
            if isinstance(line, HostEnded) and line.result.outcome in {"changed", "unchanged"}
        }
        here = left & {*begun.hosts}
        if begun.command != "rollback" and begun.release != BEFORE:
            found |= dict.fromkeys(here - good, begun.release)
        left -= here
    return found


def _has_line(path: Path) -> bool:
    return b"\n" in files.read(path, MAX_JOURNAL)


def _order(path: Path) -> tuple[str, int, str]:
    """Sort key: by time, then by number, because several runs may start within a second."""
    time_, _, number = path.stem.rpartition("-")
    return time_, len(number), number


def _new_path(runs: Path) -> Path:
    """A path whose name no other folder's run has, by which hosts know it. It is the last one in
    `_order`, also where the clock was set back since the run before."""
    now = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    earlier = [_order(path) for path in runs.glob("*.jsonl") if RUN.fullmatch(path.stem)]
    now = max([now, *(begun for begun, _, _ in earlier)])
    last = max((int(number) for begun, _, number in earlier if begun == now), default=0)
    number = last + 1 if last else FIRST + secrets.randbelow(FIRST)
    return runs / f"{now}-{number}.jsonl"
