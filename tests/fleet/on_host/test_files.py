"""Files that are written beside whatever else is under way."""

from __future__ import annotations

from pathlib import Path

import pytest

from fleet.on_host import files as files_module
from fleet.on_host.host import Failure, Host
from tests.fleet.on_host.rig import (
    CONFIG,
    SECRET,
    Fake,
    push,
)


@pytest.fixture
def configured(host: Fake) -> Fake:
    (host.folder / "etc/sanderling").mkdir(parents=True)
    return host


def test_files_are_written_once(configured: Fake) -> None:
    files = {CONFIG: "one", SECRET: "key"}
    assert push(configured, files) == {"ok": True, "written": [CONFIG, SECRET]}
    assert push(configured, files) == {"ok": True, "written": []}
    secret = configured.folder / SECRET[1:]
    secret.chmod(0o644)
    assert push(configured, files)["written"] == [SECRET]
    assert secret.stat().st_mode & 0o777 == 0o600
    assert {path.name for path in secret.parent.iterdir()} == {"node.secret"}


def test_a_link_is_replaced_not_followed(configured: Fake, tmp_path: Path) -> None:
    keys = configured.folder / "etc/sanderling/keys"
    keys.mkdir()
    (tmp_path / "target").write_text("other")
    for name in ("node.secret", "node.secret.new"):
        (keys / name).symlink_to(tmp_path / "target")
    assert push(configured, {SECRET: "key"})["ok"]
    assert (tmp_path / "target").read_text() == "other"
    assert not (keys / "node.secret").is_symlink()


def test_files_do_not_wait_for_an_upload(configured: Fake) -> None:
    with configured.lock():
        assert push(configured, {SECRET: "key"})["ok"]


def test_files_need_a_deployment_first_and_a_user(host: Fake) -> None:
    with pytest.raises(Failure, match="there is no /etc/sanderling yet; fleet deploy sets it up"):
        push(host, {SECRET: "key"})
    with pytest.raises(Failure, match="no user nobody-of-that-name yet; fleet deploy makes"):
        files_module.user(Host("/"), "nobody-of-that-name")


def test_the_journal_of_a_host_does_not_grow_for_ever(
    host: Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files_module, "JOURNAL_LINES", 3)
    host.folder.joinpath("var/lib/sanderling-deploy").mkdir(parents=True)
    for number in range(5):
        files_module.record(host, run=number)
    assert [line["run"] for line in host.journal] == [2, 3, 4]
