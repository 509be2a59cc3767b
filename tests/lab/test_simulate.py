"""`fleet lab simulate`: a small run to its page, what is kept of it, and processes that fail."""

from __future__ import annotations

import csv
import os
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from fleet.cli.commands import run
from fleet.common import extras
from fleet.simulation.search import TOLERANCE
from fleet.simulation.statistics import gain_percent
from fleet.testbed.run_folder import RunFolderError
from lab.simulation import command as simulate
from lab.simulation.contenders import CONTENDERS, MAIN, PARTS
from lab.simulation.evaluation import PAPER_GAINS, Evaluation, Variant
from lab.simulation.points import NAME, KeptResults, Key, Result
from lab.simulation.run import Point, Setting, World
from lab.simulation.table_v import CLASSES, SIZES
from lab.simulation.units import Campaign
from lab.simulation.workers import Done, Say, WorkerError, Workers

CLIPPED = Variant("query", "clip")
SETTING = Setting(SIZES[0], "query", "clip", 2_000, 1)


def command(folder: Path, *more: str) -> list[str]:
    sizes = ["--nodes", "100", "--nodes", "1000"]
    small = ["--seeds", "2", "--queries", "1000", "--jobs", "2"]
    return ["lab", "simulate", *sizes, *small, "--directory", str(folder), *more]


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a small run."""
    folder = tmp_path_factory.mktemp("simulate")
    assert run(command(folder, "--parts")) == 0
    return folder


def test_a_run_writes_data_pictures_and_a_page(done: Path) -> None:
    with (done / "simulation.csv").open() as file:
        rows = list(csv.DictReader(file))
    searches = {
        (row["nodes"], row["reading"], row["policy"], row["seed"])
        for row in rows
        if row["run"] == "search"
    }
    parts = {100: 2 * len(PARTS), 1_000: 2 * len(PARTS)}
    assert len(searches) == 2 * 2 * len(MAIN) * 2 + sum(parts.values())
    curves = [row for row in rows if row["run"] == "curve"]
    assert {row["nodes"] for row in curves} == {"1000"}
    assert len(curves) == len(MAIN) * 2 * len(simulate.CURVE_LOADS_PER_S)
    trainings = {(r["nodes"], r["reading"], r["policy"]) for r in rows if r["run"] == "training"}
    learners = {CONTENDERS[name].trained_as for name in CONTENDERS} - {None}
    assert len(trainings) == 2 * len(learners)
    for name in ("simulation.svg", "simulation_gains.svg"):
        assert ET.parse(done / name).getroot().tag.endswith("svg")
    page = (done / "simulation.md").read_text()
    for theirs in PAPER_GAINS:
        assert f"+{PAPER_GAINS[theirs][100]:.1f} %" in page
    assert "fleet lab simulate --nodes 100 --nodes 1000" in page
    assert "{" not in page


def test_a_second_run_makes_nothing_again_and_writes_the_same(
    done: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = (done / NAME).read_bytes()
    assert run(command(done, "--parts", "--results", str(tmp_path))) == 0
    out = capsys.readouterr().out
    count = len(kept.splitlines())
    assert f"{count} results, {count} of them from before" in out
    assert (done / NAME).read_bytes() == kept
    for name in ("simulation.csv", "simulation.svg", "simulation_gains.svg"):
        assert (tmp_path / name).read_bytes() == (done / name).read_bytes()


@pytest.mark.long
def test_a_run_that_was_cut_off_goes_on_to_the_same_answers(done: Path, tmp_path: Path) -> None:
    lines = (done / NAME).read_bytes().splitlines(keepends=True)
    # By a crash: in the middle of a line.
    (tmp_path / NAME).write_bytes(b"".join(lines[: len(lines) // 2])[:-7])
    assert run(command(tmp_path, "--parts")) == 0
    assert (tmp_path / "simulation.csv").read_bytes() == (done / "simulation.csv").read_bytes()
    with KeptResults(tmp_path) as kept:
        assert len(list(kept)) == len(lines)


def test_what_is_kept_is_written_down_without_making_more(
    done: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = (done / NAME).read_bytes()
    more = ["--seeds", "3", "--nodes", "4000", "--kept", "--results", str(tmp_path)]
    assert run(command(done, *more)) == 0
    assert (done / NAME).read_bytes() == kept
    page = (tmp_path / "simulation.md").read_text()
    assert "| one k_t a query, clipped | 1,000 (20 × 50) | 2 |" in page
    assert run(command(tmp_path / "empty", "--kept")) == 1
    assert "no results are kept there" in capsys.readouterr().err


def test_found_loads_lie_between_one_that_is_sustained_and_one_that_is_not(done: Path) -> None:
    with KeptResults(done) as kept:
        results = [result for result in kept if result.load_per_s is not None]
    assert results
    for result in results:
        found = result.load_per_s or 0.0
        sustained = max(p.load_per_s for p in result.points if p.load_per_s <= found)
        too_high = min(p.load_per_s for p in result.points if p.load_per_s >= found)
        assert too_high - sustained <= TOLERANCE * found
        assert {p.worst <= 1.0 for p in result.points if p.load_per_s == sustained} == {True}
        assert {p.worst <= 1.0 for p in result.points if p.load_per_s == too_high} == {False}


def test_points_of_one_trace_are_the_same_every_time() -> None:
    first, again = (World(SETTING).point("edfq", 6.0) for _ in range(2))
    assert replace(first, seconds=0.0) == replace(again, seconds=0.0)
    assert first.p99_s != World(replace(SETTING, seed=2)).point("edfq", 6.0).p99_s


def test_an_overloaded_node_sustains_nothing_whatever_its_latencies() -> None:
    point = Point(9.0, (0.1, 0.1, 0.1, 0.1), 0.95, 0.0, 1, 0.0)
    assert point.worst < 1.0
    assert replace(point, busiest_utilisation=1.0).worst > 1.0


# --- from results to numbers ----------------------------------------------------------------------


def result(policy: Any, seed: int, load_per_s: float) -> Result:
    point = Point(load_per_s, (1.2, 0.9, 1.2, 1.5), 0.5, 0.0, 1, 0.0)
    setting = replace(SETTING, seed=seed)
    return Result(Key(setting, policy, None), load_per_s, (point,))


def test_gains_are_taken_seed_by_seed() -> None:
    loads = {"fifo": (4.0, 5.0, 6.0), "edfq": (6.0, 7.0, 9.0), "tedfq": (6.3, 7.0, 9.5)}
    results = [
        # In any order: as processes finish.
        result(policy, seed, loads[policy][seed - 1])
        for seed in (2, 3, 1)
        for policy in loads
    ]
    report = Evaluation(results)
    assert report.variants == [CLIPPED]
    assert report.loads(SIZES[0], CLIPPED, "edfq") == {1: 6.0, 2: 7.0, 3: 9.0}
    gain = report.gain(SIZES[0], CLIPPED, "edfq", "fifo")
    assert gain == gain_percent(loads["edfq"], loads["fifo"])
    assert report.gain(SIZES[0], CLIPPED, "edfq", "spr") is None
    assert report.better(SIZES[0], CLIPPED) == "tedfq"
    assert report.ratios(SIZES[0], CLIPPED, "fifo") == pytest.approx([1.0, 0.5, 0.5, 0.5])
    assert len(CLASSES) == 4


# --- what is kept ---------------------------------------------------------------------------------


def test_one_run_at_a_time(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with KeptResults(tmp_path):
        assert run(command(tmp_path)) == 1
    err = capsys.readouterr().err
    assert err == f"fleet: another run is at work in {tmp_path}\n"


@pytest.mark.parametrize("text", ["somebody's\n", "somebody's", "{}\n"])
def test_a_file_of_something_else_is_not_overwritten(text: str, tmp_path: Path) -> None:
    (tmp_path / NAME).write_text(text)
    with pytest.raises(RunFolderError, match="not a result at byte 0"), KeptResults(tmp_path):
        pass
    assert (tmp_path / NAME).read_text() == text


def test_other_seeds_wait_for_the_first_and_start_from_its_answers(tmp_path: Path) -> None:
    keys = [Key(replace(SETTING, seed=seed), "fifo", None) for seed in (1, 2, 3)]
    with KeptResults(tmp_path) as kept:
        campaign = Campaign(keys, kept, first_seed=1)
        first = campaign.next_unit()
        assert first is not None
        assert first.setting.seed == 1
        assert first.starts_per_s == {}
        assert campaign.next_unit() is None
        campaign.take(result("fifo", 1, 5.5))
        assert campaign.next_unit() is None
        campaign.done(first)
        second = campaign.next_unit()
        assert second is not None
        assert (second.setting.seed, second.starts_per_s) == (2, {"fifo": 5.5})
        assert campaign.missing() == keys[1:]


# --- processes ------------------------------------------------------------------------------------


def work(piece: str, say: Say) -> None:
    """What a process of these tests does."""
    if piece == "fails":
        raise ValueError("no such thing")
    if piece == "dies":
        os._exit(1)
    say(piece.upper())


def test_pieces_are_handed_out_and_answered() -> None:
    pieces = iter("abcde")
    with Workers[str](2, work) as workers:
        said = list(workers.run(lambda: next(pieces, None)))
    assert sorted(what for _, _, what in said if not isinstance(what, Done)) == list("ABCDE")
    assert sum(isinstance(what, Done) for _, _, what in said) == 5
    assert all(what.lower() == piece for _, piece, what in said if not isinstance(what, Done))


@pytest.mark.parametrize(("piece", "why"), [("fails", "no such thing"), ("dies", "died")])
def test_a_failure_of_a_process_is_told(piece: str, why: str) -> None:
    pieces = iter([piece])
    with Workers[str](1, work) as workers, pytest.raises(WorkerError, match=why):
        list(workers.run(lambda: next(pieces, None)))


# --- the command line -----------------------------------------------------------------------------


@pytest.mark.parametrize("library", ["numpy", "matplotlib"])
def test_a_missing_library_is_told_before_the_run(
    library: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(extras, "find_spec", lambda name: None if name == library else name)
    assert run(command(tmp_path / "run")) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"fleet: {library} is missing; `make pipeline` installs ")
    assert not (tmp_path / "run").exists()


def test_the_command_on_the_page_asks_the_same_again(tmp_path: Path) -> None:
    asked = simulate.options(
        tmp_path,
        tmp_path,
        nodes=(4_000, 100),
        reading="task",
        out_of_range="resample",
        policies=("edfq", "fifo"),
        parts=True,
        seeds=3,
        queries=5_000,
        seed=7,
        jobs=1,
        kept=False,
    )
    assert asked.command == (
        "fleet lab simulate --nodes 100 --nodes 4000 --reading task --out-of-range resample "
        "--policy edfq --policy fifo --parts --seeds 3 --queries 5000 --seed 7"
    )
    assert (asked.sizes, asked.readings) == ((SIZES[0], SIZES[2]), ("task",))
    assert asked.rules == ("resample",)
    assert (asked.contenders, asked.seeds) == (("fifo", "edfq"), (7, 8, 9))
    assert set(asked.queries.values()) == {5_000}
