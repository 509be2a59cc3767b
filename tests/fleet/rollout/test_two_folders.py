"""Two laptops with copies of one fleet's folder deploy to a host, which is one below a folder with
the program that hosts run: it never has some of one's changes and some of the other's."""

from __future__ import annotations

import io
import platform
import shutil
import sys
import tarfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from msgspec.structs import replace

from fleet.inspect.facts.facts import Facts, parse
from fleet.inventory.folder import Folder
from fleet.inventory.model import Iad, Inventory, Master, Node
from fleet.inventory.parties import HostOf, Party, hosts
from fleet.keys.curve import make
from fleet.keys.store import Store
from fleet.on_host.change import do
from fleet.on_host.facts import facts
from fleet.on_host.host import Failure, Host
from fleet.rollout.deploying import Deploying
from fleet.rollout.deployment_plan import Planner
from fleet.rollout.events import Result
from fleet.rollout.health import Verdict
from fleet.rollout.journal import is_own, opened
from fleet.rollout.keys.push import key_files_of, request_of
from fleet.rollout.rollback import RollingBack
from fleet.rollout.rollout import Member, Rollout
from fleet.rollout.runner import Acts, Runner
from fleet.rollout.session import Session
from fleet.rollout.view import Lines
from fleet.ssh.errors import HostError
from fleet.ssh.remote import host_program
from tests.fleet.on_host.rig import Fake, pending

UNIT = "sanderling-edge.service"
TARGET = f"{platform.machine()}-py{sys.version_info[0]}.{sys.version_info[1]}"


def bring(folder: Folder, release: str) -> None:
    """A release in a fleet's folder, whose agent finds every configuration good."""
    path = folder.releases / release / f"{TARGET}.tar.xz"
    path.parent.mkdir(parents=True)
    shared = dict.fromkeys((UNIT, "sanderling.sysusers", "60-sanderling.rules"), release)
    files = {f"share/sanderling/{name}": text for name, text in shared.items()}
    files |= {"RELEASE": release, "lib/a.py": "a = 1", "bin/sanderling-edge": "#!/bin/sh\n"}
    with tarfile.open(path, "w:xz") as archive:
        for name, text in files.items():
            entry = tarfile.TarInfo(f"./{name}")
            entry.size, entry.mode = len(text), 0o755
            archive.addfile(entry, io.BytesIO(text.encode()))


class There(Host):
    """The host of a program, without the time that its commands take."""

    def run(self, *command: str, timeout_s: float = 0.0, **more: Any) -> str:
        shown = "ActiveState=active\nUnitFileState=enabled\n"
        return shown if command[:3] == ("systemctl", "show", "-p") else ""

    def say(self, **line: object) -> None: ...


class Near(Session):
    """A session whose host is near: no network, and all that a host does."""

    def __init__(self, laptop: Laptop, host: HostOf) -> None:
        super().__init__(laptop.folder, laptop.fleet, host)
        self._by = laptop.by
        self._there = laptop.there
        self.before: dict[str, Callable[[], object]] = {}

    def facts(self) -> Facts:
        self.before.pop("facts", lambda: None)()
        return replace(parse(facts(self._there.root)), systemd=252)

    def _do(self, request: Any, data: Any = lambda: iter(())) -> Any:
        self.before.pop(request["do"], lambda: None)()
        there = There(self._there.root, by=self._by)
        source = io.BufferedReader(io.BytesIO(b"".join(data())))  # type: ignore[arg-type]
        try:
            return do(there, request, host_program(), source)
        except Failure as error:
            raise HostError(error.kind, str(error), **error.more) from None  # type: ignore[arg-type]


class Gate:
    """The node is well, after what comes `meanwhile`."""

    def __init__(self) -> None:
        self.meanwhile: Callable[[], object] = lambda: None

    def remember(self) -> None: ...

    def wait(self, host: HostOf, release: str, patience_s: float) -> Verdict:
        meanwhile, self.meanwhile = self.meanwhile, lambda: None
        meanwhile()
        return Verdict(True)


class Laptop:
    """An operator with a folder of the fleet."""

    def __init__(self, root: Path, by: str, there: Fake, area: str) -> None:
        self.folder, self.by, self.there = Folder(root), by, there
        node = Node("n1", "10.0.0.1", (area,), model="host")
        self.fleet = Inventory("test", (Iad("i", Master("10.0.0.9", local=True), node=(node,)),))
        self.store = Store(self.folder)
        self.store.ensure(self.fleet)
        self.gate = Gate()
        (self.host,) = (host for host in hosts(self.fleet) if host.node)
        self.session = Near(self, self.host)

    def deploy(self, release: str) -> Result:
        planner = Planner(
            self.folder, self.fleet, self.store, release=release, say=lambda line: None
        )
        gates: Any = {"i": self.gate}
        return self._run(Deploying(planner, gates, start_s=1.0, gate_s=1.0))

    def roll_back(self) -> Result:
        gates: Any = {"i": self.gate}
        return self._run(RollingBack(gates, lambda run: is_own(self.folder, run), gate_s=1.0))

    def rotate(self) -> None:
        """Announce a new key, on the host, too."""
        new = make(datetime.now(UTC))
        self.store.replace_keys(Party("node", "i/n1"), lambda keys: (*keys, new))
        files = key_files_of(self.fleet, self.host, self.store)
        do(There(self.there.root), request_of(self.host, files), b"", None)

    def has_all(self, release: str) -> bool:
        """Whether the host has what this laptop wants, and nothing else."""
        files = self.there.files
        area = self.host.node.areas[0] if self.host.node else ""
        return (
            files["current"] == f"releases/{release}".encode()
            and files[f"etc/systemd/system/{UNIT}"] == release.encode()
            and f'"{area}"' in files["etc/sanderling/edge.toml"].decode()
            and files["etc/sanderling/keys/node.secret"]
            == self.store.secret_file(Party("node", "i/n1"))
        )

    def _run(self, acts: Acts) -> Result:
        rollout = Rollout([Member("i/n1", "i", "node")])
        with opened(self.folder) as journal:
            Runner(rollout, {"i/n1": self.session}, acts, journal, Lines(lambda line: None)).run(1)
        return rollout.results["i/n1"]


@pytest.fixture
def laptops(host: Fake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Laptop, Laptop]:
    """Ada's and bob's, with the same keys and other areas; the host has 1-a of ada."""
    # Only a process of its own has an alarm for an upload that stops.
    monkeypatch.setattr("fleet.on_host.releases.signal", Mock())
    for name in ("passwd", "group"):
        path = host.folder / "etc" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("root:x:0:0\nsanderling:x:7:7\n")
    root = tmp_path / "ada"
    root.mkdir()
    ada = Laptop(root, "ada@desk", host, "a/old")
    for release in ("1-a", "1-b", "1-c"):
        bring(ada.folder, release)
    shutil.copytree(root, tmp_path / "bob")
    bob = Laptop(tmp_path / "bob", "bob@lab", host, "b/new")
    assert (first := ada.deploy("1-a")).outcome == "changed", first
    assert ada.has_all("1-a")
    return ada, bob


@pytest.fixture
def host(tmp_path: Path) -> Fake:
    return Fake(tmp_path)


Laptops = tuple[Laptop, Laptop]


@pytest.mark.parametrize("way", ["deploy", "roll back"])
def test_while_one_checks_the_other_is_told_and_does_nothing(laptops: Laptops, way: str) -> None:
    ada, bob = laptops
    found: list[Result] = []

    def meanwhile() -> None:
        found.append(bob.deploy("1-c") if way == "deploy" else bob.roll_back())
        assert ada.has_all("1-b")

    ada.gate.meanwhile = meanwhile
    assert (end := ada.deploy("1-b")).outcome == "changed", end
    assert found[0].outcome == "failed"
    assert found[0].reason.startswith("ada@desk is deploying 1-b to it (run ")
    assert ada.has_all("1-b")
    assert pending(ada.there) is None


@pytest.mark.parametrize("step", ["stage", "switch"])
def test_one_that_deploys_between_the_steps_of_the_other_is_replaced_whole(
    laptops: Laptops, step: str
) -> None:
    ada, bob = laptops

    def meanwhile() -> None:
        assert bob.deploy("1-c").outcome == "changed"
        assert bob.has_all("1-c")

    ada.session.before[step] = meanwhile
    assert ada.deploy("1-b").outcome == "changed"
    assert ada.has_all("1-b")


def test_one_whose_switch_comes_between_is_not_replaced(laptops: Laptops) -> None:
    """Both planned when nobody had begun."""
    ada, bob = laptops
    found: list[Result] = []

    def meanwhile() -> None:
        bob.gate.meanwhile = lambda: found.append(ada.deploy("1-b"))
        ada.session.before.clear()
        assert bob.deploy("1-c").outcome == "changed"

    meanwhile()
    assert found[0].outcome == "failed"
    assert found[0].reason.startswith("bob@lab is deploying 1-c to it")
    assert bob.has_all("1-c")


@pytest.mark.parametrize("step", ["facts", "stage", "switch"])
def test_keys_that_are_rotated_before_the_switch_stay(laptops: Laptops, step: str) -> None:
    ada, _ = laptops
    old = ada.store.public_keys(Party("node", "i/n1"))
    ada.session.before[step] = ada.rotate
    assert ada.deploy("1-b").outcome == "changed"
    assert len(ada.store.public_keys(Party("node", "i/n1"))) == 1 + len(old)
    assert ada.has_all("1-b")


def test_keys_that_are_rotated_after_it_stay_when_it_is_rolled_back(laptops: Laptops) -> None:
    ada, _ = laptops
    assert ada.deploy("1-b").outcome == "changed"
    ada.rotate()
    assert ada.roll_back().outcome == "changed"
    assert ada.has_all("1-a")


def test_a_rollback_leaves_what_the_other_deployed_since(laptops: Laptops) -> None:
    ada, bob = laptops
    assert ada.deploy("1-b").outcome == "changed"
    ada.session.before["undo"] = lambda: bob.deploy("1-c")
    found = ada.roll_back()
    assert found.outcome == "failed"
    assert found.reason.startswith("bob@lab (run ")
    assert "deployed to it since; that stays" in found.reason
    assert bob.has_all("1-c")


def test_after_a_kill_the_same_folder_goes_on_at_once_and_the_other_waits(laptops: Laptops) -> None:
    ada, bob = laptops

    class Killed(BaseException):
        pass

    def kill() -> None:
        raise Killed

    ada.session.before["confirm"] = kill
    ada.deploy("1-b")
    assert pending(ada.there)["by"] == "ada@desk"
    assert bob.deploy("1-c").reason.startswith("ada@desk is deploying 1-b to it")
    assert bob.roll_back().reason.startswith("ada@desk is deploying 1-b to it")
    assert ada.deploy("1-b").outcome == "changed"
    assert pending(ada.there) is None
    assert ada.has_all("1-b")
