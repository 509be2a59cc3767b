"""Runs: what the journal keeps, which hosts are tried again, and the lines for people."""

from __future__ import annotations

from pathlib import Path

import pytest

from fleet.deploy.events import Failed, Planned, Result
from fleet.deploy.journal import Begun, Busy, Ended, HostEnded, opened, read, unfinished
from fleet.deploy.report import HostReport, Report, counted, dry_lines, lines, status_of
from fleet.folder import Folder


def test_the_last_run_says_which_hosts_are_left(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    assert unfinished(folder) == ()
    with opened(folder) as journal:
        journal.write(Begun(journal.run, ("i/a", "i/b", "i/c", "i/d")))
        journal.write(Planned("i/a", changes=False))
        journal.write(HostEnded("i/a", Result("unchanged")))
        journal.write(Failed("i/b", "dead", "no answer"))
        journal.write(HostEnded("i/b", Result("failed", "dead", "no answer")))
        journal.write(HostEnded("i/c", Result("changed")))
        with pytest.raises(Busy, match="under way"), opened(folder):
            pass
    # i/d has no end: the run was cut.
    assert unfinished(folder) == ("i/b", "i/d")
    (path,) = folder.runs.glob("*.jsonl")
    whole = read(path)
    path.write_bytes(path.read_bytes()[:-20])
    assert read(path) == whole[:-1]
    with opened(folder) as journal:
        journal.write(Begun(journal.run, ("i/b",)))
        journal.write(HostEnded("i/b", Result("changed")))
        journal.write(Ended({"changed": 1}))
    assert unfinished(folder) == ()


def report(*hosts: HostReport, stopped: str = "") -> Report:
    return Report("r", False, hosts, counted(hosts), 1.25, stopped)


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
def test_the_exit_status_says_how_it_ended(found: Report, status: int) -> None:
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
    assert list(lines(report(SAME))) == ["nothing to do: 1 host as it shall be (1.2 s)"]


def test_hosts_with_the_same_changes_are_shown_together() -> None:
    hosts = [HostReport(f"i/{n}", "changed", changes=("x", "y")) for n in "ab"]
    hosts.append(HostReport("i/c", "changed", changes=("y",)))
    assert list(dry_lines(report(*hosts, SAME))) == ["i/a, i/b:", "  x", "  y", "i/c:", "  y"]
