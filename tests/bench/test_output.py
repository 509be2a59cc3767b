"""Results with their goals, the page of them, and a run of which one part cannot run."""

import json
import sys

import pytest

from bench import __main__ as command
from bench import speed_page
from bench.output import CannotRunError, result


@pytest.mark.parametrize(
    ("value", "goals", "words", "met"),
    [
        (2e-3, {}, None, None),
        (2e-3, {"most": 2e-3}, "≤ 2 ms", True),
        (2e-3, {"most": 1.9e-3}, "≤ 1.9 ms", False),
        (2e-3, {"least": 2.1e-3}, "≥ 2.1 ms", False),
        (2e-3, {"least_ratio": 0.5}, "ratio ≥ 0.5", True),
        (2e-3, {"least_ratio": 1 / 1.3}, "ratio ≥ 0.769", False),
        (2e-3, {"most": 1.0, "also": {"none lost": False}}, "≤ 1000 ms, none lost", False),
    ],
)
def test_a_goal_is_said_and_compared(value, goals, words, met):
    found = result("a", value, "ms", "peer", 1e-3, **goals)
    assert (found["goal"], found["goal_met"]) == (words, met)


def test_of_a_rate_more_is_better():
    assert result("a", 300.0, "queries/s", "peer", 100.0)["ratio"] == 3.0
    assert result("a", 3.0, "ms", "peer", 1.0)["ratio"] == 0.333


def _fails():
    yield result("before", 1.0, "s")
    raise AssertionError("the numbers\ndiffer")


def _lacks():
    raise CannotRunError("mosquitto; apt-get install mosquitto")


def _exits():
    sys.exit("error: a process ended")


def test_one_that_cannot_run_or_fails_is_a_line_and_ends_nothing(monkeypatch, capsys):
    ways = {"fails": _fails, "lacks": _lacks, "exits": _exits}
    ways["runs"] = lambda: [result("runs", 1.0, "s")]
    monkeypatch.setattr(command, "BENCHMARKS", ways)
    monkeypatch.setattr(sys, "argv", ["bench"])
    with pytest.raises(SystemExit, match=r"^error: failed: fails, exits$"):
        command.main()
    told = capsys.readouterr()
    assert [json.loads(line)["name"] for line in told.out.splitlines()] == ["before", "runs"]
    assert told.err.splitlines() == [
        "fails: failed: AssertionError: the numbers differ",
        "lacks: skipped, as this host lacks mosquitto; apt-get install mosquitto",
        "exits: failed: SystemExit: error: a process ended",
    ]


def test_the_page_has_goals_and_keeps_other_rows(tmp_path):
    (tmp_path / "speed.md").write_text("<!-- table: measures -->\n<!-- end -->\n")
    first = [result("a", 1e-3, "ms", "peer", 2e-3, least_ratio=3.0), result("b", 5.0, "s")]
    list(speed_page.kept(first, tmp_path))
    list(speed_page.kept([result("b", 4.0, "s", most=4.0)], tmp_path))
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in (tmp_path / "speed.md").read_text().splitlines()
        if line.startswith("|")
    ]
    assert rows[0] == list(speed_page.HEADINGS)
    assert rows[2][:6] == ["a", "1 ms", "peer: 2 ms", "2.00", "ratio ≥ 3", "**no**"]
    assert rows[3][:6] == ["b", "4 s", "–", "–", "≤ 4 s", "yes"]
