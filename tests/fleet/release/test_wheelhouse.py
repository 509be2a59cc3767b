"""Which file of the wheelhouse is used: the lock decides, then the target."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from packaging.utils import canonicalize_name

from fleet.release import wheelhouse
from fleet.release.lock import Pinned
from fleet.release.target import ReleaseError, Target
from fleet.release.wheelhouse import chosen, provide
from tests.fleet.release.wheels import make_wheel

PI = Target("aarch64", "3.11")
NEW_PI = Target("aarch64", "3.13")


def pin(*paths, name="thing"):
    digests = [hashlib.sha256(path.read_bytes()).hexdigest() for path in paths]
    return Pinned(canonicalize_name(name), "1.0", frozenset(digests))


def test_the_wheel_of_the_target_is_chosen(tmp_path):
    tags = [
        "cp311-cp311-manylinux_2_17_x86_64",
        "cp311-cp311-manylinux_2_28_aarch64.manylinux_2_27_aarch64",
        "cp313-cp313-manylinux_2_17_aarch64",
        "cp311-cp311-manylinux_2_40_aarch64",
        "cp311-cp311-musllinux_1_2_aarch64",
        "py3-none-any",
    ]
    paths = [make_wheel(tmp_path, tag=tag, files={"t.py": tag}) for tag in tags]
    wanted = pin(*paths)
    assert chosen(tmp_path, [wanted], PI) == {wanted: paths[1]}
    assert chosen(tmp_path, [wanted], NEW_PI) == {wanted: paths[2]}
    assert chosen(tmp_path, [wanted], Target("x86_64", "3.13")) == {wanted: paths[5]}


def test_stable_abi_of_an_older_python_fits(tmp_path):
    path = make_wheel(tmp_path, tag="cp36-abi3-manylinux2014_aarch64")
    assert chosen(tmp_path, [pin(path)], NEW_PI) == {pin(path): path}


def test_an_sdist_is_the_last_resort(tmp_path):
    sdist = tmp_path / "thing-1.0.tar.gz"
    sdist.write_bytes(b"sdist")
    wanted = pin(sdist)
    assert chosen(tmp_path, [wanted], PI) == {wanted: sdist}
    wheel = make_wheel(tmp_path)
    wanted = pin(sdist, wheel)
    assert chosen(tmp_path, [wanted], PI) == {wanted: wheel}


def test_a_damaged_file_is_none(tmp_path):
    path = make_wheel(tmp_path)
    wanted = pin(path)
    path.write_bytes(path.read_bytes()[:-1])
    assert chosen(tmp_path, [wanted], PI) == {}


def test_what_is_there_is_not_downloaded(tmp_path, monkeypatch):
    monkeypatch.setattr(wheelhouse, "_pip", lambda *_: pytest.fail("pip was run"))
    first, second = make_wheel(tmp_path, "first"), make_wheel(tmp_path, "second")
    wanted = [pin(second, name="second"), pin(first, name="first")]
    assert provide(tmp_path, wanted, PI, lambda _: None) == [second, first]


def test_only_what_is_missing_is_asked_for_by_version_and_hash(tmp_path, monkeypatch):
    folder = tmp_path / "wheelhouse"
    folder.mkdir()
    path = make_wheel(folder, "first")
    other = make_wheel(tmp_path, "second")
    asked = []

    def pip(command, _failure):
        asked.append(Path(command[-1]).read_text())
        other.rename(folder / other.name)

    monkeypatch.setattr(wheelhouse, "_pip", pip)
    wanted = [pin(path, name="first"), pin(other, name="second")]
    found = provide(folder, wanted, PI, lambda _: None)
    assert [each.name for each in found] == [path.name, other.name]
    assert asked == [f"{wanted[1]}\n"]


def test_what_a_mirror_does_not_have_is_one_line(tmp_path, monkeypatch):
    monkeypatch.setattr(wheelhouse, "_pip", lambda *_: None)
    wanted = Pinned(canonicalize_name("thing"), "1.0", frozenset({"0" * 64}))
    with pytest.raises(ReleaseError, match=r"has no thing 1\.0 for aarch64-py3\.11"):
        provide(tmp_path / "wheelhouse", [wanted], PI, lambda _: None)
