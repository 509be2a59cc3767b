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


def test_an_interrupted_build_waits_until_what_was_unpacked_is_removed(tmp_path, monkeypatch):
    process = Assembling()
    monkeypatch.setattr(build.subprocess, "Popen", lambda *_, **__: process)
    plan = recipe.plan(layers.read_library(), layers.read_recipe("pi4"), {})
    root = rootfs.RootFs(tmp_path / "root.tar", {}, 0, "")
    release = Bundle("0.1.0-00000000", Target("aarch64", "3.11"), Path("bundle"), "", 0)
    with pytest.raises(KeyboardInterrupt):
        build._assemble(plan, root, release, "", tmp_path / "card.img", lambda _: None)
    assert process.ended
