"""Bundles: their names come from the sources; what is stored is found again."""

from __future__ import annotations

import os
import shlex
import subprocess

import pytest

from fleet.inventory.folder import Folder
from fleet.inventory.model import Iad, Inventory, Master, Node
from fleet.release import bundle, sources, toolchain, wheel
from fleet.release.bundle import Bundle, find, stored
from fleet.release.make import machines_of
from fleet.release.sources import LOCK, PROJECT, Sources, checkout, read
from fleet.release.target import ReleaseError, Target
from fleet.rollout.deployment_plan import read_shared
from fleet.ssh.errors import HostError

PI = Target("aarch64", "3.11")
NEW_PI = Target("aarch64", "3.13")
PROJECT_TEXT = '[project]\nname = "sanderling"\nversion = "1.2"\n[tool.ruff]\nline-length = 100\n'
FILES = {
    "agent/main.py": b"run()\n",
    "images/systemd/a.service": b"[Service]\n",
    LOCK: b"thing==1\n",
    PROJECT: PROJECT_TEXT.encode(),
}


def put(folder, release, target, content=b"bundle"):
    path = folder.releases / release / f"{target}.tar.xz"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


@pytest.fixture
def folder(tmp_path):
    return Folder(tmp_path)


def test_the_id_has_the_version_and_eight_digits():
    version, _, digits = Sources(FILES).release.rpartition("-")
    assert version == "1.2"
    assert len(digits) == 8
    assert int(digits, 16) >= 0


@pytest.mark.parametrize("path", sorted(FILES))
def test_the_id_follows_each_file(path):
    content = FILES[path].replace(b"1", b"2") if path == PROJECT else FILES[path] + b"\n# x\n"
    assert Sources({**FILES, path: content}).release != Sources(FILES).release


def test_the_id_follows_names():
    moved = {("agent/other.py" if path == "agent/main.py" else path): FILES[path] for path in FILES}
    assert Sources(moved).release != Sources(FILES).release


def test_the_id_does_not_follow_settings_of_checks_nor_the_order():
    settings = PROJECT_TEXT.replace("100", "99").encode()
    same = dict(reversed(list({**FILES, PROJECT: settings}.items())))
    assert Sources(same).release == Sources(FILES).release


def git(root, *command):
    subprocess.run(
        ["git", "-C", root, "-c", "user.name=n", "-c", "user.email=e", *command],
        check=True,
        capture_output=True,
    )


def test_sources_are_what_git_sees_and_what_is_not_committed_yet(tmp_path):
    git(tmp_path, "init", "--quiet")
    for name in ("agent/kept.py", "agent/gone.py", "fleet/cli.py", PROJECT, ".gitignore"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("*.so\n")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "--quiet", "-m", "x")
    (tmp_path / "agent/kept.py").write_text("changed\n")
    (tmp_path / "agent/gone.py").unlink()
    (tmp_path / "agent/new.py").write_text("new\n")
    (tmp_path / "agent/ignored.so").write_text("for this machine\n")
    found = read(tmp_path).files
    assert {path: found[path] for path in found if path != PROJECT} == {
        "agent/kept.py": b"changed\n",
        "agent/new.py": b"new\n",
    }


def test_elsewhere_than_in_a_git_checkout_there_are_none(tmp_path):
    with pytest.raises(ReleaseError, match="is not a git checkout"):
        read(tmp_path)


def test_the_operators_commands_are_not_in_a_release():
    found = read(checkout()).files
    assert "agent/entry_points.py" in found
    assert "agent/edge/kernel_clock.pyx" in found
    assert "images/systemd/sanderling-master.service" in found
    assert not [path for path in found if path.startswith("fleet/") or path.endswith(".so")]


def test_what_is_stored_is_listed_the_latest_first(folder):
    assert stored(folder) == []
    for age, release in enumerate(("1.0-0000000a", "1.0-00000001", "slow-0000000b")):
        put(folder, release, PI)
        os.utime(folder.releases / release, (age, age))
    new = put(folder, "slow-0000000b", NEW_PI)
    os.utime(new.parent, (9, 9))
    (folder.releases / "wheelhouse").mkdir()
    (folder.releases / "slow-0000000b/notes.tar.xz").write_text("mine\n")
    assert [(each.release, each.target) for each in stored(folder)] == [
        ("slow-0000000b", PI),
        ("slow-0000000b", NEW_PI),
        ("1.0-00000001", PI),
        ("1.0-0000000a", PI),
    ]


def test_a_bundle_tells_its_hash_and_size(folder):
    path = put(folder, "1.0-00000000", PI, b"abc")
    digest = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert find(folder, "1.0-00000000", PI) == Bundle("1.0-00000000", PI, path, digest, 3)


def test_what_is_not_there_names_what_is(folder):
    with pytest.raises(ReleaseError, match="no release is stored; `fleet release build` makes one"):
        find(folder, "1.0-00000000", PI)
    put(folder, "1.0-00000000", PI)
    with pytest.raises(ReleaseError, match=r"is not stored; there is 1\.0-00000000$"):
        find(folder, "1.0-11111111", PI)
    with pytest.raises(ReleaseError, match=r"stored for aarch64-py3\.11, not for aarch64-py3\.13$"):
        find(folder, "1.0-00000000", NEW_PI)


def test_what_is_stored_is_not_made_again(folder, monkeypatch):
    monkeypatch.setattr(bundle, "_made", lambda *_: pytest.fail("it was made again"))
    path = put(folder, sources.read(checkout()).release, PI)
    assert bundle.build(folder, PI, say=pytest.fail).path == path


def test_a_bundle_has_its_name_when_it_is_on_the_disk(folder, monkeypatch):
    """It is not made again: what a power cut left of it would be uploaded for ever."""
    synced = []

    def sync(path):
        synced.append((path.read_bytes(), stored(folder)))

    monkeypatch.setattr(bundle, "_made", lambda *_: b"whole")
    monkeypatch.setattr(bundle, "sync", sync)
    bundle.build(folder, PI, say=pytest.fail)
    assert synced == [(b"whole", [])]


def test_one_that_is_cut_short_says_how_it_is_made_again(folder):
    path = put(folder, "1.0-00000000", PI, b"")
    with pytest.raises(HostError, match="remove it, then `fleet release build` makes it again"):
        read_shared(path)


def test_a_build_that_fails_leaves_nothing(folder, monkeypatch):
    def made(*_):
        raise ReleaseError("no")

    monkeypatch.setattr(bundle, "_made", made)
    with pytest.raises(ReleaseError):
        bundle.build(folder, PI, say=print)
    assert stored(folder) == []


def test_machines_are_those_of_the_hosts():
    def fleet(*models, local=True):
        nodes = [Node(f"n{i}", f"h{i}", ("a",), model) for i, model in enumerate(models)]
        return Inventory("f", (Iad("iad1", Master("m", local=local), node=tuple(nodes)),))

    here = os.uname().machine
    assert machines_of(fleet("pi4", "zero2w")) == ("aarch64",)
    assert machines_of(fleet("pi4", "host")) == tuple(sorted({"aarch64", here}))
    assert machines_of(fleet("pi3", local=False)) == tuple(sorted({"aarch64", here}))
    assert machines_of(fleet("host")) == (here,)


def test_what_only_looks_like_a_release_is_left_out(folder):
    """The folder may come from elsewhere: a pipe would be waited for, a device is endless."""
    path = put(folder, "1.2-a", PI)
    put(folder, "1.2-b\n\x1b[2J", PI)
    put(folder, "-x", PI)
    for name, make in (
        ("1.2-pipe", os.mkfifo),
        ("1.2-folder", os.mkdir),
        ("1.2-device", lambda path: path.symlink_to("/dev/zero")),
        ("1.2-nowhere", lambda path: path.symlink_to("nowhere")),
    ):
        (folder.releases / name).mkdir()
        make(folder.releases / name / f"{PI}.tar.xz")
    os.mkfifo(path.with_name("origin.json"))
    (found,) = stored(folder)
    assert (found.release, found.bytes, found.origin) == ("1.2-a", 6, None)
    with pytest.raises(ReleaseError, match="is not stored"):
        find(folder, "1.2-pipe", PI)


@pytest.mark.parametrize("content", [b"", b"{", b"[" * 100_000, b'{"commit": 1}'])
def test_an_origin_that_cannot_be_read_is_none(folder, content):
    put(folder, "1.2-a", PI).with_name("origin.json").write_bytes(content)
    assert stored(folder)[0].origin is None


@pytest.mark.parametrize("release", ["", "..", "../1.2-a", "x/../1.2-a", "-x", "1.2-a\n"])
def test_a_name_leads_to_no_other_folder(folder, release):
    """It may come from a journal."""
    put(folder, "1.2-a", PI)
    put(folder, "x", PI)
    with pytest.raises(ReleaseError, match="is no name of a release"):
        find(folder, release, PI)


def test_a_compiler_finds_headers_below_any_name(tmp_path, monkeypatch):
    folder = tmp_path / "my fleet/headers"
    monkeypatch.setattr(toolchain.headers, "provide", lambda *_: folder)
    monkeypatch.setattr(toolchain.shutil, "which", lambda program: program)
    found = toolchain.environment(Target("aarch64", "3.13"), tmp_path, print)
    words = shlex.split(found["CFLAGS"])
    assert f"-I{folder}/include" in words
    assert f"-ffile-prefix-map={folder}=." in words


@pytest.mark.parametrize(
    ("output", "reason"),
    [
        ("  read(path, ignore_option_errors)\nx.c:3: fatal error: no Python.h\n", "x.c:3: fatal"),
        ("  File a\nModuleNotFoundError: No module named 'x'\n", "ModuleNotFoundError: No"),
        ("raised_errors\nand this\n", "and this"),
    ],
)
def test_the_reason_is_no_line_of_a_traceback(output, reason):
    assert wheel._reason(output).startswith(reason)
