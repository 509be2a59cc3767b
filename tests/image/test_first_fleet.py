"""docs/use/first-fleet.md, pasted: `make test-image ARGS=page`, minutes. The page's commands are
read from it."""

from __future__ import annotations

import re
import shutil

import pytest

from fleet.testbed.ports import free_ports
from tests.docs import pages
from tests.image.pi import CACHE, missing

pytestmark = [
    pytest.mark.skipif(bool(missing()), reason=missing()),
    pytest.mark.timeout(3900),
]
PAGE = "docs/use/first-fleet.md"
# The tests run in a checkout that is set up, on a machine with the packages.
BEFORE = {"A first fleet, on an emulated Pi", "1. The commands"}
PATIENCE_S = 3600.0


def test_the_page_works_as_it_is_pasted():
    folder = CACHE / "first"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    found = pages.blocks(PAGE)
    text = "\n".join(
        "\n".join([f"echo '== {section}'", *blocks])
        for section, blocks in found.items()
        if section not in BEFORE
    )
    # A master and a Pi may run here, and the sources may not be committed, as the page says.
    text = pages.with_own_ports(text.replace("2201", str(free_ports(1)[0])))
    text = re.sub(r"(fleet deploy --iad \S+ --yes)", r"\1 --allow-dirty", text)
    environment = {"SANDERLING_CACHE": str(CACHE), "XDG_STATE_HOME": str(folder / "state")}
    lines = pages.pasted(text, folder, PATIENCE_S, environment)
    (folder / "terminal").write_text("\n".join(lines), "utf-8")
    parts = re.split(r"(?m)^== (.*)\n", "\n".join(lines))
    said = dict(zip(parts[1::2], parts[2::2], strict=True))
    assert list(said) == [section for section in found if section not in BEFORE]
    pages.require_sound(lines, folder)
    looked = said["7. Ask, look, operate"]
    assert "complete: 1 of 1 areas" in looked
    assert "1 of 1 hosts" in looked
    # As the page says; sources that are not those of the image would be another note.
    assert "note    iad4/n1: its clock is not synchronised" in looked
    assert "looked at 2 of 2 hosts: 1 note\n" in looked
    assert "joined the master" in looked
    assert "1 changed" in said["8. Change something"]
    assert "nothing to do: 2 hosts up to date" in said["8. Change something"]
    assert (folder / "var/first/n1.img.console").stat().st_size > 0
