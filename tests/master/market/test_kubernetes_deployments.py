"""What is wanted, what is there, what to do: against a cluster that is a dictionary."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from agent.master.market.kubernetes.deployments import (
    APP,
    FINGERPRINT,
    Blueprint,
    Create,
    Delete,
    Observed,
    Operation,
    Replace,
    Scale,
    operations,
)
from agent.wire.master_config import MasterPods

CONFIG = MasterPods(provisioner="kubernetes")
NODES = st.text("abcXYZ019_.-", min_size=1, max_size=64)
WANTED = st.dictionaries(st.sampled_from(["n1", "n2", "N1", "n_3"]), st.integers(1, 8))
# As the last master left it, under another configuration, or with somebody else's hand in it.
FOUND = st.lists(
    st.builds(
        lambda node, replicas, image: observed(
            Blueprint("iad1", replace(CONFIG, image=image)).manifest(node, replicas)
        ),
        st.sampled_from(["n1", "n2", "N1", "old"]),
        st.integers(0, 8),
        st.sampled_from([CONFIG.image, "older"]),
    ),
    unique_by=lambda deployment: deployment.name,
)


def observed(manifest: dict[str, Any], ready: int = 0) -> Observed:
    metadata = manifest["metadata"]
    return Observed(
        metadata["name"],
        metadata["labels"]["node"],
        manifest["spec"]["replicas"],
        ready,
        metadata["annotations"][FINGERPRINT],
    )


def apply(found: list[Observed], needed: list[Operation]) -> list[Observed]:
    """What a cluster makes of it; a second object of one name, or none, is an error there too."""
    there = {deployment.name: deployment for deployment in found}
    for operation in needed:
        match operation:
            case Create(name, manifest=manifest):
                assert name not in there
                there[name] = observed(manifest)
            case Replace(name, manifest=manifest):
                assert name in there
                there[name] = observed(manifest, there[name].ready)
            case Scale(name, replicas=replicas):
                there[name] = there[name]._replace(replicas=replicas)
            case Delete(name):
                del there[name]
    return list(there.values())


@given(WANTED, FOUND)
def test_operations_lead_to_what_is_wanted_and_then_to_nothing(
    wanted: dict[str, int], found: list[Observed]
) -> None:
    blueprint = Blueprint("iad1", CONFIG)
    needed = operations(wanted, found, blueprint)
    after = apply(found, needed)
    assert {d.node: d.replicas for d in after} == wanted
    assert all(d.fingerprint == blueprint.fingerprint(d.node) for d in after)
    assert operations(wanted, after, blueprint) == []


@given(WANTED, FOUND)
def test_what_is_right_is_not_touched_and_room_is_freed_first(
    wanted: dict[str, int], found: list[Observed]
) -> None:
    blueprint = Blueprint("iad1", CONFIG)
    there = {d.node: d for d in found}
    needed = operations(wanted, found, blueprint)
    for operation in needed:
        before = there.get(operation.node)
        assert before is None or (before.replicas, before.fingerprint) != (
            wanted.get(operation.node),
            blueprint.fingerprint(operation.node),
        )
    frees = [
        isinstance(o, Delete) or (isinstance(o, Scale) and o.replicas < there[o.node].replicas)
        for o in needed
    ]
    assert frees == sorted(frees, reverse=True)


@given(st.lists(st.tuples(NODES, NODES), unique=True, min_size=2, max_size=6))
def test_every_node_of_every_iad_has_a_name_of_its_own(pairs: list[tuple[str, str]]) -> None:
    names = [Blueprint(iad, CONFIG).name(node) for iad, node in pairs]
    assert len(set(names)) == len(pairs)
    for name in names:
        assert re.fullmatch(r"[a-z0-9]([-a-z0-9]{0,44}[a-z0-9])?", name)  # RFC 1123, less 17


@pytest.mark.parametrize(
    "change",
    [{"image": "x"}, {"cpu": "1"}, {"memory": "1Gi"}, {"directory": "/srv/node"}],
)
def test_every_key_of_the_description_is_in_its_fingerprint(change: dict[str, Any]) -> None:
    changed = Blueprint("iad1", replace(CONFIG, **change))
    assert changed.fingerprint("n1") != Blueprint("iad1", CONFIG).fingerprint("n1")


def test_a_deployment_is_bound_to_its_node() -> None:
    manifest = Blueprint("iad1", CONFIG).manifest("n1", 3)
    labels = {"app": APP, "iad": "iad1", "node": "n1"}
    assert manifest["metadata"]["labels"] == labels
    spec = manifest["spec"]
    assert spec["replicas"] == 3
    assert spec["selector"]["matchLabels"] == spec["template"]["metadata"]["labels"] == labels
    pod = spec["template"]["spec"]
    assert pod["nodeSelector"] == {"kubernetes.io/hostname": "n1"}
    (volume,) = pod["volumes"]
    assert volume["hostPath"] == {"path": CONFIG.directory, "type": "Directory"}
    (container,) = pod["containers"]
    assert container["image"] == CONFIG.image
    assert container["volumeMounts"] == [
        {"name": volume["name"], "mountPath": "/node", "readOnly": True}
    ]
