"""An error that nobody expected: one line, and its traceback in a file that the line names."""

import re
import stat
import sys

import pytest

from fleet import cli
from fleet.cli import commands
from fleet.common import crash_reports, exits
from fleet.ssh.fanout import attempt


@pytest.fixture
def state(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr(crash_reports, "raised", False)
    monkeypatch.setattr(sys, "argv", ["fleet", "status"])
    return tmp_path / "sanderling"


def broken(*_):
    raise KeyError("a\nb")


def test_it_is_one_line_that_names_a_file_with_the_traceback(state, monkeypatch, capsys):
    monkeypatch.setattr(commands, "run", broken)
    assert cli.main() == exits.FAILED
    (line,) = capsys.readouterr().err.splitlines()
    found = re.fullmatch(r"fleet: unexpected KeyError: 'a\\nb'; the traceback is in (.*)", line)
    (path,) = state.iterdir()
    assert found[1] == str(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(state.stat().st_mode) == 0o700
    assert path.read_text().startswith("fleet status\nTraceback (most recent call last):\n")
    assert "in broken" in path.read_text()


def test_what_the_machine_refuses_is_no_crash(state, monkeypatch, capsys):
    def refused(*_):
        with open("x" * 300):  # noqa: PTH123 - as any library does
            pass

    monkeypatch.setattr(commands, "run", refused)
    assert cli.main() == exits.FAILED
    assert capsys.readouterr().err == f"fleet: {'x' * 300}: File name too long\n"
    assert not state.exists()


def test_a_full_disk_is_no_crash(state, monkeypatch, capsys):
    def refused(*_):
        with open("/dev/full", "w") as file:  # noqa: PTH123 - as any library does
            file.write("x")

    monkeypatch.setattr(commands, "run", refused)
    assert cli.main() == exits.FAILED
    said = "fleet: No space left on device; make room and try again\n"
    assert capsys.readouterr().err == said
    assert not state.exists()


def test_verbose_shows_it(state, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["fleet", "-v", "status"])

    @commands.fleet.command("broken")
    def _():
        broken()

    monkeypatch.setattr(sys, "argv", ["fleet", "-v", "broken"])
    try:
        with pytest.raises(KeyError):
            cli.main()
    finally:
        del commands.fleet.commands["broken"]
    assert not state.exists()


def test_one_on_a_host_keeps_its_traceback_too(state):
    outcome = attempt(None, broken)
    (path,) = state.iterdir()
    assert str(outcome.error).endswith(f"; the traceback is in {path}")


def test_the_last_ones_are_kept_and_a_full_disk_is_told(state, monkeypatch):
    for _ in range(crash_reports.KEPT + 3):
        crash_reports.told(ValueError("x"))
    assert len(list(state.iterdir())) == crash_reports.KEPT
    monkeypatch.setenv("XDG_STATE_HOME", "/proc/none")
    assert "its traceback could not be kept: " in crash_reports.told(ValueError("x"))


@pytest.mark.parametrize("option", ["--version"])
def test_the_version_is_told(option, capsys):
    assert commands.run([option]) == 0
    assert re.fullmatch(r"fleet \d+\.\d+\.\d+\n", capsys.readouterr().out)
