"""Building an image: what an interrupted build leaves."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from fleet.image import build, layers, recipe, rootfs
from fleet.release.bundle import Bundle
from fleet.release.target import Target


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


class Installing:
    """mmdebstrap, interrupted with this process while it installs."""

    def __init__(self, part: Path) -> None:
        self._part = part
        self.heard = 0

    def __enter__(self):
        return self

    def __exit__(self, *_: object) -> None:
        """Is not waited for here."""

    def communicate(self, given: str | None = None) -> tuple[None, str]:
        self.heard += 1
        if given is not None:
            self._part.touch()
            raise KeyboardInterrupt
        return None, "E: received SIGINT"


def test_packages_that_are_interrupted_leave_nothing(tmp_path, monkeypatch):
    plan = recipe.plan(layers.read_library(), layers.read_recipe("pi4"), {})
    found = tmp_path / "roots" / rootfs.key_of(plan, "bookworm")
    process = Installing(found / "root.tar.part")
    monkeypatch.setattr(rootfs.subprocess, "Popen", lambda *_, **__: process)
    with pytest.raises(KeyboardInterrupt):
        rootfs.make(plan, "bookworm", "", tmp_path, refresh=False, say=lambda _: None)
    assert process.heard == 2
    assert not (found / "root.tar.part").exists()


def test_an_interrupted_build_waits_until_what_was_unpacked_is_removed(tmp_path, monkeypatch):
    process = Assembling()
    monkeypatch.setattr(build.subprocess, "Popen", lambda *_, **__: process)
    plan = recipe.plan(layers.read_library(), layers.read_recipe("pi4"), {})
    root = rootfs.RootFs(tmp_path / "root.tar", {}, 0, "")
    release = Bundle("0.1.0-00000000", Target("aarch64", "3.11"), Path("bundle"), "", 0)
    with pytest.raises(KeyboardInterrupt):
        build._assemble(plan, root, release, "", tmp_path / "card.img", lambda _: None)
    assert process.ended
