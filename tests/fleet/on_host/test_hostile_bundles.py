"""A bundle is unpacked by root: one that was made to harm is refused in one line, and nothing of it
stays or stands elsewhere."""

from __future__ import annotations

import io
import lzma
import random
import shutil
import tarfile
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from fleet.on_host import bundles, releases
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
        ({"type": tarfile.SYMTYPE, "linkname": "up/../../x"}, "a link to 'up/../../x'"),
        ({"name": "lib/evil\nname"}, "holds 'lib/evil\\nname', which no release has"),
        ({"name": "./" + "a/" * 3_000 + "evil"}, "which no release has"),
        ({"name": "lib/a.py"}, "holds 'lib/a.py', which no release has twice"),
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


def test_links_that_lead_out_together_are_refused(host: Fake) -> None:
    """Each of them leads to a place within the release if the names alone are looked at."""
    content = tar(
        {"name": "./RELEASE", "data": b"1-a"},
        {"name": "./d1/d2/x", "data": b"x"},
        {"name": "./d1/d2/up", "type": tarfile.SYMTYPE, "linkname": "../.."},
        {"name": "./d1/d2/up/out", "type": tarfile.SYMTYPE, "linkname": "../.."},
        {"name": "./out/evil", "data": b"x"},
    )
    with pytest.raises(Failure, match=r"'\./d1/d2/up/out', which no release has"):
        stage(host, "1-a", lzma.compress(content))
    assert not list(host.folder.rglob("evil"))


def test_a_member_is_root_s_and_nobody_else_may_write_it(host: Fake) -> None:
    content = io.BytesIO(lzma.decompress(made(size=3, mode=0o777, uid=1_000, uname="nobody")))
    with bundles.opened(io.BytesIO(lzma.compress(content.getvalue()))) as archive:
        found = {each.name: each for each in bundles.members(archive)}
    evil = found["./lib/evil"]
    assert (evil.uid, evil.gid, evil.uname, evil.gname) == (0, 0, "root", "root")
    assert evil.mode == 0o755


def tar(*members: dict[str, Any]) -> bytes:
    """A tar with these attributes and data."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as archive:
        for each in members:
            data = each.pop("data", b"")
            entry = tarfile.TarInfo(each.pop("name"))
            entry.size = len(data)
            for name, value in each.items():
                setattr(entry, name, value)
            archive.addfile(entry, io.BytesIO(data))
    return content.getvalue()


def header(kind: bytes, size: int) -> bytes:
    """A member's header that claims this size."""
    entry = tarfile.TarInfo("./lib/evil")
    entry.type, entry.size = kind, size
    return entry.tobuf(tarfile.GNU_FORMAT)


LARGE = 32 << 20
FIRST = tar({"name": "./RELEASE", "data": b"1-a"})[:1_024]
SPARSE = (
    b"22 GNU.sparse.major=1\n22 GNU.sparse.minor=0\n28 GNU.sparse.name=lib/evil\n"
    b"25 GNU.sparse.realsize=1\n"
)


REST = {
    "long name": lambda: header(tarfile.GNUTYPE_LONGNAME, LARGE) + bytes(LARGE),
    "pax": lambda: header(tarfile.XHDTYPE, LARGE) + b"9" * LARGE,
    "pax of negative size": lambda: header(tarfile.XHDTYPE, -(1 << 40)) + bytes(LARGE),
    "sparse": lambda: (
        header(tarfile.XHDTYPE, len(SPARSE))
        + SPARSE.ljust(512, b"\0")
        + header(b"0", LARGE)
        + b"99999999\n"
        + b"1\n" * (LARGE // 2)
    ),
    "headers of headers": lambda: (header(tarfile.XHDTYPE, 512) + bytes(512)) * 5_000,
    "negative size": lambda: header(b"0", -1_024) + bytes(LARGE),
}


@pytest.mark.parametrize("rest", REST.values(), ids=REST)
def test_headers_that_claim_too_much_are_refused_within_little_memory(host: Fake, rest) -> None:
    content = lzma.compress(FIRST + rest(), preset=0)
    tracemalloc.start()
    try:
        with pytest.raises(Failure, match="the bundle") as refused:
            stage(host, "1-a", content)
        assert tracemalloc.get_traced_memory()[1] < LARGE // 2
    finally:
        tracemalloc.stop()
    assert "\n" not in str(refused.value)
    assert not list((host.folder / "opt/sanderling/releases").iterdir())


def test_a_dictionary_larger_than_a_host_s_memory_is_refused(host: Fake) -> None:
    filters = [{"id": lzma.FILTER_LZMA2, "dict_size": 128 << 20, "mode": lzma.MODE_FAST,
                "mf": lzma.MF_HC3}]  # fmt: skip
    content = lzma.compress(FIRST, filters=filters)
    with pytest.raises(Failure, match="the bundle is none: Memory usage limit exceeded"):
        stage(host, "1-a", content)


def test_more_files_than_a_release_has_are_refused(host: Fake, monkeypatch) -> None:
    monkeypatch.setattr(bundles, "MAX_MEMBERS", 10)
    content = tar(*[{"name": f"./{n}"} for n in range(20)])
    with pytest.raises(Failure, match="the bundle becomes more than 2 GiB or 10 files"):
        stage(host, "1-a", lzma.compress(content))


def test_an_upload_that_cannot_be_unpacked_does_not_stay(host: Fake) -> None:
    """A file where a folder is to be: the next deployment would go on with the same bytes."""
    content = tar({"name": "./RELEASE", "data": b"1-a"}, {"name": "./RELEASE/x", "data": b"x"})
    with pytest.raises(Failure, match="the bundle is none"):
        stage(host, "1-a", lzma.compress(content))
    assert not list((host.folder / "opt/sanderling/releases").iterdir())


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
    monkeypatch.setattr(bundles, "MAX_UNPACKED", 1 << 20)
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
        assert not problem or "is no bundle" in problem or "is no release" in problem
    assert refused > 150


def failure(kind: type[Exception], do, *arguments) -> str:
    """What `do` says when it raises this; empty if it does not."""
    try:
        do(*arguments)
    except kind as error:
        return str(error)
    return ""
