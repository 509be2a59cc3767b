"""What the provisioner is put through: against a real server, and against what that one said."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from msgspec.structs import replace

from agent.master.market.kubernetes.caretaker import Look, look_after
from agent.master.market.kubernetes.cluster import Cluster
from agent.master.market.kubernetes.deployments import Blueprint, Delete
from agent.wire.master_config import MasterPods

CONFIG = MasterPods(provisioner="kubernetes", namespace="sanderling")


class Stage(Protocol):
    """Where a scenario runs."""

    def cluster(self, blueprint: Blueprint, *, user: str = "master") -> Cluster:
        """Through the official client; `user` is known to the server."""

    def containers_start(self, blueprint: Blueprint, node: str, ready: int) -> None:
        """Play the cluster's controllers, which do not run here: so many containers are ready."""


def _settled(ready: dict[str, int]) -> Look:
    return Look(ready, (), (), settled=True)


def life(stage: Stage) -> None:
    """A Deployment is created, gets ready, is scaled, described anew, and deleted."""
    blueprint = Blueprint("iad1", CONFIG)
    cluster = stage.cluster(blueprint)
    assert look_after({"n1": 1, "n2": 2}, cluster, blueprint) == Look({}, (), (), settled=False)
    made = cluster.deployments()
    assert {(d.node, d.replicas, d.ready) for d in made} == {("n1", 1, 0), ("n2", 2, 0)}
    stage.containers_start(blueprint, "n1", 1)
    stage.containers_start(blueprint, "n2", 2)
    assert look_after({"n1": 1, "n2": 2}, cluster, blueprint) == _settled({"n1": 1, "n2": 2})

    assert not look_after({"n1": 3, "n2": 1}, cluster, blueprint).settled
    scaled = cluster.deployments()
    assert {(d.node, d.replicas, d.ready) for d in scaled} == {("n1", 3, 1), ("n2", 1, 2)}

    newer = Blueprint("iad1", replace(CONFIG, image="sanderling-pod:newer"))
    assert look_after({"n1": 3, "n2": 1}, cluster, newer).refused == ()
    assert {(d.replicas, d.fingerprint) for d in cluster.deployments()} == {
        (3, newer.fingerprint("n1")),
        (1, newer.fingerprint("n2")),
    }

    assert not look_after({"n2": 1}, cluster, newer).settled
    assert [d.node for d in cluster.deployments()] == ["n2"]
    look_after({}, cluster, newer)
    assert look_after({}, cluster, newer) == _settled({})


def two_iads(stage: Stage) -> None:
    """Masters of two IADs share a namespace and leave each other's Deployments alone."""
    first, second = Blueprint("iad1", CONFIG), Blueprint("iad2", CONFIG)
    one, two = stage.cluster(first), stage.cluster(second)
    look_after({"n1": 1}, one, first)
    look_after({"n1": 2}, two, second)
    look_after({}, one, first)
    assert one.deployments() == []
    assert [(d.node, d.replicas) for d in two.deployments()] == [("n1", 2)]
    look_after({}, two, second)


def changed_behind(stage: Stage) -> None:
    """What somebody else deleted is made again; what is gone already need not be deleted."""
    blueprint = Blueprint("iad1", CONFIG)
    cluster = stage.cluster(blueprint)
    look_after({"n1": 2}, cluster, blueprint)
    (made,) = cluster.deployments()
    for _ in range(2):
        cluster.perform(Delete(made.name, made.node))
    look_after({"n1": 2}, cluster, blueprint)
    assert [d.replicas for d in cluster.deployments()] == [2]
    look_after({}, cluster, blueprint)


def bad_name(stage: Stage) -> None:
    """The server refuses a node's name that is no label; the other node gets its pods."""
    blueprint = Blueprint("iad1", CONFIG)
    cluster = stage.cluster(blueprint)
    look = look_after({"n1": 1, "n2-": 1}, cluster, blueprint)
    assert look.failed == ()
    (line,) = look.refused
    assert line.startswith("cannot create the Deployment of n2-: 422: Deployment.apps ")
    assert 'Invalid value: "n2-"' in line
    assert "\n" not in line
    assert [d.node for d in cluster.deployments()] == ["n1"]
    look_after({}, cluster, blueprint)


def no_namespace(stage: Stage) -> None:
    """The namespace of the configuration is not there."""
    blueprint = Blueprint("iad1", replace(CONFIG, namespace="elsewhere"))
    look = look_after({"n1": 1}, stage.cluster(blueprint, user="admin"), blueprint)
    assert look.refused == (
        'cannot create the Deployment of n1: 404: namespaces "elsewhere" not found',
    )


def no_right(stage: Stage) -> None:
    """The user of the configuration may not do this."""
    blueprint = Blueprint("iad1", CONFIG)
    look = look_after({"n1": 1}, stage.cluster(blueprint, user="guest"), blueprint)
    assert look == Look(None, look.refused, (), settled=False)
    assert look.refused[0].startswith("cannot list Deployments: 403: deployments.apps is forbidden")


SCENARIOS: dict[str, Callable[[Stage], None]] = {
    scenario.__name__: scenario
    for scenario in (life, two_iads, changed_behind, bad_name, no_namespace, no_right)
}
