"""A run's journal: ``runs/<time>-<n>.jsonl`` in the fleet's folder. Each line is on the disk before
the next thing is begun."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec

from fleet import locks
from fleet.deploy.events import AnyEvent, Result
from fleet.exits import CommandError
from fleet.folder import Folder

LOCK: Final = ".lock"


class Begun(msgspec.Struct, frozen=True, tag_field="event", tag="begun"):
    """A run: which hosts, and how."""

    run: str
    hosts: tuple[str, ...]
    release: str = ""
    serial: str = ""
    max_fail: str = ""


class HostEnded(msgspec.Struct, frozen=True, tag_field="event", tag="host_ended"):
    """How it ended for a host."""

    host: str
    result: Result


class Ended(msgspec.Struct, frozen=True, tag_field="event", tag="ended"):
    """The run came to its end; `stopped` says why nothing more was begun."""

    counts: dict[str, int]
    stopped: str = ""


Line = AnyEvent | Begun | HostEnded | Ended


class _Entry(msgspec.Struct, frozen=True):
    at: float  # Unix time
    line: Line


class Busy(CommandError):
    """Another deployment of this fleet is under way."""


class Journal:
    """The journal of one run, open for more lines."""

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
    """The journal of a new run, and nobody else deploys meanwhile. Busy."""
    folder.runs.mkdir(exist_ok=True)
    busy = Busy("another deployment of this fleet is under way; wait for its end")
    with locks.alone(folder.runs / LOCK, busy):
        journal = Journal(_new_path(folder.runs))
        try:
            yield journal
        finally:
            journal.close()


def read(path: Path) -> list[Line]:
    """The lines of a journal; one that was cut off by a crash is passed over."""
    found = []
    for row in path.read_bytes().splitlines():
        try:
            found.append(msgspec.json.decode(row, type=_Entry).line)
        except msgspec.DecodeError:
            break
    return found


def unfinished(folder: Folder) -> tuple[str, ...]:
    """The hosts that the last run did not bring to a good end, in its order; () if it did."""
    runs = sorted(folder.runs.glob("*.jsonl"))
    for path in reversed(runs):
        lines = read(path)
        begun = next((line for line in lines if isinstance(line, Begun)), None)
        if begun is None:
            continue
        good = {
            line.host
            for line in lines
            if isinstance(line, HostEnded) and line.result.outcome in {"changed", "unchanged"}
        }
        return tuple(host for host in begun.hosts if host not in good)
    return ()


def _new_path(runs: Path) -> Path:
    now = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    number = 1
    while (path := runs / f"{now}-{number}.jsonl").exists():
        number += 1
    return path
