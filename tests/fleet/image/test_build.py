"""What `fleet image build` writes over, takes from its cache, and leaves if it is interrupted; and
one build at a time."""

from __future__ import annotations

import io
import os
import shlex
from pathlib import Path

import pytest

from fleet.common import locks
from fleet.common.exits import CommandError
from fleet.image import build, layers, recipe, rootfs
from fleet.image.layers import ImageError
from fleet.inventory.folder import Folder
from fleet.release.bundle import Bundle
from fleet.release.target import Target
from tests.fleet.image.test_rootfs import plan

ROOT = rootfs.RootFs(Path("root.tar"), {}, 0, "key")


def wanted(output):
    return build.Wanted("pi4", "bookworm", "http://127.0.0.1/debian", {}, None, output, "", False)


@pytest.fixture
def builds(tmp_path, monkeypatch):
    """Builds an image of a few bytes."""

    def assemble(*arguments):
        arguments[4].write_bytes(b"\0" * 510 + b"\x55\xaa")

    monkeypatch.setattr(rootfs, "missing", lambda: "")
    monkeypatch.setattr(rootfs, "make", lambda *_, **__: ROOT)
    monkeypatch.setattr(build, "_bundle", lambda *_: build.bundles.Bundle)
    monkeypatch.setattr(build.bundles.Bundle, "release", "r", raising=False)
    monkeypatch.setattr(build, "_assemble", assemble)
    monkeypatch.setattr(build, "_write_map", lambda _, path: path.write_text("map"))
    return lambda output: build.build(Folder(tmp_path), wanted(output), lambda _: None)


def test_only_an_image_is_written_over(builds, tmp_path):
    thesis = tmp_path / "thesis.img"
    thesis.write_text("years of work")
    os.mkfifo(tmp_path / "pipe")
    for output, says in (
        (thesis, "does not look like a card's image"),
        (tmp_path / "pipe", "is no file; `fleet image flash` writes an image to a card"),
        (Path("/dev/sanderling-none"), "is no file"),
        (tmp_path / "pi4.json", "name it .img"),
        (tmp_path / "pi4.bmap", "name it .img"),
    ):
        with pytest.raises(CommandError, match=says):
            builds(output)
    assert thesis.read_text() == "years of work"
    assert (tmp_path / "pipe").is_fifo()
    for _ in range(2):
        builds(tmp_path / "pi4.img")
    assert {each.name for each in tmp_path.glob("pi4*")} == {"pi4.img", "pi4.bmap", "pi4.json"}


def test_two_builds_do_not_write_one_file(builds, tmp_path, monkeypatch):
    monkeypatch.setattr(rootfs, "make", lambda *_, **__: pytest.fail("after minutes it is late"))
    with (
        locks.alone(tmp_path, BlockingIOError()),
        pytest.raises(ImageError, match="another command makes an image in"),
    ):
        builds(tmp_path / "pi4.img")


def test_images_that_cannot_be_listed_are_not_told_to_be_none(builds, tmp_path):
    folder = Folder(tmp_path)
    assert build.stored(folder) == []
    manifest = builds(None)
    (folder.images / "no-manifest.img").touch()
    os.mkfifo(folder.images / "no-manifest.json")  # not waited for
    assert build.stored(folder) == [manifest]
    folder.images.rename(tmp_path / "moved")
    folder.images.touch()
    with pytest.raises(NotADirectoryError):
        build.stored(folder)


@pytest.fixture
def cached(tmp_path, monkeypatch):
    """A cache of a root file system, and what takes it from there."""
    installed = []

    def bootstrap(_plan, _suite, _sources, packages, found):
        installed.append(found)
        found.mkdir(parents=True)
        (packages / "fetched").write_text("1\n")
        (found / "packages.json").write_text('{"adduser": "3"}')
        (found / "root.tar").write_bytes(b"")

    def make(*, refresh=False):
        sources = "deb http://127.0.0.1/debian bookworm main"
        say = installed.append
        return rootfs.make(plan(), "bookworm", sources, tmp_path, refresh=refresh, say=say)

    monkeypatch.setattr(rootfs, "_bootstrap", bootstrap)
    return make


@pytest.mark.parametrize("name", ["packages/*/fetched", "roots/*/packages.json"])
@pytest.mark.parametrize("harm", [Path.unlink, lambda path: path.write_bytes(b"")])
def test_a_damaged_cache_is_told_with_what_mends_it(cached, tmp_path, name, harm):
    assert cached().packages == {"adduser": "3"}
    (path,) = tmp_path.glob(name)
    harm(path)
    with pytest.raises(ImageError, match="is damaged; --refresh makes it anew"):
        cached()
    assert cached(refresh=True).epoch == 1


def test_two_builds_do_not_fill_one_cache(cached, tmp_path):
    cached()
    (packages,) = (tmp_path / "packages").iterdir()
    with (
        locks.alone(packages, BlockingIOError()),
        pytest.raises(ImageError, match="another command fills the cache"),
    ):
        cached()


def test_a_cache_below_any_name_is_found_by_mmdebstrap(tmp_path, monkeypatch):
    """It splits a hook as a shell does."""
    seen = []

    def run(command, *_):
        seen.extend(command)
        raise ImageError("enough")

    monkeypatch.setattr(rootfs, "_run", run)
    cache = tmp_path / "my fleet"
    with pytest.raises(ImageError, match="enough"):
        rootfs.make(plan(), "bookworm", "", cache, refresh=False, say=lambda _: None)
    hooks = [shlex.split(each) for each in seen if "my fleet" in each and "-hook=" in each]
    assert len(hooks) >= 4
    for words in hooks:
        assert [word for word in words if word.startswith(f"{cache}/")], words


MMDEBSTRAP = """\
#!/bin/sh
trap : INT TERM
eval "part=\\${$(($# - 1))}"
touch "$part"
(
    trap 'rm "$UNPACKED"; exit 1' TERM
    touch "$UNPACKED"
    kill -INT $PPID
    sleep 300 &
    wait
)
"""


def test_ctrl_c_ends_mmdebstrap_once_it_has_tidied_up(tmp_path, monkeypatch):
    """It went on for half an hour, and left hundreds of megabytes."""
    program = tmp_path / "bin/mmdebstrap"
    program.parent.mkdir()
    program.write_text(MMDEBSTRAP)
    program.chmod(0o755)
    unpacked = tmp_path / "unpacked"
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("UNPACKED", str(unpacked))
    with pytest.raises(KeyboardInterrupt):
        rootfs.make(plan(), "bookworm", "", tmp_path / "c", refresh=False, say=lambda _: None)
    assert not unpacked.exists()
    (root,) = tmp_path.glob("c/roots/*")  # it was begun
    assert not (root / "root.tar.part").exists()


class Assembling(io.BytesIO):
    """The process that assembles, interrupted with this one while it unpacks."""

    ended = False

    def __init__(self, *_: object, **__: object) -> None:
        super().__init__()
        self.stdin = self.stdout = self.stderr = self

    def __iter__(self):
        return self

    def __next__(self):
        raise KeyboardInterrupt

    def close(self) -> None:
        """Is looked at afterwards."""

    def wait(self) -> int:
        self.ended = True
        return 1


def test_an_interrupted_build_waits_until_what_was_unpacked_is_removed(tmp_path, monkeypatch):
    process = Assembling()
    monkeypatch.setattr(build.subprocess, "Popen", lambda *_, **__: process)
    wanted_plan = recipe.plan(layers.read_library(), layers.read_recipe("pi4"), {})
    root = rootfs.RootFs(tmp_path / "root.tar", {}, 0, "")
    release = Bundle("0.1.0-00000000", Target("aarch64", "3.11"), Path("bundle"), "", 0)
    with pytest.raises(KeyboardInterrupt):
        build._assemble(wanted_plan, root, release, "", tmp_path / "card.img", lambda _: None)
    assert process.ended
