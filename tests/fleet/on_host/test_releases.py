"""Bundles that arrive, break off, are damaged; releases that are too many."""

from __future__ import annotations

import io

import pytest

from fleet.on_host.change import do
from fleet.on_host.host import Failure
from tests.fleet.on_host.rig import (
    Fake,
    bundle,
    confirm,
    stage,
    switch,
    undo,
)


def test_a_bundle_is_unpacked_and_its_upload_removed(host: Fake) -> None:
    assert stage(host, "1-a", bundle("1-a")) == {"ok": True}
    releases = host.folder / "opt/sanderling/releases"
    assert [path.name for path in releases.iterdir()] == ["1-a"]
    assert (releases / "1-a/RELEASE").read_text() == "1-a"
    assert list((releases / "1-a/lib").rglob("*.pyc")), "no byte code was in it, so it was made"
    assert stage(host, "1-a", b"not looked at") == {"ok": True}


def test_an_upload_that_broke_off_goes_on(host: Fake) -> None:
    content = bundle("1-a")
    with pytest.raises(Failure, match="40 bytes of the bundle did not come") as caught:
        do(
            host,
            {"do": "stage", "release": "1-a", "name": "b.upload", "offset": 0, "remove": [],
             "bytes": len(content), "sha256": ""},
            b"",
            io.BufferedReader(io.BytesIO(content[:-40])),  # type: ignore[arg-type]
        )  # fmt: skip
    assert caught.value.kind == "lost"
    upload = host.folder / "opt/sanderling/releases/b.upload"
    assert upload.stat().st_size == len(content) - 40
    stage(host, "1-a", content, offset=len(content) - 40)
    assert not upload.exists()


def test_a_damaged_bundle_is_removed_and_sent_again(host: Fake) -> None:
    with pytest.raises(Failure, match="damaged") as caught:
        stage(host, "1-a", bundle("1-a"), sha256="00")
    assert caught.value.kind == "lost"
    assert not list((host.folder / "opt/sanderling/releases").iterdir())


def test_a_bundle_of_another_release_leaves_nothing(host: Fake) -> None:
    with pytest.raises(Failure, match="holds release '1-b', not 1-a"):
        stage(host, "1-a", bundle("1-b"))
    assert not (host.folder / "opt/sanderling/releases/1-a").exists()
    assert not (host.folder / "opt/sanderling/releases/1-a.partial").exists()


def test_old_releases_and_left_overs_go_but_never_the_current(host: Fake) -> None:
    for release in ("1-a", "1-b"):
        stage(host, release, bundle(release))
    switch(host, "1-b", {})
    releases = host.folder / "opt/sanderling/releases"
    (releases / "1-x.partial").mkdir()
    (releases / "old.upload").touch()
    stage(host, "1-c", bundle("1-c"), remove=["1-a", "1-b"])
    assert {path.name for path in releases.iterdir()} == {"1-b", "1-c"}


def test_what_a_switch_without_a_verdict_goes_back_to_is_not_removed(host: Fake) -> None:
    for release in ("1-a", "1-b", "1-c"):
        stage(host, release, bundle(release))
    switch(host, "1-a", {})
    confirm(host)
    switch(host, "1-b", {}, "r2")
    do(host, {"do": "remove", "remove": ["1-a", "1-b", "1-c", "", "..", "x/"]}, b"", None)
    releases = host.folder / "opt/sanderling/releases"
    assert {path.name for path in releases.iterdir()} == {"1-a", "1-b"}
    undo(host)
    assert (host.folder / "opt/sanderling/current").resolve().name == "1-a"
