"""Facts in, changes out: the cases are data (data/cases.toml)."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.inspect.facts.facts import Facts, File, Pending, Releases, Unit, parse
from fleet.rollout.changes import (
    RemoveRelease,
    StoreRelease,
    SwitchRelease,
    WriteFile,
)
from fleet.rollout.deployment import changes
from fleet.rollout.desired import RULES, SYSUSERS, Desired, DesiredFile
from fleet.rollout.prerequisites import obstacles, room

DATA = Path(__file__).parent / "data"
CASES = tomllib.loads((DATA / "cases.toml").read_text())["case"]
UNIT = "sanderling-edge.service"
FILES = (
    DesiredFile(SYSUSERS, "users", restart=False),
    DesiredFile(RULES, "rules", restart=False),
    DesiredFile(f"/etc/systemd/system/{UNIT}", "unit"),
    DesiredFile("/etc/sanderling/edge.toml", "config"),
    DesiredFile("/etc/sanderling/keys/node.secret", "key", 0o600, "sanderling", restart=False),
)


def facts_of(name: str, changed: dict[str, Any] | None = None) -> Facts:
    """The facts of a file, with some changed; paths in `changed` have two or three parts, of which
    the middle one may have dots."""
    document = json.loads((DATA / f"{name}.json").read_text())
    for path, value in (changed or {}).items():
        first, _, rest = path.partition(".")
        if not rest:
            document[first] = value
            continue
        middle, _, last = rest.rpartition(".")
        document[first][middle][last] = value
    return parse(document)


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_changes_follow_from_facts(case: dict[str, Any]) -> None:
    facts = facts_of(case["facts"], case.get("set"))
    wanted: dict[str, Any] = {"release": "1-b", "keep": 3} | case.get("desired", {})
    desired = Desired(wanted["release"], 5_000_000, UNIT, FILES, wanted["keep"])
    assert [str(change) for change in changes(facts, desired)] == case["changes"]


names = st.lists(st.sampled_from([f"1-{n}" for n in range(8)]), unique=True)


@given(names, st.data(), st.integers(2, 5))
def test_making_the_changes_leaves_nothing_to_do_and_removes_nothing_that_is_needed(
    stored: list[str], data: st.DataObject, keep: int
) -> None:
    current = data.draw(st.sampled_from(["", *stored]))
    previous = data.draw(st.sampled_from(["", *stored])) if current else ""
    before = data.draw(st.sampled_from(["", *stored])) if current else ""
    release = data.draw(st.sampled_from(["1-new", *stored]))
    facts = Facts(
        hostname="n",
        machine="aarch64",
        python="3.11",
        user=data.draw(st.booleans()),
        releases=Releases(current=current, previous=previous, before=before, stored=tuple(stored)),
        pending=data.draw(st.sampled_from([None, Pending("r", current, before)])),
        units={UNIT: Unit(active=data.draw(st.sampled_from(["active", "failed"])))},
    )
    desired = Desired(release, 1, UNIT, FILES, keep)
    found = changes(facts, desired)
    removed = {change.release for change in found if isinstance(change, RemoveRelease)}
    assert not removed & {release, current}
    if release == current:
        assert not {previous, before} & removed
    if facts.pending is not None:
        assert facts.pending.before not in removed
    left = [name for name in stored if name not in removed]
    if any(isinstance(change, StoreRelease) for change in found):
        left.append(release)
    assert len(left) <= max(keep, 5)
    switched = any(isinstance(change, SwitchRelease) for change in found)
    written = {c.path: File(sha256=c.sha256, mode=c.mode, owner=c.owner, group=c.owner)
               for c in found if isinstance(c, WriteFile)}  # fmt: skip
    after = Facts(
        hostname="n",
        machine="aarch64",
        python="3.11",
        user=True,
        files=facts.files | written,
        releases=Releases(
            current=release if switched else current,
            previous=current if switched else previous,
            stored=tuple(left),
        ),
        units={UNIT: Unit(active="active", enabled="enabled", running=release)},
    )
    assert [c for c in changes(after, desired) if not isinstance(c, RemoveRelease)] == []


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({}, ""),
        ({"machine": "armv7l"}, "install a 64-bit system"),
        ({"python": "3.9"}, "install Debian 12 or later"),
        ({"systemd": 0}, "it runs no systemd"),
        ({"systemd": 241}, "it runs systemd 241; 247 or later"),
        ({"disks": {"/": {"total_bytes": 1, "free_bytes": 1, "read_only": True}}}, "read-only"),
    ],
)
def test_what_a_host_lacks_is_one_line(changed: dict[str, Any], expected: str) -> None:
    found = obstacles(facts_of("bare", changed))
    assert [expected in each.text for each in found] == [True] * bool(expected)
    assert not any("\n" in each.text for each in found)


def test_a_bundle_needs_room_for_itself_unpacked() -> None:
    facts = facts_of("bare", {"disks": {"/": {"total_bytes": 10**9, "free_bytes": 84_000_000,
                                              "free_inodes": 10**6}}})  # fmt: skip
    upload = changes(facts, Desired("1-b", 5_000_000, UNIT, ()))
    (found,) = room(facts, upload)
    assert found.kind == "disk_full"
    assert found.text == "84 MB free for /opt/sanderling, 85 needed"
    assert room(facts, []) == []
