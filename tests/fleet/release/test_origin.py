"""Which commit a release is of."""

import json
import subprocess

from fleet.common import exits
from fleet.inventory.folder import Folder
from fleet.release import bundle, listing, make, sources
from fleet.release.bundle import ORIGIN, _record, stored
from fleet.release.sources import PROJECT, SourceRevision, Sources, origin

PROJECT_FILE = b"[project]\nversion = '0.1.0'\n"


def git(root, *words):
    who = ("-c", "user.name=a", "-c", "user.email=a@b")
    subprocess.run(["git", "-C", root, *who, *words], check=True, capture_output=True)


def test_the_commit_and_what_of_a_release_differs_from_it(tmp_path):
    git(tmp_path, "init")
    (tmp_path / "agent").mkdir()
    (tmp_path / "agent/a.py").write_text("a = 1")
    assert origin(tmp_path) == SourceRevision("", ("agent/",))
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-m", "a")
    clean = origin(tmp_path)
    assert len(clean.commit) == 40
    assert clean.changed == ()
    (tmp_path / "notes.md").write_text("no part of a release")
    assert origin(tmp_path) == clean
    (tmp_path / "agent/a.py").write_text("a = 2")
    assert origin(tmp_path) == SourceRevision(clean.commit, ("agent/a.py",))


def test_it_is_kept_with_the_release_and_changes_are_said(tmp_path):
    said = []
    folder = Folder(tmp_path)
    _record(folder, "1-a", SourceRevision("c" * 40, ("agent/a.py", "agent/b.py")), said.append)
    assert said == ["1-a is of cccccccccccc, changed since: agent/a.py and 1 more"]
    kept = json.loads((tmp_path / "releases/1-a" / ORIGIN).read_text())
    assert kept == {"commit": "c" * 40, "changed": ["agent/a.py", "agent/b.py"]}
    _record(folder, "1-a", SourceRevision("d" * 40, ()), said.append)
    assert len(said) == 1
    assert json.loads((tmp_path / "releases/1-a" / ORIGIN).read_text())["changed"] == []


def test_the_list_of_releases_shows_it(tmp_path, capsys):
    folder = Folder(tmp_path)
    for number, origin_ in enumerate(
        (SourceRevision("c" * 40, ()), SourceRevision("d" * 40, ("setup.py",)), None)
    ):
        release = f"0.1.0-0000000{number}"
        if origin_:
            _record(folder, release, origin_, lambda line: None)
        bundle = folder.releases / release / "aarch64-py3.11.tar.xz"
        bundle.parent.mkdir(exist_ok=True)
        bundle.write_bytes(b"bundle")
    found = {each.release: each.origin for each in stored(folder)}
    assert found["0.1.0-00000001"] == SourceRevision("d" * 40, ("setup.py",))
    assert found["0.1.0-00000002"] is None
    assert listing.run(folder, as_json=False) == exits.DONE
    rows = dict(line.split(" ", 1) for line in capsys.readouterr().out.splitlines()[1:])
    assert rows["0.1.0-00000000"].endswith(" cccccccccccc")
    assert rows["0.1.0-00000001"].endswith(" dddddddddddd and changes")
    assert rows["0.1.0-00000002"].endswith(" 0.0")
    assert listing.run(folder, as_json=True) == exits.DONE
    shown = json.loads(capsys.readouterr().out)["bundles"]
    assert {each["commit"][:1]: each["changed"] for each in shown} == {
        "c": [],
        "d": ["setup.py"],
        "": [],
    }


def test_changes_are_said_once_for_all_targets(tmp_path, monkeypatch, capsys):
    checkout = tmp_path / "checkout"
    dirty = SourceRevision("c" * 40, ("agent/a.py",))
    monkeypatch.setattr(sources, "checkout", lambda: checkout)
    monkeypatch.setattr(sources, "read", lambda root: Sources({PROJECT: PROJECT_FILE}))
    monkeypatch.setattr(sources, "origin", lambda root: dirty)
    monkeypatch.setattr(bundle, "_made", lambda folder, sources, target, say: b"bundle")
    folder = Folder(tmp_path)
    make.run(folder, ["aarch64", "x86_64"], [], ["3.11", "3.13"], as_json=True)
    assert len(list(folder.releases.glob("*/*.tar.xz"))) == 4
    assert capsys.readouterr().err.count("is of cccccccccccc, changed since: agent/a.py") == 1
