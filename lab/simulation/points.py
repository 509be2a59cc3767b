"""Stored results of `fleet lab simulate`, from which an interrupted run resumes."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Self

import msgspec
from msgspec import Struct

from fleet.testbed.run_folder import RunFolderError
from lab.simulation.run import VERSION, Point, Setting

NAME: Final = "points.jsonl"
# Distinguishes a line truncated by a crash from anything else.
LINE_BEGINS: Final = b'{"key":{'


class Key(Struct, frozen=True):
    """The inputs that determine a result. `loads_per_s` are those of a curve; None for a search.
    With the training's seed it is a training run."""

    setting: Setting
    contender: str = msgspec.field(name="policy")
    loads_per_s: tuple[float, ...] | None
    version: int = VERSION


class Result(Struct, frozen=True):
    """The points of a search with the load that it found, or those of a curve. For a training run
    also the learnt advance of each class in s."""

    key: Key
    load_per_s: float | None
    points: tuple[Point, ...]
    advance_s: tuple[float, ...] = ()

    @property
    def nearest(self) -> Point:
        """For a search, the point at the load nearest to the answer."""
        answer_per_s = self.load_per_s or 0.0
        return min(self.points, key=lambda point: abs(point.load_per_s - answer_per_s))


class KeptResults:
    """One line of JSON per result in a file of the run's folder, which one run at a time may use.

    Entering raises `RunFolderError` if the folder cannot be used or another run is using it.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / NAME
        self._results: dict[Key, Result] = {}

    def __enter__(self) -> Self:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._file = self._path.open("a+b")
        except OSError as error:
            raise RunFolderError(f"{self._path}: {error.strerror}") from None
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._read()
        except BlockingIOError:
            self._file.close()
            raise RunFolderError(f"another run is at work in {self._path.parent}") from None
        except RunFolderError:
            self._file.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def get(self, key: Key) -> Result | None:
        """The result of an earlier run, if there is one."""
        return self._results.get(key)

    def __iter__(self) -> Iterator[Result]:
        return iter(self._results.values())

    def add(self, result: Result) -> None:
        """Store a result; it is on disk when this returns."""
        self._results[result.key] = result
        self._file.write(msgspec.json.encode(result) + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())

    def _read(self) -> None:
        decoder = msgspec.json.Decoder(Result)
        self._file.seek(0)
        whole = 0
        for line in self._file:
            cut_off = not line.endswith(b"\n")
            try:
                if cut_off and line.startswith(LINE_BEGINS):
                    break
                result = decoder.decode(line)
            except msgspec.DecodeError as error:
                text = f"{self._path}: not a result at byte {whole}: {error}; remove the file"
                raise RunFolderError(text) from None
            self._results[result.key] = result
            whole += len(line)
        self._file.truncate(whole)
