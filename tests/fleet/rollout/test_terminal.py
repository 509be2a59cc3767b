"""What hosts say of their releases moves no cursor of the operator's terminal."""

from __future__ import annotations

from contextlib import nullcontext

import pytest

from fleet.inspect.facts.facts import Facts, Releases
from fleet.inventory.folder import Folder
from fleet.rollout import on_hosts
from fleet.rollout.changes import SwitchRelease
from fleet.rollout.result import HostReport, RolloutReport, dry_lines
from tests.fleet.keys.rig import inventory

EVIL = "1-\x1b[2J\x1b]0;\x9b31m"
SHOWN = "1-?[2J?]0;?31m"


def test_nor_do_the_changes_of_a_dry_run() -> None:
    changes = (str(SwitchRelease(EVIL, "1-b")),)
    report = RolloutReport("", True, (HostReport("i/n", "changed", changes=changes),), {}, 0.0)
    text = "".join(dry_lines(report))
    assert SHOWN in text
    assert text.isprintable()


def test_nor_the_list_of_releases(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: object
) -> None:
    releases = Releases(current=EVIL, stored=(EVIL, f"{EVIL}\n"))
    facts = Facts(hostname="n", machine="x", python="3.11", releases=releases)
    monkeypatch.setattr(on_hosts, "load", lambda folder: inventory(nodes=1))
    monkeypatch.setattr(on_hosts, "open_host", lambda *args: nullcontext())
    monkeypatch.setattr(on_hosts, "gather", lambda connection: facts)
    folder = Folder(tmp_path)  # type: ignore[arg-type]
    assert on_hosts.run(folder, iads=(), groups=(), limit="iad4/n1", as_json=False) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert line == f"iad4/n1: {SHOWN}?, {SHOWN} (in use)"
