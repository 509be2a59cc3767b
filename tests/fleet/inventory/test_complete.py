"""The inventory with every feature: it lacks none, and all that is made of an inventory is made."""

from __future__ import annotations

import io
import tarfile

import msgspec
import pytest

from agent.net.allow_list import AllowFile
from agent.wire import config
from agent.wire.config import Section
from agent.wire.edge_config import EdgeConfig
from agent.wire.master_config import MasterConfig
from fleet.inspect.facts.facts import Facts
from fleet.inventory.check import check
from fleet.inventory.effective import release_of
from fleet.inventory.files import files_of
from fleet.inventory.folder import Folder
from fleet.inventory.model import Inventory
from fleet.inventory.parties import hosts
from fleet.inventory.problems import problems, warnings
from fleet.rollout.deployment_plan import Planner
from fleet.rollout.keys.push import write_local
from fleet.rollout.session import switch_request
from testkit.complete_inventory import TEXT, complete
from tests.fleet.keys.rig import store
from tests.master.placement.test_latency_model import trained

FLEET = complete()
KINDS = {"edge.toml": EdgeConfig, "master.toml": MasterConfig, "allow.toml": AllowFile}
BARE = Facts(hostname="n", machine="x86_64", python="3.11", systemd=252)


def stored(folder):
    """The keys of the fleet, and its latency model beside them."""
    keys = store(folder, FLEET)
    assert FLEET.placement.model
    (folder / FLEET.placement.model).write_bytes(trained())
    return keys


def used(value: object, found: dict[type, set[str]]) -> None:
    """By kind of section: the keys that are something else than the default."""
    if isinstance(value, Section):
        for key in msgspec.structs.fields(type(value)):
            content = getattr(value, key.name)
            if key.default is msgspec.NODEFAULT or content != key.default:
                found.setdefault(type(value), set()).add(key.name)
            used(content, found)
    elif isinstance(value, dict):
        for each in value.values():
            used(each, found)
    elif isinstance(value, tuple):
        for each in value:
            used(each, found)


def sections(kind: type, found: set[type]) -> None:
    """All kinds of sections that one may have in it."""
    found.add(kind)

    def look(of: msgspec.inspect.Type) -> None:
        match of:
            case msgspec.inspect.StructType(cls=cls) if cls not in found:
                sections(cls, found)
            case msgspec.inspect.UnionType(types=types):
                for each in types:
                    look(each)
            case msgspec.inspect.VarTupleType(item_type=item):
                look(item)
            case msgspec.inspect.DictType(value_type=item):
                look(item)
            case msgspec.inspect.Metadata(type=inner):
                look(inner)

    whole = msgspec.inspect.type_info(kind)
    assert isinstance(whole, msgspec.inspect.StructType)
    for key in whole.fields:
        look(key.type)


def test_it_uses_every_key_that_an_inventory_may_have():
    there: dict[type, set[str]] = {}
    used(FLEET, there)
    kinds: set[type] = set()
    sections(Inventory, kinds)
    assert len(kinds) > 15
    for kind in kinds:
        assert {key.name for key in msgspec.structs.fields(kind)} - there.get(kind, set()) == set()


def test_nothing_is_wrong_with_it(tmp_path):
    assert problems(FLEET) == []
    assert all("has no nodes yet" in line for line in warnings(FLEET))
    folder = Folder(tmp_path)
    folder.inventory.write_text(TEXT)
    store(tmp_path, FLEET)  # ssh.key is there
    assert check(folder).problems == ()


def test_every_agent_reads_what_it_is_given(tmp_path):
    keys = stored(tmp_path / "fleet")
    for host in hosts(FLEET):
        folder = tmp_path / host.name
        files = files_of(FLEET, host, keys)
        write_local(folder, files)
        for file in files:
            if kind := KINDS.get(file.path):
                config.load(folder / file.path, kind)


def test_every_host_has_a_plan_that_its_program_understands(tmp_path):
    folder = Folder(tmp_path)
    keys = stored(tmp_path)
    for release in {release_of(FLEET, host) for host in hosts(FLEET)}:
        bundle = folder.releases / release / "x86_64-py3.11.tar.xz"
        bundle.parent.mkdir(parents=True)
        with tarfile.open(bundle, "w:xz") as archive:
            names = {host.unit for host in hosts(FLEET)}
            for name in (*names, "sanderling.sysusers", "60-sanderling.rules"):
                archive.addfile(tarfile.TarInfo(f"./share/sanderling/{name}"), io.BytesIO())
    planner = Planner(folder, FLEET, keys, say=pytest.fail)
    for host in hosts(FLEET):
        if host.is_local:
            continue
        plan = planner.plan(host, BARE)
        request = switch_request("r", plan.desired, plan.changes, plan.contents)
        paths = {file["path"] for file in request["files"]}
        assert {f"/etc/sanderling/{file.path}" for file in files_of(FLEET, host, keys)} <= paths
