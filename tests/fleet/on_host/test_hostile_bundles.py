"""A bundle is unpacked by root: one that was made to harm is refused in one line, and nothing of it
stays or stands elsewhere."""

from __future__ import annotations

import io
import random
import shutil
import tarfile
from pathlib import Path

import pytest

from fleet.on_host import releases
from fleet.on_host.host import Failure
from fleet.release.target import Target
from fleet.release.tree import Tree
from fleet.rollout.deployment_plan import read_shared
from fleet.ssh.errors import HostError
from tests.fleet.on_host.rig import Fake, bundle, stage


def made(**changes: object) -> bytes:
    """A bundle with one member that has these attributes."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:xz") as archive:
        for name, text in {"RELEASE": b"1-a", "lib/a.py": b"a = 1"}.items():
            entry = tarfile.TarInfo(f"./{name}")
            entry.size = len(text)
            archive.addfile(entry, io.BytesIO(text))
        entry = tarfile.TarInfo("./lib/evil")
        for name, value in changes.items():
            setattr(entry, name, value)
        archive.addfile(entry, io.BytesIO(b"x" * entry.size) if entry.isreg() else None)
    return content.getvalue()


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"name": "../../../evil"}, "holds '../../../evil', which no release has"),
        ({"name": "/etc/evil"}, "holds '/etc/evil', which no release has"),
        ({"name": "lib/../../evil"}, "which no release has"),
        ({"type": tarfile.SYMTYPE, "linkname": "/etc"}, "'./lib/evil', a link to '/etc'"),
        ({"type": tarfile.SYMTYPE, "linkname": "../../x"}, "'./lib/evil', a link to '../../x'"),
        ({"type": tarfile.SYMTYPE, "linkname": "/usr/bin/python3"}, "'./lib/evil', a link to"),
        ({"name": "./bin/python3", "size": 3}, "'./bin/python3', which no release has"),
        ({"name": "./bin/python3/x", "size": 3}, "'./bin/python3/x', which no release has"),
        ({"type": tarfile.LNKTYPE, "linkname": "/etc/passwd"}, "which no release has"),
        ({"type": tarfile.CHRTYPE, "devmajor": 1, "devminor": 3}, "which no release has"),
        ({"type": tarfile.FIFOTYPE}, "which no release has"),
        ({"mode": 0o4755}, "which would run with other rights"),
    ],
)
def test_a_member_that_no_release_has_is_refused(host: Fake, changes, line) -> None:
    with pytest.raises(Failure, match="the bundle holds") as refused:
        stage(host, "1-a", made(**changes))
    assert line in str(refused.value)
    assert "\n" not in str(refused.value)
    assert not list((host.folder / "opt/sanderling/releases").iterdir())
    assert not [path for path in host.folder.rglob("*") if path.name in {"evil", "x"}]
    assert not Path("/etc/evil").exists()


def test_links_within_a_release_are_taken(host: Fake) -> None:
    stage(host, "1-a", made(type=tarfile.SYMTYPE, linkname="../RELEASE"))
    link = host.folder / "opt/sanderling/releases/1-a/lib/evil"
    assert link.read_text() == "1-a"


def test_the_links_of_a_release_are_taken(host: Fake) -> None:
    entries = Tree("1-a", Target("x86_64", "3.11")).entries
    links = {name: entry.link for name, entry in entries.items() if entry.link}
    assert links["bin/python3"] == "/usr/bin/python3"
    for name, link in links.items():
        stage(host, "1-a", made(name=f"./{name}", type=tarfile.SYMTYPE, linkname=link))
        place = host.folder / "opt/sanderling/releases/1-a" / name
        assert str(place.readlink()) == link
        shutil.rmtree(host.folder / "opt/sanderling/releases/1-a")


def test_a_bundle_that_becomes_too_large_is_refused(host: Fake, monkeypatch) -> None:
    monkeypatch.setattr(releases, "MAX_UNPACKED", 1 << 20)
    bomb = made(size=1 << 21)
    assert len(bomb) < 4_096
    with pytest.raises(Failure, match="the bundle becomes more than"):
        stage(host, "1-a", bomb)


def test_mutated_bundles_are_unpacked_whole_or_refused_in_one_line(host: Fake, tmp_path) -> None:
    draw = random.Random("bundles")
    good = bundle("1-a")
    releases_ = host.folder / "opt/sanderling/releases"
    refused = 0
    for _ in range(200):
        data = bytearray(good)
        for _ in range(draw.randint(1, 3)):
            at = draw.randrange(len(data))
            if draw.random() < 0.5:
                data[at] ^= 1 << draw.randrange(8)
            else:
                del data[at : at + draw.randint(1, 40)]
        if problem := failure(Failure, stage, host, "1-a", bytes(data)):
            refused += 1
            assert "\n" not in problem
            assert not list(releases_.iterdir())
        else:
            assert (releases_ / "1-a/RELEASE").read_text() == "1-a"
            releases.remove(host, ["1-a"])
        stored = tmp_path / "x.tar.xz"
        stored.write_bytes(data)
        problem = failure(HostError, read_shared, stored)
        assert not problem or "is no bundle" in problem
    assert refused > 150


def failure(kind: type[Exception], do, *arguments) -> str:
    """What `do` says when it raises this; empty if it does not."""
    try:
        do(*arguments)
    except kind as error:
        return str(error)
    return ""
