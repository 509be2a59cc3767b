"""Two builds from one cache of packages give the same bytes: `make test-image`, minutes."""

from __future__ import annotations

import shutil

import pytest

from fleet.image import build
from tests.image.pi import CACHE, IMAGE, missing, wanted

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())


def built(campus, path):
    """What is told of an image that is built anew."""
    campus.fleet("image", "build", "--model", "pi3", "--output", path)
    made = build.read_manifest(path)
    assert path.stat().st_size == made.bytes
    path.unlink()
    return made


def test_the_same_root_gives_the_same_image(campus, tmp_path):
    assert built(campus, tmp_path / IMAGE) == build.read_manifest(campus.folder.images / IMAGE)


@pytest.mark.skipif(wanted() != "slow", reason="only with make test-image ARGS=slow")
def test_a_root_of_the_same_packages_gives_the_same_image(campus, tmp_path):
    first = built(campus, tmp_path / "a.img")
    shutil.rmtree(CACHE / "roots")
    assert built(campus, tmp_path / "a.img") == first
