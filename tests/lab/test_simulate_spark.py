"""`fleet lab simulate --spark`: the results of processes, to the last bit."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

from fleet.cli.commands import run
from fleet.spark import session
from lab.simulation.points import KeptResults, Key, Result
from lab.simulation.spark_workers import SparkWorkers
from lab.simulation.workers import Done, Say, WorkerError
from tests.fleet.spark.shared import shared_session

pytest.importorskip("pyspark")


@pytest.fixture(scope="module")
def spark():
    return shared_session()


def command(folder: Path, *more: str) -> list[str]:
    small = ["--nodes", "100", "--seeds", "2", "--queries", "1000", "--reading", "query"]
    return ["lab", "simulate", *small, "--parts", "--directory", str(folder), *more]


def results(folder: Path) -> dict[Key, Result]:
    """Without the time that they took."""
    with KeptResults(folder) as kept:
        return {
            result.key: replace(
                result, points=tuple(replace(point, seconds=0.0) for point in result.points)
            )
            for result in kept
        }


@pytest.mark.long
def test_spark_makes_what_processes_make(spark, tmp_path, monkeypatch):
    asked = []

    @contextmanager
    def open_session(name: str, master: str):
        asked.append(master)
        yield spark

    monkeypatch.setattr(session, "open_session", open_session)
    assert run(command(tmp_path / "spark", "--spark", "local[2]")) == 0
    assert run(command(tmp_path / "processes", "--jobs", "2")) == 0
    assert asked == ["local[2]"]
    assert len(results(tmp_path / "spark")) > 10
    assert results(tmp_path / "spark") == results(tmp_path / "processes")
    pages = [(tmp_path / name / "simulation.csv").read_bytes() for name in ("spark", "processes")]
    assert pages[0] == pages[1]


def test_processes_of_this_machine_and_spark_s_are_not_asked_for_at_once(tmp_path, capsys):
    assert run(command(tmp_path, "--spark", "local[2]", "--jobs", "2")) == 2
    assert "--jobs is for this machine's processes" in capsys.readouterr().err


def counted(piece: int, say: Say) -> None:
    """Says what comes before the piece; fails at 5, and has a bug at 6."""
    if piece == 5:
        raise ValueError("5 is one too many")
    if piece == 6:
        raise KeyError("a bug")
    for number in range(piece):
        say(number)


def test_pieces_are_handed_out_as_others_are_done(spark):
    waiting = [1, 2, 3]
    done: list[int] = []
    said: dict[int, list[int]] = {1: [], 2: [], 3: []}

    def next_piece() -> int | None:
        # 3 has to wait for both.
        return None if not waiting or (waiting[0] == 3 and len(done) < 2) else waiting.pop(0)

    numbers = set()
    for number, piece, each in SparkWorkers(spark, counted).run(next_piece):
        numbers.add(number)
        if isinstance(each, Done):
            done.append(piece)
        else:
            said[piece].append(each)
    assert said == {1: [0], 2: [0, 1], 3: [0, 1, 2]}
    assert (sorted(done), done[-1], numbers) == ([1, 2, 3], 3, {0, 1})


@pytest.mark.parametrize(("piece", "text"), [(5, "^5 is one too many$"), (6, "KeyError: 'a bug'")])
def test_what_fails_is_one_line(spark, piece: int, text: str):
    pieces = [piece]
    with pytest.raises(WorkerError, match=text):
        list(SparkWorkers(spark, counted).run(lambda: pieces.pop() if pieces else None))
