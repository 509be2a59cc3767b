"""Runs: what the journal keeps, which hosts are tried again, and the lines for people."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fleet.common.exits import CommandError
from fleet.inventory.folder import Folder
from fleet.inventory.model import Inventory
from fleet.inventory.parties import HostOf
from fleet.rollout import deploy
from fleet.rollout.deploy import Options
from fleet.rollout.events import Failed, Outcome, Planned, Result
from fleet.rollout.journal import (
    BEFORE,
    Begun,
    Busy,
    Command,
    Ended,
    HostEnded,
    Journal,
    is_own,
    opened,
    read,
    unfinished,
)
from fleet.rollout.result import HostReport, RolloutReport, counted, dry_lines, lines, status_of
from fleet.rollout.rollout import MAX_FAIL, SERIAL
from tests.fleet.keys.rig import inventory


def test_the_last_run_says_which_hosts_are_left(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    assert unfinished(folder, HOSTS) == {}
    with opened(folder) as journal:
        journal.write(Begun(journal.run, HOSTS))
        journal.write(Planned("i/a", changes=False))
        journal.write(HostEnded("i/a", Result("unchanged")))
        journal.write(Failed("i/b", "dead", "no answer"))
        journal.write(HostEnded("i/b", Result("failed", "dead", "no answer")))
        journal.write(HostEnded("i/c", Result("changed")))
        with pytest.raises(Busy, match="under way"), opened(folder):
            pass
    # i/d has no end: the run was cut.
    assert unfinished(folder, HOSTS) == {"i/b": "", "i/d": ""}
    (path,) = folder.runs.glob("*.jsonl")
    whole = read(path)
    path.write_bytes(path.read_bytes()[:-20])
    assert read(path) == whole[:-1]
    with opened(folder) as journal:
        journal.write(Begun(journal.run, ("i/b",)))
        journal.write(HostEnded("i/b", Result("changed")))
        journal.write(Ended({"changed": 1}))
    assert unfinished(folder, HOSTS) == {"i/c": "", "i/d": ""}  # what was cut off said how it ended


HOSTS = ("i/a", "i/b", "i/c", "i/d")


def ran(folder: Folder, command: Command | None, release: str = "", **ends: Outcome) -> None:
    """A run, and how it ended for hosts of iad4 and iad5 by their last letters."""
    hosts = {f"iad{4 if name < 'm' else 5}/{name}": outcome for name, outcome in ends.items()}
    with opened(folder) as journal:
        journal.write(Begun(journal.run, tuple(hosts), release, command=command))
        for host, outcome in hosts.items():
            journal.write(HostEnded(host, Result(outcome)))


IAD4, IAD5 = ("iad4/a", "iad4/b", "iad4/c"), ("iad5/x",)


def test_a_journal_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    """A pipe would be waited for."""
    folder = Folder(tmp_path)
    folder.runs.mkdir()
    os.mkfifo(folder.runs / "20991231T000000Z-1.jsonl")
    with pytest.raises(CommandError, match=r"Z-1\.jsonl: not a regular file"):
        unfinished(folder, HOSTS)


@pytest.mark.parametrize("line", [b"\xff", b"[" * 100_000, b"{}", b"\0" * 10])
def test_a_damaged_line_ends_a_journal(tmp_path: Path, line: bytes) -> None:
    folder = Folder(tmp_path)
    with opened(folder) as journal:
        journal.write(Begun(journal.run, HOSTS))
    (path,) = folder.runs.glob("*.jsonl")
    path.write_bytes(path.read_bytes() + line)
    assert len(read(path)) == 1
    assert unfinished(folder, HOSTS) == dict.fromkeys(HOSTS, "")


@pytest.mark.parametrize("damage", [lambda line: b"\xff" + line[1:], lambda _: b""])
def test_a_journal_that_does_not_say_of_which_hosts_it_is_hides_no_run(
    tmp_path: Path, damage: Callable[[bytes], bytes]
) -> None:
    folder = Folder(tmp_path)
    for outcome in ("changed", "failed"):
        with opened(folder) as journal:
            journal.write(Begun(journal.run, ("i/a",)))
            journal.write(HostEnded("i/a", Result(outcome)))
    last = max(folder.runs.glob("*.jsonl"))
    whole = last.read_bytes()
    first, rest = whole.split(b"\n", 1)
    last.write_bytes(damage(first + b"\n") + rest)
    with pytest.raises(CommandError, match=r"\.jsonl: its first line is damaged"):
        unfinished(folder, HOSTS)
    last.write_bytes(first[:20])  # it was cut with the run, before anything was done
    assert unfinished(folder, HOSTS) == {}
    last.write_bytes(b"")
    assert unfinished(folder, HOSTS) == {}


def test_a_clean_run_elsewhere_hides_nothing(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    ran(folder, "deploy", a="changed", b="failed", c="skipped")
    ran(folder, "deploy", x="changed")
    assert unfinished(folder, IAD4) == {"iad4/b": "", "iad4/c": ""}
    assert unfinished(folder, IAD5) == {}
    assert unfinished(folder, [*IAD4, *IAD5]) == {"iad4/b": "", "iad4/c": ""}
    ran(folder, "deploy", "1-z", b="lost")
    assert unfinished(folder, IAD4) == {"iad4/b": "1-z", "iad4/c": ""}
    ran(folder, "deploy", b="changed", c="unchanged")
    assert unfinished(folder, IAD4) == {}


@pytest.mark.parametrize(
    ("command", "release"), [("rollback", ""), ("rollback", "1-a"), (None, BEFORE)]
)
def test_what_was_rolled_back_gets_no_newer_release_however_that_ended(
    tmp_path: Path, command: Command | None, release: str
) -> None:
    folder = Folder(tmp_path)
    ran(folder, "deploy", a="changed", b="failed", c="failed")
    ran(folder, command, release, a="changed", b="failed")
    assert unfinished(folder, IAD4) == {"iad4/c": ""}


def test_the_last_run_is_the_last_also_if_the_clock_was_set_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [2e9]
    gmtime = time.gmtime
    monkeypatch.setattr("fleet.rollout.journal.time.gmtime", lambda: gmtime(clock[0]))
    folder = Folder(tmp_path)
    ran(folder, "deploy", a="failed", b="failed", c="failed")
    clock[0] -= 86_400.0
    ran(folder, "deploy", a="changed", b="failed", c="changed")
    assert unfinished(folder, IAD4) == {"iad4/b": ""}
    clock[0] += 2 * 86_400.0
    ran(folder, "deploy", b="changed")
    assert unfinished(folder, IAD4) == {}


def test_runs_of_two_folders_in_a_second_have_other_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hosts know them by these: one would confirm the other's switch."""
    moment = time.gmtime(0)
    monkeypatch.setattr("fleet.rollout.journal.time.gmtime", lambda: moment)
    names = []
    for folder in (Folder(tmp_path / "a"), Folder(tmp_path / "b")):
        folder.runs.mkdir(parents=True)
        for _ in range(3):
            with opened(folder) as found:
                names.append(found.run)
                assert is_own(folder, found.run)
    assert len(set(names)) == 6
    assert [names[0:3], names[3:6]] == [sorted(names[0:3]), sorted(names[3:6])]


def test_the_tenth_run_of_a_second_comes_after_the_ninth(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    for number in range(1, 12):
        journal = Journal(tmp_path / f"runs/20260101T000000Z-{number}.jsonl")
        journal.write(Begun(journal.run, IAD5))
        journal.write(HostEnded(IAD5[0], Result("changed" if number == 11 else "failed")))
        journal.close()
    assert unfinished(Folder(tmp_path), IAD5) == {}


def test_a_run_of_a_former_version_is_a_deployment(tmp_path: Path) -> None:
    ran(Folder(tmp_path), None, a="failed")
    assert unfinished(Folder(tmp_path), IAD4) == {"iad4/a": ""}


def tried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, **how: Any) -> list[str]:
    """The hosts that --retry-failed deploys to."""
    found: list[str] = []

    def noted(folder: Folder, fleet: Inventory, chosen: list[HostOf], options: Options) -> int:
        found.extend(host.name for host in chosen)
        return 0

    monkeypatch.setattr(deploy, "deploy", noted)
    monkeypatch.setattr(deploy, "load", lambda folder: inventory())
    how = {"iads": (), "groups": (), "limit": "", "release": ""} | how
    options = Options(SERIAL, MAX_FAIL, 1, how.pop("release"))
    assert deploy.run(Folder(tmp_path), **how, retry_failed=True, options=options) == 0
    return found


def test_only_hosts_that_were_meant_are_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with opened(Folder(tmp_path)) as journal:
        journal.write(Begun(journal.run, ("iad4/n1", "iad4/n2", "iad5/n1"), command="deploy"))
        journal.write(HostEnded("iad4/n2", Result("changed")))
    ran(Folder(tmp_path), "deploy", x="changed")
    assert tried(tmp_path, monkeypatch) == ["iad4/n1", "iad5/n1"]
    assert tried(tmp_path, monkeypatch, iads=("iad5",)) == ["iad5/n1"]
    assert tried(tmp_path, monkeypatch, limit="iad4/n2") == []
    assert "nothing to try again: of the deployments that were made from this folder" in (
        capsys.readouterr().err
    )


def test_a_release_that_was_named_is_named_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(Folder(tmp_path)) as journal:
        journal.write(Begun(journal.run, ("iad4/n1",), "1-z", command="deploy"))
    with pytest.raises(CommandError, match="go on with --release 1-z"):
        tried(tmp_path, monkeypatch)
    assert tried(tmp_path, monkeypatch, release="1-z") == ["iad4/n1"]


def report(*hosts: HostReport, stopped: str = "") -> RolloutReport:
    return RolloutReport("r", False, hosts, counted(hosts), 1.25, stopped)


GOOD = HostReport("i/a", "changed")
SAME = HostReport("i/b", "unchanged")
BACK = HostReport("i/c", "rolled_back", kind="failed", reason="its master says lost")
DEAD = HostReport("i/d", "failed", kind="dead", reason="no answer", remedy="is it powered?")
LEFT = HostReport("i/e", "skipped")


@pytest.mark.parametrize(
    ("found", "status"),
    [
        (report(GOOD, SAME), 0),
        (report(), 0),
        (report(GOOD, DEAD), 1),
        (report(BACK, LEFT), 1),
        (report(DEAD, DEAD), 5),
        (report(DEAD, LEFT), 5),
        (report(GOOD, LEFT, stopped="interrupted"), 130),
    ],
)
def test_the_exit_status_says_how_it_ended(found: RolloutReport, status: int) -> None:
    assert status_of(found) == status


def test_each_failure_is_one_line_with_its_remedy() -> None:
    assert list(lines(report(GOOD, SAME, BACK, DEAD, LEFT, stopped="2 hosts failed, 1 may"))) == [
        "i/c: rolled back: its master says lost",
        "i/d: failed [dead]: no answer (is it powered?)",
        "stopped: 2 hosts failed, 1 may",
        (
            "1 changed (i/a), 1 unchanged (i/b), 1 rolled back (i/c), 1 failed (i/d), "
            "1 not begun (i/e) (1.2 s)"
        ),
    ]
    many = [HostReport(f"i/n{n}", "changed") for n in range(200)]
    assert list(lines(report(*many, SAME))) == [
        "200 changed (i/n0, i/n1, i/n2, i/n3 and 196 more), 1 unchanged (i/b) (1.2 s)"
    ]
    assert list(lines(report(*many))) == ["200 changed (1.2 s)"]
    assert list(lines(report(SAME))) == ["nothing to do: 1 host up to date (1.2 s)"]


def test_hosts_with_the_same_changes_are_shown_together() -> None:
    hosts = [HostReport(f"i/{n}", "changed", changes=("x", "y")) for n in "ab"]
    hosts.append(HostReport("i/c", "changed", changes=("y",)))
    assert list(dry_lines(report(*hosts, SAME))) == ["i/a, i/b:", "  x", "  y", "i/c:", "  y"]
