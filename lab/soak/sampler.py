"""Samples what processes of a fleet take: memory, files, sockets, disk."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

import psutil
from msgspec import Struct

from fleet.testbed.testbed import Testbed
from lab.background import Background

KINDS: Final = ("memory", "file descriptors", "sockets", "disk")


class Series(Struct, frozen=True):
    """What one process took (it has its own series again after a restart): its kind, and times in
    seconds with KiB, a number, or bytes."""

    name: str
    pid: int
    kind: str


class Sampler(Background):
    """Looks every `every_s` seconds at the processes with these names; a context manager."""

    def __init__(
        self, bed: Testbed, names: list[str], every_s: float, now_s: Callable[[], float]
    ) -> None:
        super().__init__("sampler")
        self._bed = bed
        self._names = names
        self._every_s = every_s
        self._now_s = now_s
        self.points: dict[Series, list[tuple[float, float]]] = {}

    def _run(self) -> None:
        while not self._over.wait(self._every_s):
            for name in self._names:
                # It may be away just now.
                with suppress(psutil.Error, KeyError, OSError):
                    self._note(name, self._bed.child(name).pid)

    def _note(self, name: str, pid: int) -> None:
        process = psutil.Process(pid)
        with process.oneshot():
            values = (
                process.memory_info().rss / 1024,
                process.num_fds(),
                len(process.net_connections("tcp")),
                sum(_sizes(self._bed.folder(name))),
            )
        at_s = self._now_s()
        for kind, value in zip(KINDS, values, strict=True):
            self.points.setdefault(Series(name, pid, kind), []).append((at_s, float(value)))


def write_samples(points: dict[Series, list[tuple[float, float]]], path: Path) -> None:
    """Write all of them as CSV, to see how something grows."""
    with path.open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(("process", "pid", "kind", "at_s", "value"))
        for of, each in points.items():
            rows = [(of.name, of.pid, of.kind, f"{at:.1f}", f"{value:g}") for at, value in each]
            table.writerows(rows)


def _sizes(folder: Path) -> Iterator[int]:
    """Sizes of its own files; folders of nodes are within their masters'."""
    for path in (*folder.glob("*"), *folder.glob("records/*")):
        with suppress(OSError):
            if path.is_file():
                yield path.stat().st_size
