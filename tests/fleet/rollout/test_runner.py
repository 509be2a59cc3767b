"""The loop around the rollout: real inventory, keys and bundle; only the hosts are made up."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from fleet.inspect.facts.facts import Facts, Pending, Releases, Unit, Uploaded
from fleet.inventory.folder import Folder
from fleet.inventory.model import Iad, Inventory, Master, Node
from fleet.inventory.parties import HostOf, Party, hosts
from fleet.keys.curve import make
from fleet.keys.store import Store
from fleet.release.bundle import ORIGIN, Target, find
from fleet.rollout.changes import AnyChange, WriteFile
from fleet.rollout.deploying import Deploying
from fleet.rollout.deployment_plan import Planner
from fleet.rollout.desired import Desired
from fleet.rollout.events import Planned, Result
from fleet.rollout.health import Verdict
from fleet.rollout.journal import HostEnded, opened, read
from fleet.rollout.rollout import Member, Rollout, Share
from fleet.rollout.runner import Runner
from fleet.rollout.session import Session, arrived, pieces, switch_request, upload_name
from fleet.rollout.view import Lines
from fleet.ssh.errors import HostError

RELEASE = "0.1.0-0123abcd"
UNIT = "sanderling-edge.service"
BARE = Facts(hostname="n", machine="x86_64", python="3.11", systemd=252)


class FakeSession(Session):
    """A host that does as it is told, but where `faults` says otherwise."""

    def __init__(self, folder: Folder, fleet: Inventory, host: HostOf) -> None:
        super().__init__(folder, fleet, host)
        self.done: list[str] = []
        self.faults: dict[str, list[HostError]] = {}
        self.found = BARE
        self.staged = False
        self.before_fault: Callable[[], object] = lambda: None
        self.written: list[dict[str, bytes]] = []

    def _act(self, what: str) -> None:
        self.done.append(what)
        if errors := self.faults.get(what):
            self.before_fault()
            raise errors.pop(0)

    def facts(self) -> Facts:
        self._act("facts")
        return self.found

    def _stage(self, *args: Any) -> None:
        self._act(f"stage {args[1]}")

    def switch(
        self,
        run: str,
        facts: Facts,
        desired: Desired,
        changes: list[AnyChange],
        contents: Mapping[str, bytes],
        **options: Any,
    ) -> None:
        paths = [change.path for change in changes if isinstance(change, WriteFile)]
        self.written.append({path: contents[path] for path in paths})
        if (errors := self.faults.get("switch")) and "changed" in errors[0].details:
            self.found = replace(BARE, releases=Releases(stored=(RELEASE,) * self.staged))
            self._act("switch")
        self.found = Facts(
            **{name: getattr(BARE, name) for name in ("hostname", "machine", "python", "systemd")},
            releases=Releases(current=RELEASE, stored=(RELEASE,)),
            units={UNIT: Unit(active="active")},
            pending=Pending(run, RELEASE),
        )
        self._act("switch")

    def confirm(self, *args: Any, **options: Any) -> None:
        self._act("confirm")
        self.found = Facts(hostname="n", machine="x86_64", python="3.11", systemd=252)

    def undo(self, which: str, run: str, reason: str) -> str:
        self._act(f"undo {which}: {reason}")
        return "no such sensor"


class FakeGate:
    """Says what it is told to."""

    def __init__(self) -> None:
        self.sick: set[str] = set()

    def remember(self) -> None: ...

    def wait(self, host: HostOf, release: str, patience_s: float) -> Verdict:
        assert release == RELEASE
        if host.name in self.sick:
            return Verdict(False, "its master says lost")
        return Verdict(True)


class Fleet:
    """A fleet of three nodes whose release is stored."""

    def __init__(self, root: Path) -> None:
        self.folder = Folder(root)
        nodes = tuple(Node(f"n{n}", f"10.0.0.{n}", (f"a/r{n}",), model="host") for n in range(3))
        self.inventory = Inventory("test", (Iad("i", Master("10.0.0.9", local=True), node=nodes),))
        self.store = Store(self.folder)
        self.store.ensure(self.inventory)
        path = self.folder.releases / RELEASE / "x86_64-py3.11.tar.xz"
        path.parent.mkdir(parents=True)
        with tarfile.open(path, "w:xz") as archive:
            for name in (UNIT, "sanderling.sysusers", "60-sanderling.rules"):
                entry = tarfile.TarInfo(f"./share/sanderling/{name}")
                archive.addfile(entry, io.BytesIO())
        self.bundle = find(self.folder, RELEASE, Target("x86_64", "3.11"))
        chosen = [host for host in hosts(self.inventory) if host.node]
        self.sessions = {
            host.name: FakeSession(self.folder, self.inventory, host) for host in chosen
        }
        self.gate = FakeGate()
        self.said: list[str] = []

    def deploy(self, prepare: Callable[[Runner], None] = lambda runner: None) -> dict[str, Result]:
        members = [Member(name, "i", "node") for name in self.sessions]
        rollout = Rollout(members, Share(1, percent=False))
        planner = Planner(
            self.folder, self.inventory, self.store, release=RELEASE, say=self.said.append
        )
        with opened(self.folder) as journal:
            gates = {"i": self.gate}
            acts = Deploying(planner, gates, start_s=1.0, gate_s=1.0)  # type: ignore[arg-type]
            runner = Runner(rollout, self.sessions, acts, journal, Lines(self.said.append))
            prepare(runner)
            runner.run(parallel=2)
        path = max(self.folder.runs.glob("*.jsonl"))
        ends = [line for line in read(path) if isinstance(line, HostEnded)]
        assert {line.host: line.result for line in ends} == rollout.results
        return rollout.results


@pytest.fixture
def fleet(tmp_path: Path) -> Fleet:
    return Fleet(tmp_path)


def outcomes(results: dict[str, Result]) -> set[str]:
    return {result.outcome for result in results.values()}


def test_every_host_goes_through_all_steps(fleet: Fleet) -> None:
    assert outcomes(fleet.deploy()) == {"changed"}
    for session in fleet.sessions.values():
        assert session.done == ["facts", "stage 0", "switch", "confirm"]
    assert fleet.said.count("i/n1: done (3/3)") <= 1


def test_the_journal_has_the_release_and_its_commit(fleet: Fleet) -> None:
    origin = {"commit": "c" * 40, "changed": ["setup.py"]}
    (fleet.folder.releases / RELEASE / ORIGIN).write_bytes(msgspec.json.encode(origin))
    fleet.deploy()
    (path,) = fleet.folder.runs.glob("*.jsonl")
    plans = [line for line in read(path) if isinstance(line, Planned)]
    assert {line.host for line in plans} == {*fleet.sessions}
    assert {(line.release, line.commit, line.dirty) for line in plans} == {
        (RELEASE, "c" * 40, True)
    }


def test_an_upload_goes_on_over_a_new_connection(fleet: Fleet) -> None:
    session = fleet.sessions["i/n1"]
    session.faults["stage 0"] = [HostError("lost", "gone")]
    there = Uploaded(upload_name(fleet.bundle), 7)
    session.found = Facts(
        hostname="n", machine="x86_64", python="3.11", systemd=252, uploaded=there
    )
    session.faults["stage 7"] = [HostError("lost", "gone again")]
    assert outcomes(fleet.deploy()) == {"changed"}
    assert [step for step in session.done if step.startswith("stage")] == ["stage 7", "stage 7"]


def test_a_switch_whose_end_was_not_heard_is_looked_at(fleet: Fleet) -> None:
    session = fleet.sessions["i/n1"]
    session.faults["switch"] = [HostError("lost", "gone")]
    assert outcomes(fleet.deploy()) == {"changed"}
    assert session.done == ["facts", "stage 0", "switch", "facts", "confirm"]


def test_a_verdict_whose_arrival_is_unknown_is_given_again(fleet: Fleet) -> None:
    session = fleet.sessions["i/n1"]
    session.faults["confirm"] = [HostError("lost", "gone")]
    assert outcomes(fleet.deploy()) == {"changed"}
    assert session.done[-2:] == ["confirm", "confirm"]


def test_a_host_that_went_back_before_the_verdict_arrived_is_told_as_rolled_back(
    fleet: Fleet,
) -> None:
    """The laptop slept: when it woke up, the connection was gone, and the time of the host over."""
    reason = "it went back before the verdict came: nobody confirmed it in time"
    for session in fleet.sessions.values():
        gone = HostError("failed", reason, rolled_back="1-a")
        session.faults["confirm"] = [HostError("lost", "gone"), gone]
    first, *others = sorted(fleet.deploy().values(), key=lambda result: result.outcome)
    assert first == Result("rolled_back", "failed", reason)
    assert {result.outcome for result in others} == {"skipped"}


def changed(what: str) -> HostError:
    return HostError("failed", f"{what} since it was looked at", changed=True)


def test_a_host_that_changed_after_its_plan_is_planned_for_anew(fleet: Fleet) -> None:
    """Keys were rotated while its release was uploaded: it gets those, not the ones of the plan."""
    session = fleet.sessions["i/n1"]
    key = next(path for path in fleet.folder.keys.rglob("*") if path.name == "node-i+n1.secret")
    old = key.read_bytes()

    def rotated() -> None:
        fleet.store.replace_keys(
            Party("node", "i/n1"), lambda keys: (make(datetime.now(UTC)), *keys)
        )

    session.faults["switch"] = [changed("/etc/sanderling/keys/node.secret was changed")]
    session.before_fault = rotated
    session.staged = True
    assert outcomes(fleet.deploy()) == {"changed"}
    assert session.done == ["facts", "stage 0", "switch", "facts", "switch", "confirm"]
    first, second = (written["/etc/sanderling/keys/node.secret"] for written in session.written)
    assert first == old
    assert second == key.read_bytes() != old


def test_one_that_changes_all_the_time_is_left_as_it_is(fleet: Fleet) -> None:
    session = fleet.sessions["i/n1"]
    session.staged = True
    session.faults["switch"] = [changed("its release became 1-z")] * 3
    results = fleet.deploy()
    assert results["i/n1"].outcome == "failed"
    assert results["i/n1"].reason == (
        "its release became 1-z since it was looked at; run the command again"
    )
    assert session.done.count("switch") == 3


def test_one_whose_release_was_removed_meanwhile_says_to_run_it_again(fleet: Fleet) -> None:
    session = fleet.sessions["i/n1"]
    session.faults["switch"] = [changed(f"release {RELEASE} was removed")]
    results = fleet.deploy()
    assert results["i/n1"].reason == (
        f"release {RELEASE} was removed since it was looked at; run the command again"
    )


def test_a_host_that_another_operator_decides_on_is_left_to_him(fleet: Fleet) -> None:
    session = fleet.sessions["i/n1"]
    hers = Pending("20261130T080000Z-1", "1-b", seconds_left=90.2, by="ada@desk")
    session.found = replace(BARE, pending=hers)
    results = fleet.deploy()
    assert session.done == ["facts"]
    assert results["i/n1"].reason == (
        "ada@desk is deploying 1-b to it (run 20261130T080000Z-1); that is over in 90 s at most: "
        "run the command again then"
    )


@pytest.mark.parametrize("seconds_left", [None, -1.0])
def test_one_whose_timer_is_over_is_taken_over(fleet: Fleet, seconds_left: float | None) -> None:
    hers = Pending("20261130T080000Z-1", "1-b", seconds_left=seconds_left, by="ada@desk")
    for session in fleet.sessions.values():
        session.found = replace(BARE, pending=hers)
    assert outcomes(fleet.deploy()) == {"changed"}


def test_a_run_that_was_begun_here_is_taken_over_at_once(fleet: Fleet) -> None:
    fleet.folder.runs.mkdir()
    (fleet.folder.runs / "20010101T080000Z-1.jsonl").touch()
    (fleet.folder.root / "x.jsonl").touch()
    ours = Pending("20010101T080000Z-1", "1-b", seconds_left=90.0, by="me@here")
    fleet.sessions["i/n1"].found = replace(BARE, pending=ours)
    # What a host says is no path.
    fleet.sessions["i/n2"].found = replace(BARE, pending=Pending("../x", "1-b", seconds_left=90.0))
    results = fleet.deploy()
    assert results["i/n1"].outcome == "changed"
    assert results["i/n2"].reason.startswith("another operator is deploying 1-b to it (run ../x)")


def test_a_sick_host_is_rolled_back_with_its_own_last_word(fleet: Fleet) -> None:
    fleet.gate.sick = set(fleet.sessions)
    results = fleet.deploy()
    (sick,) = [name for name, result in results.items() if result.outcome == "rolled_back"]
    assert fleet.sessions[sick].done[-1] == "undo pending: its master says lost"
    assert results[sick].reason == "its master says lost; it wrote: no such sensor"
    assert outcomes(results) == {"rolled_back", "skipped"}


def test_a_host_that_lacks_something_is_told_before_anything_is_done(fleet: Fleet) -> None:
    session = fleet.sessions["i/n0"]
    session.found = Facts(hostname="n", machine="armv7l", python="3.11", systemd=252)
    results = fleet.deploy()
    assert session.done == ["facts"]
    assert "64-bit" in results["i/n0"].reason
    assert results["i/n1"].outcome == "changed"


@pytest.mark.parametrize("kind", [RuntimeError, SystemExit])
def test_a_fault_of_ours_stays_with_its_host(fleet: Fleet, kind: type[BaseException]) -> None:
    def odd() -> Facts:
        raise kind("odd")

    fleet.sessions["i/n0"].facts = odd  # type: ignore[method-assign]
    results = fleet.deploy()
    assert results["i/n0"].outcome == "failed"
    assert results["i/n0"].reason.startswith(f"{kind.__name__}: odd; the traceback is in /")
    assert results["i/n2"].outcome == "changed"


def test_a_request_has_what_changes_and_an_offset_only_counts_for_the_same_bytes(
    fleet: Fleet, tmp_path: Path
) -> None:
    planner = Planner(fleet.folder, fleet.inventory, fleet.store, release=RELEASE, say=print)
    plan = planner.plan(fleet.sessions["i/n0"].host, BARE)
    request = switch_request("r", plan.desired, plan.changes, plan.contents)
    assert {file["path"] for file in request["files"]} == set(plan.contents)
    assert request["restart"]
    assert request["enable"]
    assert request["users"]
    secret = next(file for file in request["files"] if file["path"].endswith("node.secret"))
    assert (secret["mode"], secret["owner"]) == (0o600, "sanderling")
    assert "secret" not in " ".join(map(str, plan.changes)).replace("node.secret", "")
    other = Facts(hostname="n", machine="", python="", uploaded=Uploaded("other.upload", 7))
    assert arrived(other, fleet.bundle) == 0
    (tmp_path / "b").write_bytes(b"x" * 70_000)
    told: list[int] = []
    assert b"".join(pieces(tmp_path / "b", 10, told.append)) == b"x" * 69_990
    assert told[-1] == 70_000
