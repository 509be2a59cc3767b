"""`fleet rollback`: the rollout's order, with undoing as its switch; only the hosts are made up."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from fleet.common import exits
from fleet.inspect.facts.facts import Facts, Pending, Releases, Unit
from fleet.inventory.folder import Folder
from fleet.inventory.parties import HostOf
from fleet.keys.store import Store
from fleet.rollout import rollback
from fleet.rollout.deploy import Options
from fleet.rollout.health import Verdict
from fleet.rollout.result import RolloutReport
from fleet.rollout.rollout import Share
from fleet.ssh.errors import HostError
from tests.fleet.keys.rig import inventory

UNITS = {f"sanderling-{role}.service": Unit(active="active") for role in ("edge", "master")}


def facts(before: str, pending: Pending | None = None, current: str = "1-b") -> Facts:
    releases = Releases(current=current, before=before, run="r0", stored=("1-a", "1-b"))
    return Facts(
        hostname="n", machine="x", python="3.11", releases=releases, units=UNITS, pending=pending
    )


class Site:
    """What hosts have, and what was done to them; `sick` ones are not well afterwards."""

    def __init__(self) -> None:
        self.fleet = inventory()
        self.has: dict[str, Facts] = {}
        self.faults: dict[str, list[HostError]] = {}
        self.sick: set[str] = set()
        self.done: list[str] = []

    def of(self, name: str) -> Facts:
        return self.has.get(name, facts("1-a"))


class FakeSession:
    def __init__(self, folder: Folder, fleet: Any, host: HostOf) -> None:
        self.host = host

    def facts(self) -> Facts:
        return SITE.of(self.host.name)

    def let_go(self) -> Callable[[], None]:
        return lambda: None

    def undo(self, which: str, run: str, reason: str) -> str:
        name = self.host.name
        SITE.done.append(f"{name} {which}")
        assert run == {"kept": "r0", "pending": "r"}[which]
        if errors := SITE.faults.get(name):
            raise errors.pop(0)
        return ""


class FakeGate:
    def __init__(self, iad: Any, store: Store, homes: Any) -> None: ...

    def wait(self, host: HostOf, release: str, patience_s: float) -> Verdict:
        assert release in {"1-a", "1-b"}
        if host.name in SITE.sick:
            return Verdict(False, "its master says lost")
        return Verdict(True)


SITE = Site()


@pytest.fixture
def back(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Rolls everything back: outcomes and reasons by host, and the exit status."""
    SITE.__init__()  # type: ignore[misc]
    monkeypatch.setattr(rollback, "Session", FakeSession)
    monkeypatch.setattr("fleet.rollout.health.Gate", FakeGate)
    monkeypatch.setattr(rollback, "load", lambda folder: SITE.fleet)
    shown: list[RolloutReport] = []
    monkeypatch.setattr(rollback.output, "write_json", shown.append)
    one = Share(1, percent=False)

    def run() -> tuple[dict[str, tuple[str, str]], int]:
        options = Options(one, Share(0, percent=False), 4, as_json=True, yes=True)
        status = rollback.run(
            Folder(tmp_path), iads=("iad4",), groups=(), limit="", options=options
        )
        return {host.host: (host.outcome, host.reason) for host in shown[0].hosts}, status

    return run


def test_nodes_go_back_one_after_the_other_and_their_master_last(back: Any) -> None:
    found, status = back()
    assert {outcome for outcome, _ in found.values()} == {"changed"}
    assert status == exits.DONE
    assert sorted(SITE.done) == sorted(f"{name} kept" for name in found)
    assert SITE.done[-1] == "iad4/master kept"


def test_one_that_is_not_well_afterwards_stops_the_others(back: Any) -> None:
    SITE.sick = {"iad4/n1", "iad4/n2"}
    found, status = back()
    assert status == exits.FAILED
    (sick,) = [host for host, (outcome, _) in found.items() if outcome == "failed"]
    assert found[sick][1].startswith("back to 1-a: its master says lost; it stays so")
    assert SITE.done == [f"{sick} kept"]
    assert {outcome for host, (outcome, _) in found.items() if host != sick} == {"skipped"}


def test_what_awaits_its_verdict_is_undone_first_and_files_alone_can_be(back: Any) -> None:
    SITE.has["iad4/n1"] = facts("1-a", Pending("r", "1-b", "1-b"))
    found, _ = back()
    assert found["iad4/n1"] == ("changed", "")
    assert "iad4/n1 pending" in SITE.done


def test_a_host_with_nothing_to_undo_says_so_and_its_neighbours_go_back(back: Any) -> None:
    SITE.has["iad4/n1"] = SITE.has["iad4/master"] = facts("")
    found, status = back()
    assert found["iad4/n1"][0] == "failed"
    assert "no deployment to undo" in found["iad4/n1"][1]
    assert found["iad4/master"][0] == "unchanged"
    assert found["iad4/n2"][0] == "changed"
    assert status == exits.FAILED


def test_an_undoing_whose_end_was_not_heard_is_asked_for_again(back: Any) -> None:
    """Of files alone no release tells whether it was done."""
    SITE.has["iad4/n1"] = facts("1-b")
    SITE.faults["iad4/n1"] = [HostError("lost", "gone")]
    found, status = back()
    assert found["iad4/n1"] == ("changed", "")
    assert SITE.done.count("iad4/n1 kept") == 2
    assert status == exits.DONE


def test_one_that_is_not_heard_of_again_is_lost(back: Any) -> None:
    SITE.has["iad4/n1"] = facts("1-b")
    SITE.faults["iad4/n1"] = [HostError("lost", "gone"), HostError("dead", "no answer")]
    found, _ = back()
    assert found["iad4/n1"] == ("lost", "no answer")


def test_a_host_that_another_operator_decides_on_is_left_to_him(back: Any) -> None:
    """His rollout still waits for its nodes: undone under it, it would be neither his nor ours."""
    hers = Pending("r", "1-b", "1-a", 30.0, "ada@desk")
    SITE.has["iad4/n1"] = facts("1-a", hers)
    found, _ = back()
    assert found["iad4/n1"][0] == "failed"
    assert found["iad4/n1"][1].startswith("ada@desk is deploying 1-b to it (run r)")
    assert "iad4/n1 pending" not in SITE.done
