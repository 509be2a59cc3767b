"""What `fleet deploy` shows before it asks, and what it asks."""

import pytest

from fleet.cli.commands import run
from fleet.common import exits, toml
from fleet.inventory.folder import Folder
from fleet.inventory.loader import load
from fleet.inventory.parties import Party
from fleet.keys.store import Store
from fleet.terminal import output
from tests.fleet.keys.rig import inventory

MASTERS = ("deploy", "--limit", "master")


@pytest.fixture
def asked(tmp_path, monkeypatch):
    """A fleet with local masters, whose operator says no; the questions that were asked."""
    (tmp_path / "fleet.toml").write_text(toml.dump(inventory(local=True)))
    monkeypatch.chdir(tmp_path)
    assert run(["keys", "init"]) == exits.DONE
    questions = []
    monkeypatch.setattr(output, "require_terminal", lambda question: None)
    monkeypatch.setattr(output.click, "confirm", lambda text, err: questions.append(text))
    return questions


def test_the_plan_comes_before_the_question(asked, tmp_path, capsys):
    capsys.readouterr()
    assert run([*MASTERS, "--iad", "iad4"]) == exits.NOTHING
    shown = capsys.readouterr().err.splitlines()
    assert shown[0] == "iad4/master:"
    changes = [line for line in shown if line.startswith("  write ")]
    assert asked == [f"Apply {len(changes)} changes to iad4/master?"]
    assert shown[-1] == "fleet: nothing was done"
    assert not (tmp_path / "masters").exists()


@pytest.mark.parametrize("how", ["--dry", "--yes"])
def test_before_there_are_keys_it_says_how_to_make_them(how, tmp_path, monkeypatch, capsys):
    (tmp_path / "fleet.toml").write_text(toml.dump(inventory(local=True)))
    monkeypatch.chdir(tmp_path)
    assert run([*MASTERS, how]) != exits.DONE
    (line,) = capsys.readouterr().err.splitlines()
    assert line == f"fleet: there are no keys in {tmp_path / 'keys'}; fleet keys init makes them"


def test_who_is_revoked_while_it_asks_does_not_come_back(asked, tmp_path, monkeypatch):
    folder = Folder(tmp_path)
    fleet, store = load(folder), Store(folder)
    node = Party("node", "iad4/n1")
    (key,) = store.publics(node)

    def revoke(text, err):
        store.revoke(fleet, node, "stolen")
        return True

    monkeypatch.setattr(output.click, "confirm", revoke)
    assert run([*MASTERS, "--iad", "iad4"]) == exits.DONE
    allowed = (tmp_path / "masters/iad4/allow.toml").read_text()
    assert "n2" in allowed
    assert key not in allowed


def test_several_hosts_are_counted(asked):
    assert run([*MASTERS]) == exits.NOTHING
    assert asked[0].endswith(" changes to 2 hosts of iad4, iad5?")


def test_nobody_is_asked_about_nothing(asked, capsys):
    assert run([*MASTERS, "--yes"]) == exits.DONE
    capsys.readouterr()
    assert run([*MASTERS]) == exits.DONE
    assert asked == []
    assert capsys.readouterr().err.startswith("nothing to do: 2 hosts up to date")
