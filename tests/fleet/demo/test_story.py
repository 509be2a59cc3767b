"""The demo's story: what it says of answers and runs, in plain words."""

import errno
import io
import shutil

import pytest
from msgspec import structs
from rich.console import Console

from agent.client import NoReplyError, WatchError
from agent.wire.messages import Answer, Coverage, Missing
from fleet.common import exits
from fleet.demo import demo
from fleet.demo.asking import told
from fleet.demo.options import Options
from fleet.demo.story import Story, busy, comparison, not_counted, verdict
from fleet.simulation.measures import ClassSummary
from fleet.testbed.run_folder import run_folder
from fleet.testbed.testbed import TestbedError


def summary(kind: str, within: float, p99_ms: float | None = 400.0) -> ClassSummary:
    return ClassSummary(kind, 500.0, 100, 50.0, 90.0, p99_ms, within)


def test_each_kind_of_question_has_a_row_of_at_most_80_columns():
    fifo, edfq = [summary("1.2", 0.9896, 501.0)], [summary("1.2", 1.0)]
    rows = comparison({"fifo": fifo, "edfq": edfq}, {"fifo": fifo, "edfq": edfq}, 80)
    assert max(map(len, rows)) <= 78
    assert rows[-1].split() == [
        *["one", "room", "of", "the", "slowest", "owner", "500", "ms"],
        *["98.9", "100.0", "98.9", "missed", "100.0", "kept"],
    ], "rounded down: 98.96 are not the 99 that were promised"


def test_on_a_narrow_terminal_each_question_has_lines_of_its_own():
    fifo, edfq = [summary("1.2", 0.9896, 501.0)], [summary("1.2", 1.0)]
    rows = comparison({"fifo": fifo, "edfq": edfq}, {"fifo": fifo, "edfq": edfq}, 40)
    assert max(map(len, rows)) <= 38
    assert rows[-3:] == [
        "one room of the slowest owner, 500 ms",
        "  FIFO 98.9, simulated 98.9 missed",
        "  EDFQ 100.0, simulated 100.0 kept",
    ]


def test_what_the_real_run_did_not_ask_is_a_dash():
    runs = {"fifo": [summary("3", 1.0)], "edfq": [summary("3", 1.0)]}
    assert comparison({"fifo": [], "edfq": []}, runs, 80)[-1].split()[4:6] == ["–", "–"]


def test_the_verdict_names_who_missed_it():
    missed, kept = [summary("1.2", 0.98, 600.0)], [summary("1.2", 0.99)]
    assert verdict({"fifo": missed, "edfq": kept}) == (
        "The promise was 99 of 100. Simulated, FIFO misses it for one room of the slowest owner, "
        "EDFQ keeps it for all."
    )


def test_where_the_machine_was_too_busy_for_edfq_the_simulation_counts():
    runs = {"fifo": [summary("1.2", 0.5)], "edfq": [summary("1.1", 1.0), summary("1.2", 0.99)]}
    assert busy(runs, 11.94, 2) == ""
    runs["edfq"][1] = summary("1.2", 0.989)
    assert busy(runs, 11.94, 2) == (
        "Rely on the simulation: this machine was busy (load 11.9 on 2 cores)."
    )
    assert busy(runs, 1.2, 2) == "Rely on the simulation: so few questions vary."


def test_a_refusal_is_no_answer_that_lacks_a_room():
    refused = ClassSummary("1.2", 500.0, 191, None, None, None, None, refused=191)
    runs = {"fifo": [refused], "edfq": [summary("1.2", 1.0)]}
    [told_refused] = not_counted(runs)
    assert told_refused == (
        "191 questions were refused here, at once instead of answered late: the shares above are "
        "of the others."
    )
    assert comparison(runs, {"fifo": runs["edfq"], "edfq": runs["edfq"]}, 80)[-1].split()[8:10] == [
        *["–", "100.0"]
    ]
    assert busy({"edfq": [refused]}, 1.0, 2) == ""
    lacking = structs.replace(summary("1.2", 0.9), partial=1, unanswered=2)
    assert not_counted({"fifo": [lacking], "edfq": []}) == [
        "Not in time, too: 1 answer here that lacked areas.",
        "Not in time, too: 2 questions here without a reply.",
    ]
    assert not_counted({"fifo": [], "edfq": runs["edfq"]}) == []


def test_an_answer_without_a_room_says_which_and_why():
    answer = Answer(
        "q", "partial", 300.0, False, Coverage(31, 32), missing=(Missing("b1/f4/r1", "node_down"),)
    )
    assert told(answer) == [
        "31 of 32 rooms in 300 ms, not all in time; nodes sent sums only.",
        "missing b1/f4/r1: its edge node is down",
    ]


@pytest.mark.parametrize("silent", [False, True])
def test_lines_are_at_most_80_wide_and_links_are_whole(silent):
    file = io.StringIO()
    story = Story(Console(file=file, width=200), silent=silent)
    link = f"http://127.0.0.1:8080/login?code={'x' * 60}"
    story.begin("words " * 30)
    story.step("Ask")
    story.say("words " * 30)
    story.copy(link)
    lines = file.getvalue().splitlines()
    assert (lines == []) is silent
    if not silent:
        assert "[1/5] Ask" in lines
        assert lines[-1].strip() == link
        assert max(len(line) for line in lines[:-1]) <= 80


def test_on_a_narrow_terminal_lines_are_folded_once():
    file = io.StringIO()
    Story(Console(file=file, width=40, force_terminal=True), silent=False).begin("words " * 30)
    lines = file.getvalue().splitlines()
    assert {len(line) for line in lines[:-1]} == {len("words " * 6) - 1}


def test_a_master_that_is_too_slow_is_not_taken_for_none(monkeypatch, tmp_path, capsys):
    def too_slow(_options):
        raise NoReplyError("no reply from tcp://h:1 within 2.0 s; is a master running there?")

    monkeypatch.setattr(demo, "_run", too_slow)
    monkeypatch.setattr("signal.signal", lambda *_: None)
    options = Options(tmp_path / "run", 1.0, 1.0, 1, 1, keep=False)
    assert demo.run(options) == exits.FAILED
    told = capsys.readouterr().err
    assert told.startswith(
        "fleet: no reply from tcp://h:1 within 2.0 s: is this machine too busy ("
    )
    assert told.endswith(f"Logs: {tmp_path}/run\n")


@pytest.mark.parametrize(
    "failure",
    [
        TestbedError("service temperature was not set up: this master's disk takes nothing now"),
        OSError(errno.ENOSPC, "No space left on device"),
        WatchError("this master's disk takes nothing now; try again later"),
    ],
)
def test_a_failure_on_a_full_disk_names_its_folder(monkeypatch, tmp_path, capsys, failure):
    def fail(_options):
        raise failure

    monkeypatch.setattr(demo, "_run", fail)
    monkeypatch.setattr("signal.signal", lambda *_: None)
    options = Options(tmp_path / "run", 1.0, 1.0, 1, 1, keep=False)
    assert demo.run(options) == exits.FAILED
    assert capsys.readouterr().err == f"fleet: {failure}\n"
    full = shutil.disk_usage(tmp_path)._replace(free=4_096)
    monkeypatch.setattr("shutil.disk_usage", lambda _path: full)
    assert demo.run(options) == exits.FAILED
    assert capsys.readouterr().err.endswith(
        f"{failure}; the disk of {tmp_path}/run is full: make room there, or name another "
        "--directory\n"
    )


@pytest.mark.parametrize("by_make", [False, True])
def test_a_second_demo_names_the_option_as_it_is_given_there(
    monkeypatch, tmp_path, capsys, *, by_make
):
    monkeypatch.delenv("MAKELEVEL", raising=False)
    if by_make:
        monkeypatch.setenv("MAKELEVEL", "1")
    monkeypatch.setattr("signal.signal", lambda *_: None)
    with run_folder(tmp_path / "run"):
        options = Options(tmp_path / "run", 1.0, 1.0, 1, 1, keep=False)
        assert demo.run(options) == exits.FAILED
    told = capsys.readouterr().err
    assert "another run is at work in" in told
    assert told.endswith(
        'name another --directory, with make as ARGS="--directory FOLDER"\n'
        if by_make
        else "end it, or name another --directory\n"
    )
