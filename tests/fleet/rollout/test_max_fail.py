"""`--max-fail` means the same in every command: a number is hosts, 2% is a part."""

import pytest

from fleet.cli.commands import fleet
from fleet.rollout.rollout import Share


def given(capsys, command, *arguments):
    """The value that the command gets, and what is said of it."""
    with fleet.commands[command].make_context(command, list(arguments)) as context:
        return context.params["max_fail"], capsys.readouterr().err


@pytest.fixture(autouse=True)
def a_fleet(tmp_path, monkeypatch):
    (tmp_path / "fleet.toml").touch()
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("command", ["deploy", "rollback", "reboot"])
def test_a_number_is_hosts_and_a_percentage_a_part(command, capsys):
    assert given(capsys, command, "--max-fail", "2")[0] == Share(2, percent=False)
    assert given(capsys, command, "--max-fail", "2%") == (Share(2, percent=True), "")


@pytest.mark.parametrize("command", ["deploy", "rollback"])
def test_where_a_number_was_a_part_that_is_said(command, capsys):
    assert given(capsys, command, "--max-fail", "2")[1] == (
        "--max-fail 2 is 2 hosts; up to release 0.1 it was 2 %: write 2% for that\n"
    )
    assert given(capsys, command, "--max-fail", "0")[1] == ""
    assert given(capsys, command)[1] == ""
