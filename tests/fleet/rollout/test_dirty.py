"""Releases with changes that no commit has: deployed only if somebody says so."""

import msgspec
import pytest

from fleet.cli.commands import run
from fleet.common import exits, toml
from fleet.release import sources
from fleet.release.bundle import ORIGIN
from fleet.release.sources import SourceRevision
from fleet.rollout import deploy, rollback
from tests.fleet.keys.rig import inventory

STORED = "0.1.0-00000000"
DIRTY = SourceRevision("c" * 40, ("agent/a.py", "agent/b.py"))
SAID = "is of cccccccccccc, changed since: agent/a.py and 1 more"


@pytest.fixture
def begun(tmp_path, monkeypatch):
    """The deployments that were begun, in a fleet of a checkout with changes."""
    (tmp_path / "fleet.toml").write_text(toml.dump(inventory()))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sources, "origin", lambda root: DIRTY)
    begun = []

    def deployed(folder, fleet, chosen, options):
        begun.append([host.name for host in chosen])
        return exits.DONE

    monkeypatch.setattr(deploy, "deploy", deployed)
    monkeypatch.setattr(rollback, "deploy", deployed)
    return begun


def test_without_a_question_it_has_to_be_allowed(begun, capsys):
    assert run(["deploy", "--yes"]) == exits.USAGE
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith(f"{SAID}; commit them, or give --allow-dirty")
    assert not begun
    assert run(["deploy", "--yes", "--allow-dirty"]) == exits.DONE
    assert run(["deploy", "--dry"]) == exits.DONE
    assert len(begun) == 2


def test_a_stored_release_is_known_by_what_was_written_when_it_was_made(begun, tmp_path, capsys):
    release = tmp_path / "releases" / STORED
    release.mkdir(parents=True)
    command = ["deploy", "--yes", "--release", STORED]
    assert run(command) == exits.DONE  # of a version that wrote nothing
    (release / ORIGIN).write_bytes(msgspec.json.encode(DIRTY._asdict()))
    assert run(command) == exits.USAGE
    assert f"{STORED} {SAID}" in capsys.readouterr().err
    assert run(["deploy", "--release", STORED]) == exits.DONE  # who is asked reads it first
    assert capsys.readouterr().err == f"{STORED} {SAID}\n"
    (release / ORIGIN).write_bytes(msgspec.json.encode(SourceRevision("c" * 40, ())._asdict()))
    assert run(command) == exits.DONE


def test_what_went_before_may_come_back(begun, tmp_path):
    release = tmp_path / "releases" / STORED
    release.mkdir(parents=True)
    (release / ORIGIN).write_bytes(msgspec.json.encode(DIRTY._asdict()))
    assert run(["rollback", "--yes", "--to", STORED]) == exits.DONE
    assert len(begun) == 1


def test_a_master_on_this_machine_gets_no_release(begun, tmp_path):
    (tmp_path / "fleet.toml").write_text(toml.dump(inventory(local=True)))
    assert run(["deploy", "--yes", "--limit", "master"]) == exits.DONE
