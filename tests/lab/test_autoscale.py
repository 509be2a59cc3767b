"""The auto-scaler around the real task scheduler in virtual time, and what is written of a run."""

from __future__ import annotations

import csv
from itertools import pairwise
from pathlib import Path

import pytest
from msgspec.structs import replace

from agent.wire.master_config import MasterAutoscale
from fleet.cli.commands import run
from fleet.common import extras
from lab.autoscale.experiment import Experiment
from lab.autoscale.measures import by_second, by_step
from lab.autoscale.results import write
from lab.autoscale.run import Options, command_line, virtual_run
from lab.autoscale.workload import (
    RULES,
    PodsChange,
    Step,
    StepsRun,
    SubtaskEnd,
    TaskEnd,
    fleet_of,
    steps_of,
    trace_of,
)
from lab.provenance import Provenance

STEP_S = 120.0
STEPS = steps_of((4.0, 12.0, 24.0, 8.0, 4.0), STEP_S)
# Windows from the begin of a step until its violations are back under the threshold.
WINDOWS_TO_SETTLE = 5


def simulated(
    steps: tuple[Step, ...], seed: int, *, rules: MasterAutoscale = RULES, nodes: int = 2
) -> StepsRun:
    plan = fleet_of(nodes)
    return virtual_run(plan, rules, trace_of(plan, steps, seed=seed), steps)


@pytest.mark.parametrize("seed", range(6))
def test_after_a_step_violations_are_back_and_pods_do_not_flap(seed: int) -> None:
    done = simulated(STEPS, seed)
    rows = by_step(done, STEPS, RULES.window_s)
    for node in ("iad1-n1", "iad1-n2"):
        first, up, top, down, last = [row for row in rows if row.node == node]
        assert first.pods_before == 1
        assert first.pods_after < top.pods_after
        assert up.pods_after >= 2
        assert down.pods_after < top.pods_after
        assert last.pods_after < top.pods_after
        assert last.pods_after <= 2
        for row in (up, top):
            assert row.missed_until_settled_percent is not None
            assert row.missed_until_settled_percent > RULES.above_percent
        for row in (first, up, top, down, last):
            assert row.reversals <= 2
    # Slow requests in a row may look like a step up: a pod comes, and goes when they are over.
    assert sum(row.reversals == 2 for row in rows) <= 1
    settling_s = WINDOWS_TO_SETTLE * RULES.window_s
    for number in range(len(STEPS)):
        start_s = number * STEP_S + settling_s
        ends = [s.missed for s in done.subtasks if start_s <= s.at_s < (number + 1) * STEP_S]
        assert sum(ends) < RULES.above_percent / 100 * len(ends)


@pytest.mark.parametrize("seed", range(3))
def test_changes_keep_the_limits_and_the_cool_down(seed: int) -> None:
    done = simulated(STEPS, seed, nodes=3)
    for node in {change.node for change in done.changes}:
        own = [change for change in done.changes if change.node == node]
        assert all(1 <= change.pods <= 8 for change in own)
        # The first says what the node began with.
        for before, after in pairwise(own[1:]):
            assert after.at_s - before.at_s >= RULES.cool_down_s


@pytest.mark.parametrize("rate_per_s", [3.0, 11.0, 22.0])
def test_under_a_constant_load_pods_settle_and_stay(rate_per_s: float) -> None:
    """Loads that one, two, three pods serve well: 75 windows."""
    done = simulated((Step(rate_per_s, 600.0),), seed=1)
    late = [change for change in done.changes if change.at_s > 10 * RULES.window_s]
    assert late == []
    missed = [s.missed for s in done.subtasks if s.at_s > 10 * RULES.window_s]
    assert sum(missed) < 0.01 * len(missed)


def test_a_load_between_two_numbers_of_pods_changes_them_ever_more_rarely() -> None:
    """6 queries/s are a little too many for one pod now and then: 250 windows."""
    done = simulated((Step(6.0, 2_000.0),), seed=2, nodes=1)
    assert len(done.changes) <= 14
    missed = [s.missed for s in done.subtasks]
    assert sum(missed) < RULES.above_percent / 100 * len(missed)


def test_virtual_steps_are_the_same_every_time() -> None:
    steps = steps_of((4.0, 12.0), 30.0)
    assert simulated(steps, 3) == simulated(steps, 3)


# --- what is written ------------------------------------------------------------------------------

HAND_STEPS = steps_of((2.0, 4.0), 10.0)
HAND = StepsRun(
    subtasks=[
        SubtaskEnd(1.0, "n1", False),
        SubtaskEnd(11.0, "n1", True),
        SubtaskEnd(13.5, "n1", False),
        SubtaskEnd(18.0, "n1", False),
    ],
    changes=[PodsChange(0.0, "n1", 1), PodsChange(12.0, "n1", 3), PodsChange(15.0, "n1", 2)],
    answers=[TaskEnd(1.0, True), TaskEnd(11.0, False), TaskEnd(18.0, True)],
)


def test_steps_and_seconds_are_counted_by_hand() -> None:
    first, second = by_step(HAND, HAND_STEPS, 2.0)
    assert (first.pods_before, first.pods_after, first.changes) == (1, 1, 0)
    assert first.last_change_s is None
    assert first.missed_until_settled_percent == 0.0
    assert first.missed_after_percent is None
    assert (second.pods_before, second.pods_after) == (1, 2)
    assert (second.changes, second.reversals, second.last_change_s) == (2, 1, 5.0)
    assert second.missed_until_settled_percent == 50.0
    assert second.missed_after_percent == 0.0
    assert second.slo_percent == 50.0
    rows = by_second(HAND, HAND_STEPS, 2.0)
    assert len(rows) == 20
    assert [row.pods for row in rows] == [1] * 11 + [3] * 3 + [2] * 6
    assert (rows[9].rate_per_s, rows[10].rate_per_s) == (2.0, 4.0)
    assert (rows[11].missed_percent, rows[4].missed_percent) == (100.0, None)


def test_data_picture_and_page_are_written(tmp_path: Path) -> None:
    experiment = Experiment(
        rates_per_s=(2.0, 4.0),
        seconds=10.0,
        nodes=1,
        seed=7,
        origin=Provenance("fleet lab autoscale --rate 2 --rate 4", 0.5, "2026-01-01"),
        rules=replace(RULES, window_s=2.0),
        steps=HAND_STEPS,
        real=HAND,
        virtual=HAND,
    )
    data, picture, page = write(experiment, tmp_path / "results")
    rows = list(csv.DictReader(data.read_text().splitlines()))
    assert len(rows) == 40
    assert {row["run"] for row in rows} == {"real", "virtual"}
    assert picture.read_text().startswith("<?xml")
    text = page.read_text()
    assert "| 4 | n1 | 1 → 2 | 2 | 1 | 5.0 s | 50.0 % | 0.0 % | 50.0 % |" in text
    assert "| command | `fleet lab autoscale --rate 2 --rate 4` |" in text
    assert "| load average just before | 0.50 |\n| date | 2026-01-01 |\n| data | [auto" in text


def test_the_command_repeats_the_run(tmp_path: Path) -> None:
    options = Options(tmp_path, tmp_path, 10.0, (2.0, 4.0), 1, 7)
    expected = "fleet lab autoscale --rate 2 --rate 4 --seconds 10 --nodes 1 --seed 7"
    assert command_line(options) == expected


def test_the_command_tells_a_folder_that_holds_something_else(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "thesis.tex").write_text("")
    assert run(["lab", "autoscale", "--directory", str(tmp_path)]) == 1
    assert "holds something else than a run" in capsys.readouterr().err


def test_a_missing_library_is_said_before_the_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(extras, "find_spec", lambda _name: None)
    folder = tmp_path / "run"
    assert run(["lab", "autoscale", "--directory", str(folder)]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("fleet: matplotlib is missing; `make pipeline` installs ")
    assert said.err.count("\n") == 1
    assert not folder.exists()
